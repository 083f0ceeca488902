//! From a page of Prometheus' text to figures under common names.

use std::collections::BTreeMap;

use prometheus_parse::{Labels, Scrape, Value};

use super::figures::{Gauge, Pair};
use super::kinds::{Names, TABLE};
use super::reading::Counted;

/// Ranks of one engine say the same: the first is enough.
const RANKS: [&str; 3] = ["tp_rank", "pp_rank", "moe_ep_rank"];

/// What a page says, under common names; `None` if it is no such page, or knows no name of ours.
#[must_use]
pub fn counted(page: &str) -> Option<Counted> {
    // The library takes no colon in a name, and no value has one.
    let lines = page.lines().map(|line| Ok(line.replace(':', "_")));
    let page = Page(Scrape::parse(lines).ok()?);
    let names = TABLE.iter().find(|names| page.has(names.marks))?;
    let counted = page.counted(names);
    (!counted.is_empty()).then_some(counted)
}

struct Page(Scrape);

impl Page {
    /// Whether a name begins in one of these ways.
    fn has(&self, marks: &[&str]) -> bool {
        let mut names = self.0.samples.iter().map(|sample| sample.metric.as_str());
        names.any(|name| marks.iter().any(|mark| name.starts_with(mark)))
    }

    fn counted(&self, names: &Names) -> Counted {
        let mut counted = Counted::nothing(names.kind);
        for (gauge, expression) in names.gauges {
            if counted.gauge(*gauge).is_some() {
                continue;
            }
            if *gauge == Gauge::KvUse {
                let all = self.values(expression);
                counted.kv_use_max = all.iter().copied().reduce(f64::max);
                let sum = all.iter().copied().reduce(|sum, one| sum + one);
                counted.set_gauge(*gauge, sum.map(|sum| sum / all.len() as f64));
            } else {
                counted.set_gauge(*gauge, self.sum(expression));
            }
        }
        for (counter, expression) in names.counters {
            if counted.counter(*counter).is_none() {
                counted.set_counter(*counter, self.sum(expression));
            }
        }
        for (pair, expression, unit) in names.pairs {
            if counted.pair(*pair).is_some() {
                continue;
            }
            let found = self.pair(expression);
            counted.set_pair(*pair, found.map(|(sum, count)| (sum * unit, count)));
            if counted.pair(*pair).is_some() && Pair::WITH_BUCKETS.contains(pair) {
                counted.set_buckets(*pair, self.buckets(expression, *unit));
            }
        }
        counted
    }

    /// A sum and its count.
    fn pair(&self, expression: &str) -> Option<(f64, f64)> {
        let (sum, count) = match expression.split_once('/') {
            Some((sum, count)) => (sum.to_owned(), count.to_owned()),
            None => {
                let (name, labels) = expression.split_at(name_end(expression));
                (format!("{name}_sum{labels}"), format!("{name}_count{labels}"))
            }
        };
        Some((self.sum(&sum)?, self.sum(&count)?))
    }

    /// The sum of all series of all names of an expression; `None` if there is none at all.
    fn sum(&self, expression: &str) -> Option<f64> {
        let all = expression.split('+').flat_map(|term| self.values(term));
        all.reduce(|sum, one| sum + one)
    }

    /// The values of the series that a term means.
    fn values(&self, term: &str) -> Vec<f64> {
        let (name, wanted) = term.split_at(name_end(term));
        let fitting = |labels: &Labels| is_first_rank(labels) && has_label(labels, wanted);
        let own = self.0.samples.iter().filter(|one| one.metric == name && fitting(&one.labels));
        let value = |value: &Value| match value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => Some(*value),
            _ => None,
        };
        own.filter_map(|one| value(&one.value)).filter(|value| value.is_finite()).collect()
    }

    /// The buckets of a histogram over all its series, in the order of their bounds.
    fn buckets(&self, name: &str, unit: f64) -> Vec<(f64, f64)> {
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        let mut add = |bound: f64, count: f64| {
            // Bounds are not negative, so their bits have their order.
            let bound = (bound * unit).abs();
            if !bound.is_nan() {
                sums.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += count;
            }
        };
        let loose = format!("{name}_bucket");
        for sample in self.0.samples.iter().filter(|one| is_first_rank(&one.labels)) {
            match &sample.value {
                Value::Histogram(counts) if sample.metric == name => {
                    let own = counts.iter().filter(|one| one.less_than >= 0.0);
                    own.for_each(|one| add(one.less_than, one.count));
                }
                Value::Untyped(count) if sample.metric == loose => {
                    let bound = sample.labels.get("le").and_then(|bound| bound.parse().ok());
                    let bound = bound.filter(|bound: &f64| *bound >= 0.0);
                    add(bound.unwrap_or(f64::NAN), *count);
                }
                _ => {}
            }
        }
        let all: Vec<(f64, f64)> = sums.into_values().collect();
        // Half a histogram is none.
        if all.iter().all(|(_, count)| count.is_finite()) { all } else { Vec::new() }
    }
}

/// Where the name of a term ends and its label begins.
fn name_end(term: &str) -> usize {
    term.find('{').unwrap_or(term.len())
}

fn is_first_rank(labels: &Labels) -> bool {
    RANKS.iter().all(|rank| labels.get(rank).is_none_or(|rank| rank == "0" || rank.is_empty()))
}

/// Whether a series has the label `{name=value}`, if one is wanted.
fn has_label(labels: &Labels, wanted: &str) -> bool {
    let wanted = wanted.trim_start_matches('{').trim_end_matches('}');
    wanted.split_once('=').is_none_or(|(name, value)| labels.get(name) == Some(value))
}
