//! The state of a serving model: who runs, who waits, and the step under way.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;

use super::outcome::{Arrival, Counters, Emitted, Left, Refusal};
use super::settings::{ServingSettings, WhenFull};
use crate::model::generator;

/// A serving engine in a time that its caller tells it.
///
/// All times are ns of one clock that does not run back; an earlier one counts as the latest told.
/// A step costs O(batch), and nothing is allocated once the batch and the queue have had their
/// largest size.
#[derive(Clone, Debug)]
pub struct Serving {
    settings: ServingSettings,
    now_ns: u64,
    step: Option<Step>,
    /// In the order of their arrival, and all of them arrived before those that wait.
    running: Vec<Job>,
    waiting: VecDeque<Job>,
    /// Tokens held by those that run, and needed by those that wait.
    kv_used: u64,
    kv_waiting: u64,
    jitter: Xoshiro256PlusPlus,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    start_ns: u64,
    end_ns: u64,
}

/// A request that waits or runs.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: u64,
    input: u32,
    output: u32,
    generated: u32,
    /// Tokens to compute before it decodes: its prompt, and after a preemption its output so far.
    prefill_left: u64,
    /// How many of them the step under way does.
    chunk: u64,
    /// Its tokens in the KV cache.
    held: u64,
    started_ns: Option<u64>,
}

impl Serving {
    /// An engine without requests. Settings that ask for 0 of what is needed get 1.
    #[must_use]
    pub fn new(settings: &ServingSettings) -> Self {
        let mut settings = settings.clone();
        settings.max_batch = settings.max_batch.max(1);
        settings.prefill_rate = settings.prefill_rate.max(1);
        settings.prefill_chunk = settings.prefill_chunk.max(1);
        settings.kv_tokens = settings.kv_tokens.max(1);
        settings.preempt_at_once = settings.preempt_at_once.max(1);
        Self {
            now_ns: 0,
            step: None,
            running: Vec::new(),
            waiting: VecDeque::new(),
            kv_used: 0,
            kv_waiting: 0,
            jitter: generator(settings.seed, 0),
            counters: Counters::default(),
            settings,
        }
    }

    /// A request with so many `input` and `output` tokens (0 counts as 1) arrives.
    ///
    /// Call [`Self::advance`] for the same time first, else a step that began before it arrived
    /// may take it in. No two requests that are present have the same `id`.
    pub fn arrive(&mut self, now_ns: u64, id: u64, input: u32, output: u32) -> Arrival {
        self.now_ns = self.now_ns.max(now_ns);
        let (input, output) = (input.max(1), output.max(1));
        let prefill_left = u64::from(input);
        let job = Job {
            id,
            input,
            output,
            generated: 0,
            prefill_left,
            chunk: 0,
            held: 0,
            started_ns: None,
        };
        if let Some(refusal) = self.refusal(&job) {
            self.counters.refused += 1;
            return Arrival::Refused(refusal);
        }
        self.kv_waiting += self.need(&job);
        self.waiting.push_back(job);
        if self.step.is_none() {
            self.begin_step(self.now_ns);
        }
        Arrival::Queued
    }

    /// Request `id` goes away, wherever it is; its place and its tokens in the KV cache are free
    /// at once. `None` if it is not there (any more).
    ///
    /// Call [`Self::advance`] for the same time first.
    pub fn leave(&mut self, now_ns: u64, id: u64) -> Option<Left> {
        self.now_ns = self.now_ns.max(now_ns);
        let job = if let Some(at) = self.running.iter().position(|job| job.id == id) {
            let job = self.running.remove(at);
            self.kv_used -= job.held;
            job
        } else {
            let at = self.waiting.iter().position(|job| job.id == id)?;
            let job = self.waiting.remove(at)?;
            self.kv_waiting -= self.need(&job);
            job
        };
        self.counters.left += 1;
        Some(Left { started_ns: job.started_ns, generated: job.generated })
    }

