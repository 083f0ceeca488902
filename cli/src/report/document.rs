//! Results as one JSON document, each as its own file holds it.

use serde::Serialize;
use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::run::search::SearchReport;

use crate::results::{Kept, What};

/// Name and version of the schema.
const SCHEMA: &str = "tokclock.report/1";

/// Several results. No number in it is NaN or infinite; what does not exist is null.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    /// Version of the tool that wrote it.
    version: &'static str,
    results: Vec<Result<'a>>,
}

/// One result and where it lies.
#[derive(Debug, Serialize)]
struct Result<'a> {
    dir: String,
    #[serde(flatten)]
    what: Figures<'a>,
}

/// Its figures, under the name of their kind.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Figures<'a> {
    Run { summary: &'a Summary },
    Sweep { curve: &'a Curve },
    Search { search: &'a SearchReport },
}

impl<'a> Document<'a> {
    /// Of these.
    #[must_use]
    pub(crate) fn of(results: &'a [Kept]) -> Self {
        let result = |kept: &'a Kept| Result {
            dir: kept.path.display().to_string(),
            what: match &kept.what {
                What::Run(summary) => Figures::Run { summary },
                What::Sweep(curve) => Figures::Sweep { curve },
                What::Search(search) => Figures::Search { search },
            },
        };
        let results = results.iter().map(result).collect();
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), results }
    }
}
