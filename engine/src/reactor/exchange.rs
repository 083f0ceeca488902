//! One request and its answer, without a socket: bytes and times in, marks and an outcome out.

use tokclock_parser::Error;
use tokclock_parser::answer::{Answer, Signal};
use tokclock_parser::event::{Event, Fault, Output, OutputKind, Usage};
use tokclock_parser::head::Head;

use super::outcome::Ending;
use super::setup::Count;

use crate::record::{Chunk, NONE, ServerTimings, Settled, TokenSource, assign_tokens};

/// The two times of one read, ns since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// When the kernel received the bytes (or `observed` without a usable stamp).
    pub(crate) arrival: u64,
    /// When the reactor handled them.
    pub(crate) observed: u64,
}

/// Where an answer stands after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More is to come.
    Open,
    /// The body has ended; `clean` if the connection may be used again.
    Ended {
        /// The framing was whole, nothing followed, and the server keeps the connection open.
        clean: bool,
    },
    /// The bytes are no HTTP that we can follow.
    Unreadable(Error),
}

/// What a read held, for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadCount {
    /// Output events.
    pub(crate) outputs: u32,
    /// Of those, events that shared the read with another or with what followed them.
    pub(crate) coalesced: u32,
}

/// One request in flight.
pub(crate) struct Exchange {
    pub(crate) settled: Settled,
    pub(super) stream: bool,
    keep_text: bool,
    pub(super) saw_done: bool,
    pub(super) fault: Option<String>,
    /// The server's count of output tokens as of the last event, where it tells.
    running_tokens: u64,
    /// The last output event shared its read.
    last_coalesced: bool,
    pub(super) token_ids: u64,
    /// Something was generated, in whatever form.
    pub(super) saw_output: bool,
}

impl Exchange {
    /// A request that has not begun.
    pub(crate) fn new(settled: Settled, stream: bool, keep_text: bool) -> Self {
        Self {
            settled,
            stream,
            keep_text,
            saw_done: false,
            fault: None,
            running_tokens: 0,
            last_coalesced: false,
            token_ids: 0,
            saw_output: false,
        }
    }

    /// Begins request `index` in this place, keeping buffers. `chunks` is room for so many events.
    pub(crate) fn begin(&mut self, index: u64, intended: u64, chunks: usize) {
        let mut settled = Settled::new(index, intended);
        std::mem::swap(&mut settled.chunks, &mut self.settled.chunks);
        std::mem::swap(&mut settled.text, &mut self.settled.text);
        std::mem::swap(&mut settled.reasoning, &mut self.settled.reasoning);
        settled.chunks.clear();
        settled.chunks.reserve_exact(chunks);
        settled.text.clear();
        settled.reasoning.clear();
        *self = Self::new(settled, self.stream, self.keep_text);
    }

    /// Whether `[DONE]` or the dialect's terminal event was seen.
    pub(crate) fn is_done(&self) -> bool {
        self.saw_done
    }

    /// Whether the last output event of the stream shared its read.
    pub(crate) fn last_coalesced(&self) -> bool {
        self.last_coalesced
    }

    /// Takes the bytes of one read.
    pub(crate) fn on_read(
        &mut self,
        answer: &mut Answer,
        bytes: &[u8],
        at: Arrived,
    ) -> (Progress, ReadCount) {
        let settled = &mut self.settled;
        settled.reads += 1;
        settled.bytes += bytes.len() as u64;
        settled.lag_max = settled.lag_max.max(at.observed - at.arrival);
        if settled.marks.first_byte == NONE {
            settled.marks.first_byte = at.arrival;
        }
        let mut read = Reading::default();
        let mut rest = bytes;
        let progress = loop {
            let step = match answer.next(rest) {
                Ok(step) => step,
                Err(error) => break Progress::Unreadable(error),
            };
            rest = rest.get(step.used..).unwrap_or_default();
            let Some(signal) = step.item else { break Progress::Open };
            if let Signal::Event(Event::Output(output)) = &signal {
                self.on_output(output, at.arrival, &mut read);
                continue;
            }
            if self.on_signal(&signal, at.arrival, !rest.is_empty(), &mut read) {
                // Anything after the end belongs to no request.
                break Progress::Ended { clean: rest.is_empty() };
            }
        };
        let coalesced = read.coalesced();
        if read.outputs > 0 {
            self.last_coalesced = coalesced > 0 && read.last_shares();
        }
        self.settled.coalesced += coalesced;
        let progress = match progress {
            Progress::Ended { clean } => {
                Progress::Ended { clean: clean && answer.head().is_some_and(|head| head.reusable) }
            }
            other => other,
        };
        (progress, ReadCount { outputs: read.outputs, coalesced })
    }

