//! Undoing the chunking of a request body, in the place where it lies (RFC 9112 section 7.1).

use crate::http::{BODY_BYTES_MAX, Refusal};

/// The longest line of a chunk size or a trailer, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of trailers that are read and forgotten.
const TRAILER_BYTES_MAX: usize = 64 * 1024;

/// How far a chunked body is undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunked {
    /// Bytes of the body so far.
    pub(crate) body_bytes: usize,
    trailer_bytes: usize,
    stage: Stage,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A line with a chunk's size.
    #[default]
    Size,
    /// So many bytes of a chunk.
    Data(usize),
    /// The line end after a chunk.
    DataEnd,
    /// Trailer lines, up to an empty one.
    Trailer,
}

impl Chunked {
    /// Undoes what `input` holds of a body that starts at `start`: afterwards its bytes so far lie
    /// there, and behind them what cannot be undone yet. True once the body is complete; what
    /// follows it is then the next request.
    ///
    /// # Errors
    /// A body that is too large, or no chunking.
    pub(crate) fn undo(&mut self, input: &mut Vec<u8>, start: usize) -> Result<bool, Refusal> {
        let mut to = start + self.body_bytes;
        let mut from = to;
        let result = self.walk(input, &mut from, &mut to);
        self.body_bytes = to - start;
        input.drain(to..from);
        result
    }

    fn walk(
        &mut self,
        input: &mut [u8],
        from: &mut usize,
        to: &mut usize,
    ) -> Result<bool, Refusal> {
        let begin = *to - self.body_bytes;
        loop {
            let rest = &input[*from..];
            match self.stage {
                Stage::Size => {
                    let Some((line, size)) = read_size(rest)? else { return Ok(false) };
                    if size > BODY_BYTES_MAX - (*to - begin) {
                        return Err(Refusal::BODY_TOO_LONG);
                    }
                    *from += line;
                    self.stage = if size == 0 { Stage::Trailer } else { Stage::Data(size) };
                }
                Stage::Data(left) => {
                    let here = left.min(rest.len());
                    input.copy_within(*from..*from + here, *to);
                    (*from, *to) = (*from + here, *to + here);
                    if here < left {
                        self.stage = Stage::Data(left - here);
                        return Ok(false);
                    }
                    self.stage = Stage::DataEnd;
                }
                Stage::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        *from += 2;
                        self.stage = Stage::Size;
                    }
                    [] | [b'\r'] => return Ok(false),
                    _ => return Err(BAD_CHUNK),
                },
                Stage::Trailer => {
                    let Some(line) = read_line(rest)? else { return Ok(false) };
                    *from += line;
                    self.trailer_bytes += line;
                    if matches!(&rest[..line], b"\r\n" | b"\n") {
                        return Ok(true);
                    }
                    if self.trailer_bytes > TRAILER_BYTES_MAX {
                        return Err(BAD_CHUNK);
                    }
                }
            }
        }
    }
}

const BAD_CHUNK: Refusal =
    Refusal::new(400, "the body is announced in chunks but is not in chunks");

/// The length of the line with a chunk's size, and the size.
fn read_size(bytes: &[u8]) -> Result<Option<(usize, usize)>, Refusal> {
    match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Complete((line, size))) => {
            let size = usize::try_from(size).map_err(|_| Refusal::BODY_TOO_LONG)?;
            Ok(Some((line, size)))
        }
        Ok(httparse::Status::Partial) if bytes.len() <= LINE_BYTES_MAX => Ok(None),
        _ => Err(BAD_CHUNK),
    }
}

/// The length of the line that `bytes` start with, its end included.
fn read_line(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let view = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match view.iter().position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some(end + 1)),
        None if view.len() < LINE_BYTES_MAX => Ok(None),
        None => Err(BAD_CHUNK),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &[u8] = b"head";

    /// The body, and what is left behind it, of input that comes in pieces of `piece` bytes.
    fn undone(chunked: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
        let mut input = HEAD.to_vec();
        let mut state = Chunked::default();
        let mut complete = false;
        for piece in chunked.chunks(piece) {
            input.extend_from_slice(piece);
            complete = complete || state.undo(&mut input, HEAD.len())?;
        }
        assert!(complete && input.starts_with(HEAD));
        let rest = input.split_off(HEAD.len() + state.body_bytes);
        Ok((input.split_off(HEAD.len()), rest))
    }

    #[test]
    fn a_body_in_chunks_is_joined_and_what_follows_is_kept() {
        let text = b"4\r\nWiki\r\nA;name=\"x\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET / ";
        for piece in 1..text.len() {
            let (body, rest) = undone(text, piece).unwrap();
            assert_eq!(body, b"Wiki0123456789", "{piece} bytes at a time");
            assert_eq!(rest, b"GET / ");
        }
        assert_eq!(undone(b"0\r\n\r\n", 99).unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_is_not_in_chunks_is_refused() {
        let long_trailer = format!("0\r\nx: {}", "y".repeat(LINE_BYTES_MAX));
        for (text, status) in [
            ("xyz\r\n", 400),
            ("2\r\nabc\r\n", 400),
            ("-1\r\n", 400),
            ("4000001\r\n", 413),
            ("fffffffffffffff\r\n", 413),
            (&long_trailer, 400),
        ] {
            let mut input = text.as_bytes().to_vec();
            let refused = Chunked::default().undo(&mut input, 0).unwrap_err();
            assert_eq!(refused.status, status, "{text:.20}");
        }
    }

    #[test]
    fn the_whole_body_has_a_limit_and_not_only_each_chunk() {
        let mut state = Chunked { body_bytes: BODY_BYTES_MAX - 1, ..Chunked::default() };
        let mut input = vec![b'x'; BODY_BYTES_MAX - 1];
        input.extend_from_slice(b"2\r\n");
        assert_eq!(state.undo(&mut input, 0).unwrap_err().status, 413);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            text in "[0-9a-f\r\n;]{0,60}",
            split in 0usize..200,
        ) {
            for all in [bytes.as_slice(), text.as_bytes()] {
                let (first, second) = all.split_at(split.min(all.len()));
                let mut input = first.to_vec();
                let mut state = Chunked::default();
                if state.undo(&mut input, 0) == Ok(false) {
                    input.extend_from_slice(second);
                    let _ = state.undo(&mut input, 0);
                }
            }
        }
    }
}
