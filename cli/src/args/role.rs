//! What may be typed after `tokclock sim --role`.

use clap::Args;
use tokclock_sim::{Flow, Law, Role, RoleSettings};

use super::sim::at_least_1;
use crate::exit::Failure;
use crate::values::{Share, Span};

/// Options of a server where prefill and decode are apart. What is absent is as the role has it.
#[derive(Debug, Clone, Args)]
pub(crate) struct RoleArgs {
    /// Play one part of a deployment where prefill and decode are apart: prefill, decode, or router
    #[arg(
        long,
        value_name = "ROLE",
        conflicts_with = "serving",
        help_heading = "Prefill and decode apart"
    )]
    pub(crate) role: Option<Role>,

    /// How a KV cache is handed over: vllm-nixl, vllm-push or sglang [default: vllm-nixl]
    #[arg(long, value_name = "FLOW", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) flow: Option<Flow>,

    /// How long a hand-off takes; decode draws it, with --flow sglang prefill [default: 10ms]
    #[arg(long, value_name = "LAW", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) handoff: Option<Law>,

    /// Bytes of KV cache in one prompt token [default: 131072]
    #[arg(long, value_name = "N", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) handoff_bytes: Option<u64>,

    /// Decode: time to the first token of a prompt that has to be computed there [default: 500ms]
    #[arg(long, value_name = "LAW", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) recompute: Option<Law>,

    /// How long a KV cache is held for whoever is to take it over [default: 30s]
    #[arg(long, value_name = "TIME", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) lease: Option<Span>,

    /// Decode: share of good hand-offs that fail, so that the prompt is computed again [default: 0%]
    #[arg(
        long,
        value_name = "SHARE",
        requires = "role",
        help_heading = "Prefill and decode apart"
    )]
    pub(crate) fallback: Option<Share>,

    /// Prefill: share of answers without the hand-off object [default: 0%]
    #[arg(
        long,
        value_name = "SHARE",
        requires = "role",
        help_heading = "Prefill and decode apart"
    )]
    pub(crate) no_params: Option<Share>,

    /// Prefill: blocks that a hand-off object names at least; one for 16 prompt tokens [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_1(), requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) object_blocks: Option<u32>,

    /// Prefill: what it calls itself in hand-off objects [default: prefill-engine-001]
    #[arg(long, value_name = "NAME", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) engine_id: Option<String>,

    /// Prefill: port at which decode servers meet it; 0 takes a free one [default: 0; vllm-push:
    /// 5600; sglang: 8998]
    #[arg(long, value_name = "PORT", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) side_port: Option<u16>,

    /// Router: URL of a prefill server; repeatable, then in turn
    #[arg(long, value_name = "URL", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) prefill: Vec<String>,

    /// Router: URL of a decode server; repeatable, then in turn
    #[arg(long, value_name = "URL", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) decode: Vec<String>,

    /// Router: how long it thinks for each request [default: 0ms]
    #[arg(long, value_name = "LAW", requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) router_delay: Option<Law>,

    /// Router of a flow that asks both at once: read prefill to its end before decode is passed on
    #[arg(long, requires = "role", help_heading = "Prefill and decode apart")]
    pub(crate) drain_prefill: bool,
}

impl RoleArgs {
    /// The settings that were typed; `None` without a role.
    ///
    /// # Errors
    /// An option that means nothing for the role.
    pub(crate) fn settings(&self) -> Result<Option<RoleSettings>, Failure> {
        /// What a hand-off takes where nothing is typed.
        const HANDOFF: Law = Law::Constant(10_000_000);
        let Some(role) = self.role else { return Ok(None) };
        let base = RoleSettings::default();
        let flow = self.flow.unwrap_or_default();
        self.check(role, flow)?;
        let share = |share: Option<Share>| share.map_or(0.0, Share::value);
        Ok(Some(RoleSettings {
            role,
            flow,
            handoff: self.handoff.unwrap_or(HANDOFF),
            handoff_bytes: self.handoff_bytes.unwrap_or(base.handoff_bytes),
            recompute: self.recompute.unwrap_or(base.recompute),
            lease_ns: self.lease.map_or(base.lease_ns, Span::ns),
            fallback: share(self.fallback),
            no_params: share(self.no_params),
            object_blocks: self.object_blocks.unwrap_or(base.object_blocks),
            engine_id: self.engine_id.clone().unwrap_or(base.engine_id),
            side_port: self.side_port.unwrap_or(match flow {
                // A hand-off object names it, so it may be any.
                Flow::VllmNixl => 0,
                _ => RoleSettings::side_port_of(flow),
            }),
            prefill: self.prefill.clone(),
            decode: self.decode.clone(),
            router_delay: self.router_delay.unwrap_or(base.router_delay),
            drain_prefill: self.drain_prefill,
            ..base
        }))
    }

    /// Refuses what would silently do nothing.
    fn check(&self, role: Role, flow: Flow) -> Result<(), Failure> {
        let hands = if flow == Flow::Sglang { Role::Prefill } else { Role::Decode };
        let of = |given: bool, option: &'static str, role| given.then_some((option, role));
        let given = [
            of(self.handoff.is_some(), "--handoff", hands),
            of(self.recompute.is_some(), "--recompute", Role::Decode),
            of(self.fallback.is_some(), "--fallback", Role::Decode),
            of(self.no_params.is_some(), "--no-params", Role::Prefill),
            of(self.object_blocks.is_some(), "--object-blocks", Role::Prefill),
            of(self.engine_id.is_some(), "--engine-id", Role::Prefill),
            of(self.side_port.is_some(), "--side-port", Role::Prefill),
            of(!self.prefill.is_empty(), "--prefill", Role::Router),
            of(!self.decode.is_empty(), "--decode", Role::Router),
            of(self.router_delay.is_some(), "--router-delay", Role::Router),
            of(self.drain_prefill, "--drain-prefill", Role::Router),
        ];
        if let Some((option, of)) = given.into_iter().flatten().find(|(_, of)| *of != role) {
            return Err(Failure::usage(format!(
                "{option} is for --role {of} (with --flow {flow}), this is --role {role}; leave it out"
            )));
        }
        if self.drain_prefill && flow == Flow::VllmNixl {
            return Err(Failure::usage(
                "--drain-prefill is for flows that ask both servers at once; with --flow vllm-nixl \
                 the prefill answer is always read first",
            ));
        }
        if flow == Flow::Sglang && (self.fallback.is_some() || self.no_params.is_some()) {
            return Err(Failure::usage(
                "--fallback and --no-params are for vLLM: with --flow sglang no prompt is computed \
                 again and there is no hand-off object; leave them out",
            ));
        }
        if role == Role::Router && (self.prefill.is_empty() || self.decode.is_empty()) {
            return Err(Failure::usage(
                "--role router needs --prefill URL and --decode URL: whom should it ask?",
            ));
        }
        Ok(())
    }
}
