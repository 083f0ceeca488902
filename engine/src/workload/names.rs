//! The names by which options and results call the choices of a workload.

use std::fmt;
use std::str::FromStr;

use super::{
    CacheBust, Close, Connections, Dialect, Embedded, Field, Flow, Format, History, OnBadLine,
    Order, Overflow, Pick, Stamps, TimeUnit,
};

/// A name that is none of the choices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}`: it must be one of {choices}")]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// What stood there.
    pub name: String,
    /// What may stand there.
    pub choices: String,
}

/// Gives a choice its names: `ALL`, `as_str`, `Display` and `FromStr`, from one table.
macro_rules! names {
    ($choice:ident, $what:literal, $($variant:ident => $name:literal),+) => {
        impl $choice {
            /// All choices.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in options and results.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl FromStr for $choice {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let found = Self::ALL.iter().find(|choice| choice.as_str() == text.trim());
                found.copied().ok_or_else(|| UnknownName {
                    what: $what,
                    name: text.trim().to_owned(),
                    choices: [$($name),+].join(", "),
                })
            }
        }
    };
}

names!(Dialect, "dialect",
    OpenaiChat => "openai-chat", OpenaiCompletions => "openai-completions",
    OpenaiResponses => "openai-responses", OpenaiEmbeddings => "openai-embeddings",
    AnthropicMessages => "anthropic-messages", SglangGenerate => "sglang-generate",
    TgiGenerate => "tgi-generate", TritonGenerate => "triton-generate",
    LlamacppCompletion => "llamacpp-completion",
    OllamaChat => "ollama-chat", OllamaGenerate => "ollama-generate",
    Template => "template");
names!(Embedded, "tokenizer",
    O200kBase => "o200k_base", Cl100kBase => "cl100k_base", Qwen2 => "qwen2");
names!(Stamps, "stamps", Kernel => "kernel", Observed => "observed");
names!(Overflow, "overflow", Wait => "wait", Drop => "drop");
names!(Close, "close", Fin => "fin", Rst => "rst");
names!(Connections, "connections",
    Pooled => "pooled", PerUser => "per-user", PerSession => "per-session",
    PerRequest => "per-request");
names!(Flow, "flow",
    VllmNixl => "vllm-nixl", VllmPush => "vllm-push", Sglang => "sglang");
names!(Pick, "pick", RoundRobin => "round-robin", Random => "random");
names!(History, "history", Live => "live", Recorded => "recorded", Nothing => "none");
names!(CacheBust, "cache-bust", None => "none", Run => "run", Request => "request");
names!(Format, "format",
    Auto => "auto", Native => "native", Lines => "lines", ShareGpt => "sharegpt",
    OpenaiMessages => "openai-messages", VllmCustom => "vllm-custom",
    SingleTurn => "aiperf-single-turn", MultiTurn => "aiperf-multi-turn",
    RandomPool => "aiperf-random-pool", InputsJson => "aiperf-inputs",
    RawPayload => "raw-payload", Mooncake => "mooncake", Azure => "azure",
    BurstGpt => "burstgpt", Bailian => "bailian", Lengths => "lengths", Columns => "columns");
names!(Field, "field",
    Prompt => "prompt", System => "system", Messages => "messages", Answer => "answer",
    InputTokens => "input-tokens", OutputTokens => "output-tokens", Timestamp => "timestamp",
    Delay => "delay", Session => "session", Tools => "tools", HashIds => "hash-ids",
    Body => "body");
names!(OnBadLine, "choice for bad lines", Fail => "fail", Skip => "skip");
names!(Order, "order",
    Sequential => "sequential", Shuffle => "shuffle", Sample => "sample");
names!(TimeUnit, "time unit", Seconds => "s", Milliseconds => "ms");

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read_back<T>(all: &[T])
    where
        T: Copy + fmt::Debug + fmt::Display + FromStr<Err = UnknownName> + PartialEq,
    {
        for choice in all {
            assert_eq!(choice.to_string().parse(), Ok(*choice));
        }
    }

    #[test]
    fn every_choice_is_read_back_by_its_name() {
        is_read_back(Dialect::ALL);
        is_read_back(Embedded::ALL);
        is_read_back(Stamps::ALL);
        is_read_back(Overflow::ALL);
        is_read_back(Close::ALL);
        is_read_back(Connections::ALL);
        is_read_back(Flow::ALL);
        is_read_back(Pick::ALL);
        is_read_back(History::ALL);
        is_read_back(CacheBust::ALL);
        is_read_back(Format::ALL);
        is_read_back(Field::ALL);
        is_read_back(OnBadLine::ALL);
        is_read_back(Order::ALL);
        is_read_back(TimeUnit::ALL);
    }

    #[test]
    fn the_names_are_those_of_the_documents() {
        assert_eq!("openai-completions".parse(), Ok(Dialect::OpenaiCompletions));
        assert_eq!(" cl100k_base ".parse(), Ok(Embedded::Cl100kBase));
        assert_eq!("observed".parse(), Ok(Stamps::Observed));
        assert_eq!("drop".parse(), Ok(Overflow::Drop));
        assert_eq!("rst".parse(), Ok(Close::Rst));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_choices() {
        let error = "gpt2".parse::<Embedded>().unwrap_err().to_string();
        assert_eq!(error, "tokenizer `gpt2`: it must be one of o200k_base, cl100k_base, qwen2");
        assert!("".parse::<Dialect>().is_err());
    }
}
