//! A result that lies in a directory: read back whole, or as far as it was written.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::record::{Row, read_rows};
use tokclock_engine::run::REQUESTS_FILE;
use tokclock_engine::run::search::SearchReport;

use super::{SUMMARY, rebuilt};
use crate::exit::Failure;

/// The file of a sweep's figures.
const CURVE: &str = "curve.json";
/// The file of a search's figures.
const SEARCH: &str = "search.json";

/// A result that lies in a directory.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The directory, as it was named.
    pub(crate) path: PathBuf,
    /// The text of `run.toml`, if it is there.
    pub(crate) run_toml: Option<String>,
    /// What it holds.
    pub(crate) what: What,
}

/// What a result holds.
#[derive(Debug)]
pub(crate) enum What {
    /// One load point.
    Run(Box<Summary>),
    /// Several loads.
    Sweep(Box<Curve>),
    /// A search for the highest load.
    Search(Box<SearchReport>),
}

impl Kept {
    /// Reads the result in `path`. That of a run that was cut off is rebuilt from its finished requests
    /// and written, as far as it can be.
    ///
    /// # Errors
    /// A usage error if there is none; otherwise if it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        if !path.is_dir() {
            return Err(Failure::usage(format!("{shown} is no directory: name that of a result")));
        }
        let run_toml = std::fs::read_to_string(path.join("run.toml")).ok();
        let what = if let Some(search) = read(&path.join(SEARCH))? {
            What::Search(search)
        } else if let Some(curve) = read(&path.join(CURVE))? {
            What::Sweep(curve)
        } else if let Some(summary) = read(&path.join(SUMMARY))? {
            What::Run(summary)
        } else if let Some(summary) = rebuilt::rebuild(path, run_toml.as_deref())? {
            What::Run(Box::new(summary))
        } else {
            return Err(Failure::usage(format!(
                "{shown}: there is no {SUMMARY}, {CURVE}, {SEARCH} or {REQUESTS_FILE} in it; name the \
                 directory of a result"
            )));
        };
        Ok(Self { path: path.to_owned(), run_toml, what })
    }

    /// Its finished requests, one by one, in the order they ended; an error names the line.
    ///
    /// # Errors
    /// If there are none to read.
    pub(crate) fn rows(&self) -> io::Result<impl Iterator<Item = io::Result<Row>> + use<>> {
        read_rows(&self.path.join(REQUESTS_FILE))
    }
}

/// A file of figures; `None` if it is not there.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<Box<T>>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::could_not_run(format!("cannot read {}: {error}", path.display()))
    };
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| failed(&error))?,
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(&error))
}
