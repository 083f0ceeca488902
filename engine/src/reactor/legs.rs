//! One request as two, where prefill and decode are apart: both legs on this core, one record.
//!
//! ```text
//! one after the other:  prefill ─over─► object spliced in ─► decode ─over─┬──────────────► record
//! both at once:         prefill ┬─► both over ─► record                   └► once more ─over─┘
//!                       decode  ┘
//! ```

use std::collections::HashSet;

use super::conn::Request;
use super::core::Core;
use super::feed::Prepared;
use super::settle::Settling;
use super::socket;
use crate::disagg::{Legged, Planned, Route, decode_request, had_it, handed_over, join};
use crate::plan::Script;
use crate::record::{ErrorClass, Outcome, Phase, Settled, WaitCause};

/// Which leg of which request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leg {
    pair: usize,
    pub(super) role: Role,
}

/// What a leg is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Prefill,
    Decode,
    /// The decode server is asked once more.
    Baseline,
}

/// A request under way as several.
struct Pair {
    planned: Planned,
    legged: Legged,
    index: u64,
    item: u64,
    class: u16,
    turn: Option<u32>,
    input_tokens: Option<u32>,
    output_tokens: u32,
    ideal_cached: Option<u32>,
    script: Option<Box<Script>>,
    intended: u64,
    dispatched: u64,
    phase: Phase,
    cause: Option<WaitCause>,
    user: u32,
    /// Legs that are not over.
    open: u8,
    /// Its first byte was written.
    is_written: bool,
    has_failed: bool,
    /// The connections of the two, while they are on one.
    on: [Option<usize>; 2],
    last_coalesced: bool,
}

/// The requests of a reactor that are under way as several.
#[derive(Default)]
pub(super) struct Pairs {
    all: Vec<Option<Box<Pair>>>,
    free: Vec<usize>,
    /// Decode servers that were seen to count what is handed over among what they had in a cache.
    counting: HashSet<usize>,
}

impl Pairs {
    fn put(&mut self, pair: Pair) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[place] = Some(Box::new(pair));
        place
    }

    fn get(&mut self, leg: Leg) -> Option<&mut Pair> {
        self.all.get_mut(leg.pair)?.as_deref_mut()
    }

    fn take(&mut self, leg: Leg) -> Option<Box<Pair>> {
        let pair = self.all.get_mut(leg.pair)?.take();
        if pair.is_some() {
            self.free.push(leg.pair);
        }
        pair
    }

    /// A byte of a leg is written; whether it is the first of its request.
    pub(super) fn is_first_byte(&mut self, leg: Leg) -> bool {
        self.get(leg).is_some_and(|pair| !std::mem::replace(&mut pair.is_written, true))
    }

    /// A leg is on connection `id`.
    pub(super) fn is_on(&mut self, leg: Leg, id: usize) {
        if let (Some(pair), Some(place)) = (self.get(leg), leg.role.place()) {
            pair.on[place] = Some(id);
        }
    }

    /// Another leg of its request has failed, so that it need not be sent.
    pub(super) fn is_void(&mut self, leg: Leg) -> bool {
        self.get(leg).is_some_and(|pair| pair.has_failed)
    }
}

impl Role {
    /// Of the two that a request has for certain.
    fn place(self) -> Option<usize> {
        match self {
            Self::Prefill => Some(0),
            Self::Decode => Some(1),
            Self::Baseline => None,
        }
    }
}

impl Pair {
    fn new(request: Request, planned: Planned, urls: [String; 2]) -> Self {
        let Prepared { index, item, class, turn, input_tokens, output_tokens, .. } =
            request.prepared;
        Self {
            planned,
            legged: Legged { urls, ..Legged::default() },
            index,
            item,
            class,
            turn,
            input_tokens,
            output_tokens,
            ideal_cached: request.prepared.ideal_cached,
            script: request.prepared.script,
            intended: request.intended,
            dispatched: request.dispatched,
            phase: request.phase,
            cause: request.cause,
            user: request.user,
            open: 0,
            is_written: false,
            has_failed: false,
            on: [None; 2],
            last_coalesced: false,
        }
    }

    /// The numbers of its prefill and its decode server.
    fn servers(&self) -> (usize, usize) {
        match self.planned.route {
            Route::Direct { prefill, decode } => (prefill, decode),
            Route::Router(server) => (server, server),
        }
    }

    /// The request that is one of its legs.
    fn request(&mut self, leg: Leg, bytes: Vec<u8>) -> Request {
        self.open += 1;
        let (prefill, decode) = self.servers();
        let prepared = Prepared {
            index: self.index,
            item: self.item,
            class: self.class,
            turn: self.turn,
            bytes,
            input_tokens: self.input_tokens,
            output_tokens: if leg.role == Role::Decode { self.output_tokens } else { 1 },
            ideal_cached: self.ideal_cached,
            ..Prepared::default()
        };
        Request {
            dispatched: self.dispatched,
            user: self.user,
            server: if leg.role == Role::Prefill { prefill } else { decode },
            leg: Some(leg),
            ..Request::new(prepared, self.intended, self.phase, self.cause)
        }
    }
}

