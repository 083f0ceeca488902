//! The search for the highest load that keeps objectives: which load is tried next, and for how long,
//! from what was seen so far. No clock, no server: whoever carries it out reports what was seen.
//!
//! ```text
//! double (halve) until the objectives break (hold)    by what the samples lean to: fast
//!   └─► bisect to the precision                       likewise
//!         └─► run both ends longer until they are sure; if that turns one over, bisect again
//! ```
//! Only sure ends make the boundary, so noise makes a search slower, or its interval wider, and not
//! wrong. Several tiers of objectives are served one after the other, each from all that was seen.

mod bracket;
mod report;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::measure::{Decision, Evidence};
use bracket::Bracket;
pub use report::{ProbeReport, SEARCH_SCHEMA, SearchReport, Tier, TierReport};

/// Normal quantiles for the k-th look at one load: all looks at it together err with 2 %, of which the
/// k-th may spend 2 % / (k (k + 1)), half on each side. A search has about four loads so close to the
/// boundary that they may err, two on either side of it, where one kind of error is possible: about 4 %
/// in all.
const Z_OF_LOOK: [f64; 8] = [2.5758, 2.9352, 3.1440, 3.2905, 3.4029, 3.4941, 3.5708, 3.6370];

/// What is searched for, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpec {
    /// The first load tried.
    pub start: f64,
    /// No load below this is tried.
    pub least: f64,
    /// None above this.
    pub most: f64,
    /// Only whole loads are: users.
    pub whole: bool,
    /// The boundary is to be known to this share: 0.05 is 5 %.
    pub precision: f64,
    /// The first look at a load takes so long, ns.
    pub look_ns: u64,
    /// All looks at one load together take no longer than this, ns.
    pub longest_ns: u64,
    /// So many loads are tried, at most.
    pub probes_max: usize,
    /// Tiers of objectives.
    pub tiers: usize,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// The load.
    pub value: f64,
    /// Which look at it this is, from 1.
    pub number: usize,
    /// How long, ns.
    pub length_ns: u64,
}

/// A load that was tried, over all looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The load.
    pub value: f64,
    /// Looks at it.
    pub looks: usize,
    /// How long they were together, ns.
    pub length_ns: u64,
    /// For each tier what is known of each of its objectives; `None` without a sample.
    pub evidence: Vec<Vec<Option<Evidence>>>,
    /// The client was not good enough there, so nothing is decided and nothing above is tried.
    pub is_invalid: bool,
}

/// How a load stands to one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    decision: Decision,
    leans_to_pass: bool,
}

/// Where the boundary of a tier lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boundary {
    /// The highest load that surely kept the objectives, below every load that surely did not; null if
    /// none did.
    pub low: Option<f64>,
    /// The lowest load that surely broke one; null if none did.
    pub high: Option<f64>,
    /// The boundary as the samples lean: the geometric mean of the closest pair; null where only one
    /// side was seen.
    pub estimate: Option<f64>,
    /// Whether `high` is within the precision of `low`.
    pub is_precise: bool,
    /// A load above `high` surely kept the objectives: the server did not behave the same each time.
    pub is_contradicted: bool,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    spec: SearchSpec,
    probes: Vec<Probe>,
}

impl Probe {
    /// What is decided on one objective of a tier.
    #[must_use]
    pub fn decision(&self, tier: usize, objective: usize) -> Decision {
        let known = self.evidence.get(tier).and_then(|all| all.get(objective)).copied().flatten();
        known.map_or(Decision::Unsure, |evidence| evidence.decide(z_of(self.looks)))
    }

    /// What is decided on a tier: it fails with one objective and passes with all.
    #[must_use]
    pub fn verdict(&self, tier: usize) -> Decision {
        self.standing(tier).decision
    }

    /// Whether the samples alone keep the objectives of a tier, however few they are.
    #[must_use]
    pub fn leans_to_pass(&self, tier: usize) -> bool {
        self.standing(tier).leans_to_pass
    }

    fn standing(&self, tier: usize) -> Standing {
        let objectives = self.evidence.get(tier).map_or(&[][..], Vec::as_slice);
        if self.is_invalid {
            return Standing { decision: Decision::Unsure, leans_to_pass: false };
        }
        let each = (0..objectives.len()).map(|at| self.decision(tier, at));
        let decision = each.fold(Decision::Pass, |all, one| match (all, one) {
            (Decision::Fail, _) | (_, Decision::Fail) => Decision::Fail,
            (Decision::Unsure, _) | (_, Decision::Unsure) => Decision::Unsure,
            _ => Decision::Pass,
        });
        let leans = objectives.iter().all(|one| one.is_some_and(|one| one.leans_to_pass()));
        Standing { decision, leans_to_pass: leans && !objectives.is_empty() }
    }

