//! One HTTP/1.1 request of a router to a server, over a connection of its own.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::document::put;

/// The largest response head, in bytes.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// A server's address by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Upstream {
    stream: TcpStream,
    /// What was read and not used.
    read: Vec<u8>,
}

/// What an answer says before its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The head as it is passed on: without the word on the connection.
    pub(crate) bytes: Vec<u8>,
    framing: Framing,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// Pieces of a body as they come, and whether they made a whole one.
#[derive(Debug)]
pub(crate) struct Body {
    framing: Framing,
    bytes: usize,
    /// The last five bytes.
    end: Vec<u8>,
}

impl Address {
    /// Reads `http://host:port`.
    pub(crate) fn read(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (rest, 80),
        };
        let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#', ':']);
        plain.then(|| Self { host: host.to_owned(), port })
    }
}

impl Upstream {
    /// Opens a connection.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        let mut found = (address.host.as_str(), address.port).to_socket_addrs()?;
        let first = found.next().ok_or(io::ErrorKind::NotFound)?;
        let stream = TcpStream::connect_timeout(&first, CONNECT)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
    }

    /// Another handle to its socket.
    pub(crate) fn handle(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends a request; `headers` are whole lines.
    pub(crate) fn send(
        &mut self,
        [method, path]: [&str; 2],
        address: &Address,
        headers: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let mut out = Vec::with_capacity(headers.len() + body.len() + 256);
        put(&mut out, format_args!("{method} {path} HTTP/1.1\r\n"));
        put(&mut out, format_args!("host: {}:{}\r\n", address.host, address.port));
        out.extend_from_slice(headers);
        put(&mut out, format_args!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()));
        out.extend_from_slice(body);
        self.stream.write_all(&out)
    }

    /// Reads the head of the answer.
    pub(crate) fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some((head, length)) = read_head(&self.read)? {
                self.read.drain(..length);
                return Ok(head);
            }
            if self.read.len() > HEAD_BYTES_MAX || self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next piece of the body; empty at the end of the connection.
    pub(crate) fn piece(&mut self) -> io::Result<Vec<u8>> {
        if self.read.is_empty() {
            self.more()?;
        }
        Ok(std::mem::take(&mut self.read))
    }

    /// The whole body.
    pub(crate) fn whole(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        let mut body = head.body();
        let mut bytes = Vec::new();
        while !body.is_whole() {
            let piece = self.piece()?;
            if piece.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            body.add(&piece);
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    fn more(&mut self) -> io::Result<usize> {
        let before = self.read.len();
        self.read.resize(before + 64 * 1024, 0);
        let result = self.stream.read(&mut self.read[before..]);
        let length = result.as_ref().map_or(0, |length| *length);
        self.read.truncate(before + length);
        result
    }
}

impl Head {
    /// A body of which nothing came yet.
    pub(crate) fn body(&self) -> Body {
        Body { framing: self.framing, bytes: 0, end: Vec::new() }
    }
}

impl Body {
    /// A piece came.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        self.end.extend_from_slice(&piece[piece.len().saturating_sub(5)..]);
        let spare = self.end.len().saturating_sub(5);
        self.end.drain(..spare);
    }

    /// Whether that is all of it. A chunk's text is JSON lines, which end otherwise.
    pub(crate) fn is_whole(&self) -> bool {
        match self.framing {
            Framing::Length(length) => self.bytes >= length,
            Framing::Chunked => self.end == b"0\r\n\r\n",
        }
    }
}

fn read_head(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut response = httparse::Response::new(&mut headers);
    let wrong = |_| io::Error::from(io::ErrorKind::InvalidData);
    let length = match response.parse(bytes).map_err(wrong)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = response.code.unwrap_or(502);
    let mut out = Vec::with_capacity(length);
    put(&mut out, format_args!("HTTP/1.1 {status} {}\r\n", response.reason.unwrap_or("")));
    let mut framing = Framing::Length(0);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("connection") {
            continue;
        }
        let value = std::str::from_utf8(header.value).unwrap_or("");
        if header.name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.trim().parse().unwrap_or(0));
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        }
        put(&mut out, format_args!("{}: {value}\r\n", header.name));
    }
    out.extend_from_slice(b"\r\n");
    Ok(Some((Head { status, bytes: out, framing }, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port() {
        let address = |host: &str, port| Some(Address { host: host.to_owned(), port });
        assert_eq!(Address::read("http://127.0.0.1:8101/"), address("127.0.0.1", 8101));
        assert_eq!(Address::read("http://p1.lan"), address("p1.lan", 80));
        for wrong in ["127.0.0.1:8101", "https://a:1", "http://a:b", "http://", "http://a:1/x"] {
            assert_eq!(Address::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_head_loses_its_word_on_the_connection_and_tells_the_framing() {
        let text =
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nrest";
        let (head, length) = read_head(text).unwrap().unwrap();
        assert_eq!((head.status, length), (200, text.len() - 4));
        assert_eq!(head.bytes, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut body = head.body();
        body.add(b"1\r\nx\r\n0\r");
        assert!(!body.is_whole());
        body.add(b"\n\r\n");
        assert!(body.is_whole());
        assert!(read_head(&text[..20]).unwrap().is_none());
    }
}
