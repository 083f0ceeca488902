//! What every format is turned into: an entry is one request, or a conversation of several.

use serde_json::value::RawValue;

/// One request or conversation.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// When it goes, in ns, as the recording says; from what origin is the recording's matter.
    pub timestamp_ns: Option<u64>,
    /// The id of the conversation in the recording. Requests with times of their own may share one.
    pub session: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// Its requests in order, at least one.
    pub turns: Vec<Turn>,
}

/// One request of a conversation.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What it says.
    pub content: Content,
    /// Output tokens to ask for, at least 1.
    pub output_tokens: Option<u32>,
    /// The pause before it, in ns.
    pub delay_ns: Option<u64>,
    /// What the model answered in the recording.
    pub answer: Option<String>,
    /// The tools of the request, a list.
    pub tools: Option<Box<RawValue>>,
    /// More members for its body.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Tokens of the prompt, as the recording says or else counted.
    pub input_tokens: Option<u32>,
}

/// What a request says.
#[derive(Debug, Clone)]
pub enum Content {
    /// A text of the user, not empty.
    Text(String),
    /// The whole history as messages, not empty, each with a role.
    Messages(Vec<Box<RawValue>>),
    /// A text to be made up.
    Synthetic {
        /// Its length, at least 1.
        tokens: u32,
        /// Names of its blocks; equal names are equal texts. None, or ⌈tokens / block size⌉.
        blocks: Vec<u64>,
        /// Tokens of a block; 0 where there are no blocks.
        block_size: u32,
    },
    /// The body itself, sent as it is.
    Body(Box<RawValue>),
}

impl Turn {
    /// A request that says this and no more.
    #[must_use]
    pub fn new(content: Content) -> Self {
        let input_tokens = match content {
            Content::Synthetic { tokens, .. } => Some(tokens),
            _ => None,
        };
        Self {
            content,
            output_tokens: None,
            delay_ns: None,
            answer: None,
            tools: None,
            extra: serde_json::Map::new(),
            input_tokens,
        }
    }

    /// Tokens of the texts of this request by `count`; `None` where there are no texts.
    pub(super) fn count(&self, count: &(dyn Fn(&str) -> u64 + Sync)) -> Option<u64> {
        match &self.content {
            Content::Text(text) => Some(count(text)),
            Content::Messages(messages) => {
                let texts = messages.iter().flat_map(|message| texts(message));
                Some(texts.fold(0, |sum: u64, text| sum.saturating_add(count(&text))))
            }
            Content::Synthetic { .. } | Content::Body(_) => None,
        }
    }
}

/// Whether so many blocks hold so many tokens, the last one perhaps in part.
///
/// # Errors
/// The rule, and what to do.
pub(super) fn check_blocks(tokens: u32, blocks: usize, block_size: u32) -> Result<(), String> {
    if block_size == 0 {
        return Err("a block of 0 tokens holds nothing: `block_size` must be at least 1".to_owned());
    }
    let needed = tokens.div_ceil(block_size);
    if blocks == needed as usize {
        return Ok(());
    }
    Err(format!(
        "{blocks} hash_ids do not fit {tokens} input tokens: with blocks of {block_size} tokens \
         there must be {needed} (--block-size sets another size)"
    ))
}

/// The texts of a message: its content, or the texts among its parts.
fn texts(message: &RawValue) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Message {
        #[serde(default)]
        content: serde_json::Value,
    }
    let Ok(message) = serde_json::from_str::<Message>(message.get()) else { return Vec::new() };
    match message.content {
        serde_json::Value::String(text) => vec![text],
        serde_json::Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
