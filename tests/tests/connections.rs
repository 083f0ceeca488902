//! Connections: how many, whose, from and to where; and what is ended on purpose.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use tokclock_engine::measure::{Summary, summarize};
use tokclock_engine::record::{ErrorClass, Outcome};
use tokclock_engine::run::{Asked, Way, locate, models, reach};
use tokclock_engine::workload::{
    Address, Cancel, CancelAfter, Connections, Dialect, Sizes, Workload,
};
use tokclock_tests::tls::{Authority, VERSIONS, tls_server};
use tokclock_tests::{
    MS, Ran, STREAM_HEAD, Sim, carry_out, closed, event, odd_server, read_request, requests,
    settings, short_answer, token, workload,
};

/// Against a simulated server: 3 users, 24 requests.
fn against_sim(change: impl FnOnce(&mut Workload)) -> (Summary, Ran, Vec<tokclock_tests::Truth>) {
    let sim = Sim::start(settings());
    let mut load = workload(sim.address(), closed(3), requests(24));
    change(&mut load);
    let ran = carry_out(&load);
    let (_, truth) = sim.stop();
    let summary = summarize(&load, &ran.facts, ran.rows.clone());
    (summary, ran, truth)
}

fn all_ok(ran: &Ran) {
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Ok, None), "{row:?}");
    }
}

#[test]
fn each_request_may_open_a_connection_of_its_own() {
    let (summary, ran, _) = against_sim(|load| {
        load.client.connections = Connections::PerRequest;
    });
    all_ok(&ran);
    assert!(ran.rows.iter().all(|row| !row.reused && row.connected.is_some()));
    let numbers: BTreeSet<u64> = ran.rows.iter().map(|row| row.connection).collect();
    assert_eq!((numbers.len(), summary.client.connections), (24, 24));
}

#[test]
fn a_connection_may_be_closed_after_so_many_requests() {
    let (_, ran, _) = against_sim(|load| load.client.requests_per_connection = Some(3));
    all_ok(&ran);
    let mut carried = BTreeMap::<u64, u32>::new();
    for row in &ran.rows {
        *carried.entry(row.connection).or_default() += 1;
    }
    assert!(carried.values().all(|&requests| requests <= 3), "{carried:?}");
    assert!(carried.values().any(|&requests| requests == 3), "{carried:?}");
}

#[test]
fn users_that_keep_their_own_connections_open_one_each() {
    let (summary, ran, _) = against_sim(|load| load.client.connections = Connections::PerUser);
    all_ok(&ran);
    assert_eq!(summary.client.connections, 3);
    // A user's requests follow each other: on one connection none begins before the last is over.
    let numbers: BTreeSet<u64> = ran.rows.iter().map(|row| row.connection).collect();
    assert_eq!(numbers.len(), 3);
    for number in numbers {
        let mut last = 0;
        for row in ran.rows.iter().filter(|row| row.connection == number) {
            assert!(row.dispatched.unwrap() >= last);
            last = row.done.unwrap();
        }
    }
}

#[test]
fn several_servers_share_the_requests_in_turn() {
    let sims = [Sim::start(settings()), Sim::start(settings())];
    let mut load = workload(sims[0].address(), closed(3), requests(24));
    let other = workload(sims[1].address(), closed(1), requests(1));
    load.target.endpoints.extend(other.target.endpoints);
    let ran = carry_out(&load);
    all_ok(&ran);
    for (number, sim) in (0..).zip(sims) {
        let (_, truth) = sim.stop();
        let mut ids: Vec<u64> = truth
            .iter()
            .filter_map(|one| one.request_id.as_ref()?.strip_prefix("test-")?.parse().ok())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..24).filter(|index| index % 2 == number).collect::<Vec<_>>());
    }
}

#[test]
fn the_next_address_of_a_name_is_tried_when_one_refuses() {
    let closed_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (summary, ran, _) = against_sim(|load| {
        load.target.endpoints[0].addresses.insert(0, Address::Ip(closed_port));
    });
    all_ok(&ran);
    assert_eq!(summary.requests.retried, 0);
    assert!(ran.rows.iter().all(|row| row.attempts == 1));
}

#[test]
fn when_no_address_answers_the_request_fails_once() {
    let refusing = |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Address::Ip(listener.local_addr().unwrap())
    };
    let mut load = workload(SocketAddr::from(([127, 0, 0, 1], 9)), closed(1), requests(3));
    load.target.endpoints[0].addresses = (0..3).map(refusing).collect();
    let ran = carry_out(&load);
    assert_eq!(ran.rows.len(), 3);
    for row in &ran.rows {
        assert_eq!((row.error, row.attempts), (Some(ErrorClass::ConnectRefused), 1));
    }
}

