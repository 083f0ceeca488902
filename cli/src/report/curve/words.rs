//! Loads and figures in words, as the pages of curves and of searches say them.

use tokclock_engine::measure::curve::{Figures, Variable};

use super::super::text::{NONE, count, duration, escape, number, percent};

/// What stands in a table for a judged percentile that is longer than anything.
pub(in super::super) const LOST: &str = ">>";
/// What it means.
pub(in super::super) const LOST_MEANS: &str =
    ">> longer than anything: the percentile lies among requests that failed, were dropped or cut";
/// From here on a number is shown by its power of ten, so that it stays short.
const LARGE: f64 = 1e7;
/// Below this too, since its digits would all be 0.
const SMALL: f64 = 0.001;

/// A rate or another number in about four digits and at most nine columns.
pub(in super::super) fn rate(value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        None => NONE.into(),
        Some(value) if value != 0.0 && (value.abs() < SMALL || value.abs() >= LARGE) => {
            format!("{value:.2e}")
        }
        value => number(value),
    }
}

/// A number without the zeros that it would end with.
pub(in super::super) fn trimmed(value: f64) -> String {
    let shown = rate(Some(value));
    if shown.contains('.') && !shown.contains('e') {
        return shown.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    shown
}

/// A share that a person gave: `5 %`.
pub(in super::super) fn share(value: f64) -> String {
    format!("{} %", trimmed(value * 100.0))
}

/// A load without its unit: whole ones without decimals.
pub(in super::super) fn bare(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..LARGE).contains(&value) {
        count(value as u64)
    } else {
        rate(Some(value))
    }
}

/// The unit of a load, after `value` of them.
pub(in super::super) fn unit(variable: Variable, value: f64) -> &'static str {
    match variable {
        Variable::Concurrency if value == 1.0 => "user",
        Variable::Concurrency => "users",
        Variable::Rate => "requests/s",
    }
}

/// The head of a column of loads.
pub(in super::super) fn head(variable: Variable) -> &'static str {
    match variable {
        Variable::Concurrency => "users",
        Variable::Rate => "load\nreq/s",
    }
}

/// A load: `8 users`.
pub(in super::super) fn load(variable: Variable, value: f64) -> String {
    format!("{} {}", bare(value), unit(variable, value))
}

/// Several: `8, 16 and 32 users`.
pub(in super::super) fn loads(variable: Variable, values: &[f64]) -> String {
    let Some((last, others)) = values.split_last() else { return NONE.into() };
    let others: Vec<String> = others.iter().map(|value| bare(*value)).collect();
    let and = if others.is_empty() { "" } else { " and " };
    format!("{}{and}{}", others.join(", "), load(variable, *last))
}

/// A range: `from 1 to 8 users`.
pub(in super::super) fn range(variable: Variable, from: f64, to: f64) -> String {
    if from == to {
        return format!("at {}", load(variable, to));
    }
    format!("from {} to {}", bare(from), load(variable, to))
}

/// Texts that a person or a server wrote, one after the other.
pub(in super::super) fn texts(texts: &[String]) -> String {
    texts.iter().map(|text| escape(text)).collect::<Vec<_>>().join(", ")
}

/// Judged latencies of which some may be longer than anything.
#[derive(Clone, Copy)]
pub(in super::super) enum Judged {
    TtftP50,
    TtftP95,
    ItlP95,
}

impl Judged {
    /// Its value, ns.
    pub(in super::super) fn of(self, figures: &Figures) -> Option<u64> {
        match self {
            Self::TtftP50 => figures.ttft_p50,
            Self::TtftP95 => figures.ttft_p95,
            Self::ItlP95 => figures.itl_p95,
        }
    }

