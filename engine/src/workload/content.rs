//! What requests say: lengths, the parts that they share, recordings, conversations; one class of
//! them or several.

use super::{DataSpec, Law, LengthLaw, Objectives, Tokenizer};

/// One kind of request among those of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its name in records and figures; none where there is only one class.
    pub name: Option<String>,
    /// Its share of all requests is this over the sum of all weights; finite and above 0.
    pub weight: f64,
    /// The model that it asks for in place of the target's: another model, or a LoRA adapter.
    pub model: Option<String>,
    /// What its requests say.
    pub content: Content,
    /// What the service promised it.
    pub objectives: Objectives,
}

impl Class {
    /// The only class of a load.
    #[must_use]
    pub fn only(content: Content) -> Self {
        Self { name: None, weight: 1.0, model: None, content, objectives: Objectives::default() }
    }
}

/// What requests of one class say.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// Input and output tokens of synthetic requests. The output law also serves recordings that do
    /// not say how long their answers are.
    pub lengths: LengthLaw,
    /// What synthetic prompts have in common.
    pub shared: Shared,
    /// A recording in place of synthetic prompts.
    pub data: Option<DataSpec>,
    /// How requests follow each other in a conversation.
    pub conversation: Conversation,
    /// The pause before each request of a user, or of a conversation, but its first, in ns.
    pub think: Option<Law>,
    /// Tool definitions of every request: a JSON array.
    pub tools: Option<String>,
    /// What keeps the server's prefix cache from knowing prompts.
    pub cache_bust: CacheBust,
    /// Tokens that the server adds to a prompt and that the input length includes.
    pub template_tokens: u32,
}

impl Content {
    /// Single synthetic requests of these lengths, nothing shared.
    #[must_use]
    pub fn of_lengths(input_tokens: u32, output_tokens: u32) -> Self {
        Self {
            lengths: LengthLaw::constant(input_tokens, output_tokens),
            shared: Shared::default(),
            data: None,
            conversation: Conversation::default(),
            think: None,
            tools: None,
            cache_bust: CacheBust::None,
            template_tokens: 0,
        }
    }

    /// Whether requests follow each other in conversations.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        self.conversation.turns.is_some()
    }
}

/// What synthetic prompts have in common. The tokens come before those of the input length, except
/// with `cached_share`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shared {
    /// Tokens of a system prompt that all requests have.
    pub system_tokens: u32,
    /// Prefixes, each of which some of the requests have.
    pub groups: Option<Groups>,
    /// A context that all requests of one user have.
    pub user: Option<UserContext>,
    /// So much of the input length is the beginning of a text that all requests (of a group) have:
    /// 0 to 1.
    pub cached_share: Option<f64>,
}

/// Prefixes, each of which some of the requests have.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// How many, at least 1.
    pub count: u32,
    /// Tokens of each; drawn once a group.
    pub tokens: Option<Law>,
    /// Which request has which.
    pub popularity: Popularity,
}

/// How often each of several things is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// Equally often.
    Uniform,
    /// Number *k*, from 1, with a weight of 1/*k*^s; s is finite and above 0.
    Zipf(f64),
}

/// A context that all requests of one user have.
#[derive(Debug, Clone, PartialEq)]
pub struct UserContext {
    /// Its tokens; drawn once a user.
    pub tokens: Law,
    /// How many users there are; without it every request, or conversation, is a user's of its own.
    pub population: Option<u32>,
}

/// How requests follow each other in a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    /// Turns of a synthetic conversation; of a recording, what it says. None: single requests.
    pub turns: Option<Turns>,
    /// What later turns hold of earlier ones.
    pub history: History,
}

/// How many turns a conversation has, and how long the later ones are.
#[derive(Debug, Clone, PartialEq)]
pub struct Turns {
    /// How many; at least 1 each.
    pub count: Law,
    /// Input tokens that each turn but the first adds; the law of the first without it.
    pub input: Option<Law>,
}

/// What later turns of a conversation hold of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// What was said, and what the server answered.
    #[default]
    Live,
    /// What was said, and the recorded answers (synthetic ones of the length asked for, where there
    /// is no recording): the same in every run.
    Recorded,
    /// Nothing.
    Nothing,
}

/// What keeps a server's prefix cache from knowing prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheBust {
    /// Nothing.
    #[default]
    None,
    /// A few words that differ from run to run begin each prompt: nothing of an earlier run is known,
    /// what requests of this run share stays shared.
    Run,
    /// A few words that differ from request to request begin each prompt: nothing is known.
    Request,
}

/// How texts are written and counted, in every class.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// The tokenizer of prompts.
    pub tokenizer: Tokenizer,
    /// The user chose it, so that it may also count recordings and answers.
    pub tokenizer_chosen: bool,
    /// A file whose words make the synthetic prompts, in place of our own.
    pub corpus: Option<std::path::PathBuf>,
    /// Prompts are sent as lists of token ids.
    pub as_ids: bool,
    /// Draw these ids, first and last, in place of those of words.
    pub ids: Option<(u32, u32)>,
}

impl Default for Text {
    /// Words that any embedded tokenizer counts alike.
    fn default() -> Self {
        Self {
            tokenizer: Tokenizer::O200K,
            tokenizer_chosen: false,
            corpus: None,
            as_ids: false,
            ids: None,
        }
    }
}
