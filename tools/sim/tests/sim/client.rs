//! A plain blocking client for the tests: one connection, requests out, decoded answers in.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// One connection to a server.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// One answer, with its chunking undone.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Head lines, lower case.
    pub(crate) head: Vec<String>,
    /// The body.
    pub(crate) body: String,
    /// Its chunks, if it came in chunks.
    pub(crate) chunks: Vec<String>,
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server closed it.
    Closed,
    /// The server reset it.
    Reset,
}

impl Client {
    /// Connects; a server that falls silent fails the test instead of stopping it.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Connects to a unix socket.
    pub(crate) fn unix(path: &Path) -> Self {
        // Read and written it is like any other.
        Self::over(TcpStream::from(OwnedFd::from(UnixStream::connect(path).unwrap())))
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Posts a JSON body and reads the answer.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(request(path, body).as_bytes());
        self.answer()
    }

    /// Gets a path.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes());
        self.answer()
    }

    /// The lines of the next head.
    pub(crate) fn head(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return lines;
            }
            lines.push(line.to_lowercase());
        }
    }

    /// Reads one answer to its end.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new(), chunks: Vec::new() };
        if answer.header("transfer-encoding").as_deref() == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.push_str(&chunk);
                answer.chunks.push(chunk);
            }
        } else {
            let length = answer.header("content-length").unwrap().parse().unwrap();
            answer.body = self.exactly(length);
        }
        answer
    }

    /// The next chunk; `None` is the last one.
    pub(crate) fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        let chunk = self.exactly(length);
        assert_eq!(self.line(), "", "a chunk ends with a line end");
        (length > 0).then_some(chunk)
    }

    /// Whether the server closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.reader.read(&mut [0]).unwrap() == 0
    }

    /// Whether nothing comes and nothing ends for a while.
    pub(crate) fn is_silent(&mut self) -> bool {
        let quiet = Some(Duration::from_millis(100));
        self.reader.get_ref().set_read_timeout(quiet).unwrap();
        let result = self.reader.read(&mut [0]);
        result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// All that still comes until the connection ends, and how it ends.
    pub(crate) fn rest(&mut self) -> (String, End) {
        let mut bytes = Vec::new();
        let end = match self.reader.read_to_end(&mut bytes) {
            Ok(_) => End::Closed,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
            Err(error) => panic!("neither closed nor reset: {error}"),
        };
        (String::from_utf8(bytes).unwrap(), end)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").expect("a whole line").to_owned()
    }

    /// The next `length` bytes.
    pub(crate) fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.iter().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.into()))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The stream's events as JSON; it must end with `[DONE]`, one event in each chunk.
    pub(crate) fn events(&self) -> Vec<Value> {
        let events: Vec<&str> =
            self.chunks.iter().map(|chunk| chunk.strip_prefix("data: ").unwrap()).collect();
        let (done, events) = events.split_last().unwrap();
        assert_eq!(*done, "[DONE]\n\n");
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The text of each output event of a chat stream.
    pub(crate) fn texts(&self) -> Vec<String> {
        let texts = self.events().into_iter().filter_map(|event| {
            let choice = event["choices"].get(0)?.clone();
            let text = choice["delta"]["content"].as_str().or(choice["text"].as_str())?;
            (!text.is_empty()).then(|| text.to_owned())
        });
        texts.collect()
    }
}

/// A POST as bytes.
pub(crate) fn request(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A chat stream of so many tokens.
pub(crate) fn chat(tokens: u32) -> String {
    let messages = r#"[{"role":"user","content":"one two three"}]"#;
    format!(r#"{{"model":"sim","stream":true,"max_tokens":{tokens},"messages":{messages}}}"#)
}
