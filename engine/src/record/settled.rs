//! A finished request as the reactor hands it to the writer: marks, counts, and what it takes to
//! make a [`Row`] of it. Fixed size but for buffers that go back and forth.

use tokclock_parser::event::{Finish, Usage};

use super::{
    ErrorClass, KvFallback, Legs, Outcome, Phase, Row, ServerTimings, TokenSource, WaitCause,
};

/// A mark that was not reached.
pub const NONE: u64 = u64::MAX;

/// The moments of one request, ns since the run's start; [`NONE`] where not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct Marks {
    pub intended: u64,
    pub dispatched: u64,
    pub connected: u64,
    pub tls_done: u64,
    pub write_start: u64,
    pub write_done: u64,
    pub first_byte: u64,
    pub head_done: u64,
    pub first_token: u64,
    pub first_output: u64,
    pub second_token: u64,
    pub last_token: u64,
    pub done: u64,
}

impl Marks {
    /// All but the first not reached.
    #[must_use]
    pub fn new(intended: u64) -> Self {
        Self {
            intended,
            dispatched: NONE,
            connected: NONE,
            tls_done: NONE,
            write_start: NONE,
            write_done: NONE,
            first_byte: NONE,
            head_done: NONE,
            first_token: NONE,
            first_output: NONE,
            second_token: NONE,
            last_token: NONE,
            done: NONE,
        }
    }
}

/// One output event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When the byte that completes it arrived, ns since the run's start.
    pub arrival: u64,
    /// Tokens that it carries; 0 while unknown.
    pub tokens: u32,
    /// Bytes of its text as it stood in the event.
    pub text_bytes: u32,
}

/// A finished request.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields of Row under the same names are documented there")]
pub struct Settled {
    pub index: u64,
    pub class: u16,
    pub session: Option<u64>,
    pub turn: Option<u32>,
    pub reactor: u32,
    pub connection: u64,
    pub reused: bool,
    pub attempts: u32,
    pub retries: u32,
    pub retry_ns: u64,
    pub phase: Phase,
    pub wait_cause: Option<WaitCause>,
    pub outcome: Outcome,
    pub error: Option<ErrorClass>,
    pub error_text: Option<String>,
    pub malformed_events: u32,
    pub status: u16,
    pub finish: Option<Finish>,
    pub retry_after: Option<u64>,
    pub marks: Marks,
    /// Input tokens by our tokenizer, where it counted.
    pub planned_input: Option<u32>,
    /// Input tokens that a prefix cache without limits would know.
    pub ideal_cached: Option<u32>,
    pub usage: Option<Usage>,
    pub output_tokens: Option<u64>,
    pub output_source: Option<TokenSource>,
    pub first_tokens: u32,
    pub events: u32,
    pub bytes: u64,
    pub reads: u32,
    pub coalesced: u32,
    pub lag_max: u64,
    /// Every output event, in order.
    pub chunks: Vec<Chunk>,
    /// Generated text, JSON-escaped as it came; empty unless kept.
    pub text: Vec<u8>,
    /// Reasoning likewise.
    pub reasoning: Vec<u8>,
    /// The requests that this one became, where prefill and decode are apart.
    pub legs: Option<Box<Legs>>,
    pub kv_fallback: Option<KvFallback>,
    /// What the server said of its own work.
    pub server: Option<Box<ServerTimings>>,
}

/// What the writer adds to a settled request to make a row.
pub trait Annotate {
    /// The request's id as it was sent.
    fn request_id(&self, index: u64) -> String;
    /// Its trace, where one was sent.
    fn trace_id(&self, index: u64) -> Option<String>;
    /// The name of a class, where there are several.
    fn class(&self, class: u16) -> Option<String>;
    /// Tokens of an answer's text by our own tokenizer, where the user chose one.
    fn count(&self, text: &str) -> Option<u64>;
    /// Whether rows hold every output event.
    fn keep_chunks(&self) -> bool;
    /// Whether rows hold the generated text.
    fn keep_text(&self) -> bool;
    /// A row was written.
    fn seen(&self, row: &Row);
}

impl Settled {
    /// A request that has not begun.
    #[must_use]
    pub fn new(index: u64, intended: u64) -> Self {
        Self {
            index,
            class: 0,
            session: None,
            turn: None,
            reactor: 0,
            connection: 0,
            reused: false,
            attempts: 0,
            retries: 0,
            retry_ns: 0,
            phase: Phase::Measure,
            wait_cause: None,
            outcome: Outcome::Cancelled,
            error: None,
            error_text: None,
            malformed_events: 0,
            status: 0,
            finish: None,
            retry_after: None,
            marks: Marks::new(intended),
            planned_input: None,
            ideal_cached: None,
            usage: None,
            output_tokens: None,
            output_source: None,
            first_tokens: 0,
            events: 0,
            bytes: 0,
            reads: 0,
            coalesced: 0,
            lag_max: 0,
            chunks: Vec::new(),
            text: Vec::new(),
            reasoning: Vec::new(),
            legs: None,
            kv_fallback: None,
            server: None,
        }
    }