    /// Objectives of a tier that a load breaks, as its samples lean, the surely broken first.
    #[must_use]
    pub fn broken(&self, tier: usize) -> Vec<usize> {
        let objectives = self.evidence.get(tier).map_or(&[][..], Vec::as_slice);
        let leans = |at: &usize| objectives[*at].is_some_and(|one| !one.leans_to_pass());
        let mut broken: Vec<usize> = (0..objectives.len()).filter(leans).collect();
        broken.sort_by_key(|&at| self.decision(tier, at) != Decision::Fail);
        broken
    }
}

/// The normal quantile for a look.
fn z_of(look: usize) -> f64 {
    Z_OF_LOOK[look.clamp(1, Z_OF_LOOK.len()) - 1]
}

impl Search {
    /// A search that has seen nothing.
    #[must_use]
    pub fn new(spec: SearchSpec) -> Self {
        Self { spec, probes: Vec::new() }
    }

    /// Loads that were tried, in that order.
    #[must_use]
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// What is to be done next; `None` when all tiers are known as well as may be.
    #[must_use]
    pub fn next(&self) -> Option<Look> {
        (0..self.spec.tiers.max(1)).find_map(|tier| self.next_of(tier))
    }

    /// A look at `value` of `length_ns` was had, and said this of each objective of each tier. One at
    /// which the client was not good enough says nothing: of a load that was looked at well before it
    /// costs the time, and a load that never was is one that the client cannot carry.
    pub fn saw(
        &mut self,
        value: f64,
        length_ns: u64,
        evidence: Vec<Vec<Option<Evidence>>>,
        is_invalid: bool,
    ) {
        let Some(known) = self.probes.iter_mut().find(|probe| probe.value == value) else {
            self.probes.push(Probe { value, looks: 1, length_ns, evidence, is_invalid });
            return;
        };
        known.looks += 1;
        known.length_ns = known.length_ns.saturating_add(length_ns);
        if is_invalid {
            return;
        }
        if known.is_invalid {
            (known.is_invalid, known.evidence) = (false, evidence);
            return;
        }
        for (tier, more) in known.evidence.iter_mut().zip(evidence) {
            for (one, more) in tier.iter_mut().zip(more) {
                *one = match (*one, more) {
                    (Some(one), Some(more)) => one.and(more),
                    (one, more) => one.or(more),
                };
            }
        }
    }

    /// Where the boundary of a tier lies, by what was seen so far.
    #[must_use]
    pub fn boundary(&self, tier: usize) -> Boundary {
        let bracket = self.bracket(tier);
        let (low, high) = (bracket.sure_low, bracket.sure_high);
        // A load that the client could not carry says nothing of the server.
        let is_of_server = |load: f64| self.at(load).is_some_and(|probe| !probe.is_invalid);
        let estimate = match (bracket.lean_low, bracket.lean_high) {
            (Some(low), Some(high)) if is_of_server(high) => Some((low * high).sqrt()),
            _ => None,
        };
        Boundary {
            low,
            high,
            estimate,
            is_precise: low.zip(high).is_some_and(|(low, high)| self.is_close(low, high)),
            is_contradicted: bracket.is_contradicted,
        }
    }

