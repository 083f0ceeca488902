//! What is said in a request, piece by piece, ready to stand in its JSON: system prompt, messages or
//! text, token ids.

use super::members::{Shape, System, Way};
use super::push_escaped;

/// Around the text of one message of the user's.
const PLAIN_OPEN: &[u8] = br#"{"role":"user","content":""#;
const PLAIN_CLOSE: &[u8] = br#""}"#;

/// What a request says. Buffers are kept from request to request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dialogue {
    /// The system prompt: the inside of a JSON string. Empty: none.
    system: Vec<u8>,
    /// Where messages are sent, the elements of their list; else the inside of a JSON string; with
    /// token ids the elements of their list.
    said: Vec<u8>,
    /// It is one message, or one text, of the user's.
    is_plain: bool,
}

impl Dialogue {
    /// Forgets all, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.system.clear();
        self.said.clear();
        self.is_plain = false;
    }

    /// Whether nothing was said yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Bytes that are said.
    pub(crate) fn len(&self) -> usize {
        self.system.len() + self.said.len()
    }

    /// Where the system prompt is written: the inside of a JSON string.
    pub(crate) fn system(&mut self) -> &mut Vec<u8> {
        &mut self.system
    }

    /// A text of the user's, which `write` appends as the inside of a JSON string.
    pub(crate) fn user(&mut self, shape: Shape, write: impl FnOnce(&mut Vec<u8>)) {
        self.is_plain = self.said.is_empty();
        self.open(shape, "user");
        write(&mut self.said);
        self.close(shape);
    }

    /// An answer, as the inside of a JSON string. How many line ends stand before it.
    pub(crate) fn assistant(&mut self, shape: Shape, text: &[u8]) -> u32 {
        self.is_plain = false;
        let gaps = self.gaps(shape);
        self.open(shape, "assistant");
        self.said.extend_from_slice(text);
        self.close(shape);
        gaps
    }

    /// A message as it was recorded: a JSON object, of which APIs that take text see `text` alone.
    pub(crate) fn message(&mut self, shape: Shape, raw: &str, text: &str) {
        self.is_plain = false;
        match shape.way {
            Way::Messages | Way::Input => {
                self.comma();
                self.said.extend_from_slice(raw.as_bytes());
            }
            Way::Text | Way::Ids => {
                self.gap();
                push_escaped(text, &mut self.said);
            }
        }
    }

    /// Token ids, which `write` appends with commas between them.
    pub(crate) fn ids(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.is_plain = true;
        self.comma();
        write(&mut self.said);
    }

    /// What is said in `other` after what is said here. How many line ends stand between the two.
    pub(crate) fn append(&mut self, shape: Shape, other: &Self) -> u32 {
        self.is_plain = self.said.is_empty() && other.is_plain;
        let gaps = self.gaps(shape);
        match shape.way {
            Way::Text => self.gap(),
            _ => self.comma(),
        }
        self.said.extend_from_slice(&other.said);
        gaps
    }

    /// Line ends before what is said next.
    fn gaps(&self, shape: Shape) -> u32 {
        u32::from(shape.way == Way::Text && !self.said.is_empty())
    }

    /// Forgets all but the system prompt.
    pub(crate) fn forget_said(&mut self) {
        self.said.clear();
    }

    /// Appends all of it: the value of the member, and what belongs behind it.
    pub(super) fn write(&self, shape: Shape, out: &mut Vec<u8>) {
        let Self { system, said, is_plain } = self;
        match shape.way {
            Way::Messages => self.write_messages(shape, out),
            Way::Input if !is_plain => self.write_messages(shape, out),
            Way::Ids => {
                out.push(b'[');
                out.extend_from_slice(said);
                out.push(b']');
            }
            Way::Input => {
                // One message of the user's is sent as its text alone.
                let text = said.strip_prefix(PLAIN_OPEN).unwrap_or(said);
                out.push(b'"');
                out.extend_from_slice(text.strip_suffix(PLAIN_CLOSE).unwrap_or(text));
                out.push(b'"');
            }
            Way::Text => {
                let quote: &[u8] = if shape == Shape::TEMPLATE { b"" } else { b"\"" };
                out.extend_from_slice(quote);
                out.extend_from_slice(system);
                if !system.is_empty() && !said.is_empty() {
                    out.push(b' ');
                }
                out.extend_from_slice(said);
                out.extend_from_slice(quote);
            }
        }
        if let (System::Member(name), false) = (shape.system, system.is_empty()) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
            out.extend_from_slice(system);
            out.push(b'"');
        }
    }

    fn write_messages(&self, shape: Shape, out: &mut Vec<u8>) {
        out.push(b'[');
        if shape.system == System::Message && !self.system.is_empty() {
            out.extend_from_slice(br#"{"role":"system","content":""#);
            out.extend_from_slice(&self.system);
            out.extend_from_slice(br#""},"#);
        }
        out.extend_from_slice(&self.said);
        out.push(b']');
    }

    fn open(&mut self, shape: Shape, role: &str) {
        match shape.way {
            Way::Messages | Way::Input => {
                self.comma();
                self.said.extend_from_slice(br#"{"role":""#);
                self.said.extend_from_slice(role.as_bytes());
                self.said.extend_from_slice(br#"","content":""#);
            }
            Way::Text | Way::Ids => self.gap(),
        }
    }

    fn close(&mut self, shape: Shape) {
        if matches!(shape.way, Way::Messages | Way::Input) {
            self.said.extend_from_slice(br#""}"#);
        }
    }

    fn comma(&mut self) {
        if !self.said.is_empty() {
            self.said.push(b',');
        }
    }

    /// Between two texts in one: a line of their own each.
    fn gap(&mut self) {
        if !self.said.is_empty() {
            self.said.extend_from_slice(br"\n");
        }
    }
}
