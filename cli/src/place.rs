//! Where a load goes: servers that are found and asked once, or the embedded simulator, which serves
//! as long as its place lives.

use std::cell::OnceCell;
use std::sync::Arc;

use tokclock_engine::plan::tokens::Ask;
use tokclock_engine::run::{self as engine, Located, ServerTokenizer};
use tokclock_engine::workload::{Class, Dialect};
use tokclock_sim::serving::ServingSettings;
use tokclock_sim::{Server, Settings};

use crate::cpus;
use crate::exit::Failure;
use crate::resolve::gather::{self, Gathered, Needed};
use crate::resolve::{self, Reaching, Role};

/// Where a load goes.
#[derive(Default)]
pub(crate) struct Place {
    reached: OnceCell<Reached>,
}

/// Servers that answer, and the model that is asked for.
pub(crate) struct Reached {
    pub(crate) servers: Vec<Located>,
    pub(crate) model: String,
    /// What they have, as far as they say.
    listed: Vec<String>,
    embedded: Option<Server>,
}

impl Place {
    /// Reads what a workload needs. The server is asked only if its own tokenizer is to count.
    ///
    /// # Errors
    /// What cannot be read, or the server cannot be reached.
    pub(crate) fn gather(
        &self,
        needed: &Needed<'_>,
        allowed: &[usize],
    ) -> Result<Gathered, Failure> {
        let Needed { options, api, way, tls, role, .. } = *needed;
        // What does not fit the server's context is told before the load.
        let has_context = needed.is_recorded() && !options.servers().is_empty();
        if !needed.asks_server() && !has_context {
            return gather::gather(needed, None, None);
        }
        let reaching = Reaching { options, api, way, tls, role };
        let reached = self.reach(&reaching, cpus::left_over(allowed, &[]))?;
        let asked = reaching.asked(&reached.servers[0]);
        let context = if has_context { engine::context(&asked, &reached.model) } else { None };
        let ask: Option<Arc<dyn Ask>> = if needed.asks_server() {
            Some(Arc::new(ServerTokenizer::new(&asked, &reached.model)))
        } else {
            None
        };
        gather::gather(needed, ask, context)
    }

    /// The servers, found and asked at the first call. The simulator gets a CPU of its own where
    /// there is one.
    ///
    /// # Errors
    /// A server that cannot be reached, or has no model to ask for.
    pub(crate) fn reach(
        &self,
        reaching: &Reaching<'_>,
        cpu: Option<usize>,
    ) -> Result<&Reached, Failure> {
        if let Some(reached) = self.reached.get() {
            return Ok(reached);
        }
        let reached = reach(reaching, cpu)?;
        Ok(self.reached.get_or_init(|| reached))
    }

    /// Whether it is the embedded simulator.
    pub(crate) fn is_embedded(&self) -> bool {
        self.reached.get().is_some_and(|reached| reached.embedded.is_some())
    }

    /// How long names took to resolve, ns.
    pub(crate) fn resolve_ns(&self) -> u64 {
        let servers = self.reached.get().map(|reached| &reached.servers);
        servers.into_iter().flatten().map(|one| one.resolve_ns).sum()
    }
}

impl Reached {
    /// Whether the servers have the models of all classes, as far as they say what they have.
    ///
    /// # Errors
    /// The first that they have not.
    pub(crate) fn check_models(&self, dialect: Dialect, mix: &[Class]) -> Result<(), Failure> {
        for model in mix.iter().filter_map(|class| class.model.as_deref()) {
            resolve::model(dialect, Some(model), Ok(self.listed.clone()))?;
        }
        Ok(())
    }
}

fn reach(reaching: &Reaching<'_>, cpu: Option<usize>) -> Result<Reached, Failure> {
    let options = reaching.options;
    let others = reaching.role.into_iter().flat_map(Role::others);
    let (embedded, urls) = if options.servers().is_empty() {
        let server = simulator(cpu)?;
        let url = format!("http://{}", server.address());
        (Some(server), vec![url])
    } else {
        (None, options.servers().iter().chain(others).cloned().collect())
    };
    let dialect = reaching.api.dialect;
    let locate = |url: &String| engine::locate(url, dialect, reaching.way);
    let servers: Vec<Located> =
        urls.iter().map(locate).collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    if let Some(patience) = options.wait_ready {
        for one in &servers {
            engine::wait_ready(&reaching.asked(one), patience.ns())
                .map_err(|error| failed(&error))?;
        }
    }
    // A load that meets a dead one would tell of nothing but failures.
    for other in servers.iter().skip(options.servers().len().max(1)) {
        engine::reach(&reaching.asked(other)).map_err(|error| failed(&error))?;
    }
    let listed = match engine::models(&reaching.asked(&servers[0])) {
        // Without a server no option helps.
        Err(error) if error.is_no_answer() => return Err(failed(&error)),
        listed => listed.map_err(|error| error.to_string()),
    };
    let names = listed.clone().unwrap_or_default();
    let model = resolve::model(dialect, options.model.as_deref(), listed)?;
    Ok(Reached { servers, model, listed: names, embedded })
}

/// The embedded simulator: a finite server, so that a first run meets queues too. It gets a CPU of
/// its own where there is one.
fn simulator(cpu: Option<usize>) -> Result<Server, Failure> {
    /// Past its limit requests wait, as at most servers.
    const MODEL: &str = "queue";
    let failed = |error: &dyn std::error::Error| {
        Failure::could_not_run(format!("the embedded simulator does not start: {error}"))
    };
    let settings = Settings {
        cpus: cpu.into_iter().collect(),
        serving: Some(ServingSettings::preset(MODEL).map_err(|error| failed(&error))?),
        ..Settings::default()
    };
    Server::start(&settings).map_err(|error| failed(&error))
}

fn failed(error: &impl std::error::Error) -> Failure {
    Failure::could_not_run(error.to_string())
}
