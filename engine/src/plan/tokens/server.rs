//! The server's own tokenizer.

use std::sync::Arc;

use super::{Ask, TokenizerError, Tokens, one_line};

/// A tokenizer that the server is asked for.
pub(super) struct Server {
    ask: Arc<dyn Ask>,
}

impl Server {
    /// The tokenizer behind `ask`.
    pub(super) fn new(ask: Arc<dyn Ask>) -> Self {
        Self { ask }
    }
}

impl Tokens for Server {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let ids = self.ask.tokenize(text);
        ids.map_err(|reason| TokenizerError::Server { reason: one_line(&reason) })
    }

    fn decode(&self, _ids: &[u32]) -> Option<String> {
        None
    }

    fn ids(&self) -> u32 {
        0
    }

    fn name(&self) -> String {
        "server".to_owned()
    }

    fn is_remote(&self) -> bool {
        true
    }
}
