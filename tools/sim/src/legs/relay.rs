//! One request of a router: asked of both kinds of server, and passed on.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;

use crate::clock;
use crate::document;
use crate::legs::rewrite::{self, Fields};
use crate::legs::router::{Common, Request, locked};
use crate::legs::settings::{Flow, Role, RoleSettings};
use crate::legs::upstream::{Address, Upstream};
use crate::model::generator;
use crate::truth::{Record, fnv1a};

/// It keeps these draws apart from others.
const OF_ROUTER: u64 = 0x726f_7574_6572_0001;

/// A request under way.
pub(crate) struct Relay<'a> {
    common: &'a Common,
    record: Record,
    delay_ns: u64,
    /// Where SGLang's servers meet.
    room: u64,
}

/// What is sent to which server.
struct Errand<'a> {
    address: &'a Address,
    path: &'a str,
    headers: &'a [u8],
    body: Vec<u8>,
}

/// What a server answered in one piece.
struct Answer {
    status: u16,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// Why a request ends without an answer of a decode server.
enum Failure {
    /// It gets this answer of the prefill server.
    Answered(Box<Answer>),
    /// A server cannot be asked.
    Upstream(String),
    /// The client is gone.
    Client,
}

impl<'a> Relay<'a> {
    /// Counts a request, and draws for it.
    pub(crate) fn new(common: &'a Common, request: &Request) -> Self {
        let counts = &common.counts;
        let number = counts.requests.fetch_add(1, Ordering::Relaxed);
        let in_flight = counts.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        counts.peak.fetch_max(in_flight, Ordering::Relaxed);
        let read_ns = clock::monotonic_ns();
        let mut rng = generator(common.settings.seed ^ OF_ROUTER, number);
        let delay_ns = common.role.router_delay.draw(&mut rng);
        // Apart from those of a router that was started with the same seed before.
        let room = (rng.random::<u64>() ^ read_ns) >> 1;
        let record = Record {
            number,
            request_id: request.head.request_id.clone(),
            read_ns,
            started_ns: Some(read_ns),
            body_hash: format!("{:016x}", fnv1a(&request.body)),
            in_flight,
            role: Some(Role::Router),
            ..Record::default()
        };
        Self { common, record, delay_ns, room }
    }

