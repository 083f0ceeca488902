//! Synthetic texts of an exact number of tokens.
//!
//! A text is words of a [`Lexicon`], each one token wherever it stands, so n words are n tokens
//! and no tokenizer is needed to write it. The built-in words are plain lower-case ones, each
//! one token with and without a space before it, in every embedded tokenizer, whose
//! pre-tokenizers cut before each space: there a seed means the same text under all of them. For
//! another tokenizer the words that keep this are found beforehand. A text may also be cut from
//! a [`Corpus`], whose words have known token counts; lexicon words fill what is left.

mod corpus;
mod lexicon;
mod reading;
mod search;
mod words;

pub use corpus::{Corpus, CorpusError};
pub use lexicon::{Lexicon, LexiconError};

use std::sync::Arc;

use rand::Rng;

use super::random::{Purpose, Streams, mix};
use corpus::Part;
use lexicon::{Digits, Source, Words};

/// What a text is for. Texts of different families have nothing in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// The prompt of a request; the key is its index.
    Prompt,
    /// What all requests begin with.
    System,
    /// What the requests of a group begin with; the key is the group.
    Group,
    /// What a user or a session says; the key is either.
    User,
    /// A block of a trace; the key is its hash id. Equal keys give equal texts; it has no head.
    Block,
    /// An answer that is sent back as part of a later request. It has no head.
    Answer,
    /// What keeps a request out of a cache; never from a corpus.
    Mark,
}

impl Text {
    const ALL: [Self; 7] = [
        Self::Prompt,
        Self::System,
        Self::Group,
        Self::User,
        Self::Block,
        Self::Answer,
        Self::Mark,
    ];

    const fn purpose(self) -> Purpose {
        match self {
            Self::Prompt => Purpose::Prompt,
            Self::System => Purpose::System,
            Self::Group => Purpose::Group,
            Self::User => Purpose::User,
            Self::Block => Purpose::Block,
            Self::Answer => Purpose::Answer,
            Self::Mark => Purpose::Mark,
        }
    }

    /// Whether the first words spell the key.
    const fn has_head(self) -> bool {
        !matches!(self, Self::Block | Self::Answer)
    }
}

/// The texts of one seed. A text depends on seed, family, key and its length alone.
///
/// Of two texts of one key the shorter is a prefix of the longer, but for prompts shorter than
/// their head, which use their few words to differ. With a corpus a text may also end in words
/// of the lexicon, in place of a word of the corpus that is too long and cannot be cut there.
#[derive(Debug, Clone)]
pub struct Prompts {
    families: [Family; Text::ALL.len()],
    lexicon: Arc<Lexicon>,
    corpus: Option<Arc<Corpus>>,
}

#[derive(Debug, Clone, Copy)]
struct Family {
    streams: Streams,
    head_key: u64,
}

/// Which text, how long, and where it stands.
#[derive(Clone, Copy)]
struct Piece {
    of: Text,
    key: u64,
    tokens: u32,
    leads: bool,
}

/// Bits of a key that the head of a text spells.
const HEAD_BITS: u32 = 44;

impl Prompts {
    /// The texts of `seed` in the built-in words, for the embedded tokenizers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Arc::new(Lexicon::built_in()), None)
    }

    /// The texts of `seed` in the words of `lexicon`, or cut from `corpus`.
    #[must_use]
    pub fn with(seed: u64, lexicon: Arc<Lexicon>, corpus: Option<Arc<Corpus>>) -> Self {
        let families = Text::ALL.map(|text| {
            let streams = Streams::new(seed, text.purpose());
            Family { streams, head_key: mix(streams.key(u64::MAX)) }
        });
        Self { families, lexicon, corpus }
    }

    /// The same words and corpus for another seed.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Self {
        Self::with(seed, Arc::clone(&self.lexicon), self.corpus.clone())
    }

    /// Most bytes that one token of a text takes.
    #[must_use]
    pub fn token_bytes_max(&self) -> usize {
        let corpus = self.corpus.as_ref().map_or(0, |corpus| corpus.token_bytes_max());
        self.lexicon.token_bytes_max().max(corpus)
    }

    /// Whether texts can be written; otherwise ids alone.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.lexicon.has_text()
    }

    /// Whether ids can be written.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.lexicon.has_ids()
    }

    /// Appends the text `key` of family `of`, of exactly `tokens` tokens, as it stands in a JSON
    /// string. Where nothing stands before it in its message it `leads`; else it begins with a
    /// space. Writes nothing without [`Self::has_text`].
    ///
    /// The first words spell the key, scrambled, in digits of as many bits as a word has (four
    /// words for the built-in list): they differ for all keys below 2^44, so a prefix cache
    /// finds three words of one text in another at most. Prompts of 1, 2 and 3 built-in words
    /// repeat after 2^11, 2^22 and 2^33 of them.
    pub fn write(&self, of: Text, key: u64, tokens: u32, leads: bool, out: &mut Vec<u8>) {
        let Source::Words(words) = self.lexicon.source() else { return };
        let start = out.len();
        self.compose(Piece { of, key, tokens, leads }, &mut TextSink { words, out });
        // Words are stored with the space before them.
        if leads && out.get(start) == Some(&b' ') {
            out.remove(start);
        }
    }

    /// Appends the same text as token ids: JSON numbers with commas between. Writes nothing
    /// without [`Self::has_ids`].
    pub fn write_ids(&self, of: Text, key: u64, tokens: u32, out: &mut Vec<u8>) {
        let start = out.len();
        // A space before a word is part of its id, so the first word has one too.
        let piece = Piece { of, key, tokens, leads: false };
        match self.lexicon.source() {
            Source::Words(Words { ids: Some(ids), .. }) => {
                self.compose(piece, &mut IdSink { ids, out });
            }
            Source::Words(_) => return,
            Source::Ids { first, .. } => {
                self.compose(piece, &mut RangeSink { first: *first, out });
            }
        }
        // Each id is written with the comma behind it.
        if out.len() > start {
            out.pop();
        }
    }

    fn compose(&self, piece: Piece, sink: &mut impl Sink) {
        let family = self.families[piece.of as usize];
        let digits = self.lexicon.digits();
        let corpus = self.corpus.as_deref().filter(|_| piece.of != Text::Mark);
        let headed = piece.of.has_head() && corpus.is_none_or(Corpus::has_heads);
        let head = if headed { write_head(piece, digits, family.head_key, sink) } else { 0 };
        let mut stream = family.streams.at(piece.key);
        let mut left = piece.tokens - head;
        if let Some(corpus) = corpus {
            let leads = piece.leads && head == 0;
            left = corpus.fill(stream.next_u64(), left, leads, |part| sink.part(corpus, part));
        }
        while left > 0 {
            let mut draw = stream.next_u64();
            let words = left.min(digits.per_draw());
            for _ in 0..words {
                sink.word(digits.cut(&mut draw));
            }
            left -= words;
        }
    }
}

