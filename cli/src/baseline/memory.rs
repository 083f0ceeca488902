//! What an open stream takes of this process's memory.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokclock_engine::telemetry::host::{Files, anonymous_memory};

use super::bench::Bench;
use super::point::Point;
use super::result::{Kind, Memory};
use crate::exit::Failure;

/// Fewer streams than this do not show in the memory of a process.
const STREAMS_MIN: u64 = 200;
/// The large run has so many times the streams of the small one.
const TIMES: u64 = 40;
/// How long every stream waits for its first token: all are open then.
const TTFT_NS: u64 = 600_000_000;
/// How often memory is looked at.
const TICK: Duration = Duration::from_millis(5);

/// Memory with few and with `many` open streams. `None` if that is too few to tell, or if it was
/// interrupted. To be asked before anything that needs much memory: what is freed is not given back.
///
/// # Errors
/// If a load cannot be carried out.
pub(super) fn measure(bench: &mut Bench<'_>, many: u64) -> Result<Option<Memory>, Failure> {
    if many < STREAMS_MIN {
        bench
            .notes
            .push(format!("memory was not measured: it takes {STREAMS_MIN} streams to show"));
        return Ok(None);
    }
    let few = (many / TIMES).max(1);
    bench.screen.note(format_args!("memory with {few} and with {many} open streams"));
    let Some(few_bytes) = peak(bench, few)? else { return Ok(None) };
    let Some(many_bytes) = peak(bench, many)? else { return Ok(None) };
    Ok(Some(Memory { few_streams: few, few_bytes, many_streams: many, many_bytes }))
}

/// The most memory during a run in which so many streams are open at once.
fn peak(bench: &mut Bench<'_>, streams: u64) -> Result<Option<u64>, Failure> {
    let point = Point {
        streams,
        ttft_ns: TTFT_NS,
        output_tokens: 16,
        events_per_write: 16,
        // Over before the first answer is, so each user sends one request.
        duration_ns: TTFT_NS / 2,
        is_witnessed: false,
        ..Point::flood(Kind::Requests, 0)
    };
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let watcher = scope.spawn(move || {
            let files = Files::here();
            let mut most = anonymous_memory(&files);
            while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                most = most.max(anonymous_memory(&files));
            }
            most
        });
        let rates = bench.rates(&point);
        drop(done);
        let most = watcher.join().ok().flatten();
        rates.map(|rates| rates.and(most))
    })
}