#[test]
fn a_unix_socket_is_as_good_as_an_address() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let mut serving = Vec::new();
        // One for the warm-up and one for the user.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            serving.push(std::thread::spawn(move || {
                while read_request(&mut stream).is_some() {
                    let _ = stream.write_all(short_answer().as_bytes());
                }
            }));
        }
        serving.into_iter().for_each(|one| one.join().unwrap());
    });
    let mut load = workload(SocketAddr::from(([127, 0, 0, 1], 9)), closed(1), requests(4));
    let way = Way { unix_socket: Some(path), ..Way::default() };
    let located = locate("http://localhost/v1", Dialect::OpenaiChat, &way).unwrap();
    load.target.endpoints = vec![located.endpoint];
    let ran = carry_out(&load);
    all_ok(&ran);
    assert!(ran.facts.tallies[0].unstamped_reads > 0, "a unix socket has no stamps");
    server.join().unwrap();
}

#[test]
fn connections_come_from_the_addresses_given() {
    let peers = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&peers);
    let (address, server) = odd_server(5, move |mut stream| {
        let Some(request) = read_request(&mut stream) else { return };
        if request.starts_with("POST") {
            seen.lock().unwrap().insert(stream.peer_addr().unwrap().ip());
        }
        let _ = stream.write_all(short_answer().as_bytes());
    });
    let mut load = workload(address, closed(1), requests(4));
    load.client.connections = Connections::PerRequest;
    let ips: Vec<IpAddr> = ["127.0.0.2", "127.0.0.3"].map(|ip| ip.parse().unwrap()).to_vec();
    load.client.source_ips = ips.clone();
    let ran = carry_out(&load);
    all_ok(&ran);
    server.join().unwrap();
    assert_eq!(peers.lock().unwrap().iter().copied().collect::<Vec<_>>(), ips);
}

/// A proxy that notes first lines, and serves or tunnels so many connections.
fn proxy(
    connections: usize,
    answer: Option<&'static str>,
) -> (SocketAddr, std::thread::JoinHandle<()>, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let (address, server) = odd_server(connections, move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            let line = request.lines().next().unwrap().to_owned();
            seen.lock().unwrap().push(line.clone());
            if let Some(answer) = answer {
                let _ = stream.write_all(answer.as_bytes());
                return;
            }
            let Some(to) = line.strip_prefix("CONNECT ") else {
                let _ = stream.write_all(short_answer().as_bytes());
                continue;
            };
            let to = to.split(' ').next().unwrap();
            let up = TcpStream::connect(to).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
            let (from, into) = (stream.try_clone().unwrap(), up.try_clone().unwrap());
            let there = std::thread::spawn(move || pass_on(from, into));
            pass_on(up, stream);
            let _ = there.join();
            return;
        }
    });
    (address, server, lines)
}

fn pass_on(mut from: TcpStream, mut into: TcpStream) {
    let mut piece = [0_u8; 4096];
    while let Ok(got @ 1..) = from.read(&mut piece) {
        if into.write_all(&piece[..got]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
}

#[test]
fn a_proxy_is_told_the_whole_url() {
    let (address, server, lines) = proxy(2, None);
    let way = Way { proxy: Some(format!("http://{address}")), ..Way::default() };
    let mut load = workload(address, closed(1), requests(3));
    let located = locate("http://llm.example:8000/v1", Dialect::OpenaiChat, &way).unwrap();
    load.target.endpoints = vec![located.endpoint];
    let ran = carry_out(&load);
    all_ok(&ran);
    server.join().unwrap();
    let lines = lines.lock().unwrap();
    let posts: Vec<&String> = lines.iter().filter(|line| line.starts_with("POST")).collect();
    assert_eq!(posts.len(), 3);
    assert_eq!(posts[0], "POST http://llm.example:8000/v1/chat/completions HTTP/1.1");
}

#[test]
fn tls_goes_through_a_proxy_by_a_tunnel() {
    let authority = Authority::new();
    let config = authority.server(&["localhost"], &VERSIONS, false);
    // One tunnel for the question, one for the warm-up, one for the user.
    let (server, serving) = tls_server(config, 3, |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            if request.starts_with("GET") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
                return;
            }
            let _ = stream.write_all(short_answer().as_bytes());
        }
    });
    let (address, proxying, lines) = proxy(3, None);
    let way = Way { proxy: Some(format!("http://{address}")), ..Way::default() };
    let mut load = workload(address, closed(1), requests(3));
    let url = format!("https://localhost:{}", server.port());
    load.target.endpoints = vec![locate(&url, Dialect::OpenaiChat, &way).unwrap().endpoint];
    load.target.tls.roots = Some(authority.file());
    let asked = Asked::all(&load.target).next().unwrap();
    assert_eq!(reach(&asked).unwrap(), 200);
    let ran = carry_out(&load);
    all_ok(&ran);
    let line = format!("CONNECT localhost:{} HTTP/1.1", server.port());
    assert!(lines.lock().unwrap().iter().all(|seen| *seen == line));
    proxying.join().unwrap();
    serving.join().unwrap();
}

