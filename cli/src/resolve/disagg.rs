//! The router's role: which servers, how one hands over to the other.

use tokclock_engine::disagg::names_flow_member;
use tokclock_engine::run::Located;
use tokclock_engine::workload::{Dialect, Disagg, Flow, Pick, Prefill};
use url::Url;

use super::target::{Api, check_url};
use super::word;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::Share;

/// Where vLLM's side channel and SGLang's bootstrap server listen unless they are told otherwise.
const SIDE_PORT: u16 = 5600;
const BOOTSTRAP_PORT: u16 = 8998;
/// Requests whose prompt is sent once more.
const SAMPLE: Share = Share::from_percent(5.0);

/// The router's role, but for the addresses of its servers.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    flow: Flow,
    prefill: Vec<Wanted>,
    routers: Vec<String>,
    pick: Pick,
    baseline: Share,
    decode: usize,
}

/// A prefill server as it was asked for.
#[derive(Debug, Clone)]
struct Wanted {
    url: String,
    host: String,
    port: u16,
    engine_id: Option<String>,
    tensor_parallel: u32,
    pipeline_parallel: u32,
}

/// Decides on the role, and writes it down in `options`; none where prefill and decode are one.
pub(super) fn resolve(options: &mut Options, api: &Api) -> Result<Option<Role>, Failure> {
    let given = &options.disagg;
    let Some(flow) = &given.flow else {
        let others = [
            ("--prefill", !given.prefill.is_empty()),
            ("--decode", !given.decode.is_empty()),
            ("--router", !given.router.is_empty()),
            ("--pick", given.pick.is_some()),
            ("--handoff-sample", given.handoff_sample.is_some()),
        ];
        return match others.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Failure::usage(format!(
                "{name} needs --flow, which says how prefill hands over to decode: {}",
                names(Flow::ALL, |flow| flow.as_str())
            ))),
            None => Ok(None),
        };
    };
    let flow: Flow = flow.parse().map_err(|error| Failure::usage(format!("--{error}")))?;
    check(options, api, flow)?;
    let given = &mut options.disagg;
    let pick = word::<Pick>(&mut given.pick, "round-robin")?;
    if flow.is_concurrent() && given.handoff_sample.is_some_and(|share| share.value() > 0.0) {
        return Err(Failure::usage(format!(
            "--handoff-sample: what prefill and the hand-off take cannot be told apart by it where both \
             servers are asked at once, as {flow} does: drop it"
        )));
    }
    let baseline = match flow.is_concurrent() {
        true => Share::from_percent(0.0),
        false => *given.handoff_sample.get_or_insert(SAMPLE),
    };
    let prefill = given.prefill.iter().map(|text| wanted(text, flow, api.dialect));
    let prefill = prefill.collect::<Result<Vec<_>, _>>()?;
    for url in given.decode.iter().chain(&given.router) {
        check_url(url, api.dialect)?;
    }
    let (routers, decode) = (given.router.clone(), given.decode.len());
    Ok(Some(Role { flow, prefill, routers, pick, baseline, decode }))
}

