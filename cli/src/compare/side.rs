//! One side of a comparison: a result of ours, a file of another tool, or several runs.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokclock_engine::measure::compare::Observed;
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::measure::{Health, Summary};
use tokclock_engine::run::search::SearchReport;

use super::foreign;
use crate::exit::Failure;
use crate::report::text::escape;
use crate::results::{Kept, SUMMARY, What};

/// One side.
#[derive(Debug)]
pub(super) struct Side {
    /// Its letter: A is the base.
    pub(super) letter: char,
    /// As it was named.
    pub(super) named: String,
    /// What it holds.
    pub(super) kind: Kind,
    /// Its runs, or those of all levels of a sweep.
    pub(super) parts: Vec<Part>,
}

/// What a side is.
#[derive(Debug)]
pub(super) enum Kind {
    /// One load point, looked at once or more often.
    Runs,
    /// A sweep: for each level its load and its parts.
    Sweep(Box<Curve>, Vec<(f64, std::ops::Range<usize>)>),
    /// A search.
    Search(Box<SearchReport>),
}

/// One run of a side.
#[derive(Debug)]
pub(super) struct Part {
    /// Where it lies.
    pub(super) path: PathBuf,
    /// What measured it: `tokclock`, or another tool.
    pub(super) tool: String,
    /// What it gives.
    pub(super) observed: Observed,
    /// Its `summary.json`; null of another tool.
    pub(super) summary: Value,
    /// Its `run.toml`; null where there is none.
    pub(super) settings: Value,
    /// What it was asked for, as another tool says it.
    pub(super) workload: Value,
    /// Where definitions of another tool are not ours.
    pub(super) definitions: Vec<String>,
    /// Times of another tool that are not taken, by its names.
    pub(super) left_out: Vec<String>,
    /// What makes it doubtful.
    pub(super) warnings: Vec<String>,
}

impl Side {
    /// Opens what `named` says: paths joined by commas.
    ///
    /// # Errors
    /// What is no result, or cannot be read.
    pub(super) fn open(letter: char, named: &str) -> Result<Self, Failure> {
        // A path may have a comma in it.
        let whole = Path::new(named);
        let paths: Vec<&Path> = match whole.exists() {
            true => vec![whole],
            false => named.split(',').filter(|path| !path.is_empty()).map(Path::new).collect(),
        };
        let mut parts = Vec::new();
        for &path in &paths {
            if !path.is_dir() || foreign::is_aiperf(path) {
                parts.push(other(path)?);
                continue;
            }
            let kept = Kept::open(path)?;
            match kept.what {
                What::Run(ref summary) => parts.push(own(&kept, summary)?),
                What::Sweep(curve) if paths.len() == 1 => return sweep(letter, named, curve),
                What::Search(report) if paths.len() == 1 => {
                    let kind = Kind::Search(report);
                    return Ok(Self { letter, named: named.to_owned(), kind, parts: Vec::new() });
                }
                _ => {
                    return Err(Failure::usage(format!(
                        "{}: only runs can be joined by commas; a sweep or a search is a side alone",
                        path.display()
                    )));
                }
            }
        }
        if parts.is_empty() {
            return Err(Failure::usage(format!("{named:?} names no result")));
        }
        Ok(Self { letter, named: named.to_owned(), kind: Kind::Runs, parts })
    }

    /// What it is, in a word.
    #[must_use]
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Runs => "run",
            Kind::Sweep(..) => "sweep",
            Kind::Search(_) => "search",
        }
    }
}

/// A run of ours.
fn own(kept: &Kept, summary: &Summary) -> Result<Part, Failure> {
    let shown = kept.path.display();
    let failed =
        |error: &dyn std::fmt::Display| Failure::could_not_run(format!("{shown}: {error}"));
    let mut warnings = Vec::new();
    let observed = match kept.rows() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            warnings
                .push("it has no requests.jsonl: intervals are those of its summary".to_owned());
            Observed::of(summary, [])
        }
        Err(error) => return Err(failed(&error)),
        Ok(rows) => {
            let mut broken = None;
            let rows = rows.map_while(|row| row.map_err(|error| broken = Some(error)).ok());
            let observed = Observed::of(summary, rows);
            if let Some(error) = broken {
                return Err(failed(&format_args!("requests.jsonl: {error}")));
            }
            observed
        }
    };
    if summary.run.interrupted {
        warnings.push("it was interrupted".to_owned());
    }
    if summary.client.verdict != Health::Valid {
        let word = if summary.client.verdict == Health::Invalid { "invalid" } else { "suspect" };
        let reasons: Vec<String> =
            summary.client.reasons.iter().map(|reason| escape(&reason.message)).collect();
        warnings.push(format!("its client is {word}: {}", reasons.join("; ")));
    }
    let text = std::fs::read(kept.path.join(SUMMARY)).map_err(|error| failed(&error))?;
    Ok(Part {
        path: kept.path.clone(),
        tool: "tokclock".to_owned(),
        observed,
        settings: settings(kept),
        summary: serde_json::from_slice(&text).map_err(|error| failed(&error))?,
        workload: Value::Null,
        definitions: Vec::new(),
        left_out: Vec::new(),
        warnings,
    })
}

/// What was asked for in detail; null if that cannot be read, since no figure depends on it.
fn settings(kept: &Kept) -> Value {
    let text = kept.run_toml.as_deref();
    text.and_then(|text| toml::from_str(text).ok()).unwrap_or_default()
}

/// A result of another tool.
fn other(path: &Path) -> Result<Part, Failure> {
    let foreign = foreign::open(path)?;
    Ok(Part {
        path: path.to_owned(),
        tool: escape(&foreign.tool),
        observed: foreign.observed,
        settings: Value::Null,
        summary: Value::Null,
        workload: foreign.workload,
        definitions: foreign.definitions,
        left_out: foreign.left_out,
        warnings: Vec::new(),
    })
}

/// A sweep with the runs of its levels.
fn sweep(letter: char, named: &str, curve: Box<Curve>) -> Result<Side, Failure> {
    let (mut parts, mut levels) = (Vec::new(), Vec::new());
    for level in curve.by_load() {
        let first = parts.len();
        for repetition in level.repetitions.iter().filter(|one| !one.dir.is_empty()) {
            let kept = Kept::open(&Path::new(named).join(&repetition.dir))?;
            if let What::Run(summary) = &kept.what {
                parts.push(own(&kept, summary)?);
            }
        }
        if parts.len() > first {
            levels.push((level.value, first..parts.len()));
        }
    }
    Ok(Side { letter, named: named.to_owned(), kind: Kind::Sweep(curve, levels), parts })
}