#[test]
fn a_proxy_that_refuses_is_named() {
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
    let (address, server, _) = proxy(4, Some(refusal));
    let way = Way { proxy: Some(format!("http://{address}")), ..Way::default() };
    let mut load = workload(address, closed(1), requests(2));
    let located = locate("https://llm.example", Dialect::OpenaiChat, &way).unwrap();
    load.target.endpoints = vec![located.endpoint];
    let error = models(&Asked::all(&load.target).next().unwrap()).unwrap_err().to_string();
    assert!(error.contains("proxy") && error.contains("407"), "{error}");
    let ran = carry_out(&load);
    for row in &ran.rows {
        assert_eq!(row.error, Some(ErrorClass::ConnectRefused));
        assert!(row.error_text.as_deref().unwrap().contains("407"), "{row:?}");
    }
    server.join().unwrap();
}

#[test]
fn a_share_of_the_requests_is_cancelled_on_purpose_and_enters_no_figure() {
    for after in [CancelAfter::Events(3), CancelAfter::Time(25 * MS)] {
        let (summary, ran, _) = against_sim(|load| {
            load.client.cancel = Some(Cancel { rate: 0.4, after });
            load.stop = requests(100);
        });
        let cancelled: Vec<_> =
            ran.rows.iter().filter(|row| row.outcome == Outcome::Cancelled).collect();
        assert!((20..=60).contains(&cancelled.len()), "{} of 100", cancelled.len());
        for row in &cancelled {
            assert_eq!(row.error, Some(ErrorClass::CancelRate));
            if after == CancelAfter::Events(3) {
                // Events that share a read are all there before anything can be done.
                assert!(row.events >= 3, "{row:?}");
            }
        }
        let count = cancelled.len() as u64;
        let counts = &summary.requests;
        assert_eq!((counts.ok, counts.failed, counts.cancelled), (100 - count, 0, count));
        assert_eq!(counts.censored, 0, "nobody wonders how they would have ended");
        assert_eq!(summary.latency.ttft.count, 100 - count);
    }
}

#[test]
fn the_same_requests_are_cancelled_whatever_the_number_of_reactors() {
    let cancelled = |reactors| {
        let (_, ran, _) = against_sim(|load| {
            let cancel = Cancel { rate: 0.3, after: CancelAfter::Events(2) };
            load.client.cancel = Some(cancel);
            *load = tokclock_tests::on_reactors(load.clone(), reactors);
        });
        let rows = ran.rows.iter().filter(|row| row.outcome == Outcome::Cancelled);
        rows.map(|row| row.index).collect::<BTreeSet<u64>>()
    };
    let one = cancelled(1);
    assert!(!one.is_empty());
    assert_eq!(one, cancelled(2));
}

#[test]
fn what_is_too_large_is_a_size_limit_wherever_it_is() {
    let long = "x".repeat(4000);
    let head = format!("HTTP/1.1 200 OK\r\nX-Long: {long}\r\nContent-Length: 0\r\n\r\n");
    let stream = STREAM_HEAD.to_owned() + &token(&long) + &event("[DONE]") + "0\r\n\r\n";
    let document = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{long}"
    );
    let small = |head, event, body| Sizes { head, event, body };
    for (answer, sizes, stream) in [
        (head, small(1000, 9999, 9999), true),
        (stream, small(9999, 1000, 9999), true),
        (document, small(9999, 9999, 1000), false),
    ] {
        let (address, server) = odd_server(3, move |mut socket| {
            while read_request(&mut socket).is_some() {
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        let mut load = workload(address, closed(1), requests(2));
        load.target.stream = stream;
        load.sizes = sizes;
        let ran = carry_out(&load);
        for row in &ran.rows {
            assert_eq!(row.error, Some(ErrorClass::SizeLimit), "{sizes:?}: {row:?}");
        }
        server.join().unwrap();
    }
}

#[test]
fn an_address_of_another_host_is_refused_before_the_load() {
    let sim = Sim::start(settings());
    let mut load = workload(sim.address(), closed(1), requests(1));
    load.client.source_ips = vec!["192.0.2.1".parse().unwrap()];
    let error = tokclock_engine::run::check(&load).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1") && error.lines().count() == 1, "{error}");
    load.client.source_ips = vec!["127.0.0.9".parse().unwrap()];
    assert!(tokclock_engine::run::check(&load).is_ok());
    let _ = sim.stop();
}