/// Refuses what does not go together.
fn check(options: &Options, api: &Api, flow: Flow) -> Result<(), Failure> {
    let given = &options.disagg;
    let refused = |text: String| Err(Failure::usage(text));
    if !options.url.is_empty() {
        return refused(format!(
            "--flow {flow} takes --prefill and --decode in place of a URL: drop it, or name a router of \
             theirs with --router"
        ));
    }
    for (name, list) in [("--prefill", &given.prefill), ("--decode", &given.decode)] {
        if list.is_empty() {
            return refused(format!(
                "--flow {flow} needs {name} URL: the servers that prefill and those that decode"
            ));
        }
    }
    let fits = |dialect: &Dialect| match dialect {
        Dialect::OpenaiChat | Dialect::OpenaiCompletions => true,
        Dialect::SglangGenerate => flow == Flow::Sglang,
        _ => false,
    };
    if !fits(&api.dialect) {
        let fitting: Vec<Dialect> = Dialect::ALL.iter().copied().filter(fits).collect();
        return refused(format!(
            "--flow {flow} is spoken in {} alone, not in {}",
            names(&fitting, |dialect| dialect.as_str()),
            api.dialect
        ));
    }
    if !api.stream {
        return refused(format!(
            "--flow {flow}: legs are told apart by the first token of a stream: drop --no-stream"
        ));
    }
    if let Some(name) = api.extra_body.keys().find(|name| names_flow_member(name)) {
        return refused(format!("--extra-body sets `{name}`, which --flow {flow} does: drop it"));
    }
    let excluded = [
        ("--retries", options.retries.is_some_and(|retries| retries > 0)),
        ("--unix-socket", options.unix_socket.is_some()),
        ("--connections per-session", options.connections.as_deref() == Some("per-session")),
    ];
    match excluded.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => refused(format!("{name} has no meaning yet with --flow: drop it")),
        None => Ok(()),
    }
}

fn names<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Reads `URL[,name=value]...`.
fn wanted(text: &str, flow: Flow, dialect: Dialect) -> Result<Wanted, Failure> {
    let mut parts = text.split(',');
    let url = parts.next().unwrap_or_default();
    check_url(url, dialect)?;
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let port = if flow == Flow::Sglang { BOOTSTRAP_PORT } else { SIDE_PORT };
    let mut wanted = Wanted {
        url: url.to_owned(),
        host: host.unwrap_or_default(),
        port,
        engine_id: None,
        tensor_parallel: 1,
        pipeline_parallel: 1,
    };
    for part in parts {
        let wrong = || {
            Failure::usage(format!(
                "--prefill {url}: `{part}` is none of port=P, host=H, engine=ID, tp=N, pp=N"
            ))
        };
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let count = || value.parse::<u32>().ok().filter(|count| *count > 0).ok_or_else(wrong);
        match name.trim() {
            "port" => wanted.port = value.parse().map_err(|_| wrong())?,
            "host" if !value.is_empty() => value.clone_into(&mut wanted.host),
            "engine" if !value.is_empty() => wanted.engine_id = Some(value.to_owned()),
            "tp" => wanted.tensor_parallel = count()?,
            "pp" => wanted.pipeline_parallel = count()?,
            _ => return Err(wrong()),
        }
    }
    if flow == Flow::VllmPush && wanted.engine_id.is_none() {
        return Err(Failure::usage(format!(
            "--prefill {url}: --flow vllm-push needs the name of its engine: {url},engine=ID"
        )));
    }
    Ok(wanted)
}

impl Role {
    /// URLs of the servers beside those that decode, in the order of [`Target::servers`].
    ///
    /// [`Target::servers`]: tokclock_engine::workload::Target::servers
    pub(crate) fn others(&self) -> impl Iterator<Item = &String> {
        self.prefill.iter().map(|one| &one.url).chain(&self.routers)
    }

    /// How many servers decode.
    pub(super) fn decode(&self) -> usize {
        self.decode
    }

    /// The role, with the addresses of the servers beside those that decode.
    pub(super) fn located(&self, others: &[Located]) -> Disagg {
        let mut endpoints = others.iter().map(|one| one.endpoint.clone());
        let prefill = self.prefill.iter().zip(endpoints.by_ref());
        let prefill = prefill.map(|(wanted, endpoint)| Prefill {
            endpoint,
            host: wanted.host.clone(),
            port: wanted.port,
            engine_id: wanted.engine_id.clone(),
            tensor_parallel: wanted.tensor_parallel,
            pipeline_parallel: wanted.pipeline_parallel,
        });
        Disagg {
            flow: self.flow,
            prefill: prefill.collect(),
            routers: endpoints.collect(),
            pick: self.pick,
            baseline: self.baseline.value(),
        }
    }
}
