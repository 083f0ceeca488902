//! The facts of a load that several hosts sent: counters and histograms added up, times on one axis.

use crate::measure::Facts;
use crate::record::{ClassTally, NetworkTally, Pooled, Second, Tally};
use crate::telemetry::host::{Softnet, TcpLosses, Watched};

const NS_PER_S: u64 = 1_000_000_000;

/// What one shard brings.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Its number.
    pub shard: u32,
    /// Its facts, by its own clock.
    pub facts: Facts,
    /// How far its wall clock was ahead when it began, ns.
    pub offset_ns: i64,
    /// It did not come to its end.
    pub cut_off: bool,
}

/// Where one shard lies on the common axis: ns since 1970 by the clock that all are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub shard: u32,
    /// When its run began: its own times count from here.
    pub start_ns: u64,
    /// When its load began.
    pub load_ns: u64,
    /// When its last request was settled.
    pub end_ns: u64,
    /// How much later than it was told to it began, by its own clock, ns.
    pub start_late_ns: u64,
    /// Number of its first reactor among all.
    pub first_reactor: u32,
    /// How many it has.
    pub reactors: u32,
    /// It did not come to its end.
    pub cut_off: bool,
}

/// The measured parts of shards, on the common axis.
#[derive(Debug, Default)]
struct Windows {
    span: Option<(u64, u64)>,
    by_requests: bool,
}

impl Windows {
    fn add(&mut self, start: u64, end: u64, by_requests: bool) {
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
        self.by_requests |= by_requests;
    }
}

/// A sum of shards. One after the other is added, so that it takes little memory how many there are.
#[derive(Debug, Default)]
pub struct Whole {
    /// That of the first of them; its times are not used.
    base: Option<Facts>,
    places: Vec<Place>,
    windows: Windows,
    cut_windows: Windows,
    /// When the first of them began, and its CLOCK_MONOTONIC then.
    begun: Option<(u64, u64)>,
    /// `seconds` of these begin with a second of their own.
    tallies: Vec<Tally>,
    first_seconds: Vec<u64>,
    network: NetworkTally,
    classes: Vec<ClassTally>,
    pooled: Pooled,
    drivers: Vec<String>,
    rings: Vec<String>,
    host: Watched,
}

impl Whole {
    /// Adds a shard, and says where it lies.
    pub fn add(&mut self, piece: Piece) -> Place {
        let Piece { shard, mut facts, offset_ns, cut_off } = piece;
        let start_ns = super::on_axis(facts.start_realtime_ns, offset_ns);
        let at = |ns: u64| start_ns.saturating_add(ns);
        let tallies = std::mem::take(&mut facts.tallies);
        let place = Place {
            shard,
            start_ns,
            load_ns: at(facts.load_start),
            end_ns: at(facts.end),
            start_late_ns: facts.start_late_ns,
            first_reactor: self.tallies.len() as u32,
            reactors: tallies.len() as u32,
            cut_off,
        };
        let windows = if cut_off { &mut self.cut_windows } else { &mut self.windows };
        windows.add(at(facts.window_start), at(facts.window_end), facts.window_by_requests);
        let begun = (start_ns, facts.start_monotonic_ns);
        self.begun = Some(self.begun.map_or(begun, |first| first.min(begun)));
        let first_second = nearest_second(facts.start_realtime_ns, offset_ns);
        for tally in tallies {
            self.tally(tally, start_ns, first_second);
        }
        self.pooled.add(&facts.pooled);
        self.host = both(self.host, facts.host);
        if !cut_off {
            note(&mut self.drivers, &facts.driver);
            note(&mut self.rings, &facts.ring);
        }
        self.places.push(place);
        self.join(facts, cut_off);
        place
    }

    /// What is neither a sum nor a time.
    fn join(&mut self, facts: Facts, cut_off: bool) {
        let facts = Facts { pooled: Pooled::default(), ..facts };
        let Some(base) = &mut self.base else {
            self.base = Some(Facts { interrupted: facts.interrupted && !cut_off, ..facts });
            return;
        };
        base.interrupted |= facts.interrupted && !cut_off;
        base.kernel_stamps &= facts.kernel_stamps;
        base.start_late_ns = base.start_late_ns.max(facts.start_late_ns);
        base.resolve_ns = base.resolve_ns.max(facts.resolve_ns);
        base.ramp_ns = base.ramp_ns.max(facts.ramp_ns);
    }

