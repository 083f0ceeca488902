//! A place in a JSON file, which knows its path: what is wrong is named.

use serde_json::Value;
use tokclock_engine::measure::compare::Given;
use tokclock_engine::workload::{Metric, Percentile};

/// Longest time that is taken: a year, ns. What is longer is an error of the file.
const NS_MAX: f64 = 365.0 * 86_400e9;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    /// The whole file.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A member that is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        Some(Self { value, path: format!("{}{dot}{name}", self.path) })
    }

    /// The same several levels down.
    pub(super) fn find(&self, names: &[&str]) -> Option<Self> {
        names.iter().try_fold(self.clone(), |at, name| at.get(name))
    }

    /// Its items.
    ///
    /// # Errors
    /// If it is no array.
    pub(super) fn items(&self) -> Result<Vec<Self>, String> {
        let items = self.value.as_array().ok_or_else(|| self.is_no("array"))?;
        let each = items.iter().enumerate();
        Ok(each.map(|(at, value)| Self { value, path: format!("{}[{at}]", self.path) }).collect())
    }

    /// Its number, finite and not negative.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn number(&self) -> Result<f64, String> {
        let number = self.value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.is_no("number of 0 or more"))
    }

    /// The number of a member; `None` if it is not there.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn number_of(&self, name: &str) -> Result<Option<f64>, String> {
        self.get(name).map(|at| at.number()).transpose()
    }

    /// Its number of `unit_ns`, as whole ns.
    ///
    /// # Errors
    /// If it is none, or longer than a year.
    pub(super) fn ns(&self, unit_ns: f64) -> Result<f64, String> {
        let ns = (self.number()? * unit_ns).round();
        if ns <= NS_MAX { Ok(ns) } else { Err(self.is_no("time of less than a year")) }
    }

    /// The names of its members; none if it has none.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.as_object().into_iter().flat_map(|map| map.keys().map(String::as_str))
    }

    /// Its text, if it is one.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// What stands there.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// What it is not, where.
    pub(super) fn is_no(&self, what: &str) -> String {
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        format!("{path} is no {what}")
    }
}

/// A figure without its sample.
pub(super) fn given(metric: Metric, figure: Percentile, value: f64) -> Given {
    Given { metric, figure, value, ci95: [None, None] }
}

/// The percentiles that are compared, as `names` call them, and the mean; those that are there.
///
/// # Errors
/// If one is no number.
pub(super) fn figures(
    at: &At<'_>,
    metric: Metric,
    names: &[(&str, f64)],
    mean: Option<&str>,
    unit_ns: f64,
) -> Result<Vec<Given>, String> {
    let mut all = Vec::new();
    for &(name, q) in names {
        if let Some(at) = at.get(name) {
            all.push(given(metric, Percentile::Quantile(q), at.ns(unit_ns)?));
        }
    }
    if let Some(at) = mean.and_then(|mean| at.get(mean)) {
        all.push(given(metric, Percentile::Mean, at.ns(unit_ns)?));
    }
    Ok(all)
}

/// The usual names of percentiles.
pub(super) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
