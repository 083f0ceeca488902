//! The base and another side: which figures are held against each other, and what comes of it.

use tokclock_engine::measure::compare::{
    Basis, Difference, Observed, Overall, Plan, Quantity, differences, known, overall, settle,
};
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::run::search::{Boundary, SearchReport};
use tokclock_engine::workload::Metric;

use super::drift;
use super::result::{Curves, Group, Pair};
use super::side::{Kind, Side};
use super::words::{number_of, sentence};
use crate::exit::Failure;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// The figures.
    pub(super) quantities: Vec<Quantity>,
    /// Whether ICL may be left out where it is ITL again.
    pub(super) may_drop_icl: bool,
    /// How.
    pub(super) plan: Plan,
}

/// Compares two sides of one kind.
///
/// # Errors
/// A usage error if they are of different kinds.
pub(super) fn pair(base: &Side, other: &Side, asked: &Asked) -> Result<Pair, Failure> {
    match (&base.kind, &other.kind) {
        (Kind::Runs, Kind::Runs) => Ok(of_runs(base, other, asked)),
        (Kind::Sweep(near, near_levels), Kind::Sweep(far, far_levels)) => {
            if near.variable != far.variable {
                return Err(Failure::usage(format!(
                    "A and {} are sweeps over different things: compare over one",
                    other.letter
                )));
            }
            let levels = (near_levels.as_slice(), far_levels.as_slice());
            Ok(of_sweeps((base, near), (other, far), levels, asked))
        }
        (Kind::Search(near), Kind::Search(far)) => Ok(of_searches(other.letter, near, far)),
        _ => Err(Failure::usage(format!(
            "A is a {} and {} is a {}: compare like with like",
            base.word(),
            other.letter,
            other.word()
        ))),
    }
}

fn of_runs(base: &Side, other: &Side, asked: &Asked) -> Pair {
    let observed = |side: &Side| -> Vec<Observed> {
        side.parts.iter().map(|part| part.observed.clone()).collect()
    };
    let (near, far) = (observed(base), observed(other));
    let mut pair = blank(other.letter);
    let quantities = quantities(&[&near, &far], asked, &mut pair.notes);
    let mut figures = differences(&near, &far, &quantities, &asked.plan);
    settle(&mut figures, asked.plan.level);
    pair.not_compared = missing(&figures, (&near, &far), &quantities, other.letter);
    pair.groups = vec![Group { value: None, overall: overall(&figures), figures }];
    if near.len() != far.len() && near.len().min(far.len()) == 1 {
        pair.notes.push(
            "one run stands against several: their requests are taken together, and what differs \
             from run to run does not show"
                .to_owned(),
        );
    } else if near.len() == 1 {
        pair.notes.push(
            "one run on each side: what differs from run to run does not show; several, joined by \
             commas, show it"
                .to_owned(),
        );
    }
    finish(&mut pair, base, other, asked.plan.level);
    pair
}

fn blank(other: char) -> Pair {
    Pair {
        base: 'A',
        other,
        overall: Overall::Unknown,
        sentence: String::new(),
        unit: None,
        groups: Vec::new(),
        not_compared: Vec::new(),
        same_workload: None,
        workload: Vec::new(),
        drift: Vec::new(),
        curves: None,
        boundaries: None,
        notes: Vec::new(),
    }
}

/// What is asked for, without ICL where every event of both sides has one token.
fn quantities(sides: &[&[Observed]], asked: &Asked, notes: &mut Vec<String>) -> Vec<Quantity> {
    let mut runs = sides.iter().copied().flatten();
    let all = asked.quantities.clone();
    if !asked.may_drop_icl || !runs.all(Observed::is_token_per_event) {
        return all;
    }
    notes.push("icl is itl again: every output event has one token".to_owned());
    all.into_iter().filter(|one| one.metric() != Some(Metric::Icl)).collect()
}

/// What is asked for and not compared, by side; what neither has is left out of the list of shares.
fn missing(
    figures: &[Difference],
    (near, far): (&[Observed], &[Observed]),
    asked: &[Quantity],
    letter: char,
) -> Vec<String> {
    let (near, far) = (known(near, asked), known(far, asked));
    let mut lines = Vec::new();
    let mut told: Vec<Metric> = Vec::new();
    for quantity in asked {
        if figures.iter().any(|one| one.figure == *quantity) {
            continue;
        }
        let who = match (near.contains(quantity), far.contains(quantity)) {
            (true, _) => format!("{letter} has none"),
            (_, true) => "A has none".to_owned(),
            _ => "neither side has it".to_owned(),
        };
        let Some(metric) = quantity.metric() else {
            // Most runs have no limits on requests.
            if *quantity != Quantity::GoodputShare
                || near.contains(quantity) != far.contains(quantity)
            {
                lines.push(format!("{quantity}: {who}"));
            }
            continue;
        };
        let of_metric = |one: &&Quantity| one.metric() == Some(metric);
        let is_whole = figures.iter().all(|one| one.figure.metric() != Some(metric));
        if is_whole && asked.iter().filter(of_metric).count() > 1 {
            if !told.contains(&metric) {
                lines.push(format!("{metric}: {who}"));
                told.push(metric);
            }
        } else {
            lines.push(format!("{quantity}: {who}"));
        }
    }
    lines
}

