//! What servers say of the same seconds: the simulator's metrics, metrics of a test's own, and targets
//! that hang, die, drip or talk nonsense, which cost a line each and nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::command::{Tool, alone, exits_with, json, one_clear_line, stderr};
use tokclock_tests::{odd_server, read_request};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));
/// Twelve requests of eight tokens, looked at when they begin and when they have ended.
const LOAD: &str = "run -c 2 -n 12 --isl 16 --osl 8 --seed 3 --scrape-interval 30s --out r";
/// More connections than any test opens.
const MANY: usize = 10_000;

/// A page of a server that has served so many requests, in 0.2 s each to the first token.
fn page(requests: u64) -> String {
    let ttft = requests as f64 * 0.2;
    let half = requests / 2;
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 2.0\n\
         # TYPE vllm:time_to_first_token_seconds histogram\n\
         vllm:time_to_first_token_seconds_sum {ttft}\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"0.1\"}} {half}\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"0.4\"}} {requests}\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {requests}\n\
         vllm:time_to_first_token_seconds_count {requests}\n\
         # TYPE vllm:request_queue_time_seconds histogram\n\
         vllm:request_queue_time_seconds_sum NaN\n\
         vllm:request_queue_time_seconds_count {requests}\n"
    )
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A server that does this with every request.
fn server(serve: impl Fn(&mut TcpStream, &str) + Send + Sync + 'static) -> SocketAddr {
    let each = move |mut stream: TcpStream| {
        if let Some(request) = read_request(&mut stream) {
            serve(&mut stream, &request);
        }
    };
    odd_server(MANY, each).0
}

fn only_server(summary: &Value) -> &Value {
    let servers = summary["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{servers:?}");
    &servers[0]
}

#[test]
fn the_servers_own_figures_stand_beside_those_of_the_client() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 5ms --itl 2ms");
    let output = TOOL.run(dir.path(), LOAD, &[sim.url()]);
    exits_with(&output, 0);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(&format!("{}/metrics (vllm)", sim.url())), "{said}");
    let out = dir.path().join("r");
    let summary: Value = json(&out.join("summary.json"));
    let seen = only_server(&summary);
    assert_eq!((&seen["kind"], &seen["by"]), (&"vllm".into(), &"target".into()));
    assert_eq!((&seen["samples"], &seen["failed"]), (&2.into(), &0.into()));
    assert_eq!(seen["notes"], Value::Array(Vec::new()));
    let here = |name: &str| seen["window"][name].as_u64().unwrap();
    let window = &summary["run"]["window"];
    assert!(here("to_ns") >= window["end_ns"].as_u64().unwrap());
    // On a host that is very busy the first look may come late.
    if here("from_ns") <= window["start_ns"].as_u64().unwrap() {
        assert_eq!(seen["counters"]["generation_tokens"], summary["tokens"]["output"]);
        assert_eq!(seen["counters"]["finished"], 12);
    }
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("Requests at the servers") && html.contains("id=\"servers\""));

    // What a killed run leaves is enough for the same figures.
    std::fs::remove_file(out.join("summary.json")).unwrap();
    exits_with(&TOOL.run(dir.path(), "report r", &["--format", "json"]), 0);
    let again: Value = json(&out.join("summary.json"));
    assert_eq!(only_server(&again), seen);
}

#[test]
fn a_named_server_is_read_and_gets_no_key() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 5ms --itl 2ms");
    let (asked, looks) = (Arc::new(Mutex::new(Vec::new())), AtomicU64::new(0));
    let heard = Arc::clone(&asked);
    let metrics = server(move |stream, request| {
        heard.lock().unwrap().push(request.to_owned());
        let text = answer(&page(10 + 20 * looks.fetch_add(1, Relaxed)));
        let _ = stream.write_all(text.as_bytes());
    });
    let url = format!("http://{metrics}");
    let more = ["--scrape", &url, "--header", "X-Api-Key: s3cret", "-q", "--no-report", sim.url()];
    exits_with(&TOOL.run(dir.path(), LOAD, &more), 0);
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|one| one.starts_with("GET /metrics ") && !one.contains("s3cret")));
    let summary: Value = json(&dir.path().join("r/summary.json"));
    let seen = only_server(&summary);
    assert_eq!((&seen["by"], &seen["url"]), (&"named".into(), &format!("{url}/metrics").into()));
    let ttft = &seen["latency"]["ttft"];
    assert_eq!((ttft["count"].as_u64(), ttft["mean_ns"].as_f64()), (Some(20), Some(200e6)));
    assert_eq!(ttft["p50"]["value_ns"], Value::Null, "it lies in the first bucket");
    assert!(ttft["p50"]["why"].as_str().unwrap().contains("below 100 ms"));
    assert_eq!(ttft["p95"]["to_ns"], 400_000_000);
    assert!(seen["latency"].get("queue").is_none(), "what is no number is not there");
    let beside = &seen["beside"]["ttft"];
    let number = |name: &str| beside[name].as_f64().unwrap();
    assert!((1.0..=12.0).contains(&number("client_count")), "{beside}");
    let apart = number("client_mean_ns") - number("server_mean_ns");
    assert!((apart - number("difference_ns")).abs() < 1.0);
    let toml = std::fs::read_to_string(dir.path().join("r/run.toml")).unwrap();
    assert!(toml.contains(&format!("scrape = [\"{url}\"]")), "{toml}");
}

