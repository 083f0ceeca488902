//! The dialects: what the data of an event, or a whole document, means in each.
//!
//! All are lenient alike: a field that is null, absent, of another type or unknown changes nothing;
//! of a name that is there twice the last counts.

mod found;
mod lenient;
mod openai;
mod openai_chat;
mod openai_completions;
mod reading;
mod template;

pub use reading::Decoder;
pub use template::Template;

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
