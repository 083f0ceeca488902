//! The figures of each class of requests, where there are several.

use serde::{Deserialize, Serialize};

use super::Facts;
use super::distribution::Distribution;
use super::evidence::Shares;
use super::goodput::{GoodputReport, goodput};
use super::judged::Judged;
use super::metric::Request;
use super::part::Part;
use super::rate::Window;
use super::slo::{self, Bench, SloReport};
use super::summary::{Latency, Outcomes, Requests};
use super::tokens::{TokenSums, Tokens};
use crate::record::ClassTally;
use crate::workload::{Class, Workload};

/// All figures of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// The model that it asked for, where it is not the target's.
    pub model: Option<String>,
    /// How its requests ended.
    pub requests: Requests,
    /// Percentiles in which bad requests took longer than anything.
    pub judged: Judged,
    /// Latencies of the successful. Pooled gaps have no intervals here.
    pub latency: Latency,
    /// Token totals.
    pub tokens: Tokens,
    /// Requests that completed in the window, per second.
    pub rps: Option<f64>,
    /// Output tokens that arrived in it, per second.
    pub output_tps: Option<f64>,
    /// Requests that kept every limit of the class; null without limits.
    pub goodput: Option<GoodputReport>,
    /// Objectives of the class; null without any.
    pub slo: Option<SloReport>,
}

/// What is summed up while rows go by.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) outcomes: Outcomes,
    pub(super) tokens: TokenSums,
}

/// The figures of each class; `sums` has an entry for each.
pub(super) fn classes(
    workload: &Workload,
    facts: &Facts,
    requests: &[Request],
    sums: Vec<Sums>,
) -> Vec<ClassReport> {
    if workload.mix.len() < 2 {
        return Vec::new();
    }
    let report = |(number, (class, sums)): (usize, (&Class, Sums))| {
        let mut tally = ClassTally::default();
        let of_reactors = facts.tallies.iter().filter_map(|tally| tally.classes.get(number));
        of_reactors.for_each(|one| tally.add(one));
        let own = requests.iter().filter(|request| usize::from(request.class) == number);
        let own: Vec<Request> = own.cloned().collect();
        report(class, facts, &own, sums, &tally)
    };
    workload.mix.iter().zip(sums).enumerate().map(report).collect()
}

fn report(
    class: &Class,
    facts: &Facts,
    own: &[Request],
    sums: Sums,
    tally: &ClassTally,
) -> ClassReport {
    let window = Window { start: facts.window_start, end: facts.window_end };
    let requests = sums.outcomes.finish(tally.offered, tally.dropped);
    let measured: Vec<&Request> = own.iter().filter(|request| request.is_measured()).collect();
    let part = Part::new(&measured, own, requests.offered, facts.end, &tally.icl, &tally.itl);
    let lost = part.lost();
    let good = goodput(&class.objectives, own, lost, window, facts.end);
    let shares = Shares::of(&requests, good.as_ref());
    let completed = own.iter().filter(|one| one.is_ok() && window.holds(one.completed())).count();
    ClassReport {
        name: class.name.clone().unwrap_or_default(),
        model: class.model.clone(),
        judged: part.judged(),
        latency: part.latency(
            Distribution::from_histogram(&tally.icl),
            Distribution::from_histogram(&tally.itl),
        ),
        tokens: sums.tokens.finish(),
        rps: window.per_second(completed as u64),
        output_tps: window.per_second(tally.window_output_tokens),
        slo: slo::judge(&class.objectives.slo, &Bench { part: &part, tallies: &[], shares }),
        goodput: good,
        requests,
    }
}
