//! The place of this host among those that share a load: what is said of it, and what its result says.

use tokclock_engine::clock;
use tokclock_engine::measure::Facts;
use tokclock_engine::shard::Header;
use tokclock_engine::telemetry::server::Scrape;
use tokclock_engine::workload::{Shard, Target};

use crate::config::Options;
use crate::exit::Failure;
use crate::host;
use crate::output::Screen;
use crate::report::text::duration;
use crate::resolve::gpus::GpusAsked;
use crate::resolve::scrape::scraped;
use crate::resolve::shard::{run_id, watches_servers};
use crate::resolve::{self, Draft};
use crate::values::Moment;

/// The place of this host among those that share a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hosts {
    /// Which part of the load it sends; none where nobody asked for one.
    shard: Option<Shard>,
    /// When the load begins, where that was said.
    start_at: Option<Moment>,
}

impl Hosts {
    /// As a draft has it.
    #[must_use]
    pub(crate) fn of(draft: &Draft) -> Self {
        Self { shard: draft.shard(), start_at: draft.options().hosts.start_at }
    }

    /// As another host leads it.
    #[must_use]
    pub(crate) fn led(shard: Shard, start_at_ns: u64) -> Self {
        Self { shard: Some(shard), start_at: Some(Moment::from_ns(start_at_ns)) }
    }

    /// Says what is to be known before the load.
    pub(crate) fn announce(self, options: &Options, screen: Screen) {
        if let Some(shard) = self.shard {
            screen.note(format_args!("shard {shard} of the load"));
        }
        let reads = options.no_scrape != Some(true) || !options.dcgm.is_empty();
        if !self.watches_servers() && reads {
            screen.note("metrics of the servers are read by shard 0 alone");
        }
        if let Some(at) = self.start_at {
            let left = duration(Some(at.ns().saturating_sub(clock::realtime_ns())));
            screen.note(format_args!("the load begins at {}, in {left}", at.rfc3339()));
        }
    }

    /// Whether it looks at the servers' metrics.
    #[must_use]
    pub(crate) fn watches_servers(self) -> bool {
        watches_servers(self.shard)
    }

    /// The GPUs and the servers' metrics that are looked at from here. Of several hosts one asks the
    /// others' machines: all would hear the same.
    ///
    /// # Errors
    /// If the options make no sense.
    pub(crate) fn looks_at(
        self,
        draft: &Draft,
        target: &Target,
    ) -> Result<(GpusAsked, Scrape), Failure> {
        let asked = GpusAsked::of(draft.options())?;
        if self.watches_servers() {
            return Ok((asked, scraped(draft.options(), target, &draft.way)));
        }
        Ok((GpusAsked { dcgm: Vec::new(), ..asked }, Scrape::default()))
    }

    /// When the load begins, CLOCK_REALTIME in ns; none: as soon as all stands ready.
    #[must_use]
    pub(crate) fn start_at_ns(self) -> Option<u64> {
        self.start_at.map(Moment::ns)
    }

    /// Starts every request id. Hosts that know of a common begin have it in common too.
    #[must_use]
    pub(crate) fn run_id(self, plan: &str, seed: u64) -> String {
        match (self.shard, self.start_at) {
            (Some(_), Some(at)) => run_id(plan, seed, at.ns()),
            _ => format!("{:014x}", resolve::draw()),
        }
    }

    /// What a shard says of itself in its result; none of a whole load.
    #[must_use]
    pub(crate) fn header(
        self,
        plan: String,
        seed: u64,
        run_id: &str,
        host: &serde_json::Value,
    ) -> Option<Header> {
        let mut host = host.clone();
        host["name"] = host::name().into();
        Some(Header {
            shard: self.shard?,
            plan,
            seed,
            run_id: run_id.to_owned(),
            start_at_ns: self.start_at_ns(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host,
        })
    }

    /// Says of a load that it began after its instant.
    pub(crate) fn tell_of_start(self, facts: &Facts, screen: Screen) {
        if facts.start_late_ns > 0 {
            let late = duration(Some(facts.start_late_ns));
            screen.note(format_args!(
                "the load began {late} after --start-at, which was past when all stood ready: name an \
                 instant at least a few seconds ahead"
            ));
        }
    }
}