/// Verdict, sentence, drift.
fn finish(pair: &mut Pair, base: &Side, other: &Side, level: f64) {
    let all: Vec<(Option<f64>, &Difference)> = pair
        .groups
        .iter()
        .flat_map(|group| group.figures.iter().map(|one| (group.value, one)))
        .collect();
    pair.overall = overall(all.iter().map(|one| one.1));
    pair.sentence = sentence(pair.other, pair.overall, level, &all);
    let is_runs = all.iter().any(|one| one.1.basis == Basis::Runs);
    pair.unit = Some(if is_runs { "runs" } else { "requests" });
    let (Some(near), Some(far)) = (base.parts.first(), other.parts.first()) else { return };
    (pair.same_workload, pair.workload) = drift::workload(near, far);
    if near.tool == far.tool {
        pair.drift = drift::pinned(near, far);
    } else {
        pair.notes.push(format!(
            "{} and {} do not measure alike: see what is said of each side",
            near.tool, far.tool
        ));
    }
    if let (Some(one), Some(two)) = (drift::seed(near), drift::seed(far))
        && one != two
    {
        pair.notes.push(format!("the seeds differ: {one} and {two}, so that prompts do too"));
    }
}

type Levels = [(f64, std::ops::Range<usize>)];

fn of_sweeps(
    (base, near): (&Side, &Curve),
    (other, far): (&Side, &Curve),
    (near_levels, far_levels): (&Levels, &Levels),
    asked: &Asked,
) -> Pair {
    let mut pair = blank(other.letter);
    let observed = |side: &Side, range: &std::ops::Range<usize>| -> Vec<Observed> {
        side.parts
            .get(range.clone())
            .unwrap_or_default()
            .iter()
            .map(|p| p.observed.clone())
            .collect()
    };
    let whole = |side: &Side| observed(side, &(0..side.parts.len()));
    let quantities = quantities(&[&whole(base), &whole(other)], asked, &mut pair.notes);
    for (value, range) in near_levels {
        let Some((_, same)) = far_levels.iter().find(|(its, _)| its == value) else { continue };
        let sides = (observed(base, range), observed(other, same));
        let figures = differences(&sides.0, &sides.1, &quantities, &asked.plan);
        pair.groups.push(Group { value: Some(*value), overall: Overall::Unknown, figures });
    }
    settle(pair.groups.iter_mut().flat_map(|group| &mut group.figures), asked.plan.level);
    for group in &mut pair.groups {
        group.overall = overall(&group.figures);
    }
    let only = |here: &Levels, there: &Levels| -> Vec<f64> {
        let is_alone = |value: &f64| there.iter().all(|(its, _)| its != value);
        here.iter().map(|(value, _)| *value).filter(is_alone).collect()
    };
    let unmatched = [only(near_levels, far_levels), only(far_levels, near_levels)];
    for (letter, values) in ['A', other.letter].into_iter().zip(&unmatched) {
        if !values.is_empty() {
            let values: Vec<String> = values.iter().map(|value| number_of(*value)).collect();
            pair.not_compared.push(format!("only {letter} has the loads {}", values.join(", ")));
        }
    }
    let point =
        |curve: &Curve| curve.envelope.as_ref()?.operating_point.as_ref().map(|point| point.value);
    pair.curves = Some(Curves {
        unmatched,
        operating_point: [point(near), point(far)],
        knee: [near.knee.best(), far.knee.best()],
    });
    finish(&mut pair, base, other, asked.plan.level);
    pair
}

fn of_searches(letter: char, near: &SearchReport, far: &SearchReport) -> Pair {
    let mut pair = blank(letter);
    let (a, b) = (&near.boundary, &far.boundary);
    pair.overall = if near.variable != far.variable || near.objectives != far.objectives {
        pair.notes.push("they searched for different things: variable or objectives".to_owned());
        Overall::Unknown
    } else {
        apart(a, b)
    };
    let shown = |boundary: &Boundary| {
        let end = |end: Option<f64>, none: &str| end.map_or_else(|| none.to_owned(), number_of);
        format!("between {} and {}", end(boundary.low, "0"), end(boundary.high, "an unknown load"))
    };
    let word = match pair.overall {
        Overall::Better => format!("{letter} carries more than A"),
        Overall::Worse => format!("{letter} carries less than A"),
        Overall::NoDifference => format!("no difference between A and {letter} is sure"),
        _ => format!("A and {letter} cannot be compared"),
    };
    pair.sentence = format!("{word}: the boundary lies {} against {}", shown(b), shown(a));
    pair.boundaries = Some([a.clone(), b.clone()]);
    let of = |report: &SearchReport| {
        report.about.as_ref().and_then(|about| serde_json::to_value(&about.workload).ok())
    };
    pair.same_workload = of(near).zip(of(far)).map(|(near, far)| near == far);
    pair
}

/// Two boundaries differ if the loads between which they surely lie do not overlap.
fn apart(base: &Boundary, other: &Boundary) -> Overall {
    let ends =
        |boundary: &Boundary| (boundary.low.unwrap_or(0.0), boundary.high.unwrap_or(f64::INFINITY));
    let ((a_low, a_high), (b_low, b_high)) = (ends(base), ends(other));
    if b_low > a_high {
        Overall::Better
    } else if b_high < a_low {
        Overall::Worse
    } else {
        Overall::NoDifference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_differ_where_they_do_not_overlap() {
        let of = |low, high| Boundary {
            low,
            high,
            estimate: None,
            is_precise: true,
            is_contradicted: false,
        };
        let base = of(Some(8.0), Some(10.0));
        assert_eq!(apart(&base, &of(Some(9.0), Some(12.0))), Overall::NoDifference);
        assert_eq!(apart(&base, &of(Some(11.0), None)), Overall::Better);
        assert_eq!(apart(&base, &of(None, Some(7.0))), Overall::Worse);
    }
}