    /// The probe at a load.
    #[must_use]
    pub fn at(&self, value: f64) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.value == value)
    }

    fn bracket(&self, tier: usize) -> Bracket {
        let seen = self.probes.iter().map(|probe| (probe.value, probe.standing(tier)));
        Bracket::of(seen)
    }

    /// Whether two loads are as close as they need to be.
    fn is_close(&self, low: f64, high: f64) -> bool {
        // A hair of slack: a step of exactly the precision is close enough.
        high / low <= (1.0 + self.spec.precision) * (1.0 + 1e-9)
            || (self.spec.whole && high - low <= 1.0)
    }

    fn next_of(&self, tier: usize) -> Option<Look> {
        if self.probes.is_empty() {
            return self.look_at(self.spec.start.clamp(self.spec.least, self.spec.most));
        }
        // Above a load that the client cannot carry nothing can be known.
        let ceiling = self.probes.iter().filter(|probe| probe.is_invalid).map(|one| one.value);
        let ceiling = ceiling.fold(f64::INFINITY, f64::min);
        // A load of which nothing is known at all is looked at once more before anything else.
        let is_blank = |probe: &&Probe| {
            let objectives = probe.evidence.get(tier).map_or(&[][..], Vec::as_slice);
            objectives.iter().any(Option::is_none)
        };
        let blank = self.probes.iter().filter(is_blank);
        if let Some(look) = blank.filter_map(|probe| self.longer(tier, probe.value)).next() {
            return Some(look);
        }
        let bracket = self.bracket(tier);
        match (bracket.lean_low, bracket.lean_high) {
            (Some(low), None) => self.above(tier, low, ceiling),
            (None, Some(high)) => self.below(tier, high),
            (Some(low), Some(high)) if !self.is_close(low, high) => {
                self.look_at((low * high).sqrt()).or_else(|| self.certify(tier, (low, high)))
            }
            (Some(low), Some(high)) => self.certify(tier, (low, high)),
            // Only loads that the client cannot carry.
            (None, None) => self.below(tier, ceiling),
        }
    }

    /// The objectives held at `low` and everywhere above.
    fn above(&self, tier: usize, low: f64, ceiling: f64) -> Option<Look> {
        let next = (low * 2.0).min(self.spec.most);
        if next < ceiling && next > low {
            return self.look_at(next);
        }
        if ceiling.is_finite() {
            let between = (low * ceiling).sqrt();
            if !self.is_close(low, ceiling) {
                return self.look_at(between).or_else(|| self.longer(tier, low));
            }
        }
        self.longer(tier, low)
    }

    /// The objectives broke at `high` and everywhere below.
    fn below(&self, tier: usize, high: f64) -> Option<Look> {
        let next = (high / 2.0).max(self.spec.least);
        let next = if self.spec.whole { next.floor().max(self.spec.least) } else { next };
        if next < high { self.look_at(next) } else { self.longer(tier, high) }
    }

    /// Both ends of a close pair run longer until they are sure, or sure ones are as close. Where an end
    /// is as long as it may be and still not sure, a load a step further out is, then one two steps
    /// further, and so on, until one that is close to it is sure.
    fn certify(&self, tier: usize, (low, high): (f64, f64)) -> Option<Look> {
        let bracket = self.bracket(tier);
        if let (Some(low), Some(high)) = (bracket.sure_low, bracket.sure_high)
            && self.is_close(low, high)
        {
            return None;
        }
        let length = |end: f64| self.at(end).map_or(0, |probe| probe.length_ns);
        let is_bounded_low = bracket.sure_low.is_some_and(|sure| self.is_close(sure, low));
        let is_bounded_high = bracket.sure_high.is_some_and(|sure| self.is_close(high, sure))
            || self.at(high).is_none_or(|probe| probe.is_invalid);
        let mut ends = [(low, false, is_bounded_low), (high, true, is_bounded_high)];
        // The end that was looked at for the shorter time is likely the cheaper to settle.
        ends.sort_by_key(|(end, ..)| length(*end));
        ends.into_iter().find_map(|(end, is_high, is_bounded)| {
            let out = || (!is_bounded).then(|| self.further_out(tier, end, is_high)).flatten();
            self.longer(tier, end).or_else(out)
        })
    }

    /// A load some steps out from an end that stays unsure, unless something sure lies before it: one
    /// that was tried already where there is one about there, and where no new one may be tried the next
    /// of those that were.
    fn further_out(&self, tier: usize, end: f64, is_high: bool) -> Option<Look> {
        let bracket = self.bracket(tier);
        let is_before_sure = |value: f64| match is_high {
            true => value > end && bracket.sure_high.is_none_or(|sure| value < sure),
            false => value < end && bracket.sure_low.is_none_or(|sure| value > sure),
        };
        let mut tried: Vec<f64> = self.probes.iter().map(|probe| probe.value).collect();
        tried.retain(|value| is_before_sure(*value));
        tried.sort_by(|one, other| (one / end).ln().abs().total_cmp(&(other / end).ln().abs()));
        let step = 1.0 + self.spec.precision;
        let stepped = [1, 2, 4, 8].into_iter().find_map(|steps| {
            let factor = step.powi(if is_high { steps } else { -steps });
            let value = self.rounded(end * factor, is_high);
            let is_within = (self.spec.least..=self.spec.most).contains(&value);
            if !is_before_sure(value) || !is_within {
                return None;
            }
            let is_near = |one: &&f64| (*one / value).ln().abs() <= step.ln() / 2.0;
            match tried.iter().find(is_near) {
                Some(near) => self.longer(tier, *near),
                None => self.look_at(value),
            }
        });
        stepped.or_else(|| tried.iter().find_map(|value| self.longer(tier, *value)))
    }

    fn rounded(&self, value: f64, up: bool) -> f64 {
        match (self.spec.whole, up) {
            (false, _) => tidy(value),
            (true, true) => value.ceil(),
            (true, false) => value.floor(),
        }
    }

    /// A load that was not tried yet.
    fn look_at(&self, value: f64) -> Option<Look> {
        let value = if self.spec.whole { value.round().max(1.0) } else { tidy(value) };
        let is_new = self.at(value).is_none() && self.probes.len() < self.spec.probes_max;
        is_new.then_some(Look { value, number: 1, length_ns: self.spec.look_ns })
    }

    /// A load that was tried, once more: as long as all looks at it before, so that they double.
    fn longer(&self, tier: usize, value: f64) -> Option<Look> {
        let probe = self.at(value)?;
        let left = self.spec.longest_ns.saturating_sub(probe.length_ns);
        let is_sure = probe.standing(tier).decision != Decision::Unsure;
        let number = probe.looks + 1;
        let is_over =
            probe.is_invalid || is_sure || left < self.spec.look_ns / 2 || number > Z_OF_LOOK.len();
        (!is_over).then(|| Look { value, number, length_ns: probe.length_ns.min(left) })
    }
}

/// Four digits are enough for a load, and can be typed.
fn tidy(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