impl Core {
    /// Sends a request as its legs.
    pub(super) fn issue_legs(&mut self, mut request: Request, planned: Planned) {
        let Route::Direct { prefill, decode } = planned.route else { return };
        let url = |server: usize| self.setup.servers[server].url.clone();
        let urls = [url(prefill), url(decode)];
        let is_concurrent = planned.flow.is_concurrent();
        let second = is_concurrent.then(|| decode_request(&planned.head, &planned.body, None));
        let first = std::mem::take(&mut request.prepared.bytes);
        let place = self.pairs.put(Pair::new(request, planned, urls));
        let leg = |role| Leg { pair: place, role };
        let Some(pair) = self.pairs.get(leg(Role::Prefill)) else { return };
        let first = pair.request(leg(Role::Prefill), first);
        let second = second.map(|bytes| pair.request(leg(Role::Decode), bytes));
        self.issue(first);
        if let Some(second) = second {
            self.issue(second);
        }
    }

    /// The leg on connection `id` is over and has its outcome.
    pub(super) fn leg_over(&mut self, id: usize, leg: Leg) -> Settling {
        let conn = &mut self.conns[id];
        let last_coalesced = conn.exchange.last_coalesced();
        let settled = std::mem::replace(&mut conn.exchange.settled, Settled::new(0, 0));
        let next = self.pairs.get(leg).and_then(|pair| match leg.role {
            Role::Prefill
                if settled.outcome == Outcome::Ok && !pair.planned.flow.is_concurrent() =>
            {
                let object = handed_over(conn.answer.error_body());
                pair.legged.handoff_bytes = object.map(|object| object.len() as u64);
                let bytes = decode_request(&pair.planned.head, &pair.planned.body, object);
                Some(pair.request(Leg { role: Role::Decode, ..leg }, bytes))
            }
            Role::Decode if settled.outcome == Outcome::Ok => {
                let bytes = pair.planned.baseline.take()?;
                let mut request = pair.request(Leg { role: Role::Baseline, ..leg }, bytes);
                request.dispatched = self.clock.now();
                request.intended = request.dispatched;
                Some(request)
            }
            _ => None,
        });
        if let Some(bytes) = conn.prepared.take().map(|prepared| prepared.bytes) {
            self.feed.give_back(bytes);
        }
        let over = self.leg_settled(leg, settled, last_coalesced);
        next.map_or(over, |next| Settling::LegFollows(Box::new(next)))
    }

    /// A leg that was never written is over, for the reason `class`.
    pub(super) fn leg_unsent(&mut self, leg: Leg, class: ErrorClass) {
        let Some(pair) = self.pairs.get(leg) else { return };
        let (user, now) = (pair.user, self.clock.now());
        let mut settled = Settled::new(pair.index, pair.intended);
        settled.error = Some(class);
        let settling = self.leg_settled(leg, settled, false);
        self.conclude(settling, user, now);
    }

    /// Puts a leg's record with those of its request; the request is over if it was the last.
    fn leg_settled(&mut self, leg: Leg, settled: Settled, last_coalesced: bool) -> Settling {
        let Some(pair) = self.pairs.get(leg) else { return Settling::Over };
        pair.open = pair.open.saturating_sub(1);
        let failed = settled.outcome != Outcome::Ok && leg.role != Role::Baseline;
        let other = match leg.role {
            Role::Prefill => {
                pair.on[0] = None;
                pair.legged.prefill_failed |= failed && !pair.has_failed;
                pair.legged.prefill = Some(settled);
                pair.on[1]
            }
            Role::Decode => {
                pair.on[1] = None;
                pair.last_coalesced = last_coalesced;
                pair.legged.decode = Some(settled);
                pair.on[0]
            }
            Role::Baseline => {
                pair.legged.baseline = Some(settled);
                None
            }
        };
        pair.has_failed |= failed;
        if pair.open > 0 {
            if failed && let Some(id) = other {
                self.break_off(id, leg);
            }
            return Settling::PutOff;
        }
        self.pair_over(leg)
    }

    /// The leg on connection `id` serves nobody any more: the other one, `failed`, is over.
    fn break_off(&mut self, id: usize, failed: Leg) {
        let conn = &mut self.conns[id];
        // Its connection may have died and carry another request by now.
        let is_its = conn.leg.is_some_and(|leg| leg.pair == failed.pair);
        if is_its && conn.ours.is_none() {
            conn.ours = Some(ErrorClass::Deadline);
            if conn.fd >= 0 {
                socket::shutdown(conn.fd);
            }
        }
    }

    /// All legs of a request are over: it has one record.
    fn pair_over(&mut self, leg: Leg) -> Settling {
        let Some(mut pair) = self.pairs.take(leg) else { return Settling::Over };
        let (_, decode) = pair.servers();
        if pair.legged.decode.as_ref().and_then(had_it) == Some(true) {
            self.pairs.counting.insert(decode);
        }
        pair.legged.counts_handoffs = self.pairs.counting.contains(&decode);
        let mut settled = join(pair.legged, &pair.planned, pair.intended, pair.dispatched);
        settled.index = pair.index;
        settled.reactor = self.setup.reactor;
        settled.class = pair.class;
        settled.session = pair.turn.is_some().then_some(pair.item);
        settled.turn = pair.turn;
        settled.planned_input = pair.input_tokens;
        settled.ideal_cached = pair.ideal_cached;
        settled.phase = pair.phase;
        settled.wait_cause = settled.wait_cause.or(pair.cause);
        if pair.is_written {
            self.recorder.left();
        }
        let turn = self.next_turn(&settled, pair.script, pair.user, decode);
        self.finish(&mut settled, None, pair.last_coalesced);
        turn.map_or(Settling::Over, |turn| Settling::GoesOn(Box::new(turn)))
    }
}
