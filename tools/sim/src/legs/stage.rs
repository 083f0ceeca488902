//! What a prefill or a decode server knows beyond one request, and when a request's tokens are due
//! there.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;

use crate::clock;
use crate::legs::leg::{Fallback, Leg, Outcome, Task};
use crate::legs::object;
use crate::legs::offers::Offers;
use crate::legs::prefix::Prefixes;
use crate::legs::register::{Ready, Register};
use crate::legs::settings::{Flow, Role, RoleSettings};
use crate::legs::side::{self, Guest, Order, Question};
use crate::metrics::Figures;
use crate::model::{Schedule, Timing, generator};
use crate::shared::Place;
use crate::truth::Record;
use crate::wire::Answer;

/// It keeps these draws apart from those of token times.
const OF_LEGS: u64 = 0x6c65_6773_0000_0001;

/// How long a question without lease is kept; its request waits on.
const QUESTION_NS_MAX: u64 = 600_000_000_000;

/// Tokens that its KV cache holds; only `GET /metrics` knows of it.
const KV_TOKENS: u64 = 262_144;

/// A prefill or a decode server.
#[derive(Debug)]
pub(crate) struct Stage {
    role: RoleSettings,
    timing: Timing,
    seed: u64,
    /// Where decode servers find this one beside its requests.
    side_port: u16,
    prefixes: Mutex<Prefixes>,
    /// What a prefill server holds for decode servers.
    offers: Mutex<Offers>,
    /// Who meets whom, at a prefill server.
    register: Mutex<Register<Guest, Arc<TcpStream>>>,
    /// Requests that wait for another server.
    meeting: AtomicU64,
    /// Tokens of all requests that are served, which take room in the KV cache.
    held: AtomicU64,
    /// Who carries the questions of a decode server.
    courier: Option<Sender<Order>>,
}

/// One request, and what is said of it.
pub(crate) struct Parts<'a> {
    pub(crate) leg: &'a mut Leg,
    pub(crate) answer: &'a mut Answer,
    pub(crate) record: Option<&'a mut Record>,
}

/// The draws of one request.
#[derive(Clone, Copy, Debug)]
struct Draws {
    handoff_ns: u64,
    recompute_ns: u64,
    /// 0 to 1: what is below a share happens.
    luck: f64,
}

/// Tokens that a request takes room for.
fn tokens(answer: &Answer) -> u64 {
    u64::from(answer.prompt_tokens) + u64::from(answer.output_tokens)
}

/// What becomes of a prompt on a decode server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its KV cache is taken over from this time on.
    Handed { from_ns: u64 },
    /// The same in a flow in which prefill made the first token, which is due with the cache.
    Begun { from_ns: u64, handoff_ns: u64 },
    /// Its KV cache is there.
    Cached,
    /// It is computed from this time on, because a hand-off failed if there is a reason.
    Computed { from_ns: u64, why: Option<Fallback> },
}

impl Stage {
    /// One that has seen nothing.
    pub(crate) fn new(
        role: &RoleSettings,
        (timing, seed): (Timing, u64),
        side_port: u16,
        courier: Option<Sender<Order>>,
    ) -> Self {
        let (prefixes, register) = (Mutex::default(), Mutex::new(Register::new()));
        let (meeting, held) = (AtomicU64::new(0), AtomicU64::new(0));
        let (role, offers) = (role.clone(), Mutex::default());
        Self { role, timing, seed, side_port, prefixes, offers, register, meeting, held, courier }
    }

    /// What it was asked to be.
    pub(crate) fn role(&self) -> &RoleSettings {
        &self.role
    }

