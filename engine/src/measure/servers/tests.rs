//! From readings to figures: ends of the window, restarts, buckets, what the client saw.

use super::*;
use crate::measure::rows::{MS, row_at};
use crate::telemetry::server::{By, Counted, Counter, Gauge, Kind, Pair, Share};

const WINDOW: Window = Window { start: 1000 * MS, end: 3000 * MS };

/// A reading of a server that has generated so many tokens, at a time in ms.
fn look(at_ms: u64, tokens: f64, change: impl FnOnce(&mut Counted)) -> Reading {
    let mut counted = Counted::nothing(Kind::Vllm);
    counted.set_counter(Counter::GenerationTokens, Some(tokens));
    change(&mut counted);
    Reading {
        at_ns: at_ms * MS,
        took_ns: at_ms * 1000,
        url: "http://a/metrics".to_owned(),
        by: By::Target,
        share: Share { place: Some(0), of: 1 },
        said: Ok(counted),
    }
}

fn bad(at_ms: u64, reason: &str) -> Reading {
    Reading { said: Err(reason.to_owned()), ..look(at_ms, 0.0, |_| {}) }
}

fn seen(readings: impl IntoIterator<Item = Reading>) -> ServerSeen {
    Servers::of(readings, WINDOW).finish().remove(0)
}

fn tokens(seen: &ServerSeen) -> Option<u64> {
    seen.counters["generation_tokens"]
}

#[test]
fn the_looks_nearest_to_the_windows_ends_count_and_no_time_is_made_up() {
    for (times, from_to) in [
        (vec![0, 500, 900, 1400, 2900, 3400], (900, 2900)),
        (vec![0, 400, 1100, 2000, 3050, 3500], (1100, 3050)),
        (vec![1500, 2500], (1500, 2500)),
        // A run that is shorter than an interval.
        (vec![0, 4000], (0, 4000)),
    ] {
        let got = seen(times.iter().map(|at| look(*at, *at as f64, |_| {})));
        let here = got.window.unwrap();
        assert_eq!((here.from_ns / MS, here.to_ns / MS), from_to, "{times:?}");
        assert_eq!(tokens(&got), Some(from_to.1 - from_to.0), "{times:?}");
        assert!(got.notes.is_empty(), "{:?}", got.notes);
    }
    let between = |times: &[u64], window: Window| {
        let looks = times.iter().map(|at| look(*at, *at as f64, |_| {}));
        let here = Servers::of(looks, window).finish().remove(0).window.unwrap();
        (here.from_ns / MS, here.to_ns / MS)
    };
    // The window is shorter than the time before it: one look is not for both of its ends.
    let short = Window { start: 2000 * MS, end: 2200 * MS };
    assert_eq!(between(&[0, 2300], short), (0, 2300));
    assert_eq!(between(&[0, 2050], short), (0, 2050), "no other came");
    assert_eq!(between(&[0, 2050, 2250], short), (2050, 2250));
    let alone = seen([look(900, 5.0, |_| {})]);
    assert_eq!((alone.window, tokens(&alone)), (None, None));
    assert_eq!(alone.notes.len(), 1);
}

#[test]
fn gauges_are_those_of_the_window_alone() {
    let at = |at_ms: u64, running: f64| {
        look(at_ms, 0.0, |counted| counted.set_gauge(Gauge::Running, Some(running)))
    };
    let got = seen([at(0, 99.0), at(1000, 2.0), at(2000, 4.0), at(3000, 3.0), at(3400, 50.0)]);
    let running = got.gauges["running"];
    assert_eq!((running.min, running.mean, running.max), (2.0, 3.0, 4.0));
    assert_eq!(got.samples, 5);
    assert_eq!(got.scrape_ns.unwrap().p50 / 1000, 2000);
}

#[test]
fn a_server_that_was_started_again_has_no_counts() {
    let got = seen([look(1000, 100.0, |_| {}), look(2000, 5.0, |_| {}), look(3000, 150.0, |_| {})]);
    assert_eq!(tokens(&got), None, "though it ended higher than it began");
    assert!(got.notes[0].contains("2.0 s") && got.notes[0].contains("started again"));
    let before = seen([look(0, 100.0, |_| {}), look(1000, 5.0, |_| {}), look(3000, 15.0, |_| {})]);
    assert_eq!(tokens(&before), Some(10), "what was before the window does not matter");
}

#[test]
fn failures_are_one_note_each() {
    let never = seen([bad(100, "status 404"), bad(600, "status 404")]);
    assert_eq!((never.samples, never.failed, never.kind), (0, 2, None));
    assert_eq!(never.notes, ["status 404 (0 of 2 looks succeeded)"]);
    let later = seen([look(900, 1.0, |_| {}), look(1900, 2.0, |_| {}), bad(2900, "gone")]);
    assert_eq!(later.notes, ["1 of 3 looks failed, the last at 2.9 s: gone"]);
    assert_eq!(tokens(&later), Some(1));
}

