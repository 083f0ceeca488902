//! The replaying server is a witness: it must send what and when it says, and end as it is told.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokclock_tests::MS;
use tokclock_tests::replay::{End, Manners, Replay, Script, monotonic_ns};

const REQUEST: &str = "POST /v1 HTTP/1.1\r\nX-Request-Id: a\r\ncontent-length: 2\r\n\r\n{}";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";

fn script(end: End, end_at: Option<u64>) -> Script {
    let pieces = vec![(0, ANSWER.len() - 4), (30, ANSWER.len() - 2), (60, ANSWER.len())];
    Script { bytes: ANSWER.into(), pieces, end_at, end }
}

fn client(server: &Replay) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Asks and reads one answer; false if there is none.
fn ask(stream: &mut TcpStream) -> bool {
    let mut answer = [0; ANSWER.len()];
    stream.write_all(REQUEST.as_bytes()).is_ok() && stream.read_exact(&mut answer).is_ok()
}

/// What the client sees next: the number of bytes, or the kind of error.
fn next(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.read(&mut [0; 64]).map_err(|error| error.kind())
}

#[test]
fn every_piece_leaves_at_its_time_and_is_written_down() {
    let server = Replay::start(vec![script(End::Close, Some(90))], Manners::default());
    let mut stream = client(&server);
    stream.write_all(REQUEST.as_bytes()).unwrap();
    let mut arrived = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 64];
        let got = stream.read(&mut piece).unwrap();
        arrived.push(monotonic_ns());
        bytes.extend_from_slice(&piece[..got]);
        if got == 0 {
            break;
        }
    }
    let log = server.stop();
    assert_eq!(bytes, ANSWER.as_bytes());
    let asked = log.post("a");
    assert_eq!((asked.target.as_str(), asked.body.as_slice()), ("/v1", b"{}".as_slice()));
    assert_eq!(asked.sent.iter().map(|sent| sent.at_ms).collect::<Vec<_>>(), [0, 30, 60, 90]);
    for sent in &asked.sent {
        assert!(sent.begun >= asked.at + sent.at_ms * MS, "nothing is early");
        assert!(sent.ended >= sent.begun);
    }
    // Reads may have been put together, but none comes before its last piece.
    assert!(arrived.last() >= asked.sent.last().map(|sent| &sent.begun));
    assert!(arrived[0] >= asked.sent[0].begun);
}

#[test]
fn each_way_to_end_is_what_the_client_sees() {
    for (end, seen) in [
        (End::Close, Ok(0)),
        (End::Reset, Err(ErrorKind::ConnectionReset)),
        (End::Halfclose, Ok(0)),
    ] {
        for end_at in [None, Some(70)] {
            let server = Replay::start(vec![script(end, end_at)], Manners::default());
            let mut stream = client(&server);
            assert!(ask(&mut stream));
            assert_eq!(next(&mut stream), seen, "{end:?}");
            let _ = server.stop();
        }
    }
    for end in [End::Keepalive, End::Hang] {
        let server = Replay::start(vec![script(end, None)], Manners::default());
        let mut stream = client(&server);
        assert!(ask(&mut stream));
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(next(&mut stream), Err(ErrorKind::WouldBlock), "{end:?} stays open");
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        assert_eq!(ask(&mut stream), end == End::Keepalive, "{end:?}");
        let _ = server.stop();
    }
}

#[test]
fn manners_end_a_connection_whatever_the_answer_says() {
    let keep = || vec![script(End::Keepalive, None)];
    for (manners, posts) in [
        (Manners { idle_close_ms: Some(20), ..Manners::default() }, 1),
        (Manners { close_after: Some(1), ..Manners::default() }, 1),
        (Manners { drop_on_reuse: true, ..Manners::default() }, 2),
    ] {
        let server = Replay::start(keep(), manners);
        let mut stream = client(&server);
        assert!(ask(&mut stream));
        if posts == 2 {
            stream.write_all(REQUEST.as_bytes()).unwrap();
        }
        assert_eq!(next(&mut stream), Ok(0), "{manners:?}");
        assert_eq!(server.stop().posts().count(), posts, "{manners:?}");
    }
}

#[test]
fn answers_come_in_turn_the_last_one_again_and_probes_take_none() {
    let numbered = |number: u8| {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc{number}");
        Script::at_once(bytes, 0)
    };
    let server = Replay::start(vec![numbered(1), numbered(2)], Manners::default());
    let mut stream = client(&server);
    for method in ["GET", "HEAD"] {
        write!(stream, "{method} /v1/models HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut bytes = [0; 512];
        let got = stream.read(&mut bytes).unwrap();
        assert_eq!(bytes[..got].ends_with(b"}]}"), method == "GET");
    }
    for expected in [1, 2, 2] {
        stream.write_all(REQUEST.as_bytes()).unwrap();
        let mut answer = [0; ANSWER.len()];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(format!("abc{expected}").as_bytes()));
    }
    let log = server.stop();
    assert_eq!((log.requests.len(), log.posts().count()), (5, 3));
    assert_eq!((log.connections, log.peak_in_flight), (1, 1));
}
