//! The framing of a body: lends the payload as slices of the caller's buffer.

use crate::head::Framing;
use crate::{Error, ErrorKind, Step};

/// What a body consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Payload, never empty, as it lies in the caller's buffer.
    Data(&'a [u8]),
    /// The framing is complete. Given once.
    End,
}

/// Reads one body. RFC 9112 §6.3 and §7.1.
#[derive(Debug, Clone)]
pub struct Body {
    state: State,
    /// Payload bytes still to come in this chunk, or in the body.
    left: u64,
    /// Bytes of the current chunk-size line, or of all trailers.
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length,
    UntilClose,
    /// The first hex digit of a chunk size.
    SizeStart,
    Size,
    /// Blanks between the size and what follows it.
    SizeBlank,
    Extension,
    Quoted,
    QuotedPair,
    SizeLf,
    Chunk,
    ChunkCr,
    ChunkLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Ended,
}

impl Body {
    /// A reader for a body with this framing.
    pub fn new(framing: Framing) -> Self {
        let (state, left) = match framing {
            Framing::None => (State::Length, 0),
            Framing::Length(length) => (State::Length, length),
            Framing::Chunked => (State::SizeStart, 0),
            Framing::UntilClose => (State::UntilClose, u64::MAX),
        };
        Self { state, left, line: 0 }
    }

