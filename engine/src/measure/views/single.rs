//! Single requests that are worth a look, step by step: the slowest, the usual, the failed.

use std::collections::BTreeMap;

use crate::measure::metric::{Request, Since};
use crate::measure::summary::class_name;
use crate::record::{Outcome, Row};

/// Of each kind so many are shown.
const SLOWEST_E2E: usize = 5;
const SLOWEST_TTFT: usize = 3;
const MEDIAN: usize = 3;
const FASTEST: usize = 1;
const FAILED: usize = 5;
/// Output events of one request, at most.
const EVENTS_MAX: usize = 1000;
/// Letters of an error's text, at most.
const TEXT_MAX: usize = 200;

/// Why a request is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It failed.
    Failed,
    /// Its E2E is among the longest.
    SlowestE2e,
    /// Its TTFT is among the longest.
    SlowestTtft,
    /// Its E2E is closest to the median.
    Median,
    /// Its E2E is the shortest.
    Fastest,
}

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The phase: `wait` (before it was taken up), `connect`, `tls`, `prepare` (until its first byte was
    /// written), `write`, `server_wait`, `prefill_wait`, `decode`, `tail`; `lost`: until it ended without
    /// the next mark.
    pub phase: &'static str,
    /// When it began, ns from the request's origin.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
}

/// A request that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Why.
    pub why: Vec<Why>,
    /// Its number.
    pub index: u64,
    /// The trace that was sent with it.
    pub trace_id: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed or was ended.
    pub error: Option<String>,
    /// What the server or the system said of it, shortened.
    pub error_text: Option<String>,
    /// When it began, ns from the run's start.
    pub origin_ns: u64,
    /// TTFT, ns.
    pub ttft_ns: Option<u64>,
    /// E2E, ns.
    pub e2e_ns: Option<u64>,
    /// Its parts, in order.
    pub steps: Vec<Step>,
    /// When output events arrived, ns from its origin, where they were kept; the first of them.
    pub events_ns: Vec<u64>,
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
}

impl Shown {
    fn new(row: &Row, request: &Request) -> Self {
        let since = |at: u64| at.saturating_sub(request.origin);
        let chunks = row.chunks.iter().flatten().take(EVENTS_MAX);
        let shortened = |text: &String| text.chars().take(TEXT_MAX).collect();
        Self {
            why: Vec::new(),
            index: request.index,
            trace_id: row.trace_id.clone(),
            outcome: request.outcome,
            error: (request.outcome != Outcome::Ok).then(|| class_name(request.error)),
            error_text: row.error_text.as_ref().map(shortened),
            origin_ns: request.origin,
            ttft_ns: request.ttft(Since::Origin),
            e2e_ns: request.e2e(Since::Origin),
            steps: steps(request),
            events_ns: chunks.map(|(at, _)| since(*at)).collect(),
            input_tokens: request.input_tokens.get(),
            output_tokens: request.output_tokens.get(),
        }
    }
}

/// The time of a request cut at its marks; each part ends with the mark that it leads to.
fn steps(request: &Request) -> Vec<Step> {
    let marks = [
        ("wait", request.dispatched),
        ("connect", request.connected),
        ("tls", request.tls_done),
        ("prepare", request.write_start),
        ("write", request.write_done),
        ("server_wait", request.first_byte),
        ("prefill_wait", request.first_token),
        ("decode", request.last_token),
    ];
    let mut steps = Vec::new();
    let mut from = request.origin;
    let mut until = |phase: &'static str, at: u64| {
        // A mark that lies before another is none that a part could end with.
        if at > from {
            let since = |at: u64| at.saturating_sub(request.origin);
            steps.push(Step { phase, from_ns: since(from), to_ns: since(at) });
            from = at;
        }
    };
    for (phase, mark) in marks {
        if let Some(at) = mark.get() {
            until(phase, at);
        }
    }
    if let Some(done) = request.done.get() {
        let is_whole = request.is_ok() && request.last_token.get().is_some();
        until(if is_whole { "tail" } else { "lost" }, done);
    }
    steps
}

/// Those with the smallest keys of all that were offered; of equal keys those that came first in the
/// load.
#[derive(Debug)]
struct Best {
    most: usize,
    kept: Vec<((u64, u64), Shown)>,
}

impl Best {
    fn new(most: usize) -> Self {
        Self { most, kept: Vec::new() }
    }

    fn offer(&mut self, key: u64, row: &Row, request: &Request) {
        let key = (key, request.index);
        let at = self.kept.partition_point(|(other, _)| *other < key);
        if at < self.most {
            self.kept.insert(at, (key, Shown::new(row, request)));
            self.kept.truncate(self.most);
        }
    }
}

/// Chooses while rows go by.
#[derive(Debug)]
pub(super) struct Choice {
    e2e_p50: Option<u64>,
    slowest_e2e: Best,
    slowest_ttft: Best,
    median: Best,
    fastest: Best,
    failed: BTreeMap<String, Best>,
}

impl Choice {
    pub(super) fn new(e2e_p50: Option<u64>) -> Self {
        Self {
            e2e_p50,
            slowest_e2e: Best::new(SLOWEST_E2E),
            slowest_ttft: Best::new(SLOWEST_TTFT),
            median: Best::new(MEDIAN),
            fastest: Best::new(FASTEST),
            failed: BTreeMap::new(),
        }
    }

    /// Takes a request of the measured part.
    pub(super) fn add(&mut self, row: &Row, request: &Request) {
        if request.is_failed() {
            let class = self.failed.entry(class_name(request.error));
            class.or_insert_with(|| Best::new(FAILED)).offer(request.index, row, request);
            return;
        }
        if !request.is_ok() {
            return;
        }
        if let Some(e2e) = request.e2e(Since::Origin) {
            self.slowest_e2e.offer(u64::MAX - e2e, row, request);
            self.fastest.offer(e2e, row, request);
            if let Some(p50) = self.e2e_p50 {
                self.median.offer(e2e.abs_diff(p50), row, request);
            }
        }
        if let Some(ttft) = request.ttft(Since::Origin) {
            self.slowest_ttft.offer(u64::MAX - ttft, row, request);
        }
    }

    /// Each request once, the failed first.
    pub(super) fn finish(self) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        let mut show =
            |why: Why, one: Shown| match all.iter_mut().find(|other| other.index == one.index) {
                Some(other) => other.why.push(why),
                None => all.push(Shown { why: vec![why], ..one }),
            };
        // One of each class before a second of any.
        let mut failed: Vec<(usize, Shown)> = Vec::new();
        for best in self.failed.into_values() {
            failed.extend(best.kept.into_iter().map(|(_, one)| one).enumerate());
        }
        failed.sort_by_key(|(place, one)| (*place, one.index));
        failed.into_iter().take(FAILED).for_each(|(_, one)| show(Why::Failed, one));
        for (why, best) in [
            (Why::SlowestE2e, self.slowest_e2e),
            (Why::SlowestTtft, self.slowest_ttft),
            (Why::Median, self.median),
            (Why::Fastest, self.fastest),
        ] {
            best.kept.into_iter().for_each(|(_, one)| show(why, one));
        }
        all
    }
}
