//! The shapes of a connection's events: that of the tokens, and of what begins and ends a response.

use crate::event::{Event, Output, Text};
use crate::shape::{Shape, Spots};

/// Several shapes, each learned from an event that the JSON reader read. They outlive a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Those from [`known`](Self::known) on are not valid: they are kept for their buffers.
    shapes: Vec<Known>,
    known: usize,
    place: Place,
    /// Is being learned.
    next: Shape,
    /// Counts what was met, to tell which shape was not for longest.
    clock: u64,
    /// Events in a row that no shape fitted.
    misses: u32,
}

/// Where one stream stands among the shapes. Streams that share a memory keep their own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// The shape with a text that was met last.
    hot: usize,
    /// The shape that was met last.
    last: usize,
}

#[derive(Debug, Clone, Default)]
struct Known {
    shape: Shape,
    /// When it was met last.
    met: u64,
    /// Which shape came next, when it last was another: most likely it does again.
    then: usize,
}

/// The shape that fits an event, and the event's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit<'a> {
    shape: usize,
    text: Text<'a>,
}

/// A response has a role, tokens, an end and counts; reasoning, tool calls and refusals differ.
const SHAPES_MAX: usize = 8;

/// From here on the events seem to be all different: only the likely shapes are tried, and only the
/// hot one is replaced, by every eighth event, since what is learned in vain costs time as well.
const MISSES_MAX: u32 = 16;
const LEARN_EVERY: u32 = 8;

impl Memory {
    /// Knows nothing again; buffers keep their memory.
    pub(crate) fn forget(&mut self) {
        (self.known, self.place) = (0, Place::default());
        self.misses = 0;
    }

    /// Where the stream stands that was read last.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Goes on with a stream that stands at `place`.
    #[inline]
    pub(crate) fn go_to(&mut self, place: Place) {
        let is_here = place.hot < self.known && place.last < self.known;
        self.place = if is_here { place } else { Place::default() };
    }

