//! What a run leaves besides where it is one host's share of a load: `shard.json` when it begins and when
//! it ends, readings of the clocks in between, and the file of its seconds. Any other run leaves nothing.

use std::path::PathBuf;

use super::{RunError, Setup, host_error, write_error};
use crate::clock::RunClock;
use crate::measure::Facts;
use crate::reactor::{Rest, Watcher};
use crate::record::SecondsFile;
use crate::shard::{
    ClockMoment, Ended, KernelClock, SECONDS_FILE, SHARD_FILE, ShardFile, thin_gaps,
};
use crate::workload::Workload;

/// Between two readings of the clocks, ns.
const READING_NS: u64 = 1_000_000_000;

/// What a run has still to leave.
pub(super) struct Leaving(Option<Share>);

struct Share {
    path: PathBuf,
    file: ShardFile,
    /// Reads the clocks.
    watcher: Option<Watcher<Vec<ClockMoment>>>,
}

impl Leaving {
    /// Leaves what is known when the load begins. Returns the file of its seconds too.
    ///
    /// # Errors
    /// When a file cannot be written or no thread can be started.
    pub(super) fn begin(
        setup: &Setup,
        workload: &Workload,
        clock: &RunClock,
    ) -> Result<(Self, Option<SecondsFile>), RunError> {
        let Some(header) = setup.shard.clone() else { return Ok((Self(None), None)) };
        let start = ClockMoment {
            monotonic_ns: clock.origin_monotonic_ns(),
            realtime_ns: clock.origin_realtime_ns(),
        };
        let path = setup.out_dir.join(SHARD_FILE);
        let file = ShardFile::begun(header, start, KernelClock::now());
        file.write(&path).map_err(|error| write_error(&path, &error))?;
        let seconds_path = setup.out_dir.join(SECONDS_FILE);
        let seconds = SecondsFile::create(&seconds_path, workload, start.realtime_ns)
            .map_err(|error| write_error(&seconds_path, &error))?;
        let watcher = Watcher::spawn("clocks", watch).map_err(host_error)?;
        Ok((Self(Some(Share { path, file, watcher: Some(watcher) })), Some(seconds)))
    }

    /// Leaves how the run ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn end(self, facts: Facts) -> Result<Facts, RunError> {
        let Some(mut share) = self.0 else { return Ok(facts) };
        let moments = share.watcher.take().and_then(Watcher::end).unwrap_or_default();
        share.file.clock.extend(moments);
        share.file.clock.push(ClockMoment::now());
        let (facts, whole) = thin_gaps(facts, &share.file.header);
        share.file.ended = Some(Ended { facts, kernel_clock: KernelClock::now() });
        share.file.write(&share.path).map_err(|error| write_error(&share.path, &error))?;
        let Some(Ended { mut facts, .. }) = share.file.ended.take() else {
            return Err(RunError::Broken("the facts of the shard are gone".into()));
        };
        for (tally, samples) in facts.tallies.iter_mut().zip(whole) {
            tally.gap_samples = samples;
        }
        Ok(facts)
    }
}

/// A run that breaks off leaves no thread behind.
impl Drop for Share {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.tell();
        }
    }
}

/// Reads the clocks each second until it is over.
fn watch(rest: &Rest) -> Vec<ClockMoment> {
    let mut moments = vec![ClockMoment::now()];
    while let Some(last) = moments.last() {
        let next = last.monotonic_ns + READING_NS;
        let left = next.saturating_sub(crate::clock::monotonic_ns());
        if left > 0 && !rest.sleep(left) {
            break;
        }
        // A thread may wake early.
        if left == 0 {
            moments.push(ClockMoment::now());
        }
    }
    moments
}
