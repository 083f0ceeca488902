//! The shapes of a connection's events: that of the tokens, and of what begins and ends a response.

use crate::event::{Event, Output, Text};
use crate::shape::{Shape, Spots};

/// Several shapes, each learned from an event that the JSON reader read. They outlive a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Those from [`known`](Self::known) on are not valid: they are kept for their buffers.
    shapes: Vec<Known>,
    known: usize,
    /// The shape with a text that was met last.
    hot: usize,
    /// The shape that was met last.
    last: usize,
    /// Is being learned.
    next: Shape,
    /// Counts what was met, to tell which shape was not for longest.
    clock: u64,
    /// Events in a row that no shape fitted.
    misses: u32,
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

/// From here on the events seem to be all different, and only the last shape is tried and replaced.
const MISSES_MAX: u32 = 16;

impl Memory {
    /// Knows nothing again; buffers keep their memory.
    pub(crate) fn forget(&mut self) {
        (self.known, self.hot, self.last) = (0, 0, 0);
        self.misses = 0;
    }

    /// The output of the event that `bytes` begins with, as it lies on the wire, and its length:
    /// only if it differs from the last one in its text alone.
    #[inline]
    pub(crate) fn read_wire<'a>(&mut self, bytes: &'a [u8]) -> Option<(Output<'a>, usize)> {
        let found = self.shapes[..self.known].get(self.hot)?.shape.read_wire(bytes)?;
        self.last = self.hot;
        Some(found)
    }

    /// The shape that fits `data`.
    #[inline]
    pub(crate) fn find<'a>(&mut self, data: &'a [u8]) -> Option<Fit<'a>> {
        match self.shapes[..self.known].get(self.hot)?.shape.same(data) {
            Some(text) => {
                self.last = self.hot;
                Some(Fit { shape: self.hot, text })
            }
            None => self.find_any(data),
        }
    }

    #[inline(never)]
    fn find_any<'a>(&mut self, data: &'a [u8]) -> Option<Fit<'a>> {
        let others = if self.misses < MISSES_MAX { self.known } else { 0 };
        let (hot, guess) = (self.hot, self.shapes[self.last].then);
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
        self.shapes[self.last].then = at;
        self.last = at;
        let known = &mut self.shapes[at];
        known.met = self.clock;
        if known.shape.has_text() {
            self.hot = at;
        }
    }

    /// What the event means that was found last.
    #[inline]
    pub(crate) fn event<'a>(&'a self, fit: Fit<'a>) -> Event<'a> {
        self.shapes[fit.shape].shape.event(fit.text)
    }

    /// Learns the shape of `data`, which was read as `event`.
    pub(crate) fn learn(&mut self, data: &[u8], event: &Event<'_>, spots: &Spots<'_>) {
        if !self.next.learn(data, event, spots) {
            return;
        }
        let misses = self.misses;
        let at = match self.shapes[..self.known]
            .iter()
            .position(|known| known.shape.is_like(&self.next))
        {
            Some(at) => at,
            None if misses >= MISSES_MAX && self.next.has_text() => self.hot,
            None if misses >= MISSES_MAX => return,
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
        let others = (0..self.known).filter(|at| *at != self.hot);
        others.min_by_key(|at| self.shapes[*at].met).unwrap_or(0)
    }
}
