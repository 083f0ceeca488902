//! What a simulated server is asked to be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::dcgm::DcgmSettings;
use crate::faults::Faults;
use crate::law::Law;
use crate::legs::{Role, RoleSettings};
use crate::serving::ServingSettings;

/// The settings of a simulated server. `Settings::default()` answers at once and without limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// A unix socket to listen on in place of a port. It must not exist yet and is removed at the
    /// end. The kernel stamps no arrivals there, and what would be a reset is a close.
    pub unix: Option<PathBuf>,
    /// The kernel's numbers of the CPUs to pin threads to, one thread each. Empty: one thread,
    /// not pinned.
    pub cpus: Vec<usize>,
    /// The one model it serves; a request for another is refused.
    pub model: String,
    /// Time to first token: from the request's start (fully read, and out of the queue) to the
    /// first output event; for an answer in one piece the output events count as well.
    pub ttft: Law,
    /// From the first output event to the second; `None`: as between any other two.
    pub ttst: Option<Law>,
    /// Inter-token latency. Drawn once per output event and multiplied by its tokens, so that
    /// the gap divided by the tokens of the later event follows this law.
    pub itl: Law,
    /// Tokens in each output event; at least 1. The last event carries what is left.
    pub tokens_per_event: u32,
    /// Whether a chat stream sends a delta with only the role, together with the head.
    pub role_event: bool,
    /// Whether the response head leaves as soon as the request is read (even if it then waits in
    /// the queue), or together with the first output event.
    pub head_early: bool,
    /// When a stream ends with a usage event.
    pub usage: UsageMode,
    /// A serving model in place of `ttft`, `ttst`, `itl` and `max_concurrent`: the times follow from
    /// what else is served.
    pub serving: Option<ServingSettings>,
    /// Requests served at once; further ones wait, first come first served. `None`: no limit.
    pub max_concurrent: Option<u32>,
    /// Output tokens of a request that names no maximum.
    pub default_output_tokens: u32,
    /// With a zero `itl`: up to this many output events leave in one send; at least 1.
    pub events_per_write: u32,
    /// The text of one token.
    pub word: String,
    /// The seed of all draws; they depend on it and on the request's number alone.
    pub seed: u64,
    /// What goes wrong on purpose, and how often. Which requests it meets depends on the seed and
    /// the request's number alone; the others keep their times.
    pub faults: Faults,
    /// Which part it plays where prefill and decode are apart; `None`: it is a server of its own.
    pub role: Option<RoleSettings>,
    /// A stand-in for NVIDIA's DCGM exporter beside it.
    pub dcgm: Option<DcgmSettings>,
    /// Where to write the truth log, one JSON object a line (see [`crate::Record`]).
    pub truth: Option<PathBuf>,
}

/// When a response tells its token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageMode {
    /// As OpenAI does: streams if `stream_options.include_usage`, other answers always.
    #[default]
    Requested,
    /// Every stream and every other answer.
    Always,
    /// None at all.
    Never,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: 0,
            unix: None,
            cpus: Vec::new(),
            model: "sim".to_owned(),
            ttft: Law::ZERO,
            ttst: None,
            itl: Law::ZERO,
            tokens_per_event: 1,
            role_event: true,
            head_early: true,
            usage: UsageMode::Requested,
            serving: None,
            max_concurrent: None,
            default_output_tokens: 64,
            events_per_write: 1,
            word: " hello".to_owned(),
            seed: 1,
            faults: Faults::default(),
            role: None,
            dcgm: None,
            truth: None,
        }
    }
}

impl Settings {
    /// Says what is wrong with them, or nothing.
    pub(crate) fn fault(&self) -> Option<String> {
        let positive = [
            ("tokens_per_event", Some(self.tokens_per_event)),
            ("events_per_write", Some(self.events_per_write)),
            ("default_output_tokens", Some(self.default_output_tokens)),
            ("max_concurrent", self.max_concurrent),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == Some(0)) {
            return Some(format!("{name} is 0; give at least 1"));
        }
        if self.model.is_empty() {
            return Some("model is empty; give it a name".to_owned());
        }
        if self.word.is_empty() {
            return Some("word is empty; an output event must carry text".to_owned());
        }
        if let Some(fault) = self.dcgm.as_ref().and_then(DcgmSettings::fault) {
            return Some(format!("dcgm: {fault}"));
        }
        if let Some(fault) = self.role.as_ref().and_then(|role| self.role_fault(role)) {
            return Some(fault);
        }
        self.serving.as_ref().and_then(|serving| self.serving_fault(serving))
    }

