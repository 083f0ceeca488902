//! The file: one event a line, written as they come.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::lanes::{Assigned, Lane, Span};

/// The process of what belongs to the load as a whole.
const LOAD: u32 = 1;
/// Numbers of threads begin here: none is taken for the main thread of a process.
const THREADS_FROM: u32 = 100_001;

/// A thread of a process, as viewers number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Track {
    pid: u32,
    tid: u32,
}

/// One event, in the words of the format.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'a str,
    /// What it is: X a slice, i an instant, C a counter, M the name of something.
    ph: char,
    #[serde(serialize_with = "micros")]
    ts: u64,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_micros")]
    dur: Option<u64>,
    pid: u32,
    tid: u32,
    /// How far an instant reaches: t, its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<char>,
    #[serde(skip_serializing_if = "Value::is_null")]
    args: &'a Value,
}

/// ns as µs: the nearest number to three decimals is written with three decimals.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn micros<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*ns as f64 / 1e3)
}

#[expect(clippy::ref_option, reason = "serde wants a reference")]
fn some_micros<S: Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    micros(&ns.unwrap_or_default(), serializer)
}

/// Writes events.
pub(super) struct Events<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
    /// Added to every time, ns.
    shift: u64,
    /// The number of the first process of this load point, and of the first thread of each.
    first_pid: u32,
    first_tids: Vec<u32>,
    next_tid: u32,
}

impl<'a> Events<'a> {
    /// Begins the file.
    pub(super) fn begin(out: &'a mut dyn Write) -> io::Result<Self> {
        let about = json!({ "tool": concat!("tokclock ", env!("CARGO_PKG_VERSION")) });
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
        let first_tids = Vec::new();
        let (first_pid, next_tid) = (LOAD, THREADS_FROM);
        Ok(Self { out, is_first: true, shift: 0, first_pid, first_tids, next_tid })
    }

    /// Ends it.
    pub(super) fn end(self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }

    /// Moves all that follows.
    pub(super) fn shift(&mut self, ns: u64) {
        self.shift = ns;
    }

    /// Names the processes and threads of a load point.
    pub(super) fn processes(&mut self, before: &str, lanes: &Assigned) -> io::Result<()> {
        self.named(
            "process_name",
            Track { pid: self.first_pid, tid: 0 },
            &format!("{before}load"),
        )?;
        self.first_tids.clear();
        for (place, (name, threads)) in (1..).zip(&lanes.places) {
            let pid = self.first_pid + place;
            let first = self.next_tid;
            self.first_tids.push(first);
            self.next_tid += threads;
            self.named("process_name", Track { pid, tid: 0 }, &format!("{before}{name}"))?;
            for thread in 0..*threads {
                let track = Track { pid, tid: first + thread };
                self.named("thread_name", track, &format!("slot {thread}"))?;
            }
        }
        Ok(())
    }

    /// The processes of the next load point come after those of this one.
    pub(super) fn next_point(&mut self, lanes: &Assigned) {
        self.first_pid += 1 + lanes.places.len() as u32;
    }

    /// The track of a lane.
    pub(super) fn track(&self, lane: Lane) -> Track {
        let first = self.first_tids.get(lane.place as usize).copied().unwrap_or(THREADS_FROM);
        Track { pid: self.first_pid + 1 + lane.place, tid: first + lane.thread }
    }

    /// A slice: what begins and ends.
    pub(super) fn slice(
        &mut self,
        Track { pid, tid }: Track,
        name: &str,
        cat: &str,
        span: Span,
        args: Value,
    ) -> io::Result<()> {
        let dur = Some(span.to.saturating_sub(span.from));
        self.put(&Event { name, cat, ph: 'X', ts: span.from, dur, pid, tid, s: None, args: &args })
    }

    /// A moment on a thread.
    pub(super) fn instant(
        &mut self,
        Track { pid, tid }: Track,
        name: &str,
        ts: u64,
        args: &Value,
    ) -> io::Result<()> {
        let (cat, s) = ("event", Some('t'));
        self.put(&Event { name, cat, ph: 'i', ts, dur: None, pid, tid, s, args })
    }

    /// The value of a counter from now on.
    pub(super) fn counter(&mut self, name: &str, ts: u64, value: f64) -> io::Result<()> {
        let pid = self.first_pid;
        let args = json!({ name: value });
        self.put(&Event {
            name,
            cat: "",
            ph: 'C',
            ts,
            dur: None,
            pid,
            tid: 0,
            s: None,
            args: &args,
        })
    }

    fn named(&mut self, what: &str, Track { pid, tid }: Track, name: &str) -> io::Result<()> {
        let args = json!({ "name": name });
        let (ts, dur, s) = (0, None, None);
        self.put(&Event { name: what, cat: "", ph: 'M', ts, dur, pid, tid, s, args: &args })
    }

    fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        let ts = if event.ph == 'M' { 0 } else { event.ts.saturating_add(self.shift) };
        serde_json::to_writer(&mut *self.out, &Event { ts, ..*event })?;
        Ok(())
    }
}