#[test]
fn servers_that_hang_die_drip_or_talk_nonsense_cost_a_line_each() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 5ms --itl 2ms");
    let until_closed = |stream: &mut TcpStream| {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = stream.read(&mut [0]);
    };
    let hangs = server(move |stream, _| until_closed(stream));
    let drips = server(move |stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(100));
            if stream.write_all(b"#").is_err() {
                break;
            }
        }
    });
    let speaks_otherwise = server(|stream, _| {
        let _ = stream.write_all(b"SSH-2.0-x\r\n");
    });
    let no_metrics = server(|stream, _| {
        let _ = stream.write_all(answer("<html>vllm</html>").as_bytes());
    });
    let refuses = server(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    });
    let dies = odd_server(1, |mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(answer(&page(1)).as_bytes());
    });
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let all = [hangs, drips, speaks_otherwise, no_metrics, refuses, nobody];
    let urls: Vec<String> = all.iter().map(|address| format!("http://{address}/metrics")).collect();
    let dying = format!("http://{}/metrics", dies.0);
    let named = urls.iter().chain([&dying]).flat_map(|url| ["--scrape", url]);
    let more: Vec<&str> = named.chain(["--no-report", sim.url()]).collect();
    let output = TOOL.run(dir.path(), LOAD, &more);
    exits_with(&output, 0);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    for (url, why) in urls.iter().zip([
        "no answer within 2 s",
        "its answer does not end",
        "",
        "no figures that are known",
        "status 404",
        "refused",
    ]) {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(url.as_str())).collect();
        assert_eq!(lines.len(), 1, "{url}: {said}");
        assert!(lines[0].contains(why) && lines[0].ends_with(" succeeded)"), "{said}");
    }
    assert_eq!(said.matches(" looks failed, ").count(), 1, "{said}");
    let summary: Value = json(&dir.path().join("r/summary.json"));
    assert_eq!(summary["servers"].as_array().unwrap().len(), 7);
    assert_eq!(summary["requests"]["ok"], 12);
}

#[test]
fn nothing_is_read_where_nobody_wants_it_and_nonsense_is_refused() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let sim = TOOL.sim(dir.path(), "--port 0 --ttft 5ms --itl 2ms");
    let off = ["--no-scrape", "--no-report", "-q", sim.url()];
    exits_with(&TOOL.run(dir.path(), "run -c 2 -n 4 --osl 2 --out r", &off), 0);
    let summary: Value = json(&dir.path().join("r/summary.json"));
    assert!(summary.get("servers").is_none() && !dir.path().join("r/servers.csv").exists());
    for (more, words) in [
        (["--scrape", "http://me:pw@127.0.0.1:9"], ["--scrape", "password"]),
        (["--scrape", "http://127.0.0.1:9?api_key=x"], ["--scrape", "api_key"]),
        (["--scrape", "127.0.0.1:9"], ["--scrape", "http://host:8000/metrics"]),
        (["--scrape-interval", "1ms"], ["--scrape-interval", "20ms"]),
    ] {
        let output = TOOL.run(dir.path(), "run --out bad", &more);
        one_clear_line(&output, 2, &words);
        assert!(!stderr(&output).contains("pw@"));
    }
    let both = ["--no-scrape", "--scrape", "http://127.0.0.1:9"];
    one_clear_line(&TOOL.run(dir.path(), "run --out bad", &both), 2, &["--no-scrape", "drop"]);
}