    /// Was [`Part::End`] given?
    pub fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The next part. After the end nothing is used and nothing found.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BadFraming`] at a byte that cannot stand where it stands,
    /// [`ErrorKind::SizeLimit`] for a chunk-size line above 16 KiB or trailers above 64 KiB.
    pub fn step<'b>(&mut self, bytes: &'b [u8]) -> Result<Step<Part<'b>>, Error> {
        let mut used = 0;
        loop {
            match self.state {
                State::Length if self.left == 0 => return Ok(self.end(used)),
                State::Chunk if self.left == 0 => self.state = State::ChunkCr,
                State::Length | State::Chunk | State::UntilClose => {
                    return Ok(self.lend(bytes, used));
                }
                State::Ended => return Ok(Step { used, item: None }),
                _ => {
                    if self.state == State::SizeStart
                        && let Some((line, size)) = size_line(&bytes[used..])
                    {
                        used += line;
                        (self.left, self.state) = (size, State::Chunk);
                        continue;
                    }
                    let Some(&byte) = bytes.get(used) else {
                        return Ok(Step { used, item: None });
                    };
                    self.frame(byte).map_err(|kind| Error::new(kind, used))?;
                    used += 1;
                    if self.state == State::Ended {
                        return Ok(Step { used, item: Some(Part::End) });
                    }
                }
            }
        }
    }

    /// Takes back the last `bytes` of the part lent last: they will be shown again.
    pub fn give_back(&mut self, bytes: usize) {
        if self.state != State::UntilClose {
            self.left += bytes as u64;
        }
    }

    /// Can nothing be found without another byte?
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.left > 0 || !matches!(self.state, State::Length | State::Ended)
    }

    /// Where the payload at the start of `bytes` begins, and how much of it this chunk or body
    /// still has: if the framing before it is whole and as usual. Changes nothing.
    #[inline]
    pub(crate) fn glance(&self, bytes: &[u8]) -> Option<(usize, u64)> {
        match self.state {
            State::Chunk | State::Length | State::UntilClose if self.left > 0 => {
                Some((0, self.left))
            }
            State::Chunk => {
                let (line, size) = size_line(bytes.strip_prefix(b"\r\n")?)?;
                Some((line + 2, size))
            }
            State::SizeStart => size_line(bytes),
            _ => None,
        }
    }

    /// Goes on where [`glance`](Self::glance) looked: of the payload it found, `left` is left.
    /// `next` are the bytes that follow; gives how many of them were used.
    #[inline]
    pub(crate) fn take(&mut self, left: u64, next: &[u8]) -> usize {
        match self.state {
            State::UntilClose => return 0,
            State::Length => {}
            _ => self.state = State::Chunk,
        }
        self.left = left;
        if left > 0 || self.state == State::Length || !next.starts_with(b"\r\n") {
            return 0;
        }
        self.state = State::SizeStart;
        2
    }

    /// The peer closed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::BodyTruncated`] if the framing promised more.
    pub fn eof(&mut self) -> Result<(), Error> {
        let whole = match self.state {
            State::UntilClose | State::Ended => true,
            State::Length => self.left == 0,
            _ => false,
        };
        if !whole {
            return Err(Error::new(ErrorKind::BodyTruncated, 0));
        }
        self.state = State::Ended;
        Ok(())
    }

    fn end<'b>(&mut self, used: usize) -> Step<Part<'b>> {
        self.state = State::Ended;
        Step { used, item: Some(Part::End) }
    }

    fn lend<'b>(&mut self, bytes: &'b [u8], used: usize) -> Step<Part<'b>> {
        let rest = &bytes[used..];
        let len = usize::try_from(self.left).map_or(rest.len(), |left| rest.len().min(left));
        if len == 0 {
            return Step { used, item: None };
        }
        if self.state != State::UntilClose {
            self.left -= len as u64;
        }
        Step { used: used + len, item: Some(Part::Data(&rest[..len])) }
    }

    /// One byte of chunked framing.
    #[inline]
    fn frame(&mut self, byte: u8) -> Result<(), ErrorKind> {
        self.state = match (self.state, byte) {
            (State::SizeStart, _) => {
                self.left = u64::from(HEX[usize::from(byte)]);
                if self.left > 0xf {
                    return Err(ErrorKind::BadFraming);
                }
                self.line = 1;
                State::Size
            }
            (State::Size, b'\r') => State::SizeLf,
            (State::Size, _) if HEX[usize::from(byte)] <= 0xf => {
                if self.left >> 60 != 0 {
                    return Err(ErrorKind::BadFraming);
                }
                self.left = self.left << 4 | u64::from(HEX[usize::from(byte)]);
                self.count(SIZE_LINE_MAX)?;
                State::Size
            }
            (State::SizeLf, b'\n') if self.left > 0 => State::Chunk,
            (State::SizeLf, b'\n') => {
                self.line = 0;
                State::TrailerStart
            }
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => State::SizeStart,
            _ => self.frame_rarely(byte)?,
        };
        Ok(())
    }

    /// Chunk extensions and trailers, which are read over.
    #[cold]
    fn frame_rarely(&mut self, byte: u8) -> Result<State, ErrorKind> {
        let limit = match self.state {
            State::Size | State::SizeBlank | State::Extension => SIZE_LINE_MAX,
            State::Quoted | State::QuotedPair => SIZE_LINE_MAX,
            _ => TRAILERS_MAX,
        };
        self.count(limit)?;
        Ok(match (self.state, byte) {
            (State::Size | State::SizeBlank, b' ' | b'\t') => State::SizeBlank,
            (State::SizeBlank | State::Extension, b'\r') => State::SizeLf,
            (State::Size | State::SizeBlank, b';') => State::Extension,
            (State::Extension, b'"') => State::Quoted,
            (State::Quoted, b'"') => State::Extension,
            (State::Quoted, b'\\') => State::QuotedPair,
            (State::Extension | State::Quoted | State::QuotedPair, b'\n' | b'\r') => {
                return Err(ErrorKind::BadFraming);
            }
            (State::Quoted | State::QuotedPair, _) => State::Quoted,
            (State::Extension, _) => State::Extension,
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::TrailerStart | State::Trailer, b'\n') => return Err(ErrorKind::BadFraming),
            (State::TrailerStart | State::Trailer, _) => State::Trailer,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::LastLf, b'\n') => State::Ended,
            _ => return Err(ErrorKind::BadFraming),
        })
    }

    fn count(&mut self, limit: usize) -> Result<(), ErrorKind> {
        self.line += 1;
        if self.line > limit { Err(ErrorKind::SizeLimit) } else { Ok(()) }
    }
}

/// A whole chunk-size line of the usual form at the start of `bytes`, its length and the size: at
/// most eight digits, no extension, not the last chunk. All else is read byte by byte.
#[inline]
fn size_line(bytes: &[u8]) -> Option<(usize, u64)> {
    // An event of a token is most often 16 to 4095 bytes long.
    let (length, [a, b, c]) = match *bytes {
        [b, c, b'\r', b'\n', ..] => (4, [b'0', b, c]),
        [a, b, c, b'\r', b'\n', ..] => (5, [a, b, c]),
        _ => return any_size_line(bytes),
    };
    let [a, b, c] = [a, b, c].map(|digit| u64::from(HEX[usize::from(digit)]));
    let size = a << 8 | b << 4 | c;
    (size > 0 && a | b | c <= 0xf).then_some((length, size))
}