    /// A request leaves the queue: when its tokens are due, and what its answer says; `None` if it
    /// waits for the other server first.
    pub(crate) fn begin(
        &self,
        parts: &mut Parts<'_>,
        place: Place,
        now_ns: u64,
    ) -> Option<Schedule> {
        self.held.fetch_add(tokens(parts.answer), Ordering::Relaxed);
        let guest = (place, parts.answer.number);
        if let (Task::Meet, Some(key)) = (&parts.leg.task, &parts.leg.key)
            && !self.register().come(key, guest)
        {
            self.meeting.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if let (Task::Ask { address }, Some(key)) = (&parts.leg.task, &parts.leg.key) {
            let tells = self.role.flow == Flow::VllmPush;
            let wait_ns = if tells { self.role.lease_ns } else { QUESTION_NS_MAX };
            let until_ns = now_ns.saturating_add(wait_ns);
            let (key, address) = (key.clone(), address.clone());
            let question = Question { key, address, guest, until_ns, tells };
            self.meeting.fetch_add(1, Ordering::Relaxed);
            // Without a courier the server is stopping.
            let _ = self.courier.as_ref()?.send(Order::Ask(question));
            return None;
        }
        Some(self.go(parts, now_ns))
    }

    /// A request that waited need not wait any more; `ready` is what its decode server learnt.
    pub(crate) fn meet(
        &self,
        parts: &mut Parts<'_>,
        ready: Option<Ready>,
        now_ns: u64,
    ) -> Schedule {
        self.meeting.fetch_sub(1, Ordering::Relaxed);
        if self.role.role != Role::Decode {
            return self.go(parts, now_ns);
        }
        let fate = match ready {
            None => Fate::Computed { from_ns: now_ns, why: Some(Fallback::NoPeer) },
            Some(ready) if self.role.flow == Flow::Sglang => {
                Fate::Begun { from_ns: ready.at_ns, handoff_ns: ready.handoff_ns }
            }
            Some(ready) => {
                // Whoever came last is waited for.
                let from_ns = ready.at_ns.max(parts.leg.begun_ns);
                match self.draws(parts.answer.number).luck < self.role.fallback {
                    true => Fate::Computed { from_ns, why: Some(Fallback::Drawn) },
                    false => Fate::Handed { from_ns },
                }
            }
        };
        self.decode(parts, fate, now_ns)
    }

    /// A request that had left the queue is over, or its client is gone.
    pub(crate) fn leave(&self, leg: &Leg, answer: &Answer) {
        self.held.fetch_sub(tokens(answer), Ordering::Relaxed);
        if leg.waits {
            self.meeting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds what it knows to the figures of its server.
    pub(crate) fn figures(&self, figures: &mut Figures) {
        let held = self.held.load(Ordering::Relaxed);
        figures.kv_usage = Some((held as f64 / KV_TOKENS as f64).min(1.0));
        figures.meeting = self.meeting.load(Ordering::Relaxed);
        figures.expired = self.offers().expired(clock::monotonic_ns());
    }

    fn go(&self, parts: &mut Parts<'_>, now_ns: u64) -> Schedule {
        if self.role.role == Role::Decode {
            let fate = self.fate(parts.leg, parts.answer, now_ns);
            return self.decode(parts, fate, now_ns);
        }
        self.prefill(parts, now_ns)
    }

    /// Computes a prompt from `now_ns` on, and hands it over if that is asked for.
    fn prefill(&self, parts: &mut Parts<'_>, now_ns: u64) -> Schedule {
        let draws = self.draws(parts.answer.number);
        let schedule = self.schedule(parts.answer, now_ns);
        let done_ns = match parts.leg.task {
            Task::Meet => schedule.peek().map_or(now_ns, |event| event.due_ns),
            _ => schedule.clone().last().map_or(now_ns, |event| event.due_ns),
        };
        let hands = matches!(parts.leg.task, Task::Offer | Task::Meet);
        let withheld = hands && draws.luck < self.role.no_params;
        let bytes = self.bytes(parts.answer);
        if let Some(record) = &mut parts.record {
            record.prefill_done_ns = Some(done_ns);
            record.fallback = withheld.then_some(Fallback::NoParams);
            record.handoff_bytes = (hands && !withheld).then_some(bytes);
        }
        if !hands || withheld {
            return schedule;
        }
        if parts.leg.task == Task::Meet {
            let end_ns = done_ns.saturating_add(draws.handoff_ns);
            if let Some(record) = &mut parts.record {
                record.handoff_ns = Some([done_ns, end_ns]);
            }
            parts.leg.outcome.handoff = Some([draws.handoff_ns, bytes]);
            self.tell(parts.leg, Ready { at_ns: done_ns, handoff_ns: draws.handoff_ns });
            return schedule.first_at(end_ns);
        }
        if self.role.flow == Flow::VllmPush {
            self.tell(parts.leg, Ready { at_ns: done_ns, handoff_ns: 0 });
        }
        parts.leg.object = Some(self.object(parts, done_ns));
        schedule
    }

    /// The hand-off object of a prompt that is computed at `done_ns`.
    fn object(&self, parts: &Parts<'_>, done_ns: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let (number, tokens) = (parts.answer.number, u64::from(parts.answer.prompt_tokens));
        let id = match &parts.leg.key {
            Some(key) => key.clone(),
            None => {
                let id = object::minted(number, done_ns);
                self.offers().add(id.clone(), done_ns.saturating_add(self.role.lease_ns));
                id
            }
        };
        object::write(&mut out, &self.role, &id, self.side_port, [number, tokens]);
        out
    }

    /// Tells a decode server when the prompt of `leg` is computed, if it has asked, or when it does.
    fn tell(&self, leg: &Leg, ready: Ready) {
        let Some(key) = &leg.key else { return };
        let asker = self.register().ready(key, ready);
        if let Some(asker) = asker {
            side::answer(&asker, key, ready);
        }
    }

    /// Generates on a prompt of which `fate` tells.
    fn decode(&self, parts: &mut Parts<'_>, fate: Fate, now_ns: u64) -> Schedule {
        let draws = self.draws(parts.answer.number);
        let (schedule, handoff_ns, why) = match fate {
            Fate::Cached => (self.schedule(parts.answer, now_ns), None, None),
            Fate::Computed { from_ns, why } => {
                let due_ns = from_ns.saturating_add(draws.recompute_ns);
                (self.schedule(parts.answer, now_ns).first_at(due_ns), None, why)
            }
            Fate::Handed { from_ns } => {
                let end_ns = from_ns.saturating_add(draws.handoff_ns);
                (self.schedule(parts.answer, end_ns), Some([from_ns, end_ns]), None)
            }
            Fate::Begun { from_ns, handoff_ns } => {
                let end_ns = from_ns.saturating_add(handoff_ns);
                let schedule = self.schedule(parts.answer, now_ns).first_at(end_ns);
                (schedule, Some([from_ns, end_ns]), None)
            }
        };
        let is_there = !matches!(fate, Fate::Computed { .. });
        let had = if is_there { parts.answer.prompt_tokens.saturating_sub(1) } else { 0 };
        parts.answer.cached = Some(had);
        let bytes = self.bytes(parts.answer);
        let is_local = fate == Fate::Cached;
        parts.leg.outcome = Outcome {
            ready_ns: handoff_ns.map_or(now_ns, |[_, end_ns]| end_ns),
            handed: if is_local { 0 } else { had },
            cached: if is_local { had } else { 0 },
            asked: handoff_ns.is_some() || why.is_some(),
            handoff: handoff_ns.map(|[from_ns, end_ns]| [end_ns - from_ns, bytes]),
        };
        if let Some(record) = &mut parts.record {
            record.cached_tokens = Some(had);
            record.fallback = why;
            record.handoff_ns = handoff_ns;
            record.handoff_bytes = handoff_ns.map(|_| bytes);
        }
        let first_ns = schedule.peek().map_or(now_ns, |event| event.due_ns);
        self.prefixes().add(parts.leg.prompt, first_ns);
        schedule
    }

    /// What becomes of a prompt on a decode server that need not wait for it.
    fn fate(&self, leg: &Leg, answer: &Answer, now_ns: u64) -> Fate {
        let computed = |why| Fate::Computed { from_ns: now_ns, why };
        match leg.task {
            Task::Fake => Fate::Cached,
            Task::Lost(why) => computed(Some(why)),
            Task::Pull { minted_ns, tokens, .. } => {
                let other = tokens.is_some_and(|tokens| tokens != u64::from(answer.prompt_tokens));
                match minted_ns {
                    None => computed(Some(Fallback::Unknown)),
                    Some(_) if other => computed(Some(Fallback::OtherPrompt)),
                    Some(at_ns) if leg.read_ns.saturating_sub(at_ns) > self.role.lease_ns => {
                        computed(Some(Fallback::Expired))
                    }
                    Some(_) if self.draws(answer.number).luck < self.role.fallback => {
                        computed(Some(Fallback::Drawn))
                    }
                    Some(_) => {
                        self.take(leg);
                        Fate::Handed { from_ns: now_ns }
                    }
                }
            }
            _ if self.prefixes().has(leg.prompt, now_ns) => Fate::Cached,
            _ => computed(None),
        }
    }

    /// Tells a prefill server that what it offers is taken.
    fn take(&self, leg: &Leg) {
        let Task::Pull { address: Some(address), .. } = &leg.task else { return };
        let (Some(id), Some(courier)) = (&leg.key, &self.courier) else { return };
        // Without a courier the server is stopping.
        let _ = courier.send(Order::Taken { id: id.clone(), address: address.clone() });
    }

    fn schedule(&self, answer: &Answer, start_ns: u64) -> Schedule {
        self.timing.schedule(answer.number, answer.output_tokens, start_ns)
    }

    fn draws(&self, number: u64) -> Draws {
        let mut rng = generator(self.seed ^ OF_LEGS, number);
        let luck = rng.random();
        let handoff_ns = self.role.handoff.draw(&mut rng);
        Draws { handoff_ns, recompute_ns: self.role.recompute.draw(&mut rng), luck }
    }

    fn bytes(&self, answer: &Answer) -> u64 {
        self.role.handoff_bytes.saturating_mul(u64::from(answer.prompt_tokens))
    }

    /// Held for moments only.
    fn prefixes(&self) -> MutexGuard<'_, Prefixes> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a prefill server holds for decode servers. Held for moments only.
    pub(crate) fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who meets whom, at a prefill server. Held for moments only.
    pub(crate) fn register(&self) -> MutexGuard<'_, Register<Guest, Arc<TcpStream>>> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
