//! The way by parts: one step of the head, the framing, the lines and what they mean after the other.

use super::{Answer, Found, Mode, Phase, Signal};
use crate::body::{Body, Part};
use crate::dialect::server_times::late_server_timing;
use crate::event::{Event, Note, unescape};
use crate::head::timing::take_server_timing;
use crate::head::{self, ContentKind, Head};
use crate::sse::{Lies, Message};
use crate::{Error, ErrorKind, Step};

impl Answer {
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Option<Found>), Error> {
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
                Phase::Closing if self.ends_here() => {
                    self.done = true;
                    return Ok((used, Some(Found::Done)));
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
            Some(Part::Data(data)) if matches!(self.mode, Mode::Events | Mode::Lines) => {
                let from = to - data.len();
                let step = match self.mode {
                    Mode::Events => self.sse.advance(data),
                    _ => self.lines.advance(data),
                };
                let read = step.map_or_else(|error| error.at.min(data.len()), |(read, _)| read);
                if self.events == 0 {
                    self.keep(&data[..read]);
                }
                let (_, found) = step.map_err(|error| error.after(from))?;
                let Some(lies) = found else { return Ok(None) };
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
    pub(super) fn signal<'a>(&'a mut self, found: Found, bytes: &'a [u8]) -> Signal<'a> {
        match found {
            Found::Event(lies) if self.done => {
                self.note_late(lies, bytes);
                Signal::Event(Event::Note(Note::Empty))
            }
            Found::LastEvent if self.done => Signal::Event(Event::Note(Note::Empty)),
            Found::Event(lies) => Signal::Event(self.event(lies, bytes, false)),
            Found::LastEvent => Signal::Event(self.event(Lies::Here, &[], true)),
            Found::Document => {
                let event = self.decoder.document(&self.collected);
                if self.mode == Mode::Document {
                    (self.made, self.faulted) = traits(&event);
                    return Signal::Event(event);
                }
                match event {
                    Event::Fault(_) | Event::Output(_) => Signal::Event(event),
                    _ => Signal::Event(Event::Note(Note::Empty)),
                }
            }
            Found::Done => Signal::Event(Event::Done),
            Found::Interim => Signal::Interim,
            Found::Head => Signal::Head(&self.head),
            Found::End => Signal::End,
        }
    }

    /// An event after the last one: TensorRT-LLM tells there what it could not tell in its head.
    #[cold]
    fn note_late(&mut self, lies: Lies, bytes: &[u8]) {
        if self.mode != Mode::Events {
            return;
        }
        let message = self.sse.message(lies, bytes);
        if message.name == LATE_TIMES {
            let told = std::str::from_utf8(message.data).map(late_server_timing);
            let told = unescape(told.unwrap_or_default());
            take_server_timing(&mut self.head.times, &told);
        }
    }

    /// What an event of the stream means. One that was left without its end may be cut off.
    #[inline]
    fn event<'a>(&'a mut self, lies: Lies, bytes: &'a [u8], left: bool) -> Event<'a> {
        let message = match self.mode {
            Mode::Lines => Message { name: &[], data: self.lines.line(lies, bytes) },
            _ => self.sse.message(lies, bytes),
        };
        let event = self.decoder.event(message);
        let malformed = matches!(event, Event::Malformed(_));
        if malformed && left {
            return Event::Note(Note::Empty);
        }
        if malformed && self.mode == Mode::Lines {
            self.strange = true;
        } else {
            self.events += 1;
        }
        let (made, faulted) = traits(&event);
        self.made |= made;
        self.faulted |= faulted;
        self.done = event.is_last();
        event
    }

    /// Is the end of the body, which is complete, the end of an answer?
    fn ends_here(&self) -> bool {
        self.made
            && !self.faulted
            && !self.done
            && self.mode != Mode::Other
            && self.settings.dialect.ends_with_body()
    }

    /// What is left when the body is over.
    fn last(&mut self) -> Result<Option<Found>, Error> {
        let left = match self.mode {
            Mode::Events => self.sse.finish()?,
            // Lines of which none could be read may be one document together.
            Mode::Lines => self.lines.finish() && !(self.strange && self.events == 0),
            Mode::Document | Mode::Other => false,
        };
        if left {
            return Ok(Some(Found::LastEvent));
        }
        let whole = !self.truncated && !self.collected_in_part && !self.collected.is_empty();
        let document = match self.mode {
            Mode::Events => self.not_streaming(),
            Mode::Lines => self.strange && self.events == 0,
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
        let (stream, lines) = (self.settings.stream, self.settings.dialect.reads_lines());
        let flow = match head.content {
            ContentKind::EventStream => Some(Mode::Events),
            ContentKind::Ndjson if lines => Some(Mode::Lines),
            // A proxy on the way may have named it wrongly.
            ContentKind::Json | ContentKind::Missing | ContentKind::Other if lines && stream => {
                Some(Mode::Lines)
            }
            ContentKind::Missing | ContentKind::Other if stream => Some(Mode::Events),
            _ => None,
        };
        self.mode = match flow {
            _ if head.encoded || !head.is_success() => Mode::Other,
            Some(mode) => mode,
            None if stream => Mode::Other,
            None => Mode::Document,
        };
        self.body = Body::new(head.framing);
        self.head = head;
        self.phase = Phase::Body;
    }

    /// Why there is no head at the end.
    pub(super) fn cut_head(&self) -> Error {
        if self.carry.is_empty() {
            return Error::new(ErrorKind::ClosedEarly, 0);
        }
        match head::read(&self.carry, self.settings.limits.head_bytes) {
            Err(error) => error.after(0_usize.wrapping_sub(self.carry.len())),
            Ok(_) => Error::new(ErrorKind::BodyTruncated, 0),
        }
    }
}

/// The name of an event that comes after the end of a stream.
const LATE_TIMES: &[u8] = b"trtllm.perf_metrics";

/// Is it output, and is it an error?
#[inline]
fn traits(event: &Event<'_>) -> (bool, bool) {
    (matches!(event, Event::Output(_)), matches!(event, Event::Fault(_)))
}
