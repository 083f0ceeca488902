//! Between which loads the boundary of a tier lies: surely, and as samples lean.

use super::Standing;
use crate::measure::Decision;

/// Between which loads a boundary lies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Bracket {
    /// The highest load that surely passes, below `sure_high`.
    pub(super) sure_low: Option<f64>,
    /// The lowest that surely fails.
    pub(super) sure_high: Option<f64>,
    /// The highest load that passes or leans to, below `lean_high`.
    pub(super) lean_low: Option<f64>,
    /// The lowest load that fails or leans to, above every load that surely passes.
    pub(super) lean_high: Option<f64>,
    /// A load above `sure_high` surely passes.
    pub(super) is_contradicted: bool,
}

impl Bracket {
    /// By what was seen.
    pub(super) fn of(seen: impl Iterator<Item = (f64, Standing)> + Clone) -> Self {
        let least =
            |found: Option<f64>, value: f64| Some(found.map_or(value, |one| one.min(value)));
        let most = |found: Option<f64>, value: f64| Some(found.map_or(value, |one| one.max(value)));
        let of = |wanted: Decision| {
            seen.clone().filter(move |(_, one)| one.decision == wanted).map(|(value, _)| value)
        };
        let sure_high = of(Decision::Fail).fold(None, least);
        let is_below = |value: &f64| sure_high.is_none_or(|high| *value < high);
        let sure_low = of(Decision::Pass).filter(is_below).fold(None, most);
        let is_contradicted = of(Decision::Pass).any(|value| !is_below(&value));
        // What is unsure counts by its lean, where nothing sure says otherwise.
        let unsure = |passes: bool| {
            let is_it = move |one: &Standing| {
                one.decision == Decision::Unsure && one.leans_to_pass == passes
            };
            seen.clone().filter(move |(_, one)| is_it(one)).map(|(value, _)| value)
        };
        let above_sure = |value: &f64| sure_low.is_none_or(|low| *value > low);
        let lean_high = unsure(false).filter(above_sure).fold(sure_high, least);
        let is_below = |value: &f64| lean_high.is_none_or(|high| *value < high);
        let lean_low = unsure(true).filter(is_below).fold(sure_low, most);
        Self { sure_low, sure_high, lean_low, lean_high, is_contradicted }
    }
}
