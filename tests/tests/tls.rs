//! TLS over real sockets: what is accepted, what is refused and how it is called.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokclock_engine::measure::summarize;
use tokclock_engine::record::{ErrorClass, Outcome};
use tokclock_engine::run::{Asked, Pinned, Way, locate, reach};
use tokclock_engine::workload::{Connections, Dialect, Workload};
use tokclock_tests::tls::{Authority, Stream, VERSIONS, tls_server};
use tokclock_tests::{
    MS, Ran, STREAM_HEAD, carry_out, closed, odd_server, open_answer, read_request, requests,
    short_answer, token,
};

/// What a server saw.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    names: Mutex<Vec<Option<String>>>,
}

/// Answers request after request, and notes them and the name that was asked for.
fn answering(seen: &Arc<Seen>) -> impl Fn(Stream) + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            if request.starts_with("GET") {
                let _ = stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
                return;
            }
            seen.requests.fetch_add(1, Ordering::SeqCst);
            let name = stream.conn.server_name().map(str::to_owned);
            seen.names.lock().unwrap().push(name);
            let _ = stream.write_all(short_answer().as_bytes());
        }
    }
}

/// Runs four requests against a server with these settings, which serves so many connections.
fn against(
    config: ServerConfig,
    host: &str,
    connections: usize,
    change: impl FnOnce(&mut Workload),
) -> (Workload, Ran, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let (address, server) = tls_server(config, connections, answering(&seen));
    let pinned =
        Pinned { host: host.to_owned(), port: address.port(), addresses: vec![address.ip()] };
    let way = Way { pinned: vec![pinned], ..Way::default() };
    let url = format!("https://{host}:{}", address.port());
    let mut load = tokclock_tests::workload(address, closed(1), requests(4));
    load.target.endpoints = vec![locate(&url, Dialect::OpenaiChat, &way).unwrap().endpoint];
    load.client.keep_text = true;
    change(&mut load);
    let ran = carry_out(&load);
    // Let the server's threads go that still wait for connections.
    for _ in 0..connections {
        let _ = std::net::TcpStream::connect(address);
    }
    server.join().unwrap();
    (load, ran, seen)
}

fn all_are_whole(ran: &Ran) {
    assert_eq!(ran.rows.len(), 4);
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Ok, None), "{row:?}");
        assert_eq!(row.text.as_deref(), Some("Alpha beta gamma"));
        assert_eq!(row.events, 3);
    }
}

