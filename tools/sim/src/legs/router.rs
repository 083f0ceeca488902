//! The router of a deployment where prefill and decode are apart: a proxy with a thread for each
//! client, which asks both kinds of server and passes on what decode answers.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::dcgm::Load;
use crate::document::{self, put};
use crate::http::{self, Head, Refusal, Route};
use crate::legs::relay::Relay;
use crate::legs::settings::RoleSettings;
use crate::legs::upstream::{Address, Upstream};
use crate::report::Report;
use crate::settings::Settings;
use crate::socket;
use crate::truth::Sink;

/// A running router; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Router {
    shared: Arc<Common>,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads of a router share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) role: RoleSettings,
    pub(crate) prefill: Vec<Address>,
    pub(crate) decode: Vec<Address>,
    pub(crate) truth: Option<Sink>,
    /// What prefill servers have said of where they are met.
    pub(crate) sides: Mutex<HashMap<usize, (String, u16)>>,
    pub(crate) counts: Counts,
    sockets: Mutex<Sockets>,
    stopping: AtomicBool,
}

/// What a router counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) in_flight: AtomicU32,
    pub(crate) peak: AtomicU32,
}

/// All open sockets, so that stopping wakes whoever waits on one.
#[derive(Debug, Default)]
struct Sockets {
    next: u64,
    open: HashMap<u64, TcpStream>,
}

/// Forgets a socket when the work on it is over.
pub(crate) struct Held<'a> {
    common: &'a Common,
    key: u64,
}

