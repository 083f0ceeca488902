//! What servers say of their own work on a request, over real sockets: in the data of a stream, in a head,
//! in a document with the moments of the server's clock; and what is broken of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a server of another kind reads its own clock")]

use std::io::Write;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use tokclock_engine::measure::{ServerTimesReport, summarize};
use tokclock_engine::record::{Outcome, TimesSource};
use tokclock_engine::workload::{Dialect, Workload};
use tokclock_tests::command::{Tool, alone, exits_with, json};
use tokclock_tests::{
    MS, Ran, STREAM_HEAD, carry_out, closed, event, odd_server, read_request, requests, speak,
    token, workload,
};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
const END: &str = "0\r\n\r\n";

/// A server that writes the pieces of the answer to request `n`, each after its pause in ms.
fn server(
    connections: usize,
    answer: impl Fn(u64) -> Vec<(u64, String)> + Send + Sync + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let answered = std::sync::atomic::AtomicU64::new(0);
    odd_server(connections, move |mut stream| {
        let _ = stream.set_nodelay(true);
        while read_request(&mut stream).is_some() {
            let number = answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            for (pause, piece) in answer(number) {
                std::thread::sleep(Duration::from_millis(pause));
                let _ = stream.write_all(piece.as_bytes());
            }
        }
    })
}

/// Twelve requests of one user.
fn against(address: SocketAddr, change: impl FnOnce(&mut Workload)) -> (Workload, Ran) {
    let mut load = workload(address, closed(1), requests(12));
    change(&mut load);
    let ran = carry_out(&load);
    assert_eq!(ran.rows.len(), 12);
    assert!(ran.rows.iter().all(|row| row.outcome == Outcome::Ok), "{:?}", ran.rows[0]);
    (load, ran)
}

fn told(load: &Workload, ran: Ran) -> Option<ServerTimesReport> {
    let summary = summarize(load, &ran.facts, ran.rows);
    let told = summary.server_times?;
    // What is written can be read again; floating-point numbers may lose their last digit.
    let text = serde_json::to_string(&told).unwrap();
    let read: ServerTimesReport = serde_json::from_str(&text).unwrap();
    assert_eq!((read.count, &read.clocks, &read.named), (told.count, &told.clocks, &told.named));
    Some(told)
}

