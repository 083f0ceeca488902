//! The requests of a load point as other tools look at them: counted from when they were sent.

use tokclock_engine::measure::{Request, Since, Summary};
use tokclock_engine::record::{Outcome, Phase, Row};

use crate::exit::Failure;
use crate::results::Point;

/// The requests of the measured part that ended by themselves, in the order they were sent.
#[derive(Debug)]
pub(super) struct Records<'a> {
    pub(super) summary: &'a Summary,
    pub(super) sent: Vec<Sent>,
    /// Requests that were cut by us, which no other tool knows.
    pub(super) cut: u64,
    /// Requests of the warm-up.
    pub(super) warmup: u64,
    /// Every successful request has its output events.
    pub(super) has_chunks: bool,
    /// Every successful request has its text.
    pub(super) has_text: bool,
}

/// One request.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) row: Row,
    /// When it was taken up, ns from the run's start: before a connection is made.
    pub(super) start: u64,
    /// First output from then on, ns.
    pub(super) ttft: Option<u64>,
    /// Last output from then on, ns; the end of a document.
    pub(super) latency: Option<u64>,
}

impl<'a> Records<'a> {
    /// Those of a load point; `None` without a summary.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub(super) fn of(point: &'a Point<'_>) -> Result<Option<Self>, Failure> {
        let Some(summary) = point.summary.as_deref() else { return Ok(None) };
        let (mut cut, mut warmup) = (0, 0);
        let mut sent = Vec::new();
        point.each_row(|row| {
            match (row.phase, row.outcome) {
                (Phase::Warmup, _) => warmup += 1,
                (Phase::Drain, _) => {}
                (Phase::Measure, Outcome::Cancelled) => cut += 1,
                (Phase::Measure, _) => sent.push(Sent::new(row, summary.target.stream)),
            }
            Ok(())
        })?;
        sent.sort_by_key(|one| (one.start, one.row.index));
        let all_have = |has: fn(&Row) -> bool| {
            let mut good = sent.iter().filter(|one| one.is_ok()).peekable();
            good.peek().is_some() && good.all(|one| has(&one.row))
        };
        let has_chunks = summary.target.stream && all_have(|row| row.chunks.is_some());
        let has_text = all_have(|row| row.text.is_some());
        Ok(Some(Self { summary, sent, cut, warmup, has_chunks, has_text }))
    }

    /// The time of day at which the run began, ns since 1970, where it is known.
    pub(super) fn began(&self) -> Option<u64> {
        Some(self.summary.run.start_realtime_ns).filter(|&at| at > 0)
    }
}

impl Sent {
    fn new(row: Row, stream: bool) -> Self {
        let request = Request::of(&row, true, stream);
        let (ttft, latency) = (request.ttft(Since::Origin), request.e2e(Since::Origin));
        Self { start: request.origin, ttft, latency, row }
    }

    /// It ended well.
    pub(super) fn is_ok(&self) -> bool {
        self.row.outcome == Outcome::Ok
    }

    /// Input tokens by the server, else by our tokenizer.
    pub(super) fn input(&self) -> Option<u64> {
        self.row.input_tokens.or(self.row.client_input_tokens)
    }

    /// The gaps between its output events, ns.
    pub(super) fn gaps(&self) -> impl Iterator<Item = u64> + '_ {
        let chunks = self.row.chunks.as_deref().unwrap_or_default();
        chunks.windows(2).map(|pair| match pair {
            [before, after] => after.0.saturating_sub(before.0),
            _ => 0,
        })
    }

    /// The class of its failure as a word, and what was said of it.
    pub(super) fn failure(&self) -> (String, String) {
        let class = self.row.error.and_then(|class| serde_json::to_value(class).ok());
        let class = class.as_ref().and_then(|class| class.as_str()).unwrap_or("unclassified");
        let text = self.row.error_text.as_deref().filter(|text| !text.is_empty());
        (class.to_owned(), text.unwrap_or(class).to_owned())
    }
}
