//! The boundary of a tier in a sentence.

use tokclock_engine::measure::curve::Variable;
use tokclock_engine::measure::{Decision, Health};
use tokclock_engine::run::search::{Boundary, ProbeReport, SearchReport};

use super::super::curve::words::{bare, load, loads, share, texts};
use super::super::text::{Page, Tone};

/// A tier and what is to be said of it.
struct Tier<'a> {
    report: &'a SearchReport,
    at: usize,
    boundary: &'a Boundary,
    objectives: &'a [String],
    breached: &'a [String],
}

/// What a sentence begins with, and the sentence.
type Said = ((&'static str, Tone), String);

/// Writes the boundary of the first tier.
pub(super) fn write(page: &mut Page, report: &SearchReport) {
    let tier = Tier {
        report,
        at: 0,
        boundary: &report.boundary,
        objectives: &report.objectives,
        breached: &report.breached,
    };
    tier.write(page, "boundary");
}

/// Writes that of the tier at `at`.
pub(super) fn of_tier(page: &mut Page, label: &str, report: &SearchReport, at: usize) {
    let Some(tier) = report.tiers.get(at) else { return };
    let tier = Tier {
        report,
        at,
        boundary: &tier.boundary,
        objectives: &tier.objectives,
        breached: &tier.breached,
    };
    tier.write(page, label);
}

impl Tier<'_> {
    fn write(&self, page: &mut Page, label: &str) {
        let (word, text) = match (self.boundary.low, self.boundary.high) {
            (Some(low), Some(high)) => self.between(low, high),
            (Some(low), None) => self.only_held(low),
            (None, Some(high)) => self.only_broke(high),
            (None, None) => self.nothing_sure(),
        };
        page.verdict(label, word, &text);
        if self.boundary.is_contradicted {
            self.contradiction(page);
        }
    }

    fn between(&self, low: f64, high: f64) -> Said {
        let estimate = self.boundary.estimate.map_or_else(String::new, |estimate| {
            format!(", at about {} by estimate", bare(estimate))
        });
        let sentence = format!(
            "{} held up to {}, and at {} {} broke: the boundary lies between{estimate}",
            self.they(),
            load(self.variable(), low),
            bare(high),
            self.broken()
        );
        if self.boundary.is_contradicted {
            return (("doubtful:", Tone::Doubtful), sentence);
        }
        if self.boundary.is_precise {
            return (("found:", Tone::Good), sentence);
        }
        let (apart, asked) = (share(high / low - 1.0), share(self.report.precision));
        let unsure = format!(
            "{sentence}. The two are {apart} apart, {asked} was asked for{}",
            self.longer()
        );
        (("not as close as asked:", Tone::Doubtful), unsure)
    }

    fn only_held(&self, low: f64) -> Said {
        let held = format!("{} held up to {}", self.they(), load(self.variable(), low));
        if let Some(estimate) = self.trusted_estimate() {
            return self.one_side_sure(&held, estimate);
        }
        if self.report.limited_by_client.is_some() {
            return (
                ("not reached:", Tone::Doubtful),
                format!("{held}; above that the client, not the server, was the limit"),
            );
        }
        let farther = self.carried().filter(|one| self.at == 0 && one.leans_to_pass);
        let farther = farther.map(|one| one.value).filter(|value| *value > low);
        let farther = farther.reduce(f64::max).map_or_else(String::new, |value| {
            format!(" (and up to {} as far as the samples tell{})", bare(value), self.longer())
        });
        let all = format!(
            "{} held at every load that was tried, up to {}{farther}; the boundary lies beyond",
            self.they(),
            load(self.variable(), low)
        );
        (("not reached:", Tone::Doubtful), all)
    }

    fn only_broke(&self, high: f64) -> Said {
        let (broken, at) = (self.broken(), load(self.variable(), high));
        if let Some(estimate) = self.trusted_estimate() {
            return self.one_side_sure(&format!("{broken} broke at {at}"), estimate);
        }
        // A load above that passed is told apart, as a contradiction.
        let which = if self.boundary.is_contradicted { "no load below" } else { "no load" };
        let none =
            format!("{which} that was tried kept the objectives: {broken} broke at {at} already");
        (("none:", Tone::Bad), none)
    }

    fn one_side_sure(&self, known: &str, estimate: f64) -> Said {
        let about = load(self.variable(), estimate);
        let longer = self.longer();
        let unsure =
            format!("{known}; as far as the samples tell the boundary is at about {about}{longer}");
        (("not sure:", Tone::Doubtful), unsure)
    }

    fn nothing_sure(&self) -> Said {
        if self.report.probes.is_empty() {
            return (("nothing known:", Tone::Bad), "no load was tried".into());
        }
        if self.carried().next().is_none() {
            let none = "the client could not carry any load that was tried";
            return (("nothing known:", Tone::Bad), none.into());
        }
        let sentence = match self.trusted_estimate() {
            Some(estimate) => format!(
                "as far as the samples tell the boundary is at about {}, but they are too small to \
                 decide on any load{}",
                load(self.variable(), estimate),
                self.longer()
            ),
            None => format!("the samples are too small to decide on any load{}", self.longer()),
        };
        (("not sure:", Tone::Doubtful), sentence)
    }

    /// What to do about samples that are too small: nothing where there would have been more.
    fn longer(&self) -> &'static str {
        if self.report.is_complete { ": give a longer --max-duration" } else { "" }
    }

    fn contradiction(&self, page: &mut Page) {
        let decided = |probe: &&ProbeReport| self.decision(probe) == Decision::Pass;
        let passed = self.report.probes.iter().filter(decided).map(|probe| probe.value);
        let beyond = |value: &f64| self.boundary.high.is_some_and(|high| *value > high);
        let mut passed: Vec<f64> = passed.filter(beyond).collect();
        passed.sort_by(f64::total_cmp);
        let at = match passed.as_slice() {
            [] => "a load above the boundary".into(),
            some => format!("{}, above the boundary,", loads(self.variable(), some)),
        };
        let tone = ("contradiction:", Tone::Bad);
        page.verdict(
            "",
            tone,
            &format!("{at} passed: the server did not behave the same each time"),
        );
    }

    fn decision(&self, probe: &ProbeReport) -> Decision {
        match self.at {
            0 => probe.decision,
            at => probe.tiers.get(at).copied().unwrap_or(Decision::Unsure),
        }
    }

    /// The estimate, unless one of its sides may be a load that the client could not carry: that says
    /// nothing of the server.
    fn trusted_estimate(&self) -> Option<f64> {
        let estimate = self.boundary.estimate?;
        if self.report.limited_by_client.is_none() || self.boundary.high.is_some() {
            return Some(estimate);
        }
        // Which way a load leans is known of the first tier alone.
        let breaks = |probe: &ProbeReport| {
            probe.decision == Decision::Fail
                || (probe.decision == Decision::Unsure && !probe.leans_to_pass)
        };
        (self.at == 0 && self.carried().any(breaks)).then_some(estimate)
    }

    /// Loads that the client carried.
    fn carried(&self) -> impl Iterator<Item = &ProbeReport> {
        let is_beyond = |probe: &ProbeReport| self.report.limited_by_client == Some(probe.value);
        let probes = self.report.probes.iter();
        probes.filter(move |probe| probe.client != Health::Invalid && !is_beyond(probe))
    }

    fn variable(&self) -> Variable {
        self.report.variable
    }

    /// The objectives, by name if there is one alone.
    fn they(&self) -> String {
        match self.objectives {
            [only] => texts(std::slice::from_ref(only)),
            _ => "the objectives".into(),
        }
    }

    fn broken(&self) -> String {
        match self.breached {
            [] => "one of them".into(),
            some => texts(some),
        }
    }
}