/// Writes the words that spell the key; how many there are.
fn write_head(piece: Piece, digits: Digits, head_key: u64, sink: &mut impl Sink) -> u32 {
    let whole = digits.spelling(HEAD_BITS);
    let words = whole.min(piece.tokens);
    // What a seed means for short prompts was settled first; the other families keep prefixes.
    let bits = match digits {
        Digits::Bits(bits) if piece.of == Text::Prompt => words * bits,
        Digits::Bits(bits) => whole * bits,
        Digits::Range(_) => HEAD_BITS,
    };
    let mut value = scramble(piece.key, bits, head_key);
    for _ in 0..words {
        sink.word(digits.digit(&mut value));
    }
    words
}

/// A permutation of the numbers of `bits` bits, different for every key; higher bits of `value`
/// are ignored. Each step (xor, odd product, right shift xored in) is one to one.
const fn scramble(value: u64, bits: u32, key: u64) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mask = (1 << bits) - 1;
    let mut value = value & mask;
    let mut round = 0;
    while round < 3 {
        let round_key = mix(key.wrapping_add(round));
        value = (value ^ round_key) & mask;
        value = value.wrapping_mul(round_key | 1) & mask;
        value ^= value >> (bits / 2 + 1);
        round += 1;
    }
    value
}

/// Where the words of a text go.
trait Sink {
    /// A word of the lexicon.
    fn word(&mut self, number: usize);
    /// A word of the corpus, or a part of one.
    fn part(&mut self, corpus: &Corpus, part: Part);
}

struct TextSink<'a> {
    words: &'a Words,
    out: &'a mut Vec<u8>,
}

impl Sink for TextSink<'_> {
    #[inline]
    fn word(&mut self, number: usize) {
        // A number has no more bits than the table, so the mask changes nothing but the check.
        words::push(&self.words.table[number & (self.words.table.len() - 1)], self.out);
    }

    fn part(&mut self, corpus: &Corpus, part: Part) {
        self.out.extend_from_slice(corpus.text(part));
    }
}

struct IdSink<'a> {
    ids: &'a [u32],
    out: &'a mut Vec<u8>,
}

impl Sink for IdSink<'_> {
    fn word(&mut self, number: usize) {
        push_id(self.ids[number], self.out);
    }

    fn part(&mut self, corpus: &Corpus, part: Part) {
        for &id in corpus.ids(part) {
            push_id(id, self.out);
        }
    }
}

struct RangeSink<'a> {
    first: u32,
    out: &'a mut Vec<u8>,
}

impl Sink for RangeSink<'_> {
    fn word(&mut self, number: usize) {
        push_id(self.first + number as u32, self.out);
    }

    /// A corpus is text, which a range of ids has none of.
    fn part(&mut self, _corpus: &Corpus, _part: Part) {}
}

/// Appends `id` and a comma.
fn push_id(mut id: u32, out: &mut Vec<u8>) {
    // 2^32 − 1 has ten digits.
    let mut digits = [b','; 11];
    let mut at = 10;
    loop {
        at -= 1;
        digits[at] = b'0' + (id % 10) as u8;
        id /= 10;
        if id == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod lexicon_tests;
#[cfg(test)]
mod tests;
