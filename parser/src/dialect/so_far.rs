//! Of events that hold all of the answer so far, what is new.
//!
//! Some servers send with every event the whole text, or only its new part, as they are set up. The
//! second text tells: if it begins with the first, it is most likely whole. A new part that does so
//! by chance (" ", then " a") is found out by the third.

use super::found::Found;
use crate::event::OutputKind;

/// What the events of one response held so far.
#[derive(Debug, Clone, Default)]
pub(super) struct SoFar {
    /// The text, still escaped, unless only new parts come.
    text: String,
    manner: Manner,
    /// How often a text went on from the one before.
    grown: u8,
    /// The server's count of output tokens.
    tokens: u64,
}

/// What the text of an event is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Manner {
    /// There was one text, or the same several times.
    #[default]
    Unknown,
    /// All of it so far.
    Whole,
    /// What is new.
    Part,
}

/// So often no new part begins with the one before by chance.
const GROWN_FOR_CERTAIN: u8 = 3;

impl SoFar {
    /// Another response begins; the buffer keeps its memory.
    pub(super) fn begin(&mut self) {
        self.text.clear();
        (self.manner, self.grown, self.tokens) = (Manner::Unknown, 0, 0);
    }

    /// Leaves in `found` what is new, and gives the number of new tokens if the event counts all
    /// tokens so far. New tokens without new text are token ids.
    pub(super) fn subtract(&mut self, found: &mut Found<'_>) -> Option<u32> {
        if found.fault.is_some() {
            return None;
        }
        let total = found.usage.and_then(|usage| usage.output_tokens);
        let new = total.map(|total| {
            let new = total.saturating_sub(self.tokens);
            self.tokens = total;
            u32::try_from(new).unwrap_or(u32::MAX)
        });
        let choice = &mut found.choice;
        choice.tokens = new.unwrap_or(choice.tokens);
        if !choice.text.first.is_empty() && choice.text.more.is_empty() {
            choice.text.first = self.new_text(choice.text.first, new.is_some());
            if choice.text.first.is_empty() {
                choice.kind = None;
            }
        }
        if new == Some(0) {
            choice.kind = choice.kind.filter(|kind| *kind != OutputKind::TokenIds);
        }
        new
    }

    /// What of `text` is new. `counted` if tokens are counted, so that no output is missed where
    /// the text is not seen to grow.
    fn new_text<'a>(&mut self, text: &'a str, counted: bool) -> &'a str {
        if self.manner == Manner::Part {
            return text;
        }
        if text == self.text {
            let same = self.manner == Manner::Unknown && !counted;
            return if same { text } else { "" };
        }
        // Half a character is replaced until its other half is there.
        let settled = self.text.trim_end_matches(char::REPLACEMENT_CHARACTER).len();
        let kept = if text.starts_with(&self.text) { self.text.len() } else { settled };
        if kept == 0 {
            self.text.clear();
            self.text.push_str(text);
            return text;
        }
        if text.starts_with(&self.text[..kept]) {
            self.manner = Manner::Whole;
            self.grown = self.grown.saturating_add(1);
            self.text.truncate(kept);
            self.text.push_str(&text[kept..]);
            return &text[kept..];
        }
        if self.grown < GROWN_FOR_CERTAIN {
            self.manner = Manner::Part;
            return text;
        }
        // It is whole for certain, but what came last was changed.
        let kept = alike(&self.text, text);
        self.text.truncate(kept);
        self.text.push_str(&text[kept..]);
        &text[kept..]
    }
}

/// How far two texts, still escaped, are the same, in whole characters and escapes.
#[cold]
pub(super) fn alike(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let mut end = 0;
    loop {
        let length = match b.as_bytes()[end..] {
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => b[end..].chars().next().map_or(1, char::len_utf8),
        };
        if end + length > same {
            return end;
        }
        end += length;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn new_texts(texts: &[&str], counted: bool) -> Vec<String> {
        let mut so_far = SoFar::default();
        texts.iter().map(|text| so_far.new_text(text, counted).to_owned()).collect()
    }

    #[test]
    fn a_text_that_begins_with_the_one_before_holds_it() {
        assert_eq!(new_texts(&["A", "A B", "A B", "A B C"], false), ["A", " B", "", " C"]);
    }

    #[test]
    fn a_text_that_does_not_is_new_and_so_are_all_after_it() {
        assert_eq!(new_texts(&["A", "B", "BC", "BC"], false), ["A", "B", "BC", "BC"]);
    }

    #[test]
    fn a_new_part_that_begins_with_the_one_before_is_found_out() {
        assert_eq!(new_texts(&[" ", " a", " b", " bc"], false), [" ", "a", " b", " bc"]);
    }

    #[test]
    fn the_same_text_twice_at_the_start_is_new_unless_tokens_are_counted() {
        assert_eq!(new_texts(&["ha", "ha", "ho"], false), ["ha", "ha", "ho"]);
        assert_eq!(new_texts(&["ha", "ha", "ha ho"], true), ["ha", "", " ho"]);
    }

    #[test]
    fn half_a_character_may_be_replaced_by_the_whole() {
        assert_eq!(new_texts(&["a\u{fffd}", "aé", "aé b"], false), ["a\u{fffd}", "é", " b"]);
        assert_eq!(new_texts(&["\u{fffd}", "é", "é b"], false), ["\u{fffd}", "é", " b"]);
    }

    #[test]
    fn the_end_of_a_text_known_to_be_whole_may_change() {
        let texts = ["a", "ab", "abc", r"abcd\n", r"abcd\t", "ab", "abé", "abè"];
        let new = ["a", "b", "c", r"d\n", r"\t", "", "é", "è"];
        assert_eq!(new_texts(&texts, false), new);
    }

    #[test]
    fn texts_are_alike_in_whole_escapes() {
        assert_eq!(alike(r"a\u00e9", r"a\u00e8"), 1);
        assert_eq!(alike(r"\\n", r"\\t"), 2);
        assert_eq!(alike("é", "è"), 0);
        assert_eq!(alike("", "a"), 0);
        assert_eq!(alike("ab", "ab"), 2);
        assert_eq!(alike("ab\\", "ab\\"), 2);
    }

    proptest! {
        /// However an answer is cut, its parts are found again in the whole texts.
        #[test]
        fn whole_texts_give_their_parts(
            parts in proptest::collection::vec("[a-c \u{e9}]{0,3}", 1..12),
        ) {
            let mut so_far = SoFar::default();
            let (mut whole, mut found) = (String::new(), String::new());
            for part in &parts {
                whole.push_str(part);
                if !whole.is_empty() {
                    found.push_str(so_far.new_text(&whole, true));
                }
            }
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn once_it_is_known_that_parts_come_nothing_is_taken_from_them(
            parts in proptest::collection::vec("[ab]{1,3}", 1..12),
        ) {
            let mut so_far = SoFar::default();
            for part in ["x", "y"].into_iter().chain(parts.iter().map(String::as_str)) {
                prop_assert_eq!(so_far.new_text(part, false), part);
            }
        }
    }
}
