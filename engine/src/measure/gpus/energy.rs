//! Energy over a window: from a counter that is looked at now and then, or from power.

use super::super::rate::Window;

/// A straight line between two looks, cut at the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Covered {
    /// Energy, J.
    pub(super) joules: f64,
    /// Where the first piece begins.
    pub(super) from: u64,
    /// Where the last piece ends.
    pub(super) to: u64,
    /// How much of that the pieces cover, ns.
    pub(super) ns: u64,
}

impl Covered {
    /// Energy for each second that is covered, W.
    pub(super) fn watts(&self) -> f64 {
        self.joules / (self.ns as f64 / 1e9)
    }
}

/// Adds a piece to what is covered.
fn put(all: &mut Option<Covered>, (from, to): (u64, u64), joules: f64) {
    match all {
        None => *all = Some(Covered { joules, from, to, ns: to - from }),
        Some(all) => {
            all.joules += joules;
            (all.to, all.ns) = (to, all.ns + (to - from));
        }
    }
}

/// The part of a piece that lies in the window; none if there is none.
fn cut(window: Window, from: u64, to: u64) -> Option<(u64, u64)> {
    let (from, to) = (from.max(window.start), to.min(window.end));
    (from < to).then_some((from, to))
}

/// The sum of power over time: straight lines between looks.
#[derive(Debug, Clone)]
pub(super) struct ByPower {
    window: Window,
    /// Looks farther apart than this tell nothing of the time between them, ns.
    gap_max_ns: u64,
    last: Option<(u64, f64)>,
    pub(super) covered: Option<Covered>,
}

impl ByPower {
    pub(super) fn new(window: Window, gap_max_ns: u64) -> Self {
        Self { window, gap_max_ns, last: None, covered: None }
    }

    pub(super) fn add(&mut self, at: u64, watts: f64) {
        let Some((before, was)) = self.last.replace((at, watts)) else { return };
        if at.saturating_sub(before) > self.gap_max_ns {
            return;
        }
        if let Some((from, to)) = cut(self.window, before, at) {
            let slope = (watts - was) / (at - before) as f64;
            let middle = was + slope * ((from - before) as f64 + (to - from) as f64 / 2.0);
            put(&mut self.covered, (from, to), middle * (to - from) as f64 / 1e9);
        }
    }
}

/// The difference of a counter that only grows: straight lines between the looks at which it was seen
/// to have changed, since a value that stands still was true at some time before.
#[derive(Debug, Clone)]
pub(super) struct ByCounter {
    window: Window,
    /// The latest look at which it had changed, or the first look.
    change: Option<(u64, f64)>,
    last: Option<f64>,
    has_moved: bool,
    pub(super) covered: Option<Covered>,
}

impl ByCounter {
    pub(super) fn new(window: Window) -> Self {
        Self { window, change: None, last: None, has_moved: false, covered: None }
    }

    pub(super) fn add(&mut self, at: u64, joules: f64) {
        let Some(last) = self.last.replace(joules) else {
            self.change = Some((at, joules));
            return;
        };
        if last.to_bits() == joules.to_bits() {
            if !self.has_moved {
                // Nobody knows for how long the first value had stood.
                self.change = None;
            }
            return;
        }
        self.has_moved = true;
        let Some((before, was)) = self.change.replace((at, joules)) else { return };
        // One that went back was begun anew.
        if let Some((from, to)) = cut(self.window, before, at).filter(|_| joules > was) {
            let rate = (joules - was) / (at - before) as f64;
            put(&mut self.covered, (from, to), rate * (to - from) as f64);
        }
    }
}
