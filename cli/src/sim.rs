//! `tokclock sim`: the simulated server on its own.

use tokclock_sim::serving::ServingSettings;
use tokclock_sim::{DcgmSettings, Faults, Law, Role, RoleSettings, Server, Settings};

use crate::args::SimArgs;
use crate::exit::{Code, Failure};
use crate::values::Span;
use crate::{interrupt, output};

/// Serves until Ctrl-C or SIGTERM, then prints what was served as JSON to stdout. The address goes
/// to stderr.
///
/// # Errors
/// If the options do not fit together, or the server does not start.
pub(crate) fn serve(args: &SimArgs) -> Result<Code, Failure> {
    let server = Server::start(&settings(args)?).map_err(|error| {
        Failure::could_not_run(format!("the simulator does not start: {error}"))
    })?;
    match server.unix() {
        Some(path) => output::note(format_args!("unix:{} (Ctrl-C ends)", path.display())),
        None => output::note(format_args!("http://{} (Ctrl-C ends)", server.address())),
    }
    if let Some(address) = server.dcgm_address() {
        output::note(format_args!("DCGM: http://{address}/metrics"));
    }
    interrupt::wait(args.until_stdin_ends)?;
    let report = serde_json::to_string_pretty(&server.stop())
        .map_err(|error| Failure::could_not_run(format!("the report is no JSON: {error}")))?;
    output::result(report);
    Ok(Code::Ok)
}

fn settings(args: &SimArgs) -> Result<Settings, Failure> {
    /// What is served with where neither times nor a model are asked for.
    const TTFT: Law = Law::Constant(50_000_000);
    const ITL: Law = Law::Constant(10_000_000);
    let base = Settings::default();
    let serving = args.serving.settings(args.seed);
    if let Some(fault) = serving.as_ref().and_then(ServingSettings::fault) {
        return Err(Failure::usage(format!("--serving: {fault}")));
    }
    let role = args.role.settings()?;
    // A decode server computes one token of a prompt that is there.
    let ttft = if role.as_ref().is_some_and(|role| role.role == Role::Decode) { ITL } else { TTFT };
    let or_law = |given: Option<Law>, law| match serving {
        Some(_) => Law::ZERO,
        None => given.unwrap_or(law),
    };
    let faults =
        Faults::new(args.fault.clone()).map_err(|error| Failure::usage(error.to_string()))?;
    if role.as_ref().is_some_and(|role| role.role == Role::Router) {
        router_takes(args)?;
    }
    if let Some(fault) = role.as_ref().and_then(RoleSettings::fault) {
        return Err(Failure::usage(format!("--role: {fault}")));
    }
    Ok(Settings {
        port: args.port,
        unix: args.unix.clone(),
        cpus: args.cpus.clone().map_or(base.cpus, |list| list.0),
        model: args.model.clone().unwrap_or(base.model),
        ttft: or_law(args.ttft, ttft),
        ttst: args.ttst,
        itl: or_law(args.itl, ITL),
        tokens_per_event: args.tokens_per_event.unwrap_or(base.tokens_per_event),
        role_event: args.role_event.unwrap_or(base.role_event),
        head_early: args.head_early.unwrap_or(base.head_early),
        usage: args.usage.unwrap_or(base.usage),
        max_concurrent: args.max_concurrent.or(base.max_concurrent),
        default_output_tokens: args.default_output_tokens.unwrap_or(base.default_output_tokens),
        events_per_write: args.events_per_write.unwrap_or(base.events_per_write),
        word: args.word.clone().unwrap_or(base.word),
        seed: args.seed.unwrap_or(base.seed),
        faults,
        truth: args.truth.clone(),
        serving,
        role,
        dcgm: dcgm(args)?,
    })
}

/// Refuses what a router would not do, since others do it.
fn router_takes(args: &SimArgs) -> Result<(), Failure> {
    let given = [
        (args.ttft.is_some(), "--ttft"),
        (args.ttst.is_some(), "--ttst"),
        (args.itl.is_some(), "--itl"),
        (args.max_concurrent.is_some(), "--max-concurrent"),
        (!args.fault.is_empty(), "--fault"),
        (args.unix.is_some(), "--unix"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Failure::usage(format!(
            "{option} is not for --role router, which only passes on; give it to the servers"
        ))),
        None => Ok(()),
    }
}