#[test]
fn transfers_after_expiry_speak_against_the_run() {
    let at = |at_ms: u64, late: f64| {
        look(at_ms, 0.0, |counted| {
            counted.set_counter(Counter::TransferLate, Some(late));
            counted.set_pair(Pair::Transfer, Some((late * 5e6, late)));
            counted.set_pair(Pair::TransferBytes, Some((late * 1e6, late)));
        })
    };
    let got = seen([at(1000, 1.0), at(3000, 3.0)]);
    let transfer = got.transfer.unwrap();
    assert_eq!((transfer.count, transfer.mean_ns), (Some(2), Some(5e6)));
    assert_eq!((transfer.bytes, transfer.after_expiry), (Some(2_000_000), Some(2)));
    assert!(got.notes[0].starts_with("2 fetches of KV"), "{:?}", got.notes);
}

#[test]
fn a_quantile_has_its_bucket_and_none_is_read_from_the_first() {
    let buckets = |counts: [f64; 4]| {
        let bounds = [300e6, 500e6, 800e6, f64::INFINITY];
        bounds.into_iter().zip(counts).collect::<Vec<_>>()
    };
    let at = |at_ms: u64, counts: [f64; 4]| {
        look(at_ms, 0.0, |counted| {
            counted.set_pair(Pair::Ttft, Some((counts[3] * 4e8, counts[3])));
            counted.set_buckets(Pair::Ttft, buckets(counts));
        })
    };
    let got = seen([at(1000, [10.0, 10.0, 10.0, 10.0]), at(3000, [50.0, 60.0, 109.0, 110.0])]);
    let ttft = &got.latency["ttft"];
    assert_eq!((ttft.mean_ns, ttft.count), (Some(4e8), Some(100)));
    let p50 = ttft.p50.as_ref().unwrap();
    assert_eq!((p50.from_ns, p50.to_ns), (300 * MS, Some(500 * MS)));
    assert_eq!(p50.value_ns, Some(500 * MS), "the 50th of 100, 50 of which are not above 500 ms");
    let p95 = ttft.p95.as_ref().unwrap();
    assert_eq!((p95.from_ns, p95.to_ns), (500 * MS, Some(800 * MS)));
    assert!(p95.value_ns.unwrap().abs_diff(776 * MS) < MS, "{p95:?}");

    let low = seen([at(1000, [0.0; 4]), at(3000, [99.0, 99.0, 99.0, 100.0])]);
    let p50 = low.latency["ttft"].p50.as_ref().unwrap();
    assert_eq!((p50.value_ns, p50.from_ns, p50.to_ns), (None, 0, Some(300 * MS)));
    assert_eq!(p50.why.as_deref(), Some("below 300 ms, where the buckets begin"));
    let high = seen([at(1000, [0.0; 4]), at(3000, [0.0, 0.0, 1.0, 100.0])]);
    let p50 = high.latency["ttft"].p50.as_ref().unwrap();
    assert_eq!((p50.value_ns, p50.to_ns), (None, None));
    let nonsense = seen([at(1000, [0.0; 4]), at(3000, [9.0, 5.0, 1.0, 100.0])]);
    assert_eq!(nonsense.latency["ttft"].p50, None);
}

#[test]
fn the_client_stands_beside_over_the_same_time() {
    let at = |at_ms: u64, requests: f64| {
        look(at_ms, 0.0, |counted| {
            counted.set_pair(Pair::Ttft, Some((requests * 90e6, requests)));
            counted.set_pair(Pair::Itl, Some((requests * 20e6, requests * 2.0)));
        })
    };
    let mut servers = Servers::of([at(1000, 0.0), at(3000, 2.0)], WINDOW);
    // One lies before, one in the time, one only begins in it.
    for row in [
        row_at(0, 0, 0, &[100, 110, 120]),
        row_at(1, 1500, 1500, &[1600, 1611, 1622]),
        row_at(2, 2800, 2800, &[2920, 3500]),
    ] {
        servers.hear(&row);
    }
    let got = servers.finish().remove(0);
    let ttft = got.beside["ttft"];
    assert_eq!((ttft.client_mean_ns, ttft.client_count), (Some(110e6), 2));
    assert_eq!((ttft.server_mean_ns, ttft.difference_ns), (Some(90e6), Some(20e6)));
    let itl = got.beside["itl"];
    assert_eq!((itl.client_mean_ns, itl.client_count), (Some(11e6), 2));
    let text = serde_json::to_string(&got).unwrap();
    assert_eq!(serde_json::from_str::<ServerSeen>(&text).unwrap(), got);
}

#[test]
fn of_several_servers_each_has_its_own_requests() {
    let of = |url: &str, place: Option<u64>| {
        let share = Share { place, of: 2 };
        [(1000, 0.0), (3000, 1.0)].map(|(at_ms, n)| Reading {
            url: url.to_owned(),
            share,
            ..look(at_ms, n, |counted| counted.set_pair(Pair::Ttft, Some((n * 1e8, n))))
        })
    };
    let readings = of("a", Some(0)).into_iter().chain(of("b", Some(1))).chain(of("c", None));
    let mut servers = Servers::of(readings, WINDOW);
    servers.hear(&row_at(0, 1500, 1500, &[1700]));
    servers.hear(&row_at(1, 1500, 1500, &[1600]));
    let got = servers.finish();
    let client = |at: usize| got[at].beside.get("ttft").map(|one| one.client_mean_ns.unwrap());
    assert_eq!((client(0), client(1), client(2)), (Some(200e6), Some(100e6), None));
}
