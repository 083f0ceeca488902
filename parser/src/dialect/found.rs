//! What any dialect finds in one JSON text, before it is judged.

use crate::event::{Fault, Finish, OutputKind, Usage};
use crate::shape::Spots;
use crate::times::ServerTimes;

/// What one JSON text holds.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) choice: Choice<'a>,
    pub(super) usage: Option<Usage>,
    pub(super) fault: Option<Fault<'a>>,
    /// What the server says of its own work.
    pub(super) times: ServerTimes,
    /// It is the dialect's terminal event: nothing of the answer follows.
    pub(super) done: bool,
    /// What it is where it holds nothing of these.
    pub(super) bare: Bare,
    /// Its data alone does not say what it means, or nothing like it comes again: its shape is not
    /// to be kept.
    pub(super) single: bool,
    /// What may differ in an event that means the same.
    pub(super) spots: Spots<'a>,
}

/// What an event is that holds neither output nor how it ended.
#[derive(Default)]
pub(super) enum Bare {
    /// Of no interest.
    #[default]
    Note,
    /// A keep-alive.
    Ping,
    /// The dialect's terminator.
    Done,
}

/// What one choice, or several taken together, holds.
#[derive(Default)]
pub(super) struct Choice<'a> {
    /// Everything generated beside reasoning.
    pub(super) text: Pieces<'a>,
    pub(super) reasoning: Pieces<'a>,
    /// The foremost kind of what is in `text`, or media without text.
    pub(super) kind: Option<OutputKind>,
    pub(super) tokens: u32,
    pub(super) finish: Option<Finish>,
    pub(super) role: bool,
}

/// Strings to be joined; most often one, which needs no memory.
#[derive(Default)]
pub(super) struct Pieces<'a> {
    pub(super) first: &'a str,
    pub(super) more: Vec<&'a str>,
}

impl<'a> Pieces<'a> {
    pub(super) fn push(&mut self, piece: &'a str) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.more.push(piece);
        }
    }

    fn append(&mut self, other: Self) {
        self.push(other.first);
        self.more.extend(other.more);
    }
}

impl<'a> Choice<'a> {
    /// Generated text that is not reasoning.
    pub(super) fn push(&mut self, kind: OutputKind, piece: &'a str) {
        if !piece.is_empty() {
            self.text.push(piece);
            self.mark(kind);
        }
    }

    /// Several such, in order.
    pub(super) fn push_all(&mut self, kind: OutputKind, pieces: Pieces<'a>) {
        self.push(kind, pieces.first);
        pieces.more.into_iter().for_each(|more| self.push(kind, more));
    }

    /// Something of this kind was generated.
    pub(super) fn mark(&mut self, kind: OutputKind) {
        self.kind = Some(self.kind.map_or(kind, |before| foremost(before, kind)));
    }

    pub(super) fn append(&mut self, other: Self) {
        self.text.append(other.text);
        self.reasoning.append(other.reasoning);
        if let Some(kind) = other.kind {
            self.mark(kind);
        }
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.finish = other.finish.or(self.finish);
        self.role |= other.role;
    }
}

fn foremost(a: OutputKind, b: OutputKind) -> OutputKind {
    if (a as u8) <= (b as u8) { a } else { b }
}