    /// The output of the event that `bytes` begins with, as it lies on the wire, and its length:
    /// only if it differs from the last one in its text alone.
    #[inline]
    pub(crate) fn read_wire<'a>(&mut self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        let found = self.shapes[..self.known].get(self.place.hot)?.shape.read_wire(bytes)?;
        (self.place.last, self.misses) = (self.place.hot, 0);
        Some(found)
    }

    /// The shape that fits `data`.
    #[inline]
    pub(crate) fn find<'a>(&mut self, data: &'a [u8]) -> Option<Fit<'a>> {
        match self.shapes[..self.known].get(self.place.hot)?.shape.same(data) {
            Some(text) => {
                (self.place.last, self.misses) = (self.place.hot, 0);
                Some(Fit { shape: self.place.hot, text })
            }
            None => self.find_any(data),
        }
    }

    #[inline(never)]
    fn find_any<'a>(&mut self, data: &'a [u8]) -> Option<Fit<'a>> {
        let others = if self.misses < MISSES_MAX { self.known } else { 0 };
        let (hot, guess) = (self.place.hot, self.shapes[self.place.last].then);
        let others = (0..others).filter(|at| *at != hot && *at != guess);
        let first = [guess, hot].into_iter().skip(usize::from(guess == hot || guess >= self.known));
        for at in first.chain(others) {
            let known = &mut self.shapes[at];
            if let Some(text) = known.shape.fit(data) {
                self.meet(at);
                return Some(Fit { shape: at, text });
            }
        }
        self.misses = self.misses.saturating_add(1);
        None
    }

    fn meet(&mut self, at: usize) {
        self.clock += 1;
        self.misses = 0;
        self.shapes[self.place.last].then = at;
        self.place.last = at;
        let known = &mut self.shapes[at];
        known.met = self.clock;
        if known.shape.has_text() {
            self.place.hot = at;
        }
    }

    /// What the event means that was found last.
    #[inline]
    pub(crate) fn event<'a>(&'a self, fit: Fit<'a>) -> Event<'a> {
        self.shapes[fit.shape].shape.event(fit.text)
    }

    /// Learns the shape of `data`, which was read as `event`.
    pub(crate) fn learn(&mut self, data: &[u8], event: &Event<'_>, spots: &Spots<'_>) {
        let misses = self.misses;
        let rarely = misses >= MISSES_MAX;
        if rarely && !misses.is_multiple_of(LEARN_EVERY) || !self.next.learn(data, event, spots) {
            return;
        }
        let at = match self.shapes[..self.known]
            .iter()
            .position(|known| known.shape.is_like(&self.next))
        {
            Some(at) => at,
            None if rarely && self.next.has_text() => self.place.hot,
            None if rarely => return,
            None if self.known < SHAPES_MAX => {
                if self.known == self.shapes.len() {
                    self.shapes.push(Known::default());
                }
                self.known += 1;
                self.known - 1
            }
            None => self.oldest(),
        };
        std::mem::swap(&mut self.shapes[at].shape, &mut self.next);
        self.meet(at);
        self.misses = misses;
    }

    /// The shape that was not met for longest, apart from the hot one, whose meetings go uncounted.
    fn oldest(&self) -> usize {
        let others = (0..self.known).filter(|at| *at != self.place.hot);
        others.min_by_key(|at| self.shapes[*at].met).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Decoder, Dialect};
    use crate::event::{Note, OutputKind};
    use crate::sse::Message;

    const CHAT: Dialect = Dialect::OpenaiChat;

    fn event(decoder: &mut Decoder, data: &str) -> (String, bool) {
        let found = decoder.finds(data.as_bytes());
        (format!("{:?}", decoder.event(Message { name: b"", data: data.as_bytes() })), found)
    }

    /// A response of four events.
    fn response(id: &str, created: u64, text: &str, count: u64) -> [String; 4] {
        let around = |delta: &str, finish: &str, usage: &str| {
            format!(
                "{{\"id\":\"{id}\",\"created\":{created},\"choices\":[{{\"delta\":{{{delta}}},\
                 \"finish_reason\":{finish}}}]{usage}}}"
            )
        };
        let usage = format!(",\"usage\":{{\"prompt_tokens\":{count},\"total_tokens\":{created}}}");
        [
            around("\"role\":\"assistant\",\"content\":\"\"", "null", ""),
            around(&format!("\"content\":\"{text}\""), "null", ""),
            around("", "\"stop\"", ""),
            around("", "null", &usage),
        ]
    }

    #[test]
    fn the_second_response_needs_no_json_whatever_its_id_and_counts() {
        let mut decoder = Decoder::new(CHAT);
        assert!(response("a", 1, "x", 7).iter().all(|data| !event(&mut decoder, data).1));
        for (id, created, text, count) in
            [("b", 2, "y", 8), ("", 1_764_000_000, "a longer text", 0), ("b-longer", 3, "é", 123)]
        {
            for data in response(id, created, text, count) {
                let (read, found) = event(&mut decoder, &data);
                assert!(found, "{data}");
                assert_eq!(read, event(&mut Decoder::new(CHAT), &data).0);
            }
        }
    }

    #[test]
    fn what_is_no_plain_id_or_number_is_left_to_json() {
        let [_, data, _, tail] = response("ID", 5, "x", 7);
        for (from, to) in [
            ("\"ID\"", "\"I\\u0044\""),
            ("\"ID\"", "\"é\""),
            ("\"ID\"", "\"I\",\"error\":\"x\""),
            ("\"ID\"", "7"),
            (":5", ":05"),
            (":5", ":"),
            (":5", ":-5"),
            (":5", ":5.0"),
            (":5", ":1000000000000000000"),
            (":7", ":07"),
            (":7", ":null"),
        ] {
            let mut decoder = Decoder::new(CHAT);
            for known in [&data, &tail] {
                event(&mut decoder, known);
            }
            let other = if from == ":7" { &tail } else { &data }.replace(from, to);
            let (read, found) = event(&mut decoder, &other);
            assert!(!found, "{other}");
            assert_eq!(read, event(&mut Decoder::new(CHAT), &other).0);
        }
    }

    #[test]
    fn an_id_elsewhere_or_the_first_of_two_is_no_hole() {
        for (known, other) in [
            (
                "{\"x\":{\"id\":\"a\"},\"choices\":[{\"delta\":{\"content\":\"t\"}}]}",
                "{\"x\":{\"id\":\"b\"},\"choices\":[{\"delta\":{\"content\":\"t\"}}]}",
            ),
            (
                "{\"id\":\"a\",\"id\":\"a\",\"choices\":[{\"delta\":{\"content\":\"t\"}}]}",
                "{\"id\":\"b\",\"id\":\"a\",\"choices\":[{\"delta\":{\"content\":\"t\"}}]}",
            ),
        ] {
            let mut decoder = Decoder::new(CHAT);
            event(&mut decoder, known);
            assert!(event(&mut decoder, known).1);
            assert!(!event(&mut decoder, other).1);
        }
    }

    #[test]
    fn counts_with_every_token_are_those_of_the_event_at_hand() {
        let data = |text: &str, count: u64| {
            format!(
                "{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\
                 \"usage\":{{\"completion_tokens\":{count}}}}}"
            )
        };
        let mut decoder = Decoder::new(CHAT);
        for count in 1..30 {
            let data = data("x", count);
            assert_eq!(decoder.finds(data.as_bytes()), count > 1);
            let message = Message { name: b"", data: data.as_bytes() };
            let Event::Output(output) = decoder.event(message) else { panic!("it has a text") };
            assert_eq!(output.usage.and_then(|usage| usage.output_tokens), Some(count));
            assert_eq!(output.kind, OutputKind::Content);
        }
    }

    #[test]
    fn events_that_are_all_different_cost_the_others_nothing() {
        let mut decoder = Decoder::new(CHAT);
        let known = response("a", 1, "x", 7);
        for data in &known {
            event(&mut decoder, data);
        }
        for number in 0..200 {
            let data = format!("{{\"x\":[{number}],\"choices\":[{{\"text\":\"a\"}}]}}");
            let message = Message { name: b"", data: data.as_bytes() };
            assert_eq!(decoder.event(message), Event::Note(Note::Empty));
        }
        // The token's shape is the hot one, which stays.
        assert!(event(&mut decoder, &response("b", 2, "y", 8)[1]).1);
    }

    #[test]
    fn after_many_different_events_a_shape_is_learned_again() {
        let mut decoder = Decoder::new(CHAT);
        for number in 0..100 {
            let data =
                format!("{{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"x\":[{number}]}}]}}");
            assert!(!event(&mut decoder, &data).1);
        }
        let alike = (0..20).filter(|_| event(&mut decoder, &response("b", 2, "y", 8)[1]).1);
        assert!(alike.count() >= 11);
    }
}
