//! How this host sends: cores, connections, retries, limits.

use std::net::IpAddr;

use super::Thresholds;

/// How this host sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// Positions in the list of CPUs that this process may use, one per reactor.
    pub cpus: Vec<usize>,
    /// Where the time of an arrival comes from.
    pub stamps: Stamps,
    /// Keep every output event in the records.
    pub keep_chunks: bool,
    /// Keep the generated text in the records.
    pub keep_text: bool,
    /// How our side ends a connection.
    pub close: Close,
    /// How long a connection serves.
    pub connections: Connections,
    /// Requests that a connection carries at most.
    pub requests_per_connection: Option<u64>,
    /// Addresses that connections come from, in turn; the kernel chooses if there is none.
    pub source_ips: Vec<IpAddr>,
    /// What becomes of requests that fail.
    pub retries: Retries,
    /// Requests that are cancelled on purpose.
    pub cancel: Option<Cancel>,
    /// Reactors never sleep: the least lag, a whole core each.
    pub spin: bool,
    /// What the client's own figures may be.
    pub thresholds: Thresholds,
}

impl Client {
    /// One reactor on each of these CPUs, and nothing out of the ordinary: kernel stamps, pooled
    /// connections, no retries, nothing kept but the marks.
    #[must_use]
    pub fn on(cpus: Vec<usize>) -> Self {
        Self {
            cpus,
            stamps: Stamps::Kernel,
            keep_chunks: false,
            keep_text: false,
            close: Close::Fin,
            connections: Connections::Pooled,
            requests_per_connection: None,
            source_ips: Vec::new(),
            retries: Retries::default(),
            cancel: None,
            spin: false,
            thresholds: Thresholds::default(),
        }
    }
}

/// How long a connection serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Whoever has a request takes an idle one.
    Pooled,
    /// Each user of a closed loop keeps its own.
    PerUser,
    /// Each conversation has its own, which is closed with it.
    PerSession,
    /// Each request opens one.
    PerRequest,
}

/// What becomes of requests that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retries {
    /// Attempts beyond the first.
    pub max: u32,
    /// Pause before the first of them, ns; it doubles each time. A longer `Retry-After` wins.
    pub backoff_ns: u64,
}

/// Requests that are cancelled on purpose, to load the server's way of aborting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancel {
    /// Their share, 0 to 1.
    pub rate: f64,
    /// When.
    pub after: CancelAfter,
}

/// When a request is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAfter {
    /// So long after its last byte was sent, ns.
    Time(u64),
    /// At the output event of this number.
    Events(u32),
}

/// Where the time of an arrival comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The kernel's network stack.
    Kernel,
    /// The moment the reactor handled the bytes.
    Observed,
}

/// How our side ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// In order; leaves a port in TIME_WAIT.
    Fin,
    /// By a reset; leaves nothing.
    Rst,
}

/// How long anything may take, in ns; `None` is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The whole request, from its origin.
    pub request_ns: Option<u64>,
    /// Opening a connection.
    pub connect_ns: Option<u64>,
    /// The TLS handshake.
    pub tls_ns: Option<u64>,
    /// From the last request byte to the first of the answer.
    pub first_byte_ns: Option<u64>,
    /// From the last request byte to the first token.
    pub first_token_ns: Option<u64>,
    /// From the last request byte on, between bytes of the answer.
    pub idle_ns: Option<u64>,
}

/// How large the parts of an answer may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The head.
    pub head: usize,
    /// One line, and the data of one event.
    pub event: usize,
    /// A document that is no stream.
    pub body: usize,
}

impl Default for Sizes {
    /// 64 KiB, 16 MiB, 64 MiB.
    fn default() -> Self {
        Self { head: 64 << 10, event: 16 << 20, body: 64 << 20 }
    }
}
