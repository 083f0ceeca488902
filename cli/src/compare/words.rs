//! Differences in words.

use tokclock_engine::measure::compare::{ChangeIs, Difference, Overall, Verdict};

use crate::report::text::{NONE, duration, number, percent};

/// Figures that a sentence names, at most.
const NAMED_MAX: usize = 3;

/// A value of a figure with its unit.
pub(crate) fn value(difference: &Difference, value: f64) -> String {
    match difference.unit {
        "ns" => duration(Some(value.round() as u64)),
        "share" => percent(Some(value)),
        _ => number(Some(value)),
    }
}

/// `+12 %`, or `+1.2 points` of a share.
pub(crate) fn change(difference: &Difference) -> String {
    let word = match difference.change_is {
        ChangeIs::Relative => "%",
        ChangeIs::Points => "points",
    };
    difference.change.map_or_else(|| NONE.to_owned(), |change| format!("{} {word}", signed(change)))
}

/// `[+8.0, +17]`, in the unit of the change; an end that is not supported is `?`.
pub(crate) fn interval(difference: &Difference) -> String {
    if difference.interval == [None, None] {
        return NONE.to_owned();
    }
    let [low, high] = difference.interval.map(|end| end.map_or_else(|| "?".to_owned(), signed));
    format!("[{low}, {high}]")
}

/// A share as a signed percentage without its sign of percent.
pub(super) fn signed(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size < 0.005 => "0".to_owned(),
        size if size < 0.995 => format!("{percent:+.2}"),
        size if size < 9.95 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

/// A level as a percentage without needless zeros.
pub(crate) fn level_of(level: f64) -> String {
    let percent = format!("{:.2}", level * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// What is decided on one figure, in words.
pub(crate) fn verdict(difference: &Difference) -> String {
    let is_more = difference.other > difference.base;
    let is_latency = difference.unit == "ns";
    match difference.verdict {
        Verdict::Better | Verdict::Worse if is_latency => {
            if is_more { "slower" } else { "faster" }.to_owned()
        }
        Verdict::Better => if is_more { "higher, better" } else { "lower, better" }.to_owned(),
        Verdict::Worse => if is_more { "higher, worse" } else { "lower, worse" }.to_owned(),
        Verdict::Unsure => "perhaps".to_owned(),
        Verdict::NoInterval => "no interval".to_owned(),
        Verdict::NoDifference => match difference.visible_from {
            Some(half) => format!("none (±{} would show)", signed(half).trim_start_matches('+')),
            None => "none seen".to_owned(),
        },
    }
}

/// One sentence on what changed from A to `letter`. Figures of several loads say at which.
pub(super) fn sentence(
    letter: char,
    overall: Overall,
    level: f64,
    figures: &[(Option<f64>, &Difference)],
) -> String {
    let named = |wanted: Verdict| {
        let mut found: Vec<&(Option<f64>, &Difference)> =
            figures.iter().filter(|one| one.1.verdict == wanted).collect();
        found.sort_by(|a, b| a.1.p_holm.unwrap_or(1.0).total_cmp(&b.1.p_holm.unwrap_or(1.0)));
        let mut words: Vec<String> = found.iter().take(NAMED_MAX).map(|one| phrase(one)).collect();
        if found.len() > NAMED_MAX {
            words.push(format!("{} more", found.len() - NAMED_MAX));
        }
        words.join(", ")
    };
    let is_speed = |wanted: Verdict| {
        let mut found = figures.iter().filter(|one| one.1.verdict == wanted);
        found.any(|one| one.1.unit == "ns")
    };
    match overall {
        Overall::Better => {
            let word = if is_speed(Verdict::Better) { "faster" } else { "better" };
            format!("{letter} is {word} than A: {}", named(Verdict::Better))
        }
        Overall::Worse => {
            let word = if is_speed(Verdict::Worse) { "slower" } else { "worse" };
            format!("{letter} is {word} than A: {}", named(Verdict::Worse))
        }
        Overall::Mixed => format!(
            "{letter} is worse than A in {}; and better in {}",
            named(Verdict::Worse),
            named(Verdict::Better)
        ),
        Overall::NoDifference => {
            format!("no difference between A and {letter} beyond chance, at {}", level_of(level))
        }
        Overall::Unknown => {
            format!("of A and {letter} nothing says how much is chance: no figure has an interval")
        }
    }
}

/// `p95(ttft) +12 % [+8.0, +17]`.
pub(super) fn phrase((at, difference): &(Option<f64>, &Difference)) -> String {
    let at = at.map_or_else(String::new, |value| format!(" at {}", number_of(value)));
    let interval = interval(difference);
    let interval = if interval == NONE { "without an interval".to_owned() } else { interval };
    format!("{}{at} {} {interval}", difference.figure, change(difference))
}

/// A load without needless zeros.
pub(crate) fn number_of(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { number(Some(value)) }
}
