//! The time of one request, cut at its marks.

use crate::measure::metric::{Maybe, Request};
use crate::record::{Leg, Legs, Row};

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Until it was taken up.
    Wait,
    /// Attempts that failed, and the pauses after them.
    Retries,
    /// A connection was opened.
    Connect,
    /// TLS was agreed on.
    Tls,
    /// Until its first byte was written.
    Prepare,
    /// Until its last byte was.
    Write,
    /// Until the first byte of the answer's head: server wait.
    Head,
    /// Until the first token: prefill wait.
    FirstToken,
    /// From the request to the prefill server to the end of its answer.
    PrefillLeg,
    /// From there to the request to the decode server: our own part.
    ClientGap,
    /// From that request to the first token.
    DecodeFirst,
    /// From the first to the second event with output.
    SecondToken,
    /// From the second to the last.
    Decode,
    /// Of an answer in one piece: from its head to its end.
    Answer,
    /// After the last token.
    Tail,
    /// Until it ended without the next mark.
    Lost,
}

impl Phase {
    /// All, in the order in which they follow each other.
    pub const ALL: [Self; 16] = [
        Self::Wait,
        Self::Retries,
        Self::Connect,
        Self::Tls,
        Self::Prepare,
        Self::Write,
        Self::Head,
        Self::FirstToken,
        Self::PrefillLeg,
        Self::ClientGap,
        Self::DecodeFirst,
        Self::SecondToken,
        Self::Decode,
        Self::Answer,
        Self::Tail,
        Self::Lost,
    ];

    /// Its name, for people and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Retries => "retries",
            Self::Connect => "connect",
            Self::Tls => "TLS",
            Self::Prepare => "prepare",
            Self::Write => "write",
            Self::Head => "head",
            Self::FirstToken => "first token",
            Self::PrefillLeg => "prefill leg",
            Self::ClientGap => "client gap",
            Self::DecodeFirst => "decode first",
            Self::SecondToken => "second token",
            Self::Decode => "decode",
            Self::Answer => "answer",
            Self::Tail => "tail",
            Self::Lost => "lost",
        }
    }
}

/// A phase of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub phase: Phase,
    /// When it began, ns from the request's origin.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
}

impl Step {
    /// How long it took.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Where the time of a request went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// Its parts: each begins where the one before it ended, the first at the origin. One whose mark does
    /// not lie after the one before it took no time.
    pub steps: Vec<Step>,
    /// The prefill leg, where it went on while the decode leg was under way.
    pub beside: Option<Step>,
}

/// Each part with the mark that it leads to.
type Marks = Vec<(Phase, Maybe)>;

impl Path {
    /// That of `row`, whose figures are `request`.
    #[must_use]
    pub fn of(row: &Row, request: &Request) -> Self {
        let legs =
            row.legs.as_deref().filter(|legs| legs.prefill.is_some() || legs.decode.is_some());
        let (marks, beside) = match legs {
            Some(legs) => legged(legs, request),
            None => (plain(request), None),
        };
        Self { steps: cut(request, &marks), beside }
    }
}

/// Those of one HTTP request.
fn plain(request: &Request) -> Marks {
    let tried_again = request.dispatched.get().filter(|_| request.retry_ns > 0);
    vec![
        (Phase::Wait, request.dispatched),
        (Phase::Retries, tried_again.map(|at| at.saturating_add(request.retry_ns)).into()),
        (Phase::Connect, request.connected),
        (Phase::Tls, request.tls_done),
        (Phase::Prepare, request.write_start),
        (Phase::Write, request.write_done),
        (Phase::Head, request.first_byte),
        (Phase::FirstToken, request.first_token),
        (Phase::SecondToken, request.second_token),
        (Phase::Decode, request.last_token),
    ]
}

/// Those of two, and the prefill leg if it did not end before the decode leg began.
fn legged(legs: &Legs, request: &Request) -> (Marks, Option<Step>) {
    let mark = |leg: &Option<Leg>, pick: fn(&Leg) -> Option<u64>| leg.as_ref().and_then(pick);
    let prefill_start = mark(&legs.prefill, |leg| leg.write_start);
    let prefill_done = mark(&legs.prefill, |leg| leg.done);
    let decode_start = mark(&legs.decode, |leg| leg.write_start);
    let first_token = request.first_token.get().or(mark(&legs.decode, |leg| leg.first_token));
    let is_beside =
        matches!((prefill_done, decode_start), (Some(done), Some(start)) if start < done);
    let since = |at: u64| at.saturating_sub(request.origin);
    let beside = prefill_start.zip(prefill_done).filter(|_| is_beside);
    let beside = beside.map(|(from, to)| Step {
        phase: Phase::PrefillLeg,
        from_ns: since(from),
        to_ns: since(to),
    });
    let mut marks = vec![(Phase::Wait, request.dispatched)];
    if is_beside {
        marks.push((Phase::Prepare, decode_start.into()));
    } else {
        marks.push((Phase::Prepare, prefill_start.or(decode_start).into()));
        marks.push((Phase::PrefillLeg, prefill_done.into()));
        marks.push((Phase::ClientGap, decode_start.into()));
    }
    marks.extend([
        (Phase::DecodeFirst, first_token.into()),
        (Phase::SecondToken, request.second_token),
        (Phase::Decode, request.last_token),
    ]);
    (marks, beside)
}

/// The time of a request cut at its marks, up to its end.
fn cut(request: &Request, marks: &[(Phase, Maybe)]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut from = request.origin;
    let mut until = |phase: Phase, at: u64| {
        let since = |at: u64| at.saturating_sub(request.origin);
        // The answer may reach the kernel before the write of the request has returned.
        let at = at.max(from);
        steps.push(Step { phase, from_ns: since(from), to_ns: since(at) });
        from = at;
    };
    for (phase, mark) in marks {
        if let Some(at) = mark.get() {
            until(*phase, at);
        }
    }
    if let Some(done) = request.done.get() {
        let last = match (request.is_ok(), request.stream, request.last_token.get()) {
            (false, ..) => Phase::Lost,
            (true, true, Some(_)) => Phase::Tail,
            (true, ..) => Phase::Answer,
        };
        until(last, done);
    }
    steps
}
