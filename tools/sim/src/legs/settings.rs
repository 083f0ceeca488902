//! What a server is asked to be where prefill and decode are apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::law::Law;
use crate::legs::upstream::Address;

/// Which part of a disaggregated deployment a server plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Computes prompts and hands their KV cache over.
    #[default]
    Prefill,
    /// Takes KV caches over and generates.
    Decode,
    /// Stands before both and asks them.
    Router,
}

/// How prefill and decode server come to hand a KV cache over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// vLLM with NIXL, pull: prefill answers with an object that decode is given.
    #[default]
    VllmNixl,
    /// vLLM with NIXL, push: both are asked at once and find each other by the request's id.
    VllmPush,
    /// SGLang: both are asked at once and meet at a bootstrap room.
    Sglang,
}

/// The settings of a prefill server, a decode server or a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleSettings {
    /// Which part it plays.
    pub role: Role,
    /// How a KV cache is handed over.
    pub flow: Flow,
    /// How long a hand-off takes. Drawn by the decode server; with [`Flow::Sglang`] by the prefill
    /// server.
    pub handoff: Law,
    /// Bytes of KV cache in one prompt token, for `/metrics` and the truth log.
    pub handoff_bytes: u64,
    /// Decode: what it takes to the first token if the prompt has to be computed there.
    pub recompute: Law,
    /// How long a KV cache, or the word that it will come, is held.
    pub lease_ns: u64,
    /// Decode: the share of good hand-offs, 0 to 1, that fail all the same.
    pub fallback: f64,
    /// Prefill: the share of answers, 0 to 1, that lack the hand-off object.
    pub no_params: f64,
    /// Prefill: prompt tokens in one block of the hand-off object.
    pub block_tokens: u32,
    /// Prefill: at least so many blocks are in a hand-off object, however short the prompt.
    pub object_blocks: u32,
    /// Prefill: what it calls itself in hand-off objects.
    pub engine_id: String,
    /// Prefill: the port at which decode servers find it, beside that for requests; 0 takes a free
    /// one.
    pub side_port: u16,
    /// Router: URLs of prefill servers, asked in turn.
    pub prefill: Vec<String>,
    /// Router: URLs of decode servers, asked in turn.
    pub decode: Vec<String>,
    /// Router: how long it thinks. Between the two requests where one follows the other, else
    /// before both.
    pub router_delay: Law,
    /// Router, where both are asked at once: whether it reads the prefill answer to its end before
    /// it passes on anything.
    pub drain_prefill: bool,
}

impl RoleSettings {
    /// Where a prefill server is found by default, as the real ones are.
    #[must_use]
    pub fn side_port_of(flow: Flow) -> u16 {
        if flow == Flow::Sglang { 8998 } else { 5600 }
    }

    /// What a prefill server calls itself by default.
    pub const ENGINE_ID: &str = "prefill-engine-001";
}

impl Default for RoleSettings {
    fn default() -> Self {
        Self {
            role: Role::default(),
            flow: Flow::default(),
            handoff: Law::ZERO,
            handoff_bytes: 131_072,
            recompute: Law::Constant(500_000_000),
            lease_ns: 30_000_000_000,
            fallback: 0.0,
            no_params: 0.0,
            block_tokens: 16,
            object_blocks: 1,
            engine_id: Self::ENGINE_ID.to_owned(),
            side_port: 0,
            prefill: Vec::new(),
            decode: Vec::new(),
            router_delay: Law::ZERO,
            drain_prefill: false,
        }
    }
}

impl RoleSettings {
    /// Says what is wrong with them, or nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        for (name, share) in [("fallback", self.fallback), ("no_params", self.no_params)] {
            if !(0.0..=1.0).contains(&share) {
                return Some(format!("{name} is not from 0% to 100%; write 5% or 0.05"));
            }
        }
        if self.block_tokens == 0 {
            return Some("block_tokens is 0; give at least 1".to_owned());
        }
        if self.engine_id.is_empty() {
            return Some("engine_id is empty; give it a name".to_owned());
        }
        if let Some(url) = self.urls().find(|url| Address::read(url).is_none()) {
            return Some(format!(
                "{url:?} is no URL that a router can ask; write http://host:port"
            ));
        }
        if self.role == Role::Router && (self.prefill.is_empty() || self.decode.is_empty()) {
            return Some("a router needs the URLs of a prefill and a decode server".to_owned());
        }
        None
    }

    /// All URLs of a router.
    pub fn urls(&self) -> impl Iterator<Item = &String> {
        self.prefill.iter().chain(&self.decode)
    }

    /// Whether both servers are asked at once.
    #[must_use]
    pub fn is_concurrent(&self) -> bool {
        self.flow != Flow::VllmNixl
    }
}

impl Role {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Router => "router",
        }
    }
}

impl Flow {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::VllmNixl => "vllm-nixl",
            Self::VllmPush => "vllm-push",
            Self::Sglang => "sglang",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Prefill, Self::Decode, Self::Router];
        let found = all.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| "expected prefill, decode or router".to_owned())
    }
}

impl FromStr for Flow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::VllmNixl, Self::VllmPush, Self::Sglang];
        let found = all.into_iter().find(|flow| flow.name() == text);
        found.ok_or_else(|| "expected vllm-nixl, vllm-push or sglang".to_owned())
    }
}
