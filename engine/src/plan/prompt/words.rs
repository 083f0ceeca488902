//! The built-in words, and the form in which words are stored.

/// A word with what stands before it, zeros, and in the last byte the length.
pub(super) type Word = [u8; WORD_BYTES];

/// Bytes of a stored word.
pub(super) const WORD_BYTES: usize = 16;
/// Most bytes that a word takes in a text, with the space before it.
pub(super) const WORD_TEXT_MAX: usize = WORD_BYTES - 1;
/// How many bits number a built-in word.
pub(super) const WORD_BITS: u32 = 11;
/// How many built-in words there are.
pub(super) const WORD_COUNT: usize = 1 << WORD_BITS;

/// The built-in words, apart by white space.
pub(super) const WORDS: &str = include_str!("words.txt");

/// The built-in words, each with a space before it.
pub(super) static BUILT_IN: [Word; WORD_COUNT] = built_in(WORDS.as_bytes());

/// Appends `word`.
#[inline]
pub(super) fn push(word: &Word, out: &mut Vec<u8>) {
    // A copy of fixed size and a cut are cheaper than a copy of the length itself.
    let end = out.len() + usize::from(word[WORD_BYTES - 1]);
    out.extend_from_slice(word);
    out.truncate(end);
}

/// `text` as it is stored; `None` if it is too long.
pub(super) fn stored(text: &[u8]) -> Option<Word> {
    let mut word = [0; WORD_BYTES];
    word.get_mut(..WORD_TEXT_MAX)?.get_mut(..text.len())?.copy_from_slice(text);
    word[WORD_BYTES - 1] = u8::try_from(text.len()).ok()?;
    Some(word)
}

/// Splits the list at its white space; refuses, when compiled, a list of another size or a word
/// that does not fit.
#[expect(clippy::large_stack_arrays, reason = "only the compiler runs it")]
const fn built_in(text: &[u8]) -> [Word; WORD_COUNT] {
    let mut words = [[0; WORD_BYTES]; WORD_COUNT];
    let (mut word, mut at) = (0, 0);
    while at < text.len() {
        if text[at].is_ascii_lowercase() {
            words[word][0] = b' ';
            let mut length = 1;
            while at < text.len() && text[at].is_ascii_lowercase() {
                words[word][length] = text[at];
                length += 1;
                at += 1;
            }
            assert!(length < WORD_BYTES, "the word is too long");
            words[word][WORD_BYTES - 1] = length as u8;
            word += 1;
        } else {
            assert!(text[at].is_ascii_whitespace(), "a word has lower-case letters only");
            at += 1;
        }
    }
    assert!(word == WORD_COUNT, "the list must have 2048 words");
    words
}