    /// Whether it is absent since it lies among requests that did not end well, and not for want of a
    /// sample. Absent of the judged and there of the successful, it does; where nothing was served,
    /// all failed.
    pub(in super::super) fn is_lost(self, figures: &Figures) -> bool {
        let was_asked = figures.requests.is_some_and(|requests| requests > 0);
        let nothing_was_served =
            figures.error_rate == Some(1.0) || (was_asked && figures.served_e2e_p50.is_none());
        let ttft = |value: Option<u64>| {
            value.is_none() && (figures.served_ttft_p50.is_some() || nothing_was_served)
        };
        match self {
            Self::TtftP50 => ttft(figures.ttft_p50),
            Self::TtftP95 => ttft(figures.ttft_p95),
            Self::ItlP95 => {
                figures.itl_p95.is_none() && (figures.itl_p50.is_some() || ttft(figures.ttft_p95))
            }
        }
    }

    fn say(self, name: &str, figures: &Figures) -> Option<String> {
        match self.of(figures) {
            Some(ns) => Some(format!("{name} {}", duration(Some(ns)))),
            None if self.is_lost(figures) => Some(format!("{name} longer than anything")),
            None => None,
        }
    }
}

/// The figures of a point in one sentence, those there are.
pub(in super::super) fn figures(of: &Figures) -> String {
    let rates = [
        (of.rps, "requests/s served"),
        (of.output_tps, "output tokens/s"),
        (of.goodput_rps, "good requests/s"),
    ];
    let rates = rates.into_iter().filter_map(|(value, name)| {
        value.filter(|value| value.is_finite()).map(|value| format!("{} {name}", rate(Some(value))))
    });
    let mut parts: Vec<String> = rates.collect();
    parts.extend(Judged::TtftP50.say("TTFT p50", of));
    parts.extend(Judged::TtftP95.say("TTFT p95", of));
    parts.extend(Judged::ItlP95.say("ITL p95", of));
    if of.per_user_tps.is_some() {
        parts.push(format!("{} tokens/s per user", rate(of.per_user_tps)));
    }
    match of.error_rate.filter(|share| share.is_finite()) {
        Some(0.0) => parts.push("none failed".into()),
        Some(share) => parts.push(format!("{} failed", percent(Some(share)))),
        None => {}
    }
    if parts.is_empty() { "no figures".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_their_unit_and_no_needless_digits() {
        assert_eq!(load(Variable::Concurrency, 1.0), "1 user");
        assert_eq!(load(Variable::Rate, 41.2), "41.20 requests/s");
        assert_eq!(loads(Variable::Concurrency, &[8.0, 16.0, 32.0]), "8, 16 and 32 users");
        assert_eq!(range(Variable::Concurrency, 1.0, 8.0), "from 1 to 8 users");
        assert_eq!(range(Variable::Concurrency, 1.0, 1.0), "at 1 user");
    }

    #[test]
    fn numbers_stay_short_and_never_vanish() {
        assert_eq!(rate(Some(0.000_5)), "5.00e-4");
        assert_eq!(rate(Some(1e300)), "1.00e300");
        assert_eq!(rate(Some(0.0)), "0");
        assert_eq!((rate(Some(f64::NAN)), rate(Some(f64::INFINITY))), ("-".into(), "-".into()));
        assert_eq!(bare(f64::INFINITY), "-");
        assert_eq!(bare(4e9), "4.00e9");
        assert_eq!((share(0.05), share(0.025)), ("5 %".into(), "2.5 %".into()));
        assert_eq!(
            (trimmed(0.0), trimmed(100.0), trimmed(2e8)),
            ("0".into(), "100".into(), "2.00e8".into())
        );
    }

    #[test]
    fn a_percentile_among_the_failed_is_told_from_a_missing_one() {
        let none = Figures::default();
        assert!(!Judged::TtftP95.is_lost(&none), "no sample");
        let some = Figures { served_ttft_p50: Some(1), ..none };
        assert!(Judged::TtftP95.is_lost(&some) && Judged::ItlP95.is_lost(&some));
        let all_failed = Figures { error_rate: Some(1.0), ..Figures::default() };
        assert!(Judged::TtftP95.is_lost(&all_failed));
        assert_eq!(
            figures(&all_failed),
            "TTFT p50 longer than anything, TTFT p95 longer than anything, \
             ITL p95 longer than anything, 100.0 % failed"
        );
    }
}