/// A request that was read whole.
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The path that was asked for.
    pub(crate) path: String,
    /// Header lines that are passed on.
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Router {
    /// Serves at `listener` until it is dropped.
    pub(crate) fn start(
        listener: TcpListener,
        settings: &Settings,
        role: &RoleSettings,
        truth: Option<Sink>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(false)?;
        let addresses =
            |urls: &[String]| urls.iter().filter_map(|url| Address::read(url)).collect::<Vec<_>>();
        let shared = Arc::new(Common {
            settings: settings.clone(),
            role: role.clone(),
            prefill: addresses(&role.prefill),
            decode: addresses(&role.decode),
            truth,
            sides: Mutex::default(),
            counts: Counts::default(),
            sockets: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let listener = Arc::new(listener);
        let thread = thread::Builder::new().name("sim-router".into()).spawn({
            let (shared, listener) = (Arc::clone(&shared), Arc::clone(&listener));
            move || accept(&shared, &listener)
        })?;
        Ok(Self { shared, listener, thread: Some(thread) })
    }

    /// Ends all connections and says what happened.
    pub(crate) fn end(mut self) -> Report {
        self.stop();
        let counts = &self.shared.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Report {
            requests: count(&counts.requests),
            completed: count(&counts.completed),
            aborted: count(&counts.aborted),
            broken: count(&counts.broken),
            peak_in_flight: counts.peak.load(Ordering::Relaxed),
            driver: "threads".to_owned(),
            ..Report::default()
        }
    }

    /// How much of what it can do it does: it passes on what others do.
    pub(crate) fn load(&self) -> Load {
        let shared = Arc::clone(&self.shared);
        Box::new(move || f64::from(shared.counts.in_flight.load(Ordering::Relaxed)) / 64.0)
    }

    fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        socket::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR);
        self.shared.end_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Common {
    /// Keeps a handle to a socket while something waits on it.
    pub(crate) fn hold(&self, stream: TcpStream) -> Held<'_> {
        let mut sockets = locked(&self.sockets);
        let key = sockets.next;
        sockets.next += 1;
        if self.is_stopping() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        sockets.open.insert(key, stream);
        Held { common: self, key }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn end_all(&self) {
        for stream in locked(&self.sockets).open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        locked(&self.common.sockets).open.remove(&self.key);
    }
}

/// What is in a mutex, also after a thread failed with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(shared: &Arc<Common>, listener: &TcpListener) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        threads.retain(|thread| !thread.is_finished());
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("sim-routed".into());
        // Without a thread the client is turned away by the end of its connection.
        threads.extend(thread.spawn(move || serve(&shared, stream)));
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Serves one client until it is gone.
fn serve(common: &Common, mut client: TcpStream) {
    let (Ok(()), Ok(handle)) = (client.set_nodelay(true), client.try_clone()) else { return };
    let _held = common.hold(handle);
    let mut input = Vec::new();
    while !common.is_stopping() {
        let request = match read(&mut client, &mut input) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(Refusal { status, message }) => {
                let mut out = Vec::new();
                document::error(&mut out, status, message, true);
                let _ = client.write_all(&out);
                return;
            }
        };
        let close = request.head.close;
        if answer(common, &mut client, request).is_err() || close {
            return;
        }
    }
}

/// Answers one request; an error ends the connection.
fn answer(common: &Common, client: &mut TcpStream, request: Request) -> io::Result<()> {
    let close = request.head.close;
    let mut out = Vec::new();
    match request.head.route {
        Route::Generate(_) => return Relay::new(common, &request).run(client, request),
        Route::Models => {
            let address = &common.decode[0];
            let models = Upstream::connect(address).and_then(|mut upstream| {
                upstream.send(["GET", "/v1/models"], address, &request.headers, b"")?;
                let head = upstream.head()?;
                Ok((head.status, upstream.whole(&head)?))
            });
            match models {
                Ok((status, body)) => {
                    document::json(
                        &mut out,
                        status,
                        &body,
                        document::Extra { close, ..document::Extra::default() },
                    );
                }
                Err(error) => {
                    let message = format!("the decode server cannot be asked: {error}");
                    document::error(&mut out, 502, &message, close);
                }
            }
        }
        Route::Health => document::health(&mut out, close),
        Route::Version => document::version(&mut out, close),
        Route::ServerInfo => document::server_info(&mut out, &common.settings, close),
        Route::Metrics => metrics(&mut out, &common.counts, close),
        Route::WrongMethod(allowed) => {
            document::error(&mut out, 405, &format!("this path takes {allowed} only"), close);
        }
        Route::Unknown => document::error(&mut out, 404, "there is nothing at this path", close),
    }
    client.write_all(&out)
}

fn metrics(out: &mut Vec<u8>, counts: &Counts, close: bool) {
    let mut body = Vec::new();
    let running = counts.in_flight.load(Ordering::Relaxed);
    let requests = counts.requests.load(Ordering::Relaxed);
    for (name, kind, value) in [
        ("tokclock_sim_router_running", "gauge", u64::from(running)),
        ("tokclock_sim_router_requests_total", "counter", requests),
    ] {
        put(&mut body, format_args!("# TYPE {name} {kind}\n{name} {value}\n"));
    }
    let extra = document::Extra { close, ..document::Extra::default() };
    document::typed(out, 200, "text/plain; version=0.0.4; charset=utf-8", &body, extra);
}

/// Reads one request; `None` at the end of the connection.
fn read(client: &mut TcpStream, input: &mut Vec<u8>) -> Result<Option<Request>, Refusal> {
    let mut head = None;
    loop {
        if head.is_none() {
            head = http::read_head(input)?;
            if head.as_ref().is_some_and(|head| head.expects)
                && client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err()
            {
                return Ok(None);
            }
        }
        if let Some(head) = &mut head {
            let whole = match &mut head.body_chunks {
                Some(chunks) => {
                    let whole = chunks.undo(input, head.head_bytes)?;
                    head.body_bytes = chunks.body_bytes;
                    whole
                }
                None => input.len() >= head.head_bytes + head.body_bytes,
            };
            if whole {
                break;
            }
        }
        let before = input.len();
        input.resize(before + 64 * 1024, 0);
        let length = client.read(&mut input[before..]).unwrap_or(0);
        input.truncate(before + length);
        if length == 0 {
            return Ok(None);
        }
    }
    let Some(head) = head else { return Ok(None) };
    let (path, headers) = passed_on(&input[..head.head_bytes]);
    let rest = input.split_off(head.head_bytes + head.body_bytes);
    let body = std::mem::replace(input, rest).split_off(head.head_bytes);
    Ok(Some(Request { head, path, headers, body }))
}

/// The path, and the header lines that go on to servers.
fn passed_on(bytes: &[u8]) -> (String, Vec<u8>) {
    const OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "expect"];
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut headers);
    let mut out = Vec::new();
    if request.parse(bytes).is_ok() {
        for header in request.headers.iter() {
            if !OURS.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
                put(&mut out, format_args!("{}: ", header.name));
                out.extend_from_slice(header.value);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    (request.path.unwrap_or("/").to_owned(), out)
}