    /// Answers the client; an error ends its connection.
    pub(crate) fn run(mut self, client: &mut TcpStream, request: Request) -> io::Result<()> {
        let result = self.route(client, &request);
        let counts = &self.common.counts;
        counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        let result = match result {
            Ok(()) => {
                counts.completed.fetch_add(1, Ordering::Relaxed);
                self.record.complete = true;
                Ok(())
            }
            Err(Failure::Client) => {
                counts.aborted.fetch_add(1, Ordering::Relaxed);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Err(failure) => {
                counts.broken.fetch_add(1, Ordering::Relaxed);
                self.refuse(client, failure, request.head.close)
            }
        };
        if let Some(sink) = &self.common.truth {
            sink.put(self.record);
        }
        result
    }

    fn refuse(&mut self, client: &mut TcpStream, failure: Failure, close: bool) -> io::Result<()> {
        // Within an answer nothing but the end of the connection tells of it.
        if self.record.head.is_some() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut out = Vec::new();
        match failure {
            Failure::Answered(answer) => {
                out.extend_from_slice(&answer.head);
                out.extend_from_slice(&answer.body);
            }
            Failure::Upstream(message) => document::error(&mut out, 502, &message, close),
            Failure::Client => {}
        }
        let start_ns = clock::monotonic_ns();
        let result = client.write_all(&out);
        let at = [start_ns, clock::monotonic_ns()];
        (self.record.head, self.record.tail) = (Some(at), Some(at));
        result
    }

    fn route(&mut self, client: &mut TcpStream, request: &Request) -> Result<(), Failure> {
        let body: Fields = serde_json::from_slice(&request.body)
            .map_err(|error| Failure::Upstream(format!("the body is no JSON object: {error}")))?;
        self.record.stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        let common = self.common;
        let at = |all: usize| usize::try_from(self.record.number).unwrap_or(0) % all.max(1);
        let (of_prefill, of_decode) = (at(common.prefill.len()), at(common.decode.len()));
        let (prefill, decode) = (&common.prefill[of_prefill], &common.decode[of_decode]);
        let mut headers = request.headers.clone();
        let errand = |address, headers, body: &Fields| Errand {
            address,
            path: &request.path,
            headers,
            body: Value::from(body.clone()).to_string().into_bytes(),
        };
        match common.role.flow {
            Flow::VllmNixl => {
                let first = errand(prefill, &headers, &rewrite::prefill(&body));
                let object = self.prefilled(&first)?;
                self.think();
                let second = errand(decode, &headers, &rewrite::pulling(&body, object));
                self.pass_on(client, &second)
            }
            Flow::VllmPush => {
                let id = self.id(&mut headers);
                self.think();
                let (engine, port) = common.side(of_prefill);
                let side = (prefill.host.as_str(), port);
                let first = errand(prefill, &headers, &rewrite::prefill(&body));
                let pushed = rewrite::pushed(&body, &engine, side, &id);
                self.at_once(client, &first, &errand(decode, &headers, &pushed))
            }
            Flow::Sglang => {
                self.think();
                let (_, port) = common.side(of_prefill);
                let side = (prefill.host.as_str(), port);
                let both = rewrite::bootstrapped(&body, side, self.room);
                let first = errand(prefill, &headers, &both);
                self.at_once(client, &first, &errand(decode, &headers, &both))
            }
        }
    }

    /// The request's id, which is made where there is none.
    fn id(&mut self, headers: &mut Vec<u8>) -> String {
        let room = self.room;
        self.record.request_id.clone().unwrap_or_else(|| {
            let id = format!("routed-{room:016x}");
            document::put(headers, format_args!("x-request-id: {id}\r\n"));
            id
        })
    }

    /// Asks the prefill server and reads all of its answer; the hand-off object in it, if any.
    fn prefilled(&mut self, errand: &Errand<'_>) -> Result<Option<Value>, Failure> {
        let answer = self.common.ask(errand, &Socket::default())?;
        self.record.prefill_done_ns = Some(clock::monotonic_ns());
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok(body.get("kv_transfer_params").filter(|object| !object.is_null()).cloned())
    }

    /// Asks both servers at once.
    fn at_once(
        &mut self,
        client: &mut TcpStream,
        first: &Errand<'_>,
        second: &Errand<'_>,
    ) -> Result<(), Failure> {
        let common = self.common;
        let (prefilling, decoding) = (Socket::default(), Socket::default());
        thread::scope(|scope| {
            let prefill = scope.spawn(|| {
                let result = common.ask(first, &prefilling);
                let done_ns = clock::monotonic_ns();
                if result.is_err() {
                    give_up(&decoding);
                }
                result.map(|_| done_ns)
            });
            let upstream = common.open(second, &decoding);
            let mut prefill = Some(prefill);
            let mut prefilled = None;
            if common.role.drain_prefill && upstream.is_ok() {
                prefilled = prefill.take().map(ScopedJoinHandle::join);
            }
            let relayed = upstream.and_then(|upstream| self.stream(client, upstream));
            let prefill_failed = locked(&decoding).is_unwanted;
            if relayed.is_err() && !prefill_failed {
                give_up(&prefilling);
            }
            let prefilled = prefilled.or_else(|| prefill.map(ScopedJoinHandle::join));
            match prefilled {
                Some(Ok(Ok(done_ns))) => self.record.prefill_done_ns = Some(done_ns),
                Some(Ok(Err(failure))) if prefill_failed && relayed.is_err() => {
                    return Err(failure);
                }
                _ => {}
            }
            relayed
        })
    }

    /// Asks the decode server and passes its answer on.
    fn pass_on(&mut self, client: &mut TcpStream, errand: &Errand<'_>) -> Result<(), Failure> {
        let upstream = self.common.open(errand, &Socket::default())?;
        self.stream(client, upstream)
    }

    fn stream(&mut self, client: &mut TcpStream, mut upstream: Upstream) -> Result<(), Failure> {
        let handle = upstream.handle().map_err(|error| failed("decode", &error))?;
        let _held = self.common.hold(handle);
        let head = upstream.head().map_err(|error| failed("decode", &error))?;
        let mut body = head.body();
        let mut out = head.bytes;
        loop {
            let start_ns = clock::monotonic_ns();
            let sent = client.write_all(&out);
            let at = [start_ns, clock::monotonic_ns()];
            self.record.head.get_or_insert(at);
            self.record.tail = Some(at);
            sent.map_err(|_| Failure::Client)?;
            if body.is_whole() {
                return Ok(());
            }
            out = upstream.piece().map_err(|error| failed("decode", &error))?;
            if out.is_empty() {
                return Err(failed("decode", &io::ErrorKind::UnexpectedEof.into()));
            }
            body.add(&out);
        }
    }

    /// Lets the time pass that the router takes for this request.
    fn think(&mut self) {
        let start_ns = clock::monotonic_ns();
        let end_ns = start_ns + self.delay_ns;
        self.record.delay_ns = Some([start_ns, end_ns]);
        while let Some(left_ns) = end_ns.checked_sub(clock::monotonic_ns()).filter(|left| *left > 0)
        {
            thread::sleep(Duration::from_nanos(left_ns));
        }
    }
}

/// The socket of a request, for whoever may have to end it.
type Socket = Mutex<Ending>;

/// What a [`Socket`] holds.
#[derive(Debug, Default)]
struct Ending {
    stream: Option<TcpStream>,
    is_unwanted: bool,
}

impl Ending {
    /// Takes a handle, unless the request is not wanted any more.
    fn keep(&mut self, stream: TcpStream) -> io::Result<()> {
        if self.is_unwanted {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.stream = Some(stream);
        Ok(())
    }
}

fn give_up(socket: &Socket) {
    let mut ending = locked(socket);
    ending.is_unwanted = true;
    if let Some(stream) = ending.stream.take() {
        // One that is closed already is what is wanted.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn failed(role: &str, error: &io::Error) -> Failure {
    Failure::Upstream(format!("the {role} server cannot be asked: {error}"))
}

impl Common {
    /// Asks a prefill server and reads all of its answer.
    fn ask(&self, errand: &Errand<'_>, prefilling: &Socket) -> Result<Answer, Failure> {
        let asked = || -> io::Result<Answer> {
            let mut upstream = Upstream::connect(errand.address)?;
            let _held = self.hold(upstream.handle()?);
            locked(prefilling).keep(upstream.handle()?)?;
            let Errand { address, path, headers, body } = errand;
            upstream.send(["POST", path], address, headers, body)?;
            let head = upstream.head()?;
            let body = upstream.whole(&head)?;
            Ok(Answer { status: head.status, head: head.bytes, body })
        };
        let answer = asked().map_err(|error| failed("prefill", &error))?;
        if answer.status != 200 {
            return Err(Failure::Answered(Box::new(answer)));
        }
        Ok(answer)
    }

    /// Asks a decode server.
    fn open(&self, errand: &Errand<'_>, decoding: &Socket) -> Result<Upstream, Failure> {
        let opened = || -> io::Result<Upstream> {
            let mut upstream = Upstream::connect(errand.address)?;
            locked(decoding).keep(upstream.handle()?)?;
            let Errand { address, path, headers, body } = errand;
            upstream.send(["POST", path], address, headers, body)?;
            Ok(upstream)
        };
        opened().map_err(|error| failed("decode", &error))
    }

    /// What prefill server `index` is called, and the port where decode servers meet it.
    fn side(&self, index: usize) -> (String, u16) {
        let mut sides = locked(&self.sides);
        let known = sides.entry(index).or_insert_with(|| {
            let asked = ask_side(&self.prefill[index]);
            let port = RoleSettings::side_port_of(self.role.flow);
            asked.unwrap_or_else(|| (RoleSettings::ENGINE_ID.to_owned(), port))
        });
        known.clone()
    }
}

/// What a simulated prefill server says of itself.
fn ask_side(address: &Address) -> Option<(String, u16)> {
    let mut upstream = Upstream::connect(address).ok()?;
    upstream.send(["GET", "/server_info"], address, b"", b"").ok()?;
    let head = upstream.head().ok()?;
    let body: Value = serde_json::from_slice(&upstream.whole(&head).ok()?).ok()?;
    let role = body.get("role")?;
    let port = u16::try_from(role.get("side_port")?.as_u64()?).ok()?;
    Some((role.get("engine_id")?.as_str()?.to_owned(), port))
}
