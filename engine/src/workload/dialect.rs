//! What each API can be asked for, and how a key is given to it.

use super::Dialect;

impl Dialect {
    /// Whether it answers in streams at all.
    #[must_use]
    pub fn streams(self) -> bool {
        self != Self::OpenaiEmbeddings
    }

    /// Whether its streams are lines of JSON; else they are server-sent events. A template says it
    /// for itself.
    #[must_use]
    pub fn streams_lines(self) -> bool {
        matches!(self, Self::OllamaChat | Self::OllamaGenerate)
    }

    /// Whether no request can be written without the name of a model.
    #[must_use]
    pub fn needs_model(self) -> bool {
        !matches!(
            self,
            Self::SglangGenerate | Self::TgiGenerate | Self::LlamacppCompletion | Self::Template
        )
    }

    /// Whether it generates text, so that a length can be asked for.
    #[must_use]
    pub fn generates(self) -> bool {
        self != Self::OpenaiEmbeddings
    }

    /// Whether it can be made to give as many tokens as were asked for, no fewer.
    #[must_use]
    pub fn forces_length(self) -> bool {
        matches!(
            self,
            Self::OpenaiChat
                | Self::OpenaiCompletions
                | Self::SglangGenerate
                | Self::LlamacppCompletion
        )
    }

    /// Whether it can be asked for the ids of its tokens.
    #[must_use]
    pub fn gives_token_ids(self) -> bool {
        matches!(self, Self::OpenaiChat | Self::OpenaiCompletions | Self::LlamacppCompletion)
    }

    /// Whether it can be asked to count its tokens in every event.
    #[must_use]
    pub fn gives_continuous_usage(self) -> bool {
        matches!(self, Self::OpenaiChat | Self::OpenaiCompletions)
    }

    /// Headers that it wants beside the usual ones.
    #[must_use]
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::AnthropicMessages => &[("anthropic-version", "2023-06-01")],
            _ => &[],
        }
    }

    /// The header that carries an API key, and what stands in it before the key.
    #[must_use]
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::AnthropicMessages => ("x-api-key", ""),
            _ => ("Authorization", "Bearer "),
        }
    }
}