/// Two tokens, a finish, and a usage event with this beside its counts.
fn vllm(beside: &str) -> Vec<(u64, String)> {
    let finish = event(r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#);
    let usage = format!(r#"{{"choices":[],"usage":{{"completion_tokens":2}},{beside}}}"#);
    vec![
        (5, STREAM_HEAD.to_owned() + &token("a")),
        (4, token(" b")),
        (0, finish + &event(&usage) + &event("[DONE]") + END),
    ]
}

#[test]
fn metrics_beside_the_usage_of_a_stream() {
    let metrics = r#""metrics":{"time_to_first_token_ms":2.0,"queue_time_ms":1.5,
        "generation_time_ms":3.0,"mean_itl_ms":3.0}"#
        .replace('\n', "");
    let (address, _server) = server(2, move |_| vllm(&metrics));
    let (load, ran) = against(address, |_| {});
    let told = told(&load, ran).unwrap();
    assert_eq!((told.source, told.count), (Some(TimesSource::VllmMetrics), 12));
    assert_eq!((told.queue.max, told.ttft.min), (Some(1_500_000), Some(2 * MS)));
    let ttft = told.client_minus_server.ttft.unwrap();
    assert_eq!(ttft.server, "queue + ttft");
    // The first token was sent 5 ms after the request at the earliest: the server says 3.5 of them.
    assert!(ttft.figures.min >= 1_500_000, "{:?}", ttft.figures);
    let e2e = told.client_minus_server.e2e.unwrap();
    assert!(e2e.figures.min >= 2_500_000, "{:?}", e2e.figures);
    assert!(told.clocks.is_empty(), "no moments were told");
}

#[test]
fn broken_times_are_no_times_and_no_failure() {
    let broken = ["\"5\"", "-5", "1e400", "null", "[]", "{\"x\":1e400}", "true"];
    let (address, _server) = server(2, move |number| {
        let value = broken[number as usize % broken.len()];
        let mut pieces = vllm(&format!(
            "\"metrics\":{{\"queue_time_ms\":{value},\"time_to_first_token_ms\":{value}}},\
             \"timings\":{{\"prompt_ms\":{value}}},\"nvext\":{{\"timing\":{value}}}"
        ));
        let head =
            "HTTP/1.1 200 OK\r\nServer-Timing: a;dur=NaN, b;dur=-1, ;dur=2\r\nx-queue-time: x";
        pieces[0].1 = pieces[0].1.replace("HTTP/1.1 200 OK", head);
        pieces
    });
    let (load, ran) = against(address, |_| {});
    assert!(ran.rows.iter().all(|row| row.server.is_none() && row.output_tokens == Some(2)));
    assert!(ran.rows.iter().all(|row| row.malformed_events == 0));
    assert_eq!(told(&load, ran), None);
}

#[test]
fn a_document_with_moments_tells_the_distance_of_the_clock() {
    /// The server's clock is so far ahead.
    const AHEAD: Duration = Duration::from_secs(3600);
    let now = || (SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + AHEAD).as_secs_f64();
    let (address, _server) = odd_server(2, move |mut stream| {
        while read_request(&mut stream).is_some() {
            let received = now();
            std::thread::sleep(Duration::from_millis(3));
            let body = format!(
                r#"{{"text":"a b","meta_info":{{"finish_reason":{{"type":"length"}},
                "completion_tokens":2,"e2e_latency":0.003,"request_received_ts":{received:?},
                "response_sent_to_client_ts":{:?}}}}}"#,
                now()
            );
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
            let _ = stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        }
    });
    let (load, ran) = {
        let mut load = workload(address, closed(1), requests(12));
        load.target.stream = false;
        speak(&mut load, Dialect::SglangGenerate, None);
        let ran = carry_out(&load);
        (load, ran)
    };
    let told = told(&load, ran).unwrap();
    assert_eq!(told.e2e.max, Some(3 * MS));
    assert!(told.client_minus_server.e2e.unwrap().figures.min >= 0);
    let [clock] = &told.clocks[..] else { unreachable!("one server: {:?}", told.clocks) };
    assert_eq!(clock.samples, 12);
    let wrong = clock.offset_ns.abs_diff(AHEAD.as_nanos() as i64);
    // A double of the server holds a moment to half a microsecond.
    assert!(wrong <= clock.error_ns + 2_000, "{wrong} of {}", clock.error_ns);
}

#[test]
fn the_command_shows_a_head_that_tells_times_and_keeps_them() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let (address, _server) = server(8, |_| {
        let mut pieces = vllm(r#""x":1"#);
        let head = "HTTP/1.1 200 OK\r\nServer-Timing: server_queue;dur=1.5, db;dur=0.5;desc=\"a, b\"\
                    \r\nServer-Timing: server_ttft;dur=3";
        pieces[0].1 = pieces[0].1.replace("HTTP/1.1 200 OK", head);
        pieces
    });
    let url = format!("http://{address}");
    let line = "run -c 1 -n 6 --osl 2 --model m --no-server-facts --out r";
    let output = TOOL.run(dir.path(), line, &[&url]);
    exits_with(&output, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    for words in [
        "server says of 6 answers",
        "by server-timing: service TTFT - server's ttft",
        "client - server",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let summary: Value = json(&dir.path().join("r/summary.json"));
    let told = &summary["server_times"];
    assert_eq!((&told["source"], &told["count"]), (&"server-timing".into(), &6.into()));
    assert_eq!(told["named"]["db"]["p50"], 500_000);
    assert!(told["client_minus_server"]["ttft"]["min"].as_i64().unwrap() >= 2_000_000, "{told}");
    let page = std::fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    assert!(page.contains("What the server says"), "the page has a section");
    exits_with(&TOOL.run(dir.path(), "report r --format csv,md", &[]), 0);
    let table = std::fs::read_to_string(dir.path().join("r/requests.csv")).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let at = head.iter().position(|name| *name == "server_ttft_ns").unwrap();
    assert_eq!(table.lines().nth(1).unwrap().split(',').nth(at), Some("3000000"));
    let page = std::fs::read_to_string(dir.path().join("r/report.md")).unwrap();
    assert!(page.contains("**server says**"), "{page}");
}
