//! The load points of a result: the run itself, the repetitions of a sweep's levels, the looks of a
//! search.

use std::io;
use std::path::{Path, PathBuf};

use tokclock_engine::measure::Summary;
use tokclock_engine::measure::curve::{Level, Repetition};
use tokclock_engine::record::{Row, read_rows};
use tokclock_engine::run::REQUESTS_FILE;
use tokclock_engine::run::search::ProbeReport;

use super::SUMMARY;
use super::kept::{Kept, What, read};
use crate::exit::Failure;

/// One load point that was carried out.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The same inside its result; empty for a run.
    pub(crate) within: String,
    /// Its place in the result.
    pub(crate) place: Place<'a>,
    /// Its figures, where they are there.
    pub(crate) summary: Option<Box<Summary>>,
}

/// The place of a load point in its result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// The result itself.
    Run,
    /// A repetition of a level, both counted from 1.
    Level(&'a Level, &'a Repetition, usize, usize),
    /// A look of a probe, both counted from 1.
    Probe(&'a ProbeReport, usize, usize),
}

impl Kept {
    /// Its load points, in the order they were carried out.
    ///
    /// # Errors
    /// A summary that is there and cannot be read.
    pub(crate) fn points(&self) -> Result<Vec<Point<'_>>, Failure> {
        let inner = |dir: &str, place| {
            let path = self.path.join(dir);
            let summary = read(&path.join(SUMMARY))?;
            Ok(Point { path, within: dir.to_owned(), place, summary })
        };
        match &self.what {
            What::Run(summary) => {
                let (path, summary) = (self.path.clone(), Some(summary.clone()));
                Ok(vec![Point { path, within: String::new(), place: Place::Run, summary }])
            }
            What::Sweep(curve) => {
                let levels = (1..).zip(&curve.levels);
                let all = levels.flat_map(|(at, level)| {
                    let runs = (1..).zip(&level.repetitions);
                    runs.map(move |(number, run)| (&run.dir, Place::Level(level, run, at, number)))
                });
                all.map(|(dir, place)| inner(dir, place)).collect()
            }
            What::Search(search) => {
                let probes = (1..).zip(&search.probes);
                let all = probes.flat_map(|(at, probe)| {
                    let looks = (1..).zip(&probe.dirs);
                    looks.map(move |(number, dir)| (dir, Place::Probe(probe, at, number)))
                });
                all.map(|(dir, place)| inner(dir, place)).collect()
            }
        }
    }
}

impl Point<'_> {
    /// Hands every finished request to `each`, in the order they ended.
    ///
    /// # Errors
    /// Requests that cannot be read, or what `each` gives.
    pub(crate) fn each_row(
        &self,
        mut each: impl FnMut(Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = self.path.join(REQUESTS_FILE);
        for row in read_rows(&path).map_err(|error| unreadable(&path, &error))? {
            each(row.map_err(|error| unreadable(&path, &error))?)?;
        }
        Ok(())
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::could_not_run(format!("cannot read {}: {error}", path.display()))
}