    /// When the step under way ends; `None`: there is nothing to do.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.step.map(|step| step.end_ns)
    }

    /// The tokens that the step under way brings at its end, in the order of [`Self::advance`]; a
    /// request that leaves before then does not get its own.
    pub fn upcoming(&self) -> impl Iterator<Item = Emitted> + '_ {
        let end_ns = self.step.map(|step| step.end_ns);
        self.running
            .iter()
            .filter(|job| job.yields())
            .filter_map(move |job| Some(job.emitted(end_ns?)))
    }

    /// Ends all steps that are due by `now_ns`, and gives their tokens to `emit` in the order of
    /// their times. Each next step begins where the one before ended.
    pub fn advance(&mut self, now_ns: u64, emit: &mut impl FnMut(Emitted)) {
        while let Some(step) = self.step
            && step.end_ns <= now_ns
        {
            self.end_step(step, emit);
            self.begin_step(step.end_ns);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests that wait, those that were preempted among them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Tokens in the KV cache, at most [`ServingSettings::kv_tokens`]; without preemption those
    /// reserved for outputs to come as well.
    #[must_use]
    pub fn kv_used(&self) -> u64 {
        self.kv_used
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &ServingSettings {
        &self.settings
    }

    fn refusal(&self, job: &Job) -> Option<Refusal> {
        let settings = &self.settings;
        if u64::from(job.input) + u64::from(job.output) > settings.kv_tokens {
            return Some(Refusal::TooLong);
        }
        let places = match settings.when_full {
            WhenFull::Wait => settings.queue? as usize,
            WhenFull::Refuse => 0,
        };
        let starting = self.starting();
        let (places_free, tokens_free) = self.room();
        let starts = starting == self.waiting.len()
            && starting < places_free
            && self.kv_waiting + self.need(job) <= tokens_free;
        // Those that start with the next step still wait until then, but take up no place.
        let full = !starts && self.waiting.len() - starting >= places;
        full.then_some(Refusal::Full)
    }

    /// Places in the batch and tokens in the KV cache that are free.
    fn room(&self) -> (usize, u64) {
        let places = (self.settings.max_batch as usize).saturating_sub(self.running.len());
        (places, self.settings.kv_tokens - self.kv_used)
    }

    /// How many of those that wait there is room for now, at most a batch.
    fn starting(&self) -> usize {
        let (places, mut tokens) = self.room();
        let fits = |job: &&Job| {
            let need = self.need(job);
            let fits = need <= tokens;
            tokens = tokens.saturating_sub(need);
            fits
        };
        self.waiting.iter().take(places).take_while(fits).count()
    }

    /// Tokens that must be free in the KV cache for a request to start.
    fn need(&self, job: &Job) -> u64 {
        let output = if self.settings.preempt { job.generated } else { job.output };
        u64::from(job.input) + u64::from(output)
    }

    fn end_step(&mut self, step: Step, emit: &mut impl FnMut(Emitted)) {
        let Self { running, counters, kv_used, .. } = self;
        running.retain_mut(|job| {
            let yields = job.yields();
            job.prefill_left -= std::mem::take(&mut job.chunk);
            if !yields {
                return true;
            }
            let token = job.emitted(step.end_ns);
            emit(token);
            job.generated += 1;
            counters.generation_tokens += 1;
            if token.index == 0 {
                counters.prompt_tokens += u64::from(job.input);
            }
            if token.is_last {
                counters.finished += 1;
                *kv_used -= job.held;
            }
            !token.is_last
        });
        counters.busy_ns += step.end_ns - step.start_ns;
        self.now_ns = self.now_ns.max(step.end_ns);
        self.step = None;
    }

    /// Begins a step at `start_ns` if there is anything to do.
    fn begin_step(&mut self, start_ns: u64) {
        let preempted = self.settings.preempt && self.grow();
        let mut budget = u64::from(self.settings.prefill_chunk);
        let mut decodes = 0;
        for job in &mut self.running {
            job.chunk = job.prefill_left.min(budget);
            budget -= job.chunk;
            decodes += u64::from(job.prefill_left == 0);
        }
        // As in vLLM: where one just lost its place, none gets one.
        if !preempted {
            self.start_waiting(start_ns, &mut budget);
        }
        let settings = &self.settings;
        let counters = &mut self.counters;
        if self.running.is_empty() {
            return;
        }
        let prefill = u64::from(settings.prefill_chunk) - budget;
        let prefill_ns = prefill.saturating_mul(1_000_000_000) / settings.prefill_rate;
        let step_ns = settings
            .step_base_ns
            .saturating_add(settings.step_per_request_ns.saturating_mul(decodes))
            .saturating_add(prefill_ns)
            .saturating_add(settings.step_jitter.draw(&mut self.jitter));
        // A step of no time would let one that never ends pass in an instant.
        self.step = Some(Step { start_ns, end_ns: start_ns.saturating_add(step_ns.max(1)) });
        counters.steps += 1;
        counters.prefill_tokens += prefill;
        counters.running_peak = counters.running_peak.max(count(self.running.len()));
        counters.waiting_peak = counters.waiting_peak.max(count(self.waiting.len()));
    }

    /// Makes room for the token that each decoding request had last, the oldest first; says
    /// whether any was preempted for it.
    fn grow(&mut self) -> bool {
        let mut preempted = false;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].prefill_left > 0 {
                at += 1;
            } else if self.kv_used < self.settings.kv_tokens {
                self.running[at].held += 1;
                self.kv_used += 1;
                at += 1;
            } else {
                // There is one younger, or the oldest holds all: then it is done before it grows.
                preempted = true;
                self.preempt();
            }
        }
        preempted
    }

    /// Sends the youngest that run back to the front of the queue; never the oldest, so that
    /// there always is one that gets on.
    fn preempt(&mut self) {
        for _ in 0..self.settings.preempt_at_once {
            if self.running.len() <= 1 {
                return;
            }
            let Some(mut job) = self.running.pop() else { return };
            self.kv_used -= std::mem::take(&mut job.held);
            job.chunk = 0;
            job.prefill_left = u64::from(job.input) + u64::from(job.generated);
            self.kv_waiting += self.need(&job);
            self.waiting.push_front(job);
            self.counters.preemptions += 1;
        }
    }

    /// Starts those that wait, in their order, while there is room.
    fn start_waiting(&mut self, start_ns: u64, budget: &mut u64) {
        while *budget > 0 && self.running.len() < self.settings.max_batch as usize {
            let Some(need) = self.waiting.front().map(|job| self.need(job)) else { return };
            if self.kv_used + need > self.settings.kv_tokens {
                return;
            }
            let Some(mut job) = self.waiting.pop_front() else { return };
            self.kv_waiting -= need;
            self.kv_used += need;
            job.held = need;
            job.started_ns.get_or_insert(start_ns);
            job.chunk = job.prefill_left.min(*budget);
            *budget -= job.chunk;
            self.running.push(job);
        }
    }
}

impl Job {
    /// Whether it has a token at the end of the step under way: it decodes, or its prompt ends.
    fn yields(&self) -> bool {
        self.prefill_left == self.chunk
    }

    fn emitted(&self, at_ns: u64) -> Emitted {
        Emitted {
            id: self.id,
            at_ns,
            index: self.generated,
            is_last: self.generated + 1 >= self.output,
            started_ns: self.started_ns.unwrap_or(at_ns),
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
