//! The tokenizers that this program holds.

use std::sync::LazyLock;

use tiktoken::CoreBpe;

use super::{TokenizerError, Tokens};
use crate::workload::Embedded;

/// Tokens of `text` by `tokenizer`, special tokens taken as plain text. The first call for a
/// tokenizer loads it, which takes a fraction of a second.
#[must_use]
pub fn count(tokenizer: Embedded, text: &str) -> u64 {
    encoding(tokenizer).count(text) as u64
}

impl Tokens for Embedded {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(encoding(*self).encode(text))
    }

    fn count(&self, text: &str) -> Result<u64, TokenizerError> {
        Ok(count(*self, text))
    }

    fn decode(&self, ids: &[u32]) -> Option<String> {
        encoding(*self).decode_to_string(ids).ok()
    }

    fn ids(&self) -> u32 {
        u32::try_from(encoding(*self).vocab_size()).unwrap_or(u32::MAX)
    }

    fn name(&self) -> String {
        self.to_string()
    }
}

fn encoding(tokenizer: Embedded) -> &'static CoreBpe {
    static O200K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::o200k_base);
    static CL100K_BASE: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::cl100k_base);
    static QWEN2: LazyLock<CoreBpe> = LazyLock::new(tiktoken::encoding::qwen2);
    match tokenizer {
        Embedded::O200kBase => &O200K_BASE,
        Embedded::Cl100kBase => &CL100K_BASE,
        Embedded::Qwen2 => &QWEN2,
    }
}
