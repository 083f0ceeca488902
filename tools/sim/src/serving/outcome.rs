//! What a serving model answers and tells.

/// The answer to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It will be served; it starts with the next step if there is room.
    Queued,
    /// It will not.
    Refused(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room now, and it may not wait.
    Full,
    /// The KV cache could never hold it.
    TooLong,
}

/// One output token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The request, as its caller called it.
    pub id: u64,
    /// When it is due: the end of its step.
    pub at_ns: u64,
    /// Counts the request's output tokens from 0.
    pub index: u32,
    /// Whether the request is complete with it.
    pub is_last: bool,
    /// When the request first left the queue.
    pub started_ns: u64,
}

/// A request that left before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When it first left the queue; `None` if it never did.
    pub started_ns: Option<u64>,
    /// Output tokens it had by then.
    pub generated: u32,
}

/// What an engine did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests refused.
    pub refused: u64,
    /// Requests that had all their tokens.
    pub finished: u64,
    /// Requests that left before.
    pub left: u64,
    /// How often a running request lost its place and all that was computed for it.
    pub preemptions: u64,
    /// Prompt tokens computed or being computed, those again after a preemption included.
    pub prefill_tokens: u64,
    /// Prompt tokens of the requests that had their first token.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub generation_tokens: u64,
    /// Steps begun.
    pub steps: u64,
    /// Time in steps that have ended, in ns.
    pub busy_ns: u64,
    /// The most requests that ran at once.
    pub running_peak: u32,
    /// The most requests that waited at once after a step had begun.
    pub waiting_peak: u32,
}
