//! `shard.json`: written when the load begins, so that a shard that is killed says what it was, and
//! again when it has ended.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Step, steps};
use crate::clock;
use crate::measure::Facts;
use crate::telemetry::host::discipline;
use crate::workload::Shard;

/// Name and version of the schema.
const SCHEMA: &str = "tokclock.shard/1";

/// Which part of which load a shard is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Its place.
    pub shard: Shard,
    /// Hash of the plan of the whole load, the same on all hosts.
    pub plan: String,
    /// Seed of the whole load.
    pub seed: u64,
    /// Starts every request id.
    pub run_id: String,
    /// When all hosts were to begin, CLOCK_REALTIME of this host, ns; null if nobody said.
    pub start_at_ns: Option<u64>,
    /// Version of the program.
    pub version: String,
    /// The host, as results describe it.
    pub host: serde_json::Value,
}

/// One moment on two clocks of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockMoment {
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, ns.
    pub realtime_ns: u64,
}

impl ClockMoment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        let (monotonic_ns, realtime_ns) = clock::pair();
        Self { monotonic_ns, realtime_ns }
    }
}

/// What the kernel says of how well CLOCK_REALTIME is kept (`adjtimex`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KernelClock {
    /// Something keeps it in step with a reference.
    pub synchronized: bool,
    /// Its largest error, by the kernel's own estimate, ns.
    pub max_error_ns: u64,
    /// Its expected error, by that which keeps it, ns.
    pub estimated_error_ns: u64,
    /// Correction of its rate, parts per million.
    pub frequency_ppm: f64,
}

impl KernelClock {
    /// As it is now; `None` where the kernel does not say.
    #[must_use]
    pub fn now() -> Option<Self> {
        let kernel = discipline()?;
        Some(Self {
            synchronized: kernel.synchronised,
            max_error_ns: kernel.max_error_ns,
            estimated_error_ns: kernel.estimated_error_ns,
            frequency_ppm: kernel.frequency_ppm,
        })
    }
}

/// `shard.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShardFile {
    /// Name and version of the schema.
    pub schema: String,
    /// Which part of which load it is.
    #[serde(flatten)]
    pub header: Header,
    /// The clocks at the run's start, from which all its times count, then each second and when it ended:
    /// of a shard that was killed only the first.
    pub clock: Vec<ClockMoment>,
    /// What the kernel said of its clock when the run began.
    pub kernel_clock: Option<KernelClock>,
    /// What is known of its end; null in a shard that was killed.
    pub ended: Option<Ended>,
}

/// What is known of the end of a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ended {
    /// The facts of its run; of the gaps drawn for resampling a part.
    pub facts: Facts,
    /// What the kernel said of its clock then.
    pub kernel_clock: Option<KernelClock>,
}

impl ShardFile {
    /// That of a shard whose load begins.
    #[must_use]
    pub fn begun(header: Header, now: ClockMoment, kernel_clock: Option<KernelClock>) -> Self {
        Self { schema: SCHEMA.into(), header, clock: vec![now], kernel_clock, ended: None }
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if file.schema != SCHEMA {
            return Err(format!("its schema is `{}`, this version reads `{SCHEMA}`", file.schema));
        }
        let Shard { index, of } = file.header.shard;
        if Shard::new(index, of).is_err() {
            return Err(format!("there is no shard {index}/{of}"));
        }
        if file.clock.is_empty() {
            return Err("it holds no reading of the clocks".into());
        }
        Ok(file)
    }

    /// Writes it to `path`, which holds one whole file at any time, the one before or this.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("json.part");
        let mut file = BufWriter::new(File::create(&beside)?);
        serde_json::to_writer(&mut file, self)?;
        file.write_all(b"\n")?;
        file.flush()?;
        fs::rename(beside, path)
    }

    /// The clocks at the run's start, from which all its times count.
    #[must_use]
    pub fn start(&self) -> ClockMoment {
        self.clock.first().copied().unwrap_or(ClockMoment { monotonic_ns: 0, realtime_ns: 0 })
    }

    /// Steps of CLOCK_REALTIME between two readings of the clocks. A correction of its rate is none.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        steps(&self.clock)
    }
}
