//! The dialects: what the data of an event, or a whole document, means in each.
//!
//! All are lenient alike: a field that is null, absent, of another type or unknown changes nothing;
//! of a name that is there twice the last counts.

mod lenient;
mod openai;
mod openai_chat;
mod openai_completions;
mod reading;

pub use reading::Decoder;

/// The wire format of a server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/v1/chat/completions`.
    OpenaiChat,
    /// `/v1/completions`.
    OpenaiCompletions,
}
