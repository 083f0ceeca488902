//! One response as one machine: head, framing, events or a document, end.

use crate::body::{Body, Part};
use crate::dialect::{Decoder, Dialect};
use crate::event::{Event, Note, Output};
use crate::head::{self, ContentKind, Framing, Head};
use crate::sse::{Lies, Sse};
use crate::{Error, ErrorKind, Step};

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
    decoder: Decoder,
    /// The body, or its start, where it is or may be no stream.
    collected: Vec<u8>,
    /// `collected` is not the whole body.
    collected_in_part: bool,
    /// Bytes of the response used so far.
    used: usize,
    events: u64,
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
    /// An event that has no blank line: counts only if it is whole.
    LastEvent,
    Document,
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
            decoder: Decoder::new(settings.dialect.clone()),
            settings,
            collected: Vec::new(),
            collected_in_part: false,
            used: 0,
            events: 0,
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
        self.collected.clear();
        (self.used, self.events) = (0, 0);
        (self.collected_in_part, self.done, self.truncated) = (false, false, false);
        self.steady = false;
    }

    /// Reads on: uses bytes up to the next signal, or all of them. Call it, with what is left of
    /// the bytes (even nothing), until there is no item: one byte can bring two signals. Whatever
    /// is unfinished is kept inside, so bytes are never shown twice.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`] but the two that only a close can show; the same again if called again.
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
    /// [`ErrorKind::ClosedEarly`] or [`ErrorKind::BodyTruncated`] if the response is not complete;
    /// what [`next`](Self::next) gave, if it gave an error.
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
            _ => true,
        }
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
            self.steady = true;
        }
        self.used += used;
        self.events += 1;
        Some((used, output))
    }

    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Option<Found>), Error> {
        let mut used = 0;
        loop {
            match self.phase {
                Phase::Body => {
                    if let Some(step) = self.advance_body(bytes, &mut used)? {
                        return Ok(step);
                    }
                }
                Phase::Head => return self.advance_head(bytes),
                Phase::Last => {
                    self.phase = Phase::Closing;
                    if let Some(last) = self.last()? {
                        return Ok((used, Some(last)));
                    }
                }
                Phase::Closing if self.truncated => {
                    return Err(Error::new(ErrorKind::BodyTruncated, used));
                }
                Phase::Closing => {
                    self.phase = Phase::Ended;
                    return Ok((used, Some(Found::End)));
                }
                Phase::Ended => return Ok((used, None)),
                Phase::Failed(error) => return Err(error),
            }
        }
    }

    /// One part of the body. `None` if there may be more to find.
    #[inline]
    fn advance_body(
        &mut self,
        bytes: &[u8],
        used: &mut usize,
    ) -> Result<Option<(usize, Option<Found>)>, Error> {
        let step = self.body.step(&bytes[*used..]).map_err(|error| error.after(*used))?;
        let to = *used + step.used;
        *used = to;
        match step.item {
            None => Ok(Some((to, None))),
            Some(Part::End) => {
                self.phase = Phase::Last;
                Ok(None)
            }
            Some(Part::Data(data)) if self.mode == Mode::Events => {
                let from = to - data.len();
                let step = self.sse.advance(data);
                let read = step.map_or_else(|error| error.at.min(data.len()), |(read, _)| read);
                if self.events == 0 {
                    self.keep(&data[..read]);
                }
                let (_, found) = step.map_err(|error| error.after(from))?;
                let Some(lies) = found else { return Ok(None) };
                self.events += 1;
                self.body.give_back(data.len() - read);
                let lies = match lies {
                    Lies::There(start, end) => Lies::There(from + start, from + end),
                    Lies::Here => Lies::Here,
                };
                Ok(Some((from + read, Some(Found::Event(lies)))))
            }
            Some(Part::Data(data)) => {
                let room = self.settings.limits.body_bytes.saturating_sub(self.collected.len());
                self.keep(data);
                if self.mode == Mode::Document && data.len() > room {
                    return Err(Error::new(ErrorKind::SizeLimit, to - data.len() + room));
                }
                Ok(None)
            }
        }
    }

    fn keep(&mut self, data: &[u8]) {
        let room = self.settings.limits.body_bytes.saturating_sub(self.collected.len());
        self.collected_in_part |= data.len() > room;
        self.collected.extend_from_slice(&data[..data.len().min(room)]);
    }

    #[inline]
    fn signal<'a>(&'a mut self, found: Found, bytes: &'a [u8]) -> Signal<'a> {
        match found {
            Found::Event(_) if self.done => Signal::Event(Event::Note(Note::Empty)),
            Found::Event(lies) => {
                let event = self.decoder.event(self.sse.message(lies, bytes));
                self.done = event.is_last();
                Signal::Event(event)
            }
            Found::LastEvent if self.done => Signal::Event(Event::Note(Note::Empty)),
            Found::LastEvent => match self.decoder.event(self.sse.message(Lies::Here, &[])) {
                Event::Malformed(_) => Signal::Event(Event::Note(Note::Empty)),
                event => {
                    self.events += 1;
                    self.done = event.is_last();
                    Signal::Event(event)
                }
            },
            Found::Document => match (self.decoder.document(&self.collected), self.mode) {
                (event, Mode::Document) => Signal::Event(event),
                (event @ (Event::Fault(_) | Event::Output(_)), _) => Signal::Event(event),
                _ => Signal::Event(Event::Note(Note::Empty)),
            },
            Found::Interim => Signal::Interim,
            Found::Head => Signal::Head(&self.head),
            Found::End => Signal::End,
        }
    }

    /// What is left when the body is over.
    fn last(&mut self) -> Result<Option<Found>, Error> {
        if self.mode == Mode::Events && self.sse.finish()? {
            return Ok(Some(Found::LastEvent));
        }
        let whole = !self.truncated && !self.collected_in_part && !self.collected.is_empty();
        let document = match self.mode {
            Mode::Events => self.not_streaming(),
            Mode::Document => true,
            Mode::Other => !self.head.encoded,
        };
        Ok((whole && document).then_some(Found::Document))
    }

    #[cold]
    fn advance_head(&mut self, bytes: &[u8]) -> Result<(usize, Option<Found>), Error> {
        let limit = self.settings.limits.head_bytes;
        let carried = self.carry.len();
        // A head is complete at a line end, so there is nothing to look for before one comes.
        let look = bytes.contains(&b'\n') || carried + bytes.len() > limit;
        let step = if !look {
            Step { used: 0, item: None }
        } else if carried == 0 {
            head::read(bytes, limit)?
        } else {
            let room = (limit + 1).saturating_sub(carried);
            self.carry.extend_from_slice(&bytes[..bytes.len().min(room)]);
            let read = head::read(&self.carry, limit);
            self.carry.truncate(carried);
            // An error's place counts from the head's first byte, which came earlier.
            read.map_err(|error| error.after(0_usize.wrapping_sub(carried)))?
        };
        let Some(head) = step.item else {
            self.carry.extend_from_slice(bytes);
            return Ok((bytes.len(), None));
        };
        self.carry.clear();
        let used = step.used.saturating_sub(carried);
        if head.is_interim() {
            return Ok((used, Some(Found::Interim)));
        }
        self.begin(head);
        Ok((used, Some(Found::Head)))
    }

    /// The final head came: how is the body to be read?
    fn begin(&mut self, head: Head) {
        let kind = head.content;
        let may_stream = match kind {
            ContentKind::EventStream => true,
            ContentKind::Missing | ContentKind::Other => self.settings.stream,
            ContentKind::Json | ContentKind::Ndjson => false,
        };
        self.mode = if head.encoded || !head.is_success() {
            Mode::Other
        } else if may_stream {
            Mode::Events
        } else if self.settings.stream {
            Mode::Other
        } else {
            Mode::Document
        };
        self.body = Body::new(head.framing);
        self.head = head;
        self.phase = Phase::Body;
    }

    /// Why there is no head at the end.
    fn cut_head(&self) -> Error {
        if self.carry.is_empty() {
            return Error::new(ErrorKind::ClosedEarly, 0);
        }
        match head::read(&self.carry, self.settings.limits.head_bytes) {
            Err(error) => error.after(0_usize.wrapping_sub(self.carry.len())),
            Ok(_) => Error::new(ErrorKind::BodyTruncated, 0),
        }
    }
}
