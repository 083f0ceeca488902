//! What is known of this host before anything is judged.

use std::net::IpAddr;

use tokclock_engine::clock::StampSource;
use tokclock_engine::reactor::trial::{self, Trial};
use tokclock_engine::telemetry::host::{
    self, ClockSource, Coalescing, Cpus, Discipline, Files, Group, Interface, Limit, Network,
    Ports, Route, Softnet, Steal,
};

use crate::cpus;
use crate::exit::Failure;

/// The facts.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// CPUs that this process may use.
    pub(super) allowed: Vec<usize>,
    /// Those of them that reactors take.
    pub(super) reactors: Vec<usize>,
    /// One that is left for the rest.
    pub(super) left_over: Option<usize>,
    /// What is told of the allowed ones.
    pub(super) cpus: Cpus,
    /// What was tried.
    pub(super) trial: Trial,
    /// What our own stamps are read from.
    pub(super) stamp_source: StampSource,
    /// The kernel's clock.
    pub(super) clock_source: Option<ClockSource>,
    /// How the wall clock is kept right.
    pub(super) discipline: Option<Discipline>,
    /// How finely timers can be set, ns.
    pub(super) timer_resolution_ns: Option<u64>,
    /// How many files may be open.
    pub(super) open_files: Option<Limit>,
    /// Local ports.
    pub(super) ports: Option<Ports>,
    /// Settings of the stack.
    pub(super) network: Network,
    /// The way to the target, or to loopback.
    pub(super) route: Route,
    /// The interface on that way, or the card below it.
    pub(super) interface: Option<Interface>,
    /// How it holds back interrupts.
    pub(super) coalescing: Option<Coalescing>,
    /// Whether it merges segments.
    pub(super) gro: Option<bool>,
    /// What the receive path lost.
    pub(super) softnet: Option<Softnet>,
    /// Threads that wanted to run over the last minute.
    pub(super) load: Option<f64>,
    /// Share of CPU time that the hypervisor took since the host started.
    pub(super) steal_share: Option<f64>,
    /// Limits of the control group.
    pub(super) group: Option<Group>,
    /// `Seccomp` of /proc/self/status: 0 none, 1 strict, 2 a filter.
    pub(super) seccomp: Option<u64>,
    /// `kernel.io_uring_disabled`: 0 for all, 1 for a group, 2 for nobody.
    pub(super) ring_disabled: Option<u64>,
}

impl Facts {
    /// Finds them out; `reactors` are positions in `allowed`, `target` is where the load would go.
    ///
    /// # Errors
    /// There is no way to the target, or nothing can be tried.
    pub(super) fn gather(
        allowed: &[usize],
        reactors: &[usize],
        target: IpAddr,
    ) -> Result<Self, Failure> {
        let files = Files::here();
        // First what the trial itself would add to.
        let (load, steal) = (host::load_average(&files), Steal::now());
        let route = host::route(target).map_err(|error| {
            let text = error.to_string();
            let reason = text.split(" (os error").next().unwrap_or_default();
            Failure::could_not_run(format!(
                "no way leads to {target}: {reason}; is the network up?"
            ))
        })?;
        let left_over = cpus::left_over(allowed, reactors);
        let sender = allowed.iter().position(|&cpu| Some(cpu) == left_over);
        let trial = trial::attempt(reactors, sender).map_err(|error| {
            Failure::could_not_run(format!("nothing can be tried on this host: {error}"))
        })?;
        let interface = route.interface.as_deref().map(|name| Interface::carrying(&files, name));
        let ask = interface.as_ref().map(|interface| interface.name.as_str());
        Ok(Self {
            allowed: allowed.to_vec(),
            reactors: trial.cpus.iter().map(|one| one.cpu).collect(),
            left_over,
            cpus: Cpus::read(&files, allowed),
            trial,
            stamp_source: StampSource::measure(),
            clock_source: ClockSource::read(&files),
            discipline: host::discipline(),
            timer_resolution_ns: host::timer_resolution_ns(),
            open_files: host::open_files(),
            ports: Ports::read(&files),
            network: Network::read(&files),
            coalescing: ask.and_then(host::coalescing),
            gro: ask.and_then(host::gro),
            interface,
            route,
            softnet: Softnet::read(&files),
            load,
            steal_share: steal.share_so_far(),
            group: Group::read(&files),
            seccomp: host::seccomp(&files),
            ring_disabled: files.number("proc/sys/kernel/io_uring_disabled"),
        })
    }

    /// Whether the load would stay on this host.
    pub(super) fn is_local(&self) -> bool {
        self.route.interface.as_deref() == Some("lo")
    }
}