    /// The peer has closed its side: what does that make of the answer?
    pub(crate) fn on_eof(&mut self, answer: &mut Answer, at: Arrived) -> Ending {
        let mut read = Reading::default();
        loop {
            match answer.eof() {
                Ok(Some(signal)) => {
                    if self.on_signal(&signal, at.arrival, false, &mut read) {
                        return Ending::Complete;
                    }
                }
                Ok(None) => return Ending::Complete,
                Err(error) => return Ending::Unreadable(error),
            }
        }
    }

    /// Returns whether the body has ended.
    fn on_signal(&mut self, signal: &Signal<'_>, at: u64, more: bool, read: &mut Reading) -> bool {
        match signal {
            Signal::Event(Event::Output(output)) => self.on_output(output, at, read),
            Signal::Event(event) => self.on_event(event, at, read),
            Signal::Interim => {
                // The first byte is that of the final head.
                self.settled.marks.first_byte = if more { at } else { NONE };
            }
            Signal::Head(head) => self.on_head(head, at),
            Signal::End => {
                if self.settled.marks.done == NONE {
                    self.settled.marks.done = at;
                }
                return true;
            }
        }
        false
    }

    fn on_head(&mut self, head: &Head, at: u64) {
        self.settled.marks.head_done = at;
        self.settled.status = head.status;
        self.settled.retry_after = head.retry_after;
    }

    #[inline]
    fn on_output(&mut self, output: &Output<'_>, at: u64, read: &mut Reading) {
        self.saw_output = true;
        self.note_end(output.finish, output.usage);
        if output.done {
            self.note_done(at);
        }
        if self.keep_text {
            // The name and arguments of a tool call are no part of the answer's text.
            if output.kind != OutputKind::ToolCall {
                self.settled.text.extend_from_slice(output.text.as_bytes());
            }
            self.settled.reasoning.extend_from_slice(output.reasoning.as_bytes());
        }
        let known = self.tokens_of(output);
        if !self.stream {
            return;
        }
        let settled = &mut self.settled;
        let marks = &mut settled.marks;
        match settled.events {
            0 => marks.first_token = at,
            1 => marks.second_token = at,
            _ => {}
        }
        if marks.first_output == NONE && output.kind != OutputKind::Reasoning {
            marks.first_output = at;
        }
        marks.last_token = at;
        settled.events += 1;
        let text_bytes = output.text.len() + output.reasoning.len();
        settled.chunks.push(Chunk { arrival: at, tokens: known, text_bytes: text_bytes as u32 });
        read.outputs += 1;
        read.followed = false;
    }

    /// Tokens that this event is known to carry; 0 if unknown.
    #[inline]
    fn tokens_of(&mut self, output: &Output<'_>) -> u32 {
        if let Some(ids) = output.tokens {
            self.token_ids += u64::from(ids);
            if let Some(total) = output.usage.and_then(|usage| usage.output_tokens) {
                self.running_tokens = total;
            }
            return ids;
        }
        match output.usage {
            Some(usage) => self.tokens_since(usage),
            None => 0,
        }
    }