    /// The line of `requests.jsonl`.
    #[must_use]
    pub fn row(&self, notes: &impl Annotate) -> Row {
        let text = unescaped(&self.text);
        let reasoning = unescaped(&self.reasoning);
        let counted = match (&text, &reasoning) {
            (None, None) => None,
            (text, reasoning) => {
                let all = [reasoning.as_deref(), text.as_deref()];
                all.into_iter().flatten().map(|part| notes.count(part)).sum()
            }
        };
        Row {
            index: self.index,
            request_id: notes.request_id(self.index),
            trace_id: notes.trace_id(self.index),
            phase: self.phase,
            class: notes.class(self.class),
            session: self.session,
            turn: self.turn,
            shard: None,
            reactor: self.reactor,
            connection: self.connection,
            reused: self.reused,
            attempts: self.attempts,
            retries: self.retries,
            retry_ns: self.retry_ns,
            wait_cause: self.wait_cause,
            outcome: self.outcome,
            error: self.error,
            error_text: self.error_text.clone(),
            malformed_events: self.malformed_events,
            status: (self.status != 0).then_some(self.status),
            finish: self.finish.map(|finish| finish.as_str().to_owned()),
            intended: self.marks.intended,
            dispatched: reached(self.marks.dispatched),
            connected: reached(self.marks.connected),
            tls_done: reached(self.marks.tls_done),
            write_start: reached(self.marks.write_start),
            write_done: reached(self.marks.write_done),
            first_byte: reached(self.marks.first_byte),
            head_done: reached(self.marks.head_done),
            first_token: reached(self.marks.first_token),
            first_output: reached(self.marks.first_output),
            second_token: reached(self.marks.second_token),
            last_token: reached(self.marks.last_token),
            done: reached(self.marks.done),
            input_tokens: self.usage.and_then(|usage| usage.input_tokens),
            client_input_tokens: self.planned_input.map(u64::from),
            cached_tokens: self.usage.and_then(|usage| usage.cached_tokens),
            ideal_cached_tokens: self.ideal_cached.map(u64::from),
            output_tokens: self.output_tokens,
            output_source: self.output_source,
            client_output_tokens: counted,
            reasoning_tokens: self.usage.and_then(|usage| usage.reasoning_tokens),
            first_tokens: (self.first_tokens > 0).then_some(self.first_tokens),
            events: self.events,
            bytes: self.bytes,
            reads: self.reads,
            coalesced: self.coalesced,
            lag_max: self.lag_max,
            chunks: notes
                .keep_chunks()
                .then(|| self.chunks.iter().map(|chunk| (chunk.arrival, chunk.tokens)).collect()),
            text: if notes.keep_text() { Some(text.unwrap_or_default()) } else { None },
            reasoning_text: if notes.keep_text() { reasoning } else { None },
            retry_after: self.retry_after,
            legs: self.legs.clone(),
            kv_fallback: self.kv_fallback,
            server: self.server.clone(),
        }
    }
}

/// The text of JSON-escaped bytes; `None` if there are none.
fn unescaped(raw: &[u8]) -> Option<String> {
    if raw.is_empty() {
        return None;
    }
    Some(tokclock_parser::event::unescape(&String::from_utf8_lossy(raw)).into_owned())
}

fn reached(mark: u64) -> Option<u64> {
    (mark != NONE).then_some(mark)
}

/// Gives every output event its tokens.
///
/// Known counts stay. Where none is known, `total` tokens are spread in proportion to the text if
/// `spread` is set (that is, if the user named a tokenizer), else every event counts as one.
pub fn assign_tokens(chunks: &mut [Chunk], total: Option<u64>, spread: bool) {
    let known = chunks.iter().any(|chunk| chunk.tokens > 0);
    let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.text_bytes)).sum();
    if let (false, true, Some(total)) = (known, spread && bytes > 0, total) {
        let mut text = 0;
        let mut given = 0;
        for chunk in chunks {
            text += u64::from(chunk.text_bytes);
            // Cumulative rounding: the parts add up to the total exactly.
            let due =
                (u128::from(text) * u128::from(total) + u128::from(bytes) / 2) / u128::from(bytes);
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            chunk.tokens = u32::try_from(due.saturating_sub(given)).unwrap_or(u32::MAX);
            given = due;
        }
        return;
    }
    if !known {
        for chunk in chunks {
            chunk.tokens = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(texts: &[u32]) -> Vec<Chunk> {
        texts.iter().map(|&text_bytes| Chunk { arrival: 0, tokens: 0, text_bytes }).collect()
    }

    fn tokens(chunks: &[Chunk]) -> Vec<u32> {
        chunks.iter().map(|chunk| chunk.tokens).collect()
    }

    #[test]
    fn without_a_tokenizer_an_event_is_a_token() {
        let mut events = chunks(&[4, 8, 12]);
        assign_tokens(&mut events, Some(10), false);
        assert_eq!(tokens(&events), [1, 1, 1]);
    }

    #[test]
    fn with_a_tokenizer_tokens_follow_the_text_and_add_up() {
        let mut events = chunks(&[4, 8, 12]);
        assign_tokens(&mut events, Some(6), true);
        assert_eq!(tokens(&events), [1, 2, 3]);
        let mut events = chunks(&[1, 1, 1]);
        assign_tokens(&mut events, Some(10), true);
        assert_eq!(tokens(&events).iter().sum::<u32>(), 10);
    }

    #[test]
    fn counts_that_the_server_sent_stay() {
        let mut events = chunks(&[4, 8]);
        events[0].tokens = 3;
        events[1].tokens = 2;
        assign_tokens(&mut events, Some(9), true);
        assert_eq!(tokens(&events), [3, 2]);
    }
}
