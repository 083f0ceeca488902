//! Every latency of a run, second by second of the wall clock, as a HdrHistogram interval log that grows
//! while the run goes on: what a host leaves of its share of a load, even if it is killed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::interval_log::{NS_PER_MS, begin_log};
use super::recorder::SecondPooled;
use super::{HIGHEST_NS, Pooled, Row, histogram};
use crate::measure::{Request, Since};
use crate::workload::Workload;

/// The latencies of requests, under the names of `summary.json`.
const LATENCIES: [&str; 13] = [
    "ttfb",
    "ttft",
    "ttfo",
    "ttst",
    "tpot",
    "ntpot",
    "e2e",
    "stream_tail",
    "service.ttfb",
    "service.ttft",
    "service.ttfo",
    "service.ntpot",
    "service.e2e",
];
const NS_PER_S: u64 = 1_000_000_000;
/// Seconds that wait for a reactor that has not passed them, at most: one that has ended passes none.
const OPEN_MAX: u64 = 3;

/// A `seconds.hlog` that is being written. A line of it holds one second and one tag; a second may have
/// several lines of a tag, which add up.
pub struct SecondsFile {
    path: PathBuf,
    lines: Lines,
    /// How far into its second the run began, ns.
    into_ns: u64,
    is_closed: bool,
    stream: bool,
    /// For each reactor the first second that it has not passed.
    reached: Vec<u64>,
    /// Seconds before that are over on all reactors, and their requests are in the rings.
    over: u64,
    /// The last second that anything is known of.
    newest: u64,
    open: BTreeMap<u64, Open>,
    /// Memory of seconds that were written.
    spare: Vec<Open>,
    values: Histogram<u64>,
}

/// A second that is not written yet.
#[derive(Default)]
struct Open {
    pooled: Option<Box<Pooled>>,
    latencies: [Vec<u64>; LATENCIES.len()],
}

impl SecondsFile {
    /// Creates the file, for a run of `workload` that began at a time of day, ns.
    ///
    /// # Errors
    /// Those of creating and writing it.
    pub fn create(path: &Path, workload: &Workload, start_realtime_ns: u64) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        let into_ns = start_realtime_ns % NS_PER_S;
        begin_log(&mut file, &mut V2DeflateSerializer::new(), start_realtime_ns - into_ns)?;
        file.flush()?;
        let lines = Lines {
            file,
            serializer: V2DeflateSerializer::new(),
            bytes: vec![],
            text: String::new(),
        };
        Ok(Self {
            path: path.to_owned(),
            lines,
            into_ns,
            is_closed: workload.load.is_closed(),
            stream: workload.target.stream,
            reached: Vec::new(),
            over: 0,
            newest: 0,
            open: BTreeMap::new(),
            spare: Vec::new(),
            values: histogram(),
        })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// So many reactors take part.
    pub(crate) fn expect(&mut self, reactors: usize) {
        self.reached = vec![0; reactors];
    }

    /// The rings are about to be emptied: seconds that all reactors had passed before are whole then.
    pub(crate) fn begin_turn(&mut self) {
        let all = self.reached.iter().copied().min().unwrap_or(0);
        self.over = all.max(self.newest.saturating_sub(OPEN_MAX));
    }

    /// Adds a request, if it ended well in the measured part.
    pub(crate) fn add_row(&mut self, row: &Row) {
        let request = Request::of(row, self.is_closed, self.stream);
        let Some(done) = request.completed() else { return };
        if !request.is_ok() || !request.is_measured() {
            return;
        }
        let second = self.into_ns.saturating_add(done) / NS_PER_S;
        let open = self.second(second);
        for (values, value) in open.latencies.iter_mut().zip(latencies(&request)) {
            values.extend(value);
        }
    }

    /// Adds what a reactor has recorded in one second, which it has passed.
    pub(crate) fn add_pooled(&mut self, reactor: usize, second: &SecondPooled) {
        if let Some(reached) = self.reached.get_mut(reactor) {
            *reached = second.second + 1;
        }
        let open = self.second(second.second);
        open.pooled.get_or_insert_default().add(&second.pooled);
    }

    /// The rings are empty: writes the seconds that are over and hands them to the kernel.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn end_turn(&mut self) -> io::Result<()> {
        let rest = self.open.split_off(&self.over);
        let over = std::mem::replace(&mut self.open, rest);
        if over.is_empty() {
            return Ok(());
        }
        for (second, open) in over {
            self.write(second, open)?;
        }
        self.lines.file.flush()
    }

    /// Writes all that is left.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.over = u64::MAX;
        self.end_turn()
    }

    fn second(&mut self, second: u64) -> &mut Open {
        self.newest = self.newest.max(second);
        let spare = &mut self.spare;
        self.open.entry(second).or_insert_with(|| spare.pop().unwrap_or_default())
    }

    fn write(&mut self, second: u64, mut open: Open) -> io::Result<()> {
        if let Some(pooled) = &mut open.pooled {
            // A tag holds every read, as it does in the histograms of the whole run.
            let _ = pooled.lag.add(&pooled.lag_output);
            let Pooled { icl, itl, lag, lag_output } = &**pooled;
            for (tag, values) in
                [("icl", icl), ("itl", itl), ("lag", lag), ("lag_output", lag_output)]
            {
                self.lines.write(tag, second, values)?;
            }
            pooled.clear();
        }
        for (tag, latencies) in LATENCIES.iter().zip(&mut open.latencies) {
            if latencies.is_empty() {
                continue;
            }
            self.values.reset();
            for value in latencies.drain(..) {
                // Within the bounds, so recording cannot fail.
                let _ = self.values.record(value.min(HIGHEST_NS));
            }
            self.lines.write(tag, second, &self.values)?;
        }
        self.spare.push(open);
        Ok(())
    }
}

/// The latencies of a request, in the order of their names.
fn latencies(request: &Request) -> [Option<u64>; LATENCIES.len()] {
    let (origin, write) = (Since::Origin, Since::Write);
    [
        request.ttfb(origin),
        request.ttft(origin),
        request.ttfo(origin),
        request.ttst(),
        request.tpot(),
        request.ntpot(origin),
        request.e2e(origin),
        request.stream_tail(),
        request.ttfb(write),
        request.ttft(write),
        request.ttfo(write),
        request.ntpot(write),
        request.e2e(write),
    ]
}

/// The lines of the log. The library's writer of logs borrows its file for as long as it lives, so that
/// it cannot be kept over the turns of a run.
struct Lines {
    file: BufWriter<File>,
    serializer: V2DeflateSerializer,
    bytes: Vec<u8>,
    text: String,
}

impl Lines {
    /// Writes the values of one second under `tag`, if there are any.
    fn write(&mut self, tag: &str, second: u64, values: &Histogram<u64>) -> io::Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.bytes.clear();
        self.serializer
            .serialize(values, &mut self.bytes)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.text.clear();
        let most = values.max() as f64 / NS_PER_MS;
        let _ = write!(self.text, "Tag={tag},{second}.000,1.000,{most:.3},");
        STANDARD.encode_string(&self.bytes, &mut self.text);
        self.text.push('\n');
        self.file.write_all(self.text.as_bytes())
    }
}
