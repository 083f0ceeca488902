//! The shards of one load as they are read: checked against each other, their facts added up.

use std::path::PathBuf;

use tokclock_engine::measure::{self, Facts, Summary};
use tokclock_engine::run::REQUESTS_FILE;
use tokclock_engine::shard::{
    Clocks, Fellows, Header, KernelClock, Left, Piece, Place, Refused, SHARD_FILE, Standing, Step,
    Whole, standing,
};
use tokclock_engine::workload::Workload;

use super::found::no_shard;
use crate::exit::Failure;
use crate::results::{SUMMARY, over, read};

/// One host.
pub(super) struct Host {
    /// Where its shard lies.
    pub(super) dir: PathBuf,
    pub(super) header: Header,
    pub(super) place: Place,
    /// Its wall clock when it began, and the times that it was set.
    pub(super) standing: Standing,
    pub(super) steps: Vec<Step>,
    /// CLOCK_MONOTONIC when it began.
    pub(super) monotonic_ns: u64,
    pub(super) kernel_clock: Option<KernelClock>,
    pub(super) driver: String,
    /// Its own figures; none of a shard that has left neither them nor records.
    pub(super) summary: Option<Summary>,
}

/// All hosts, by their shard.
pub(super) struct Gathered {
    pub(super) hosts: Vec<Host>,
    pub(super) facts: Facts,
}

/// Why shards are refused, as a usage error.
pub(super) fn refused(refused: Refused) -> Failure {
    Failure::usage(refused.to_string())
}

/// Reads the shards in `dirs`, of a load of `workload`.
///
/// # Errors
/// Those that cannot be read, or do not belong together.
pub(super) fn gather(
    dirs: &[PathBuf],
    workload: &Workload,
    clocks: Option<&Clocks>,
) -> Result<Gathered, Failure> {
    let (mut fellows, mut whole, mut hosts) = (Fellows::default(), Whole::default(), Vec::new());
    for dir in in_order(dirs)? {
        let left = left(&dir)?;
        fellows.admit(&left.file.header, &dir.display().to_string()).map_err(refused)?;
        hosts.push(host(left, workload, clocks, &mut whole)?);
    }
    let Some((facts, places)) = whole.finish() else {
        return Err(Failure::usage("there is no shard to merge"));
    };
    fellows.overlap(&places).map_err(refused)?;
    Ok(Gathered { hosts, facts })
}

/// By their shard, so that the order in which they are named changes nothing.
fn in_order(dirs: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut order = Vec::new();
    for dir in dirs {
        order.push((left(dir)?.file.header.shard.index, dir.clone()));
    }
    order.sort();
    Ok(order.into_iter().map(|(_, dir)| dir).collect())
}

/// Reads what a shard says of itself.
pub(super) fn left(dir: &std::path::Path) -> Result<Left, Failure> {
    if !dir.join(SHARD_FILE).is_file() {
        return Err(no_shard(dir));
    }
    Left::read(dir)
        .map_err(|error| Failure::usage(format!("{}: {error}", dir.join(SHARD_FILE).display())))
}

fn host(
    mut left: Left,
    workload: &Workload,
    clocks: Option<&Clocks>,
    whole: &mut Whole,
) -> Result<Host, Failure> {
    let ended = left.file.ended.take();
    let cut_off = ended.is_none();
    let facts = match ended {
        Some(ended) => ended.facts,
        None => left.remains(workload).map_err(|error| {
            Failure::could_not_run(format!("cannot read {}: {error}", left.dir.display()))
        })?,
    };
    let Left { dir, file } = left;
    let summary = own_summary(&dir, workload, &facts, cut_off)?;
    let shard = file.header.shard.index;
    let clock = clocks.and_then(|clocks| clocks.hosts.iter().find(|one| one.shard == shard));
    let (monotonic_ns, realtime_ns) = (facts.start_monotonic_ns, facts.start_realtime_ns);
    let start = tokclock_engine::shard::ClockMoment { monotonic_ns, realtime_ns };
    let standing = standing(clock, start, &file.clock);
    let driver = facts.driver.clone();
    let place = whole.add(Piece { shard, facts, offset_ns: standing.offset_ns, cut_off });
    Ok(Host {
        dir,
        place,
        standing,
        steps: file.steps(),
        monotonic_ns,
        kernel_clock: file.kernel_clock,
        driver,
        summary,
        header: file.header,
    })
}

/// The figures that a shard has left, or those of its records.
fn own_summary(
    dir: &std::path::Path,
    workload: &Workload,
    facts: &Facts,
    cut_off: bool,
) -> Result<Option<Summary>, Failure> {
    if !cut_off && let Some(summary) = read::<Summary>(&dir.join(SUMMARY))? {
        return Ok(Some(*summary));
    }
    let requests = dir.join(REQUESTS_FILE);
    if !requests.is_file() {
        return Ok(None);
    }
    let summary = over(&requests, |rows| match cut_off {
        true => measure::summarize_remains(workload, facts, rows),
        false => measure::summarize(workload, facts, rows),
    })?;
    Ok(Some(summary))
}