fn any_size_line(bytes: &[u8]) -> Option<(usize, u64)> {
    let (mut size, mut digits) = (0, 0);
    for &byte in bytes.iter().take(8) {
        let value = HEX[usize::from(byte)];
        if value > 0xf {
            break;
        }
        size = size << 4 | u64::from(value);
        digits += 1;
    }
    (size > 0 && bytes[digits..].starts_with(b"\r\n")).then_some((digits + 2, size))
}

const SIZE_LINE_MAX: usize = 16 * 1024;
const TRAILERS_MAX: usize = 64 * 1024;

/// The value of a hex digit, 0xff for any other byte.
const HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value];
        table[digit as usize] = value as u8;
        table[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload, the unused rest, and whether the end was seen.
    fn read(framing: Framing, mut wire: &[u8]) -> Result<(Vec<u8>, &[u8], bool), Error> {
        let mut body = Body::new(framing);
        let (mut payload, mut base) = (Vec::new(), 0);
        loop {
            let step = body.step(wire).map_err(|error| error.after(base))?;
            base += step.used;
            wire = &wire[step.used..];
            match step.item {
                Some(Part::Data(data)) => payload.extend_from_slice(data),
                Some(Part::End) => return Ok((payload, wire, true)),
                None => return Ok((payload, wire, false)),
            }
        }
    }

    #[test]
    fn extensions_and_trailers_are_read_over() {
        let wire =
            b"3;a;b=\"x;\\\"\\\\\";c=d\r\nabc\r\n0A \t;e\r\n0123456789\r\n00\r\nX: y\r\n\r\nnext";
        let (payload, rest, ended) = read(Framing::Chunked, wire).unwrap();
        assert_eq!((payload.as_slice(), rest, ended), (&b"abc0123456789"[..], &b"next"[..], true));
    }

    #[test]
    fn a_size_that_is_none_is_bad_framing_at_its_byte() {
        for (wire, at) in [
            (&b"\r\n"[..], 0),
            (b"g\r\n", 0),
            (b"-1\r\n", 0),
            (b"1x\r\n", 1),
            (b"1\n", 1),
            (b"1 2\r\n", 2),
            (b"10000000000000000\r\n", 16),
            (b"1\r\nab", 4),
            (b"1\r\na\n", 4),
            (b"0\r\n\n", 3),
        ] {
            let error = read(Framing::Chunked, wire).unwrap_err();
            assert_eq!(error, Error::new(ErrorKind::BadFraming, at), "{wire:?}");
        }
    }

    #[test]
    fn a_length_leaves_what_comes_after_it() {
        let (payload, rest, ended) = read(Framing::Length(3), b"abcdef").unwrap();
        assert_eq!((payload.as_slice(), rest, ended), (&b"abc"[..], &b"def"[..], true));
        assert_eq!(read(Framing::None, b"x").unwrap(), (Vec::new(), &b"x"[..], true));
    }

    #[test]
    fn a_close_ends_only_a_body_that_promised_no_more() {
        let mut body = Body::new(Framing::UntilClose);
        assert_eq!(body.step(b"ab").unwrap().item, Some(Part::Data(b"ab")));
        assert_eq!(body.eof(), Ok(()));
        for framing in [Framing::Length(1), Framing::Chunked] {
            assert_eq!(Body::new(framing).eof().unwrap_err().kind, ErrorKind::BodyTruncated);
        }
    }

    #[test]
    fn bytes_given_back_are_lent_again() {
        let mut body = Body::new(Framing::Chunked);
        assert_eq!(body.step(b"4\r\nabcd\r\n").unwrap().used, 7);
        body.give_back(2);
        assert_eq!(body.step(b"cd\r\n").unwrap().item, Some(Part::Data(b"cd")));
    }

    #[test]
    fn an_endless_size_line_or_trailer_meets_a_limit() {
        let mut wire = b"1;".to_vec();
        wire.resize(70_000, b'a');
        assert_eq!(read(Framing::Chunked, &wire).unwrap_err().kind, ErrorKind::SizeLimit);
        let mut wire = b"0\r\n".to_vec();
        wire.resize(70_000, b'a');
        assert_eq!(read(Framing::Chunked, &wire).unwrap_err().kind, ErrorKind::SizeLimit);
        assert_eq!(
            read(Framing::Chunked, &vec![b'0'; 20_000]).unwrap_err().kind,
            ErrorKind::SizeLimit
        );
    }
}