    fn role_fault(&self, role: &RoleSettings) -> Option<String> {
        if self.serving.is_some() {
            let both = "role and serving are given, but a role has times by laws; leave out one";
            return Some(both.to_owned());
        }
        if role.role == Role::Router && (self.unix.is_some() || !self.faults.is_empty()) {
            let none = "a router has no faults of its own, and listens on a port; leave out unix \
                and faults";
            return Some(format!("role: {none}"));
        }
        role.fault().map(|fault| format!("role: {fault}"))
    }

    fn serving_fault(&self, serving: &ServingSettings) -> Option<String> {
        let replaced = [
            ("ttft", !self.ttft.is_zero()),
            ("ttst", self.ttst.is_some()),
            ("itl", !self.itl.is_zero()),
            ("max_concurrent", self.max_concurrent.is_some()),
            ("events_per_write", self.events_per_write > 1),
        ];
        if let Some((name, _)) = replaced.iter().find(|(_, given)| *given) {
            return Some(format!("{name} is given, but serving decides it; leave out one of them"));
        }
        serving.fault().map(|fault| format!("serving: {fault}"))
    }

    /// Whether any time lies between output events.
    pub(crate) fn has_gaps(&self) -> bool {
        let at_once = self.itl.is_zero() && self.ttst.is_none_or(|law| law.is_zero());
        self.serving.is_some() || !at_once
    }

    /// Output events that may leave in one send.
    pub(crate) fn batch(&self) -> usize {
        if self.has_gaps() { 1 } else { self.events_per_write as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_json_and_missing_fields_take_their_default() {
        let settings: Settings = serde_json::from_str(
            r#"{"ttft":"lognormal:50ms,80ms","usage":"never","faults":"stall:3=0.05 pings=1%"}"#,
        )
        .unwrap();
        assert_eq!(settings.ttft.to_string(), "lognormal:50ms,80ms");
        assert_eq!(settings.default_output_tokens, 64);
        assert_eq!(settings.faults.rates().len(), 2);
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
        assert!(serde_json::from_str::<Settings>(r#"{"tftt":"1ms"}"#).is_err());
    }

    #[test]
    fn a_zero_where_one_is_the_least_is_named() {
        let settings = Settings { max_concurrent: Some(0), ..Settings::default() };
        assert_eq!(settings.fault().unwrap(), "max_concurrent is 0; give at least 1");
        assert_eq!(Settings::default().fault(), None);
    }

    #[test]
    fn a_serving_model_takes_the_place_of_the_laws() {
        let serving = Settings { serving: Some(ServingSettings::default()), ..Settings::default() };
        assert_eq!((serving.fault(), serving.has_gaps(), serving.batch()), (None, true, 1));
        for both in [
            Settings { itl: Law::Constant(1), ..serving.clone() },
            Settings { ttst: Some(Law::ZERO), ..serving.clone() },
            Settings { max_concurrent: Some(3), ..serving.clone() },
        ] {
            assert!(both.fault().unwrap().contains("but serving decides it"), "{both:?}");
        }
        let none = ServingSettings { max_batch: 0, ..ServingSettings::default() };
        let fault = Settings { serving: Some(none), ..serving }.fault().unwrap();
        assert_eq!(fault, "serving: max_batch is 0; give at least 1");
    }

    #[test]
    fn events_share_a_send_only_when_nothing_lies_between_them() {
        let settings = Settings { events_per_write: 64, ..Settings::default() };
        assert_eq!(settings.batch(), 64);
        let slow = Settings { itl: Law::Constant(1), ..settings.clone() };
        assert_eq!(slow.batch(), 1);
        let pause = Settings { ttst: Some(Law::Constant(1)), ..settings };
        assert_eq!(pause.batch(), 1);
    }
}
