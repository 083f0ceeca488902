//! The options of the router's role, where prefill and decode are apart.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OneOrMore, Options, one_or_more};
use crate::values::Share;

/// Where prefill and decode are apart. In a TOML file the keys are the names of the options.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct DisaggOptions {
    /// Play the router between prefill and decode servers: vllm-nixl, vllm-push, sglang
    #[arg(long, value_name = "NAME", help_heading = "Prefill and decode")]
    pub(crate) flow: Option<String>,

    /// Prefill server: URL[,port=P][,host=H][,engine=ID][,tp=N][,pp=N]; port and host are where decode
    /// servers meet it [default: the URL's host, port 8998 (sglang) or 5600] (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Prefill and decode")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
    pub(crate) prefill: Vec<String>,

    /// URL of a decode server (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Prefill and decode")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
    pub(crate) decode: Vec<String>,

    /// URL of a router of the same servers: every second request goes by it, so that what it adds is
    /// measured (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Prefill and decode")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
    pub(crate) router: Vec<String>,

    /// Which prefill and decode server a request goes to: round-robin, random [default: round-robin]
    #[arg(long, value_name = "HOW", help_heading = "Prefill and decode")]
    pub(crate) pick: Option<String>,

    /// Send so many of the prompts to their decode server once more, for the time that it takes there
    /// without a hand-off (vllm-nixl) [default: 5%; 100% in a trace]
    #[arg(long, value_name = "SHARE", help_heading = "Prefill and decode")]
    pub(crate) handoff_sample: Option<Share>,
}

impl Options {
    /// URLs of the servers that answer: decode servers, where prefill is apart; none: the embedded
    /// simulator.
    #[must_use]
    pub(crate) fn servers(&self) -> &[String] {
        if self.disagg.flow.is_some() { &self.disagg.decode } else { &self.url }
    }
}