fn all_failed_as(ran: &Ran, class: ErrorClass, word: &str) {
    assert_eq!(ran.rows.len(), 4);
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Error, Some(class)), "{row:?}");
        let text = row.error_text.as_deref().unwrap_or_default();
        assert!(text.contains(word) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_trusted_authority_is_enough_in_either_version_and_reads_keep_their_stamps() {
    for version in VERSIONS {
        let authority = Authority::new();
        let config = authority.server(&["127.0.0.1"], &[version], false);
        let (_, ran, seen) = against(config, "127.0.0.1", 3, |load| {
            load.target.tls.roots = Some(authority.file());
        });
        all_are_whole(&ran);
        assert_eq!(seen.requests.load(Ordering::SeqCst), 4);
        let first = &ran.rows[0];
        let (connected, tls_done) = (first.connected.unwrap(), first.tls_done.unwrap());
        assert!(connected < tls_done && tls_done <= first.write_start.unwrap());
        assert!(ran.rows[1].reused && ran.rows[1].tls_done.is_none(), "a phase of new ones alone");
        let reads: u64 = ran.facts.tallies.iter().map(|tally| tally.reads).sum();
        let unstamped: u64 = ran.facts.tallies.iter().map(|tally| tally.unstamped_reads).sum();
        assert!(reads > 0 && unstamped < reads, "{unstamped} of {reads} reads without a stamp");
    }
}

#[test]
fn an_unknown_authority_is_refused_before_any_request() {
    let config = Authority::new().server(&["127.0.0.1"], &VERSIONS, false);
    let (_, ran, seen) = against(config, "127.0.0.1", 5, |_| {});
    all_failed_as(&ran, ErrorClass::TlsVerify, "certificate");
    assert_eq!(seen.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_self_signed_certificate_is_trusted_where_it_is_given() {
    let authority = Authority::new();
    let given = |host: &str| {
        let (_, ran, _) = against(authority.itself(), host, 5, |load| {
            load.target.tls.roots = Some(authority.file());
        });
        ran
    };
    all_are_whole(&given("127.0.0.1"));
    all_failed_as(&given("localhost"), ErrorClass::TlsVerify, "another name");
}

#[test]
fn before_the_load_an_unknown_authority_is_one_clear_line() {
    let config = Authority::new().server(&["127.0.0.1"], &VERSIONS, false);
    let seen = Arc::new(Seen::default());
    let (address, server) = tls_server(config, 1, answering(&seen));
    let mut load = tokclock_tests::workload(address, closed(1), requests(1));
    let url = format!("https://{address}");
    let endpoint = locate(&url, Dialect::OpenaiChat, &Way::default()).unwrap().endpoint;
    load.target.endpoints = vec![endpoint];
    let asked = Asked::all(&load.target).next().unwrap();
    let error = reach(&asked).unwrap_err().to_string();
    assert!(error.contains("tls_verify") && error.contains("--cacert"), "{error}");
    assert_eq!(error.lines().count(), 1);
    server.join().unwrap();
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let config = authority.server(&["llm.example"], &VERSIONS, false);
    let (_, ran, _) = against(config, "127.0.0.1", 5, |load| {
        load.target.tls.roots = Some(authority.file());
    });
    all_failed_as(&ran, ErrorClass::TlsVerify, "another name");
}

#[test]
fn without_checking_anybody_may_answer_and_the_summary_says_so() {
    let config = Authority::new().server(&["llm.example"], &VERSIONS, false);
    let (load, ran, _) = against(config, "127.0.0.1", 3, |load| load.target.tls.verify = false);
    all_are_whole(&ran);
    let tls = summarize(&load, &ran.facts, ran.rows).target.tls.unwrap();
    assert!(!tls.verified && tls.handshakes >= 1);
}

#[test]
fn a_name_is_sent_an_address_is_not_and_another_may_be_asked_for() {
    let names = |host: &str, sni: Option<&str>| {
        let authority = Authority::new();
        let config = authority.server(&["localhost", "llm.example", "127.0.0.1"], &VERSIONS, false);
        let (_, ran, seen) = against(config, host, 3, |load| {
            load.target.tls.roots = Some(authority.file());
            load.target.tls.server_name = sni.map(str::to_owned);
        });
        all_are_whole(&ran);
        seen.names.lock().unwrap()[0].clone()
    };
    assert_eq!(names("127.0.0.1", None), None);
    assert_eq!(names("localhost", None).as_deref(), Some("localhost"));
    assert_eq!(names("127.0.0.1", Some("llm.example")).as_deref(), Some("llm.example"));
}

#[test]
fn a_server_that_wants_a_client_certificate_gets_one_or_says_no() {
    for version in VERSIONS {
        let authority = Authority::new();
        let config = || authority.server(&["127.0.0.1"], &[version], true);
        let (_, ran, _) = against(config(), "127.0.0.1", 3, |load| {
            load.target.tls.roots = Some(authority.file());
            load.target.tls.identity = Some(authority.client());
        });
        all_are_whole(&ran);
        let (_, ran, seen) = against(config(), "127.0.0.1", 5, |load| {
            load.target.tls.roots = Some(authority.file());
        });
        assert_eq!(seen.requests.load(Ordering::SeqCst), 0);
        for row in &ran.rows {
            assert_eq!(row.error, Some(ErrorClass::TlsHandshake), "{row:?}");
        }
    }
}

#[test]
fn a_server_without_http_1_says_so() {
    let authority = Authority::new();
    let mut config = authority.server(&["127.0.0.1"], &VERSIONS, false);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (_, ran, _) = against(config, "127.0.0.1", 5, |load| {
        load.target.tls.roots = Some(authority.file());
    });
    all_failed_as(&ran, ErrorClass::TlsHandshake, "HTTP/1.1");
}

#[test]
fn sessions_are_resumed_unless_that_is_off() {
    for resume in [true, false] {
        let authority = Authority::new();
        let config = authority.server(&["127.0.0.1"], &VERSIONS, false);
        let (load, ran, _) = against(config, "127.0.0.1", 5, |load| {
            load.target.tls.roots = Some(authority.file());
            load.target.tls.resume = resume;
            load.client.connections = Connections::PerRequest;
        });
        all_are_whole(&ran);
        let tls = summarize(&load, &ran.facts, ran.rows).target.tls.unwrap();
        assert_eq!((tls.resumption, tls.handshakes), (resume, 4));
        assert_eq!(tls.resumed > 0, resume, "{tls:?}");
    }
}

#[test]
fn a_close_without_close_notify_after_a_whole_body_is_no_failure() {
    let authority = Authority::new();
    let config = authority.server(&["127.0.0.1"], &VERSIONS, false);
    let (address, server) = tls_server(config, 5, |mut stream| {
        if read_request(&mut stream).is_some() {
            let _ = stream.write_all(short_answer().as_bytes());
            let _ = stream.sock.shutdown(std::net::Shutdown::Both);
        }
    });
    let mut load = tokclock_tests::workload(address, closed(1), requests(4));
    let url = format!("https://{address}");
    load.target.endpoints =
        vec![locate(&url, Dialect::OpenaiChat, &Way::default()).unwrap().endpoint];
    load.target.tls.roots = Some(authority.file());
    load.client.keep_text = true;
    let ran = carry_out(&load);
    all_are_whole(&ran);
    server.join().unwrap();
}

#[test]
fn what_answers_in_plain_http_or_not_at_all_is_no_tls() {
    let (address, server) = odd_server(5, |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = read_request(&mut stream);
    });
    let mut load = tokclock_tests::workload(address, closed(1), requests(4));
    load.target.endpoints[0].tls = true;
    all_failed_as(&carry_out(&load), ErrorClass::TlsHandshake, "http://");
    server.join().unwrap();

    let (address, server) = odd_server(5, |mut stream| {
        let _ = read_request(&mut stream);
    });
    let mut load = tokclock_tests::workload(address, closed(1), requests(4));
    load.target.endpoints[0].tls = true;
    load.limits.tls_ns = Some(60 * MS);
    all_failed_as(&carry_out(&load), ErrorClass::TlsHandshake, "in time");
    server.join().unwrap();
}

#[test]
fn what_breaks_the_session_after_the_last_event_is_no_failure_and_before_it_is_one() {
    for (answer, error) in [
        (open_answer(), None),
        (STREAM_HEAD.to_owned() + &token("Alpha"), Some(ErrorClass::ConnReset)),
    ] {
        let authority = Authority::new();
        let config = authority.server(&["127.0.0.1"], &VERSIONS, false);
        let (address, server) = tls_server(config, 5, move |mut stream| {
            if read_request(&mut stream).is_some() {
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream.sock.write_all(&[23, 3, 3, 0, 20, 0, 0, 0, 0, 0]);
                let _ = stream.sock.write_all(&[0; 15]);
                let _ = read_request(&mut stream.sock);
            }
        });
        let mut load = tokclock_tests::workload(address, closed(1), requests(4));
        load.target.endpoints[0].tls = true;
        load.target.tls.roots = Some(authority.file());
        let ran = carry_out(&load);
        assert_eq!(ran.rows.len(), 4);
        for row in &ran.rows {
            assert_eq!(row.error, error, "{row:?}");
        }
        server.join().unwrap();
    }
}
