//! The figures of a run whose records lie in its directory.

use std::io;
use std::path::Path;

use tokclock_engine::measure::{self, Facts, Servers, Summary, Window};
use tokclock_engine::record::read_rows;
use tokclock_engine::run::{REQUESTS_FILE, SERVERS_FILE};
use tokclock_engine::telemetry::server::read_log;
use tokclock_engine::workload::Workload;

use crate::exit::Failure;

/// The figures of a run whose finished requests lie in `dir`; they are read one by one.
pub(crate) fn summarize(
    workload: &Workload,
    facts: &Facts,
    dir: &Path,
) -> Result<Summary, Failure> {
    let path = dir.join(REQUESTS_FILE);
    let unreadable = |error: io::Error| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    };
    let mut bad = None;
    let mut servers = servers_of(dir, facts);
    let rows = read_rows(&path).map_err(unreadable)?;
    let rows = rows.map_while(|row| row.map_err(|error| bad = Some(error)).ok());
    let mut summary = measure::summarize(workload, facts, rows.inspect(|row| servers.hear(row)));
    summary.servers = servers.finish();
    bad.map_or(Ok(summary), |error| Err(unreadable(error)))
}

/// What was read of the servers' metrics into `dir`, if anything was.
pub(super) fn servers_of(dir: &Path, facts: &Facts) -> Servers {
    let readings = read_log(&dir.join(SERVERS_FILE)).ok();
    let window = Window { start: facts.window_start, end: facts.window_end };
    Servers::of(readings.into_iter().flatten(), window)
}