    /// Keeps what is told of one reactor; its histograms go into those of all.
    fn tally(&mut self, mut tally: Tally, start_ns: u64, first_second: u64) {
        tally.reactor = self.tallies.len() as u32;
        tally.last_end = start_ns.saturating_add(tally.last_end);
        self.network.add(&tally.network.take());
        let classes = std::mem::take(&mut tally.classes);
        if self.classes.len() < classes.len() {
            self.classes.resize(classes.len(), ClassTally::default());
        }
        for (sum, class) in self.classes.iter_mut().zip(&classes) {
            sum.add(class);
        }
        self.tallies.push(tally);
        self.first_seconds.push(first_second);
    }

    /// The facts of all, and where each lies; `None` of nothing. The run began with the first of them,
    /// and its measured part goes from the first beginning to the last end of those of the shards that
    /// came to theirs.
    #[must_use]
    pub fn finish(self) -> Option<(Facts, Vec<Place>)> {
        let base = self.base?;
        let (start, start_monotonic_ns) = self.begun?;
        let (window_start, window_end) = self.windows.span.or(self.cut_windows.span)?;
        let window_by_requests = match self.windows.span {
            Some(_) => self.windows.by_requests,
            None => self.cut_windows.by_requests,
        };
        let mut tallies = self.tallies;
        for (tally, first) in tallies.iter_mut().zip(self.first_seconds) {
            tally.last_end = tally.last_end.saturating_sub(start);
            move_seconds(&mut tally.seconds, first, start / NS_PER_S);
        }
        if let Some(first) = tallies.first_mut() {
            (first.network, first.classes) = (self.network, self.classes);
        }
        let last = |of: fn(&Place) -> u64| self.places.iter().map(of).max().unwrap_or(start);
        let load = self.places.iter().map(|place| place.load_ns).min().unwrap_or(start);
        let facts = Facts {
            start_monotonic_ns,
            start_realtime_ns: start,
            load_start: load - start,
            window_start: window_start.saturating_sub(start),
            window_end: window_end.saturating_sub(start),
            window_by_requests,
            end: last(|place| place.end_ns) - start,
            driver: joined(&self.drivers, &base.driver),
            ring: joined(&self.rings, &base.ring),
            tallies,
            pooled: self.pooled,
            host: self.host,
            ceiling: None,
            ..base
        };
        Some((facts, self.places))
    }
}

/// The whole second, on the common axis, that is nearest to the one in which a host began.
fn nearest_second(realtime_ns: u64, offset_ns: i64) -> u64 {
    let second = realtime_ns / NS_PER_S * NS_PER_S;
    super::on_axis(second, offset_ns).saturating_add(NS_PER_S / 2) / NS_PER_S
}

/// `seconds` that begin with the second `first` begin with `base`.
fn move_seconds(seconds: &mut Vec<Second>, first: u64, base: u64) {
    if first >= base {
        let before = usize::try_from(first - base).unwrap_or(0);
        seconds.splice(0..0, std::iter::repeat_n(Second::default(), before));
        return;
    }
    // What came before the run's first second counts in it.
    let early = usize::try_from(base - first).unwrap_or(usize::MAX).min(seconds.len());
    let early: Vec<Second> = seconds.drain(..early).collect();
    if seconds.is_empty() && !early.is_empty() {
        seconds.push(Second::default());
    }
    if let Some(sum) = seconds.first_mut() {
        early.iter().for_each(|second| sum.add(second));
    }
}

fn note(words: &mut Vec<String>, word: &str) {
    if !words.iter().any(|known| known == word) {
        words.push(word.to_owned());
    }
}

/// Each word once; `otherwise` where there is none.
fn joined(words: &[String], otherwise: &str) -> String {
    if words.is_empty() { otherwise.to_owned() } else { words.join(", ") }
}

/// The worse share, and sums of what was counted.
fn both(one: Watched, other: Watched) -> Watched {
    let steal = one.steal_share.into_iter().chain(other.steal_share);
    Watched {
        steal_share: steal.filter(|share| share.is_finite()).reduce(f64::max),
        softnet: sum(one.softnet, other.softnet, |one, other| Softnet {
            dropped: one.dropped.saturating_add(other.dropped),
            squeezed: one.squeezed.saturating_add(other.squeezed),
        }),
        tcp: sum(one.tcp, other.tcp, |one, other| TcpLosses {
            dropped: one.dropped.saturating_add(other.dropped),
            windows_closed: one.windows_closed.saturating_add(other.windows_closed),
        }),
    }
}

fn sum<T>(one: Option<T>, other: Option<T>, add: fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(add(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
