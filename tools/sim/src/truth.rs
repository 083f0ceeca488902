//! The truth log: what was sent when, one JSON object a line, written by a thread of its own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::legs::{Fallback, Role};
use crate::socket;

/// Records that may wait to be written.
const RECORDS_WAITING_MAX: usize = 65_536;

/// Their size in bytes.
const BYTES_WAITING_MAX: usize = 512 * 1024 * 1024;

/// Output events of one request that are kept; a request with more is counted as dropped.
const EVENTS_MAX: usize = 4_000_000;

/// One request in the truth log. All times are CLOCK_MONOTONIC, in ns.
///
/// A send is `[start, end]`: the clock just before and just after the call that handed its last
/// byte to the kernel (if the socket was full: before the first attempt; if the answer drips:
/// before the first piece). Units that left in one call share both times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Counts the server's requests from 0 in the order they were read.
    pub number: u64,
    /// Its `X-Request-Id`, if it had one.
    pub request_id: Option<String>,
    /// Whether it was answered as a stream.
    pub stream: bool,
    /// When the kernel received its last byte, where the kernel says so.
    pub arrived_ns: Option<u64>,
    /// When it was fully read.
    pub read_ns: u64,
    /// What went wrong on purpose; null if nothing did.
    pub fault: Option<Fault>,
    /// When it left the queue; null if it never did, or if it was turned away or refused. With a
    /// serving model: when the first step that it shares began.
    pub started_ns: Option<u64>,
    /// FNV-1a (64 bits, 16 hex digits) of the body's bytes.
    pub body_hash: String,
    /// Requests at the server when it was read, served or waiting, this one included unless a
    /// fault turned it away or the serving model refused it.
    pub in_flight: u32,
    /// The send of the response head, with the role event where there is one.
    pub head: Option<[u64; 2]>,
    /// One `[start, end, tokens]` for each output event; a malformed one has no tokens. An answer
    /// in one piece has none.
    pub events: Vec<[u64; 3]>,
    /// The send of finish, usage and `[DONE]`, or of an answer in one piece, or of what a fault
    /// put in their place (a reset or a close without a byte: when it happened).
    pub tail: Option<[u64; 2]>,
    /// Whether all of it was sent; false if a fault broke it off or replaced it, or the serving
    /// model refused it: then it has a tail, and neither a start nor a fault.
    pub complete: bool,
    /// Which part the server plays where prefill and decode are apart; null elsewhere. All that
    /// follows is null where it means nothing.
    #[serde(default)]
    pub role: Option<Role>,
    /// Why the prompt was computed again on the decode server, or will be.
    #[serde(default)]
    pub fallback: Option<Fallback>,
    /// When the hand-off of the KV cache began and ended, by its draw.
    #[serde(default)]
    pub handoff_ns: Option<[u64; 2]>,
    /// Bytes of the KV cache that is handed over.
    #[serde(default)]
    pub handoff_bytes: Option<u64>,
    /// When the prompt was computed, by its draw.
    #[serde(default)]
    pub prefill_done_ns: Option<u64>,
    /// Prompt tokens that the decode server did not have to compute.
    #[serde(default)]
    pub cached_tokens: Option<u32>,
    /// When a router began and ended to think, by its draw.
    #[serde(default)]
    pub delay_ns: Option<[u64; 2]>,
}

impl Record {
    /// Adds an output event; false if it has as many as are kept.
    pub(crate) fn add_event(&mut self, event: [u64; 3]) -> bool {
        let fits = self.events.len() < EVENTS_MAX;
        if fits {
            self.events.push(event);
        }
        fits
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.events.capacity() * size_of::<[u64; 3]>()
    }
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Hands records to the writer; never waits.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    sender: SyncSender<Record>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
    failed: AtomicBool,
}

impl Sink {
    /// Writes `record` sooner or later, or counts it as dropped.
    pub(crate) fn put(&self, record: Record) {
        let bytes = record.bytes();
        let waiting = self.state.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits =
            waiting + bytes <= BYTES_WAITING_MAX && !self.state.failed.load(Ordering::Relaxed);
        if !fits || self.sender.try_send(record).is_err() {
            self.state.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.drop_one();
        }
    }

    /// A record that was given up before it came here.
    pub(crate) fn drop_one(&self) {
        self.state.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    thread: JoinHandle<io::Result<()>>,
    state: Arc<State>,
}

impl Writer {
    /// Makes the file and starts the thread, on `cpus` where there are any: whoever gives a
    /// server its CPUs wants the others left alone.
    pub(crate) fn start(path: &Path, cpus: &[usize]) -> io::Result<(Self, Sink)> {
        let file = File::create(path)?;
        let cpus = cpus.to_vec();
        let state = Arc::new(State::default());
        let (sender, receiver) = sync_channel(RECORDS_WAITING_MAX);
        let thread = thread::Builder::new().name("sim-truth".into()).spawn({
            let state = Arc::clone(&state);
            move || {
                give_way();
                if !cpus.is_empty() {
                    // The serving threads say what is wrong with a CPU.
                    let _ = socket::pin(&cpus);
                }
                let result = write(BufWriter::with_capacity(1 << 20, file), &receiver, &state);
                state.failed.store(result.is_err(), Ordering::Relaxed);
                result
            }
        })?;
        Ok((Self { thread, state: Arc::clone(&state) }, Sink { sender, state }))
    }

    /// Waits until all is written; all sinks must be gone. Returns the records dropped, and why
    /// writing failed if it did.
    pub(crate) fn finish(self) -> (u64, Option<String>) {
        let fault = match self.thread.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the truth log could not be written: {error}")),
            Err(_) => Some("the thread that writes the truth log failed".to_owned()),
        };
        (self.state.dropped.load(Ordering::Relaxed), fault)
    }
}

fn write(mut out: impl Write, records: &Receiver<Record>, state: &State) -> io::Result<()> {
    // Looking now and then, instead of waiting in the channel, spares the sender a wake-up call.
    const PAUSE: Duration = Duration::from_millis(5);
    loop {
        match records.try_recv() {
            Ok(record) => {
                state.waiting_bytes.fetch_sub(record.bytes(), Ordering::Relaxed);
                serde_json::to_writer(&mut out, &record)?;
                out.write_all(b"\n")?;
            }
            Err(TryRecvError::Empty) => {
                // What is finished can be read while the server runs, and outlives a kill.
                out.flush()?;
                thread::sleep(PAUSE);
            }
            Err(TryRecvError::Disconnected) => return out.flush(),
        }
    }
}

/// Lets the sending threads go first where they share a CPU with this one.
fn give_way() {
    // SAFETY: no pointers; 0 is the calling thread (on Linux niceness belongs to threads).
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_gives_its_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn records_come_back_as_they_were_put() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("truth.jsonl");
        let (writer, sink) = Writer::start(&path, &[]).unwrap();
        let record = Record {
            number: 3,
            request_id: Some("r".into()),
            fault: Some(Fault::Stall { after: Some(3) }),
            events: vec![[1, 2, 1], [3, 4, 1]],
            head: Some([1, 2]),
            ..Record::default()
        };
        sink.put(record.clone());
        sink.drop_one();
        drop(sink);
        assert_eq!(writer.finish(), (1, None));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert_eq!(serde_json::from_str::<Record>(text.trim()).unwrap(), record);
    }
}
