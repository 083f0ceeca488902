//! What may stand in the holes of a shape: how far the inside of a JSON string and a whole number go.

use crate::event::Text;

/// The inside of a JSON string at the start of `bytes` (RFC 8259 §7), up to its closing quote;
/// `None` if it is empty, not closed, or has what only the JSON reader judges.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Option<Text<'_>> {
    let (mut length, mut ascii) = (0, true);
    loop {
        let (more, all_ascii) = usual(&bytes[length..]);
        length += more;
        ascii &= all_ascii;
        match *bytes.get(length)? {
            b'"' if length == 0 => return None,
            b'"' if ascii => return Some(Text::from_ascii(&bytes[..length])),
            b'"' => return std::str::from_utf8(&bytes[..length]).ok().map(Text::from),
            b'\\' => {
                let (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') =
                    *bytes.get(length + 1)?
                else {
                    return None;
                };
                length += 2;
            }
            0..0x20 => return None,
            byte => {
                ascii &= byte < 0x80;
                length += 1;
            }
        }
    }
}

/// The length of a string's inside, up to its closing quote, that is ASCII without escapes.
pub(crate) fn word(bytes: &[u8]) -> Option<usize> {
    let (mut length, mut ascii) = usual(bytes);
    loop {
        match *bytes.get(length)? {
            b'"' => return ascii.then_some(length),
            b'\\' | 0..0x20 => return None,
            byte => {
                ascii &= byte < 0x80;
                length += 1;
            }
        }
    }
}

/// The length and the value of a whole number without sign, as far as its digits go: at most 18,
/// so that it is exact in every reader.
pub(crate) fn number(bytes: &[u8]) -> Option<(usize, u64)> {
    let (mut length, mut value) = (0, 0);
    while let Some(digit @ b'0'..=b'9') = bytes.get(length) {
        value = value * 10 + u64::from(digit - b'0');
        length += 1;
        if length > 18 {
            return None;
        }
    }
    let one_form = length == 1 || length > 1 && bytes[0] != b'0';
    one_form.then_some((length, value))
}

/// The length of a number of any form (RFC 8259 §6), as far as it goes.
pub(crate) fn decimal(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| -> Option<usize> {
        let count = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(from + count)
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut end = digits(start)?;
    if bytes[start] == b'0' && end > start + 1 {
        return None;
    }
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        end = digits(end + 1 + sign)?;
    }
    Some(end)
}

/// How many bytes at the start are neither quote nor backslash nor control, as far as whole words
/// go, and whether all of them are ASCII for certain: two words at a time, since most texts are
/// shorter and a branch per byte, or even per word, is mispredicted.
#[inline]
fn usual(bytes: &[u8]) -> (usize, bool) {
    let (mut length, mut high) = (0, 0);
    while let Some(words) = bytes[length..].first_chunk() {
        let words = u128::from_le_bytes(*words);
        let (low, next) = (words as u64, (words >> 64) as u64);
        high |= (low | next) & HIGH;
        let marked = u128::from(marked(low)) | u128::from(marked(next)) << 64;
        if marked != 0 {
            return (length + marked.trailing_zeros() as usize / 8, high == 0);
        }
        length += 16;
    }
    (length, high == 0)
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// Marks the high bit of bytes that end what is usual: the lowest that is marked is one for certain,
/// those above it may not be.
#[inline]
fn marked(word: u64) -> u64 {
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    (below(word, 0x20) | quote | backslash) & HIGH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_has_one_form_and_at_most_18_digits() {
        assert_eq!(number(b"0,"), Some((1, 0)));
        assert_eq!(number(b"1764000000}"), Some((10, 1_764_000_000)));
        assert_eq!(number(b"999999999999999999"), Some((18, 999_999_999_999_999_999)));
        for bytes in [&b""[..], b"-1", b"00", b"07", b"1000000000000000000", b"x"] {
            assert_eq!(number(bytes), None);
        }
    }

    #[test]
    fn a_decimal_has_every_form_of_a_json_number() {
        for number in ["0", "-0.5", "12", "-1.25e-07", "3E+9", "100000000000000000000"] {
            assert_eq!(decimal(format!("{number},").as_bytes()), Some(number.len()));
        }
        for bytes in [&b""[..], b"-", b"01", b"-01", b".5", b"1.", b"1.e5", b"1e", b"1e+", b"x"] {
            assert_eq!(decimal(bytes), None);
        }
    }

    #[test]
    fn a_word_is_plain_ascii() {
        assert_eq!(word(b"chatcmpl-1\","), Some(10));
        assert_eq!(word(b"\""), Some(0));
        assert_eq!(word(b"more than sixteen bytes\"x"), Some(23));
        for bytes in [&b""[..], b"a\\nb\"", b"a\x1fb\"", b"a", "é\"".as_bytes()] {
            assert_eq!(word(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn a_decimal_is_what_json_takes_for_a_number(text in "-?[0-9]{0,3}[.eE]?[-+]?[0-9]{0,3}") {
            let json = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(decimal(text.as_bytes()) == Some(text.len()), json);
        }

        /// Byte by byte, and JSON for what is valid.
        #[test]
        fn a_text_ends_where_json_ends_it(
            bytes in proptest::collection::vec(
                prop_oneof![
                    8 => b'a'..=b'z',
                    1 => any::<u8>(),
                    1 => proptest::sample::select(b"\\\"n/\xc3\xa9\x1f".as_slice()),
                ],
                0..60,
            )
        ) {
            let mut end = 0;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let inside = bytes.get(..end).filter(|_| end < bytes.len());
            let expected = inside.and_then(|inside| std::str::from_utf8(inside).ok()).filter(|inside| {
                let json = format!("\"{inside}\"");
                !inside.is_empty()
                    && !inside.contains("\\u")
                    && serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok()
            });
            prop_assert_eq!(text(&bytes), expected.map(Text::from));
        }
    }
}
