//! The hot path law: between a chunk's arrival and its record nothing is allocated.
//!
//! Two runs differ only in the number of chunks. Whatever reactors allocate per run, connection or
//! request they allocate in both; only an allocation per chunk can make a difference. Alone in its
//! file and one after the other, because the counter is the whole process's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use std::io::Write;
use std::sync::{Arc, Mutex};

use tokclock_engine::plan::Materials;
use tokclock_engine::run::{Control, Progress, Setup, run};
use tokclock_sim::{Law, Server, Settings};
use tokclock_tests::tls::{Authority, VERSIONS, tls_server};
use tokclock_tests::{
    MS, STREAM_HEAD, Sim, carry_out, closed, event, read_request, requests, set_lengths, settings,
    token, workload,
};

/// Held while allocations are counted: the counter is one for all.
static ALONE: Mutex<()> = Mutex::new(());

/// Allocations on threads named `reactor-*`.
static ON_REACTORS: AtomicU64 = AtomicU64::new(0);

/// Bytes that are allocated now, by any thread, and the most that were since this was set.
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

struct Counting;

impl Counting {
    fn note(&self) {
        let mut name = [0_u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        if name.starts_with(b"reactor-") {
            ON_REACTORS.fetch_add(1, Relaxed);
        }
    }

    fn grow(&self, bytes: usize) {
        let live = LIVE.fetch_add(bytes as u64, Relaxed) + bytes as u64;
        PEAK.fetch_max(live, Relaxed);
    }

    fn shrink(&self, bytes: usize) {
        LIVE.fetch_sub(bytes as u64, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        self.grow(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        self.shrink(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.note();
        self.grow(size);
        self.shrink(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations on the reactor during a run of 40 requests of `tokens` chunks, and its reads.
fn allocations(tokens: u32) -> (u64, u64) {
    let sim = Sim::start(Settings { itl: Law::Constant(MS / 5), ..settings() });
    let mut load = workload(sim.address(), closed(4), requests(40));
    set_lengths(&mut load, 16, tokens);
    load.client.keep_chunks = false;
    let before = ON_REACTORS.load(Relaxed);
    let ran = carry_out(&load);
    let allocated = ON_REACTORS.load(Relaxed) - before;
    let _ = sim.stop();
    assert_eq!(ran.rows.len(), 40);
    assert!(ran.rows.iter().all(|row| row.events == tokens));
    (allocated, ran.facts.tallies[0].reads)
}

#[test]
fn a_thousand_more_chunks_cost_no_allocation() {
    let _alone = ALONE.lock();
    let (warm, _) = allocations(16);
    assert!(warm > 0, "the counter counts");
    let (few, few_reads) = allocations(16);
    let (many, many_reads) = allocations(1016);
    let more = many_reads.saturating_sub(few_reads);
    assert!(more > 5_000, "{more} more reads");
    // Longer runs turn more seconds over and grow a few buffers once.
    let extra = many.saturating_sub(few);
    assert!(extra < more / 20, "{extra} allocations more for {more} reads more");
}

/// The same over TLS, with a record for each chunk.
fn allocations_over_tls(tokens: usize) -> (u64, u64) {
    let authority = Authority::new();
    let config = authority.server(&["127.0.0.1"], &VERSIONS, false);
    let (address, server) = tls_server(config, 5, move |mut stream| {
        while read_request(&mut stream).is_some_and(|request| request.starts_with("POST")) {
            let _ = stream.write_all(STREAM_HEAD.as_bytes());
            for _ in 0..tokens {
                let _ = stream.write_all(token(" word").as_bytes());
            }
            let end = event(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#) + "0\r\n\r\n";
            let _ = stream.write_all(end.as_bytes());
        }
    });
    let mut load = workload(address, closed(4), requests(40));
    load.target.endpoints[0].tls = true;
    load.target.tls.roots = Some(authority.file());
    set_lengths(&mut load, 16, tokens as u32);
    load.client.keep_chunks = false;
    let before = ON_REACTORS.load(Relaxed);
    let ran = carry_out(&load);
    let allocated = ON_REACTORS.load(Relaxed) - before;
    assert!(server.join().is_ok());
    assert_eq!(ran.rows.len(), 40);
    assert!(ran.rows.iter().all(|row| row.events as usize == tokens), "{:?}", ran.rows[0]);
    (allocated, ran.facts.tallies[0].output_events)
}

#[test]
fn over_tls_a_chunk_costs_what_its_record_costs() {
    let _alone = ALONE.lock();
    let _ = allocations_over_tls(16);
    let (few, few_records) = allocations_over_tls(16);
    let (many, many_records) = allocations_over_tls(1016);
    let more = many_records.saturating_sub(few_records);
    assert_eq!(more, 40_000);
    let extra = many.saturating_sub(few);
    // rustls keeps each record's payload in a buffer of its own; nothing of ours comes on top.
    assert!(extra < more * 21 / 20, "{extra} allocations more for {more} records more");
}

/// The most bytes that a load of so many requests had allocated at once, beyond those before it.
fn peak_of(sim: &Server, number: u64) -> u64 {
    let mut load = workload(sim.address(), closed(32), requests(number));
    set_lengths(&mut load, 16, 2);
    load.client.keep_chunks = false;
    let dir = tempfile::TempDir::new().unwrap();
    let setup = Setup {
        out_dir: dir.path().to_owned(),
        run_id: "test".to_owned(),
        resolve_ns: 0,
        scrape: Default::default(),
        materials: Materials::default(),
        gpus: None,
        start_at_ns: None,
        shard: None,
    };
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let facts = run(&load, &setup, &Arc::new(Control::new()), &Progress::new()).unwrap();
    assert_eq!(facts.tallies[0].seconds.iter().map(|second| second.ok).sum::<u64>(), number);
    PEAK.load(Relaxed) - before
}

#[test]
fn ten_times_the_requests_need_no_more_memory() {
    /// Enough to fill whatever is kept of the first requests.
    const FEW: u64 = 2_500;
    let _alone = ALONE.lock();
    let instant = Settings { ttft: Law::ZERO, itl: Law::ZERO, ..Settings::default() };
    let sim = Server::start(&instant).unwrap();
    let _warm = peak_of(&sim, FEW);
    let few = peak_of(&sim, FEW);
    let many = peak_of(&sim, 10 * FEW);
    let _ = sim.stop();
    let extra = many.saturating_sub(few);
    // Rings may have been fuller, and there are more seconds; a byte per request would show.
    assert!(extra < few / 10, "{few} bytes for {FEW} requests, {many} for ten times as many");
}
