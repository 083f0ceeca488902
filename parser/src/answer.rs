//! One response as one machine: head, framing, events or a document, end.

mod parts;

use crate::body::Body;
use crate::dialect::{Decoder, Dialect, Known};
use crate::event::{Event, Output};
use crate::head::{ContentKind, Framing, Head};
use crate::ndjson::Ndjson;
use crate::sse::{Lies, Sse};
use crate::times::ServerTimes;
use crate::{Error, Step};

/// What to expect of the responses on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The wire format.
    pub dialect: Dialect,
    /// Was a stream asked for?
    pub stream: bool,
    /// How large things may be.
    pub limits: Limits,
}

/// Sizes above which a response is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one response head.
    pub head_bytes: usize,
    /// Bytes of one line, and of the data of one event.
    pub event_bytes: usize,
    /// Bytes of a document. Of a body that was not asked for, such as an error's, so many are kept.
    pub body_bytes: usize,
}

impl Default for Limits {
    /// 64 KiB, 16 MiB, 64 MiB.
    fn default() -> Self {
        Self { head_bytes: 64 << 10, event_bytes: 16 << 20, body_bytes: 64 << 20 }
    }
}

/// What was found next in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal<'a> {
    /// An interim response (1xx) ended; the final head is still to come.
    Interim,
    /// The final head is complete.
    Head(&'a Head),
    /// An event of the stream, or what the document holds.
    Event(Event<'a>),
    /// The body's framing is complete. Given once; bytes after it are left unused.
    End,
}

/// Reads one response after the other on one connection; see the picture at the crate root.
#[derive(Debug, Clone)]
pub struct Answer {
    settings: Settings,
    phase: Phase,
    /// An unfinished head.
    carry: Vec<u8>,
    head: Head,
    body: Body,
    mode: Mode,
    sse: Sse,
    lines: Ndjson,
    decoder: Decoder,
    /// The body, or its start, where it is or may be no stream.
    collected: Vec<u8>,
    /// `collected` is not the whole body.
    collected_in_part: bool,
    /// Bytes of the response used so far.
    used: usize,
    events: u64,
    /// An output event came.
    made: bool,
    /// An error came as data.
    faulted: bool,
    /// A line came that is no JSON, where lines are read.
    strange: bool,
    done: bool,
    truncated: bool,
    /// The last step was an event read at once, so all is as it must be for another.
    steady: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
    /// The body is over; an event without its blank line, or a document, may be left.
    Last,
    /// Only [`Signal::End`], or the error, is left.
    Closing,
    Ended,
    Failed(Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The body is, or may be, an event stream.
    Events,
    /// The body is, or may be, a stream of lines.
    Lines,
    /// The document that was asked for.
    Document,
    /// A body that was not asked for: an error's, or of the wrong type.
    Other,
}

/// What [`Answer::advance`] found, without borrowing it.
enum Found {
    Interim,
    Head,
    Event(Lies),
    /// An event that has no blank line, or a line without its end: counts only if it is whole.
    LastEvent,
    Document,
    /// The end of the body is the terminator.
    Done,
    End,
}

impl Answer {
    /// A machine for the responses to requests with these settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            phase: Phase::Head,
            carry: Vec::new(),
            head: Head::default(),
            body: Body::new(Framing::None),
            mode: Mode::Events,
            sse: Sse::new(settings.limits.event_bytes),
            lines: Ndjson::new(settings.limits.event_bytes),
            decoder: Decoder::new(settings.dialect.clone()),
            settings,
            collected: Vec::new(),
            collected_in_part: false,
            used: 0,
            events: 0,
            made: false,
            faulted: false,
            strange: false,
            done: false,
            truncated: false,
            steady: false,
        }
    }

    /// Ready for the next response; buffers keep their memory, and what events look like is still
    /// known.
    pub fn reset(&mut self) {
        self.phase = Phase::Head;
        self.carry.clear();
        self.head = Head::default();
        self.sse.reset();
        self.lines.reset();
        self.decoder.begin();
        self.collected.clear();
        (self.used, self.events) = (0, 0);
        (self.collected_in_part, self.done, self.truncated) = (false, false, false);
        (self.made, self.faulted, self.strange) = (false, false, false);
        self.steady = false;
    }

    /// Exchanges what is known of the shapes of events, so that many connections to the same kind of
    /// server can share it, one after the other; `known` must come from an answer of the same
    /// dialect, or be new.
    #[inline]
    pub fn swap_known(&mut self, known: &mut Known) {
        self.decoder.swap_known(known);
    }

    /// Reads on: uses bytes up to the next signal, or all of them. Call it, with what is left of
    /// the bytes (even nothing), until there is no item: one byte can bring two signals. Whatever
    /// is unfinished is kept inside, so bytes are never shown twice.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`](crate::ErrorKind) but the two that only a close can show; the same again
    /// if called again.
    #[inline]
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Step<Signal<'a>>, Error> {
        if self.steady || self.may_be_steady() {
            if bytes.is_empty() && self.body.waits() {
                return Ok(Step { used: 0, item: None });
            }
            if let Some((used, output)) = self.like_the_last(bytes) {
                return Ok(Step { used, item: Some(Signal::Event(Event::Output(output))) });
            }
        }
        self.steady = false;
        self.next_by_parts(bytes)
    }

    /// Is the body a stream that is between two events and goes on?
    #[inline]
    fn may_be_steady(&self) -> bool {
        self.phase == Phase::Body
            && self.mode == Mode::Events
            && !self.done
            && self.events > 0
            && self.sse.is_between_events()
    }

    #[inline(never)]
    fn next_by_parts<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Step<Signal<'a>>, Error> {
        let (used, found) = match self.advance(bytes) {
            Ok(step) => step,
            Err(error) => return Err(self.fail(error)),
        };
        self.used += used;
        Ok(Step { used, item: found.map(|found| self.signal(found, bytes)) })
    }

    /// The peer closed. Call it until it gives `None` or an error.
    ///
    /// # Errors
    ///
    /// [`ClosedEarly`](crate::ErrorKind::ClosedEarly) or
    /// [`BodyTruncated`](crate::ErrorKind::BodyTruncated) if the response is not complete; what
    /// [`next`](Self::next) gave, if it gave an error.
    pub fn eof(&mut self) -> Result<Option<Signal<'_>>, Error> {
        self.steady = false;
        match self.phase {
            Phase::Head => {
                let error = self.cut_head();
                return Err(self.fail(error));
            }
            Phase::Body => {
                self.truncated = self.body.eof().is_err();
                self.phase = Phase::Last;
            }
            _ => {}
        }
        match self.advance(&[]) {
            Ok((_, found)) => Ok(found.map(|found| self.signal(found, &[]))),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The final head, once it is complete.
    pub fn head(&self) -> Option<&Head> {
        (self.head.status != 0).then_some(&self.head)
    }

    /// A stream was asked for and a 2xx came whose body is none: by its type, or because it ended
    /// without any event though it is not empty. Final once [`Signal::End`] came.
    pub fn not_streaming(&self) -> bool {
        if !self.settings.stream || !self.head.is_success() || self.head.encoded {
            return false;
        }
        let over = matches!(self.phase, Phase::Last | Phase::Closing | Phase::Ended);
        match (self.mode, self.head.content) {
            (Mode::Events, ContentKind::EventStream) => {
                over && self.events == 0 && self.sse.strange_lines() > 0
            }
            (Mode::Events, _) => over && self.events == 0 && !self.collected.is_empty(),
            (Mode::Lines, _) => over && self.events == 0 && !self.collected.trim_ascii().is_empty(),
            _ => true,
        }
    }

    /// What the server said of its own work on this request: in the answer's data, else in its head.
    pub fn server_times(&self) -> Option<ServerTimes> {
        let told = self.decoder.server_times();
        let head = self.head.times.as_ref().map(|head| &head.times);
        [told, head].into_iter().flatten().find(|times| times.is_known()).copied()
    }

    /// Times by the names that the server gave them in its head.
    pub fn named_times(&self) -> &[(String, u64)] {
        self.head.times.as_ref().map_or(&[], |head| &head.named)
    }

    /// The body is coded (gzip and the like) and was not read.
    pub fn unsupported_encoding(&self) -> bool {
        self.head.encoded
    }

    /// The body, as far as its limit allows, where it was no stream of events.
    pub fn error_body(&self) -> &[u8] {
        &self.collected
    }

    /// Errors of a response stay: there is no way to read on.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        let error = match self.phase {
            Phase::Failed(before) => before,
            _ => error.after(self.used),
        };
        self.phase = Phase::Failed(error);
        error
    }

    /// The whole way at once for an event like the last one that lies whole in its chunk: the same as
    /// by parts, only faster.
    #[inline]
    fn like_the_last<'a>(&mut self, bytes: &'a [u8]) -> Option<(usize, Output<'a>)> {
        let (from, left) = self.body.glance(bytes)?;
        let rest = &bytes[from..];
        let data = match usize::try_from(left) {
            Ok(left) if left < rest.len() => &rest[..left],
            _ => rest,
        };
        let (output, length) = self.decoder.like_the_last(data)?;
        if length > self.sse.event_bytes_max() {
            return None;
        }
        let to = from + length;
        let used = to + self.body.take(left - length as u64, &bytes[to..]);
        if !self.steady {
            self.sse.skip_event();
            (self.steady, self.made) = (true, true);
        }
        self.used += used;
        self.events += 1;
        Some((used, output))
    }
}