/// The stand-in for DCGM's exporter that was asked for.
fn dcgm(args: &SimArgs) -> Result<Option<DcgmSettings>, Failure> {
    let Some(port) = args.dcgm else { return Ok(None) };
    let base = DcgmSettings::default();
    let dcgm = DcgmSettings {
        port,
        gpus: args.gpus.unwrap_or(base.gpus),
        interval_ns: args.dcgm_interval.map_or(base.interval_ns, Span::ns),
    };
    match dcgm.fault() {
        Some(fault) => Err(Failure::usage(format!("--dcgm: {fault}"))),
        None => Ok(Some(dcgm)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokclock_sim::Flow;
    use tokclock_sim::serving::WhenFull;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::exit::Code;

    fn typed(options: &[&str]) -> Result<Settings, Failure> {
        match Cli::try_parse_from(["tokclock", "sim"].iter().chain(options)).unwrap().command {
            Command::Sim(args) => settings(&args),
            _ => unreachable!("the line says sim"),
        }
    }

    #[test]
    fn a_model_is_a_preset_and_what_is_typed_over_it() {
        let plain = typed(&[]).unwrap();
        assert_eq!((plain.ttft.to_string(), plain.itl.to_string()), ("50ms".into(), "10ms".into()));
        assert_eq!(plain.serving, None);
        let line = "--serving collapse --max-batch 8 --prefill-rate 900 --prefill-chunk 64 \
            --step-base 5ms --step-per-request 50us --step-jitter exp:1ms --kv-tokens 700 \
            --when-full refuse --preempt false --preempt-at-once 2 --queue 0 --seed 9";
        let given = typed(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!((given.ttft, given.itl), (Law::ZERO, Law::ZERO));
        let expected = ServingSettings {
            max_batch: 8,
            prefill_rate: 900,
            prefill_chunk: 64,
            step_base_ns: 5_000_000,
            step_per_request_ns: 50_000,
            step_jitter: "exp:1ms".parse().unwrap(),
            kv_tokens: 700,
            preempt: false,
            preempt_at_once: 2,
            when_full: WhenFull::Refuse,
            queue: Some(0),
            seed: 9,
        };
        assert_eq!(given.serving, Some(expected));
        for name in ServingSettings::PRESETS {
            let preset = typed(&["--serving", name]).unwrap().serving;
            assert_eq!(preset, ServingSettings::preset(name).ok(), "{name}");
        }
        let said = typed(&["--serving", "shed", "--queue", "4"]).unwrap_err();
        assert_eq!(said.code, Code::Usage);
        assert!(said.message.contains("refused"), "{said}");
    }

    #[test]
    fn a_role_takes_what_is_its_own() {
        let line = |text: &str| typed(&text.split_whitespace().collect::<Vec<_>>());
        let decode = line("--role decode --handoff exp:9ms --fallback 5% --lease 20s").unwrap();
        assert_eq!(decode.ttft.to_string(), "10ms");
        let role = decode.role.unwrap();
        assert_eq!((role.role, role.flow), (Role::Decode, Flow::VllmNixl));
        assert_eq!((role.fallback, role.lease_ns), (0.05, 20_000_000_000));
        let prefill = line("--role prefill --flow sglang").unwrap();
        assert_eq!(prefill.ttft.to_string(), "50ms");
        assert_eq!(prefill.role.unwrap().side_port, 8998);
        let router = "--role router --prefill http://a:1 --prefill http://b:1 --decode http://c:1";
        assert_eq!(line(router).unwrap().role.unwrap().prefill.len(), 2);
        for (wrong, why) in [
            ("--role prefill --fallback 5%", "--fallback is for --role decode"),
            ("--role prefill --handoff 5ms", "--handoff is for --role decode"),
            ("--role decode --flow sglang --handoff 5ms", "--handoff is for --role prefill"),
            ("--role decode --prefill http://a:1", "--prefill is for --role router"),
            ("--role router --prefill http://a:1", "needs --prefill URL and --decode URL"),
            ("--role router --prefill a:1 --decode http://c:1", "write http://host:port"),
            ("--role router --prefill http://a --decode http://b --drain-prefill", "at once"),
            ("--role prefill --flow sglang --no-params 5%", "are for vLLM"),
            (
                "--role router --prefill http://a --decode http://b --itl 1ms",
                "--itl is not for --role router",
            ),
            ("--dcgm 0 --gpus 90", "between 1 and 64"),
        ] {
            let said = line(wrong).unwrap_err();
            assert_eq!(said.code, Code::Usage);
            assert!(said.message.contains(why), "{wrong}: {said}");
        }
        let dcgm = line("--dcgm 9400 --gpus 2 --dcgm-interval 100ms").unwrap().dcgm.unwrap();
        assert_eq!((dcgm.port, dcgm.gpus, dcgm.interval_ns), (9400, 2, 100_000_000));
    }

    #[test]
    fn faults_are_given_one_by_one_and_judged_together() {
        let given = typed(&["--fault", "status:429,2s=5%", "--fault", "stall:3=0.01"]).unwrap();
        assert_eq!(given.faults.to_string(), "status:429,2s=0.05 stall:3=0.01");
        assert!(typed(&[]).unwrap().faults.is_empty());
        for (one, two, wrong) in
            [("stall=60%", "reset=60%", "add up to 120%"), ("cut=1%", "cut=2%", "named twice")]
        {
            let said = typed(&["--fault", one, "--fault", two]).unwrap_err();
            assert_eq!(said.code, Code::Usage);
            assert!(said.message.contains(wrong), "{said}");
        }
    }
}