    /// Tokens since the last event, by a count that comes with every event; 0 if it does not.
    fn tokens_since(&mut self, usage: &Usage) -> u32 {
        let Some(total) = usage.output_tokens else { return 0 };
        let since = total.saturating_sub(self.running_tokens);
        self.running_tokens = total;
        // A usage that rides on the last output alone is a total and tells nothing of this event.
        match self.settled.chunks.last() {
            Some(last) if last.tokens == 0 => 0,
            _ => u32::try_from(since).unwrap_or(u32::MAX),
        }
    }

    fn on_event(&mut self, event: &Event<'_>, at: u64, read: &mut Reading) {
        read.followed = true;
        match event {
            Event::Tail(tail) => {
                self.note_end(tail.finish, tail.usage);
                if tail.done {
                    self.note_done(at);
                }
            }
            Event::Fault(fault) => self.note_fault(fault),
            Event::Malformed(_) => self.settled.malformed_events += 1,
            Event::Done => self.note_done(at),
            Event::Note(_) | Event::Output(_) => read.followed = false,
        }
    }

    fn note_done(&mut self, at: u64) {
        if !self.saw_done {
            self.saw_done = true;
            self.settled.marks.done = at;
        }
    }

    fn note_end(&mut self, finish: Option<tokclock_parser::event::Finish>, usage: Option<&Usage>) {
        if let Some(finish) = finish {
            self.settled.finish.get_or_insert(finish);
        }
        if let Some(usage) = usage {
            self.settled.usage = Some(*usage);
        }
    }

    fn note_fault(&mut self, fault: &Fault<'_>) {
        if self.fault.is_none() {
            let code = fault.code.as_deref().map(|code| format!(" (code {code})"));
            self.fault = Some(format!("{}{}", fault.message, code.unwrap_or_default()));
        }
    }

    /// Fixes outcome, class, text and token counts; afterwards only `settled` is read.
    ///
    /// `count` is our tokenizer, where the user chose one.
    pub(crate) fn settle(&mut self, answer: &Answer, ending: &Ending, count: Option<&Count>) {
        let (outcome, error) = self.outcome(answer, ending);
        self.settled.outcome = outcome;
        self.settled.error = error;
        if error.is_some() {
            self.settled.error_text = self.error_text(answer, ending);
        }
        self.settled.server = ServerTimings::of(answer.server_times(), answer.named_times());
        let reported = self.settled.usage.and_then(|usage| usage.output_tokens);
        let (tokens, source) = if let Some(tokens) = reported {
            (Some(tokens), Some(TokenSource::Usage))
        } else if self.token_ids > 0 {
            (Some(self.token_ids), Some(TokenSource::TokenIds))
        } else if let Some(counted) =
            count.filter(|_| self.has_text()).and_then(|count| count(&self.plain_text()))
        {
            (Some(counted), Some(TokenSource::Client))
        } else if self.settled.events > 0 {
            (Some(u64::from(self.settled.events)), Some(TokenSource::Events))
        } else {
            (None, None)
        };
        self.settled.output_tokens = tokens;
        self.settled.output_source = source;
        assign_tokens(&mut self.settled.chunks, tokens, count.is_some());
        self.settled.first_tokens = self.settled.chunks.first().map_or(0, |chunk| chunk.tokens);
    }

    fn has_text(&self) -> bool {
        !self.settled.text.is_empty() || !self.settled.reasoning.is_empty()
    }

    fn plain_text(&self) -> String {
        let raw = [self.settled.reasoning.as_slice(), &self.settled.text].concat();
        tokclock_parser::event::unescape(&String::from_utf8_lossy(&raw)).into_owned()
    }
}

/// What is counted while one read is parsed.
#[derive(Default)]
struct Reading {
    outputs: u32,
    /// Something with a segment of its own came after the last output event.
    followed: bool,
}

impl Reading {
    /// A read has one stamp, that of its last segment: events that share it are not exact.
    fn coalesced(&self) -> u32 {
        if self.outputs >= 2 || (self.outputs == 1 && self.followed) { self.outputs } else { 0 }
    }

    fn last_shares(&self) -> bool {
        self.outputs >= 2 || self.followed
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
