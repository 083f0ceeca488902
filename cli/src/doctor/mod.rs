//! `tokclock doctor`: what this host can do for a load client, and what to change.

mod clocks;
mod cpus;
mod facts;
mod finding;
mod limits;
mod network;
mod page;
mod queues;
mod reactors;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;
use serde_json::Value;
use tokclock_engine::run::{Way, locate};
use tokclock_engine::telemetry::host::{Cpus, Files};
use tokclock_engine::workload::{Address, Dialect};

use crate::args::DoctorArgs;
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};
use crate::values::CpuList;
use crate::{cpus as choice, host};

use facts::Facts;
use finding::Finding;

/// Looks at this host, prints what was found, and gives the exit code. `allowed` are the CPUs that
/// this process may use.
///
/// # Errors
/// If the options make no sense, the URL leads nowhere, or nothing can be tried.
pub(crate) fn doctor(args: &DoctorArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let screen = Screen { quiet: false, json: false };
    let target = args.url.as_deref().map(address_of).transpose()?;
    let reactors =
        choice::choose(allowed, args.reactors, args.cpus.as_ref(), physical_cores(allowed))?;
    let to = target.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let facts = Facts::gather(allowed, &reactors, to)?;
    let groups = examine(&facts);
    if args.json {
        output::result(to_json(&facts, target, &groups.concat())?);
    } else {
        let about = about(&facts);
        screen.report(&page::write(&about, &groups, screen.width(), screen.colour()));
    }
    Ok(Code::Ok)
}

/// Every topic, in groups, from the client outwards.
fn examine(facts: &Facts) -> Vec<Vec<Finding>> {
    let client = vec![
        reactors::driver(facts),
        reactors::stamps(facts),
        reactors::wake_ups(facts),
        reactors::timer(facts),
        clocks::clock(facts),
        clocks::wall_clock(facts),
    ];
    let cpus = vec![
        cpus::places(facts),
        cpus::isolation(facts),
        cpus::idle(facts),
        cpus::governor(facts),
        cpus::load(facts),
        cpus::steal(facts),
    ];
    let limits = vec![
        limits::container(facts),
        limits::descriptors(facts),
        limits::ports(facts),
        limits::tcp_memory(facts),
    ];
    let mut network = vec![network::interface(facts)];
    network.extend(queues::interrupts(facts));
    network.extend(queues::moderation(facts));
    network.extend(queues::merging(facts));
    network.extend([
        queues::steering(facts),
        network::stamp_place(facts),
        network::busy_poll(facts),
        network::losses(facts),
    ]);
    vec![client, cpus, limits, network]
}

/// Where a URL leads: the address that a run would take.
fn address_of(url: &str) -> Result<IpAddr, Failure> {
    let located = locate(url, Dialect::OpenaiChat, &Way::default())
        .map_err(|error| Failure::could_not_run(error.to_string()))?;
    let ip = located.endpoint.addresses.iter().find_map(|address| match address {
        Address::Ip(ip) => Some(ip.ip()),
        Address::Unix(_) => None,
    });
    ip.ok_or_else(|| Failure::could_not_run(format!("{} has no address", located.endpoint.url)))
}

/// As many reactors as there are cores: what the largest load would take.
fn physical_cores(allowed: &[usize]) -> usize {
    let mut cores: Vec<usize> =
        Cpus::read(&Files::here(), allowed).cpus.iter().map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    cores.len()
}

/// What was looked at, in one line.
fn about(facts: &Facts) -> String {
    let way = if facts.is_local() {
        "loopback".to_owned()
    } else {
        let interface = facts.route.interface.as_deref().unwrap_or("an unknown interface");
        format!("{} by {interface}", facts.route.to)
    };
    let reactors = CpuList(facts.reactors.clone());
    format!("reactors on CPU {reactors}, load to {way}; tokclock {}", env!("CARGO_PKG_VERSION"))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    host: Value,
    target: Option<IpAddr>,
    interface: Option<&'a str>,
    reactor_cpus: &'a [usize],
    findings: &'a [Finding],
}

fn to_json(facts: &Facts, target: Option<IpAddr>, findings: &[Finding]) -> Result<String, Failure> {
    let document = Document {
        schema: "tokclock.doctor/1",
        version: env!("CARGO_PKG_VERSION"),
        host: host::describe(&facts.allowed),
        target,
        interface: facts.route.interface.as_deref(),
        reactor_cpus: &facts.reactors,
        findings,
    };
    serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::could_not_run(format!("the findings are no JSON: {error}")))
}
