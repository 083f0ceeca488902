//! The dialects: what the data of an event, or a whole document, means in each.
//!
//! All are lenient alike: a field that is null, absent, of another type or unknown changes nothing;
//! of a name that is there twice the last counts.

mod anthropic_messages;
mod found;
mod lenient;
mod llamacpp_completion;
mod native;
mod ollama_chat;
mod ollama_generate;
mod openai;
mod openai_chat;
mod openai_completions;
mod openai_embeddings;
mod openai_responses;
mod past;
mod pointer;
mod reading;
pub(crate) mod server_times;
mod sglang_generate;
mod so_far;
mod template;
#[cfg(test)]
mod testing;
mod tgi_generate;
mod told;
mod triton_generate;

pub use reading::{Decoder, Known};
pub use template::{Framing, PLACES_MAX, Places, Template, TemplateError};

use std::sync::Arc;

/// The wire format of a server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// `/v1/chat/completions`.
    OpenaiChat,
    /// `/v1/completions`.
    OpenaiCompletions,
    /// `/v1/responses`.
    OpenaiResponses,
    /// `/v1/embeddings`: never a stream.
    OpenaiEmbeddings,
    /// `/v1/messages`.
    AnthropicMessages,
    /// SGLang's `/generate`.
    SglangGenerate,
    /// Text Generation Inference's `/generate_stream` and `/generate`.
    TgiGenerate,
    /// Triton's `/v2/models/M/generate_stream` and `/generate`.
    TritonGenerate,
    /// llama.cpp's `/completion`.
    LlamacppCompletion,
    /// Ollama's `/api/chat`.
    OllamaChat,
    /// Ollama's `/api/generate`.
    OllamaGenerate,
    /// Whatever a template describes.
    Template(Arc<Template>),
}

impl Dialect {
    /// Is its stream one JSON text per line?
    pub(crate) fn reads_lines(&self) -> bool {
        match self {
            Self::OllamaChat | Self::OllamaGenerate => true,
            Self::Template(template) => template.places().framing == Framing::Ndjson,
            _ => false,
        }
    }

    /// Has it no terminator, so that a complete body is a complete answer?
    pub(crate) fn ends_with_body(&self) -> bool {
        match self {
            Self::TritonGenerate => true,
            Self::Template(template) => template.places().ends_with_body,
            _ => false,
        }
    }

    /// May every event repeat the text of those before it? Then what it means depends on them.
    fn may_repeat(&self) -> bool {
        matches!(self, Self::SglangGenerate | Self::TritonGenerate)
    }
}
