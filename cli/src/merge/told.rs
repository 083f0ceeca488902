//! What a merged result says beside its figures: its hosts, what is missing, the verdict of the worst.

use tokclock_engine::measure::{
    Health, HostClockReport, HostReport, HostState, MergeReport, MergedFrom, Reason, ReasonKind,
    Severity, StepReport, Summary, health,
};
use tokclock_engine::shard::{is_missed, late, skew};

use super::gathered::{Gathered, Host};
use crate::report::text::duration;

/// Hosts whose reasons of one kind are each named, at most.
const NAMED_MAX: usize = 4;

/// Puts into a summary of merged figures what is known of the hosts. `of` is how many there were to be.
pub(super) fn tell(
    summary: &mut Summary,
    gathered: &Gathered,
    of: Option<u32>,
    records: MergedFrom,
    notes: Vec<String>,
) {
    let hosts = &gathered.hosts;
    circumstances(summary, hosts);
    judge(summary, hosts);
    summary.hosts = hosts.iter().map(|host| report(host, gathered)).collect();
    summary.merge = Some(merge(summary, gathered, of, records, notes));
}

/// The name of a host, as people call it.
pub(super) fn called(host: &Host) -> String {
    let number = host.place.shard;
    name(host).map_or_else(|| format!("host {number}"), |name| format!("host {number} ({name})"))
}

fn name(host: &Host) -> Option<String> {
    let facts = &host.header.host;
    let name = ["name", "hostname"].into_iter().find_map(|key| facts.get(key)?.as_str());
    name.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// What no record and no count tells: as the hosts say it, where they say the same.
fn circumstances(summary: &mut Summary, hosts: &[Host]) {
    let whole = hosts.iter().filter(|host| !host.place.cut_off);
    let Some(own) = whole.filter_map(|host| host.summary.as_ref()).next() else { return };
    let tls = summary.target.tls.take();
    summary.target = own.target.clone();
    if let (Some(all), Some(own)) = (tls, &mut summary.target.tls) {
        (own.handshakes, own.resumed) = (all.handshakes, all.resumed);
    }
    summary.workload = own.workload.clone();
    summary.labels = own.labels.clone();
    (summary.run.name, summary.run.build) = (own.run.name.clone(), own.run.build.clone());
    summary.run.version = own.run.version.clone();
    let said = |host: &Host| host.summary.as_ref()?.cache.as_ref()?.server.clone();
    if let Some(cache) = &mut summary.cache {
        cache.server = hosts.iter().find_map(said);
    }
    let debug = own.notes.iter().find(|note| note.kind == ReasonKind::DebugBuild);
    summary.notes.extend(debug.cloned());
    let facts = hosts.iter().filter_map(|host| host.summary.as_ref()).map(|own| &own.host);
    summary.host = facts.cloned().reduce(in_common).unwrap_or_default();
}

/// What two hosts have in common.
fn in_common(one: serde_json::Value, other: serde_json::Value) -> serde_json::Value {
    match (one, other) {
        (serde_json::Value::Object(mut one), serde_json::Value::Object(other)) => {
            one.retain(|key, value| other.get(key) == Some(value));
            one.into()
        }
        (one, other) if one == other => one,
        _ => serde_json::Value::Null,
    }
}

/// The verdict of the worst host counts.
fn judge(summary: &mut Summary, hosts: &[Host]) {
    let client = &mut summary.client;
    let is_cut = |reactor: u32| {
        let own = hosts.iter().filter(|host| host.place.cut_off).map(|host| host.place);
        own.into_iter().any(|place| {
            (place.first_reactor..place.first_reactor + place.reactors).contains(&reactor)
        })
    };
    client.reactors.retain(|reactor| !is_cut(reactor.reactor));
    for host in hosts {
        let own = host.summary.iter().flat_map(|summary| &summary.client.reactors);
        for known in own {
            let number = host.place.first_reactor + known.reactor;
            let mut same = client.reactors.iter_mut();
            if let Some(reactor) = same.find(|reactor| reactor.reactor == number) {
                reactor.ceiling_share = known.ceiling_share;
            }
        }
    }
    client.reasons.extend(reasons(hosts));
    client.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.severity));
    client.verdict = health::verdict(&client.reasons);
}

/// The reasons of all hosts; of many of one kind the first are named.
fn reasons(hosts: &[Host]) -> Vec<Reason> {
    let mut all: Vec<Reason> = Vec::new();
    let mut counts: Vec<(ReasonKind, Severity, usize)> = Vec::new();
    for host in hosts {
        for reason in host.summary.iter().flat_map(|own| &own.client.reasons) {
            let same = |one: &&mut (ReasonKind, Severity, usize)| {
                (one.0, one.1) == (reason.kind, reason.severity)
            };
            match counts.iter_mut().find(same) {
                Some(count) => count.2 += 1,
                None => counts.push((reason.kind, reason.severity, 1)),
            }
            let count = counts.iter_mut().find(same).map_or(0, |count| count.2);
            if count <= NAMED_MAX {
                let message = format!("{}: {}", called(host), reason.message);
                all.push(Reason { message, ..reason.clone() });
            }
        }
    }
    for reason in &mut all {
        let of_kind =
            |one: &&(ReasonKind, Severity, usize)| (one.0, one.1) == (reason.kind, reason.severity);
        let more = counts.iter().find(of_kind).map_or(0, |one| one.2.saturating_sub(NAMED_MAX));
        if more > 0 {
            reason.message.push_str(&format!(" (and {more} more hosts the like)"));
        }
    }
    all
}

fn report(host: &Host, gathered: &Gathered) -> HostReport {
    let place = host.place;
    let own = host.summary.as_ref();
    let start = gathered.facts.start_realtime_ns;
    let lag = own.map(|own| own.client.lag_output.percentiles);
    HostReport {
        shard: place.shard,
        name: name(host),
        state: if place.cut_off { HostState::CutOff } else { HostState::Whole },
        first_reactor: place.first_reactor,
        reactors: if place.cut_off { 0 } else { place.reactors },
        driver: host.driver.clone(),
        ok: own.map_or(0, |own| own.requests.ok),
        failed: own.map_or(0, |own| own.requests.failed),
        cancelled: own.map_or(0, |own| own.requests.cancelled),
        rps: own.and_then(|own| own.rate.rps),
        output_tps: own.and_then(|own| own.rate.output_tps),
        lag_p50: lag.and_then(|lag| lag.p50),
        lag_p99: lag.and_then(|lag| lag.p99),
        verdict: own.map_or(Health::Suspect, |own| own.client.verdict),
        start_ns: place.load_ns.saturating_sub(start),
        start_late_ns: place.start_late_ns,
        clock: clock(host, start),
    }
}

fn clock(host: &Host, start_ns: u64) -> HostClockReport {
    let later = host.place.start_ns.saturating_sub(start_ns);
    let at = |monotonic: u64| later + monotonic.saturating_sub(host.monotonic_ns);
    let step = |step: &tokclock_engine::shard::Step| StepReport {
        at_ns: at(step.monotonic_ns),
        by_ns: step.by_ns,
    };
    let standing = &host.standing;
    HostClockReport {
        measured: standing.measured,
        offset_ns: standing.offset_ns,
        error_ns: standing.measured.then_some(standing.error_ns),
        drift_ppb: standing.drift_ppb,
        synchronized: host.kernel_clock.map(|kernel| kernel.synchronized),
        steps: host.steps.iter().map(step).collect(),
    }
}

fn merge(
    summary: &Summary,
    gathered: &Gathered,
    of: Option<u32>,
    records: MergedFrom,
    mut notes: Vec<String>,
) -> MergeReport {
    let hosts = &gathered.hosts;
    let shards = of.or(hosts.first().map(|host| host.header.shard.of)).unwrap_or(0);
    let is_here = |shard: &u32| hosts.iter().any(|host| host.place.shard == *shard);
    let missing: Vec<u32> = (0..shards).filter(|shard| !is_here(shard)).collect();
    let cut_off: Vec<u32> =
        hosts.iter().filter(|host| host.place.cut_off).map(|host| host.place.shard).collect();
    let places: Vec<_> = hosts.iter().map(|host| host.place).collect();
    let standings: Vec<_> = hosts.iter().map(|host| host.standing).collect();
    let late = late(&places, &standings);
    let window = &summary.run.window;
    let length = window.end_ns.saturating_sub(window.start_ns);
    let is_late = late.iter().any(|one| is_missed(one.by_ns, length));
    let all_measured = hosts.iter().all(|host| host.standing.measured);
    let errors = hosts.iter().map(|host| host.standing.error_ns);
    notes.extend(remarks(hosts, all_measured));
    MergeReport {
        shards,
        present: hosts.len() as u32,
        partial: !missing.is_empty() || !cut_off.is_empty() || is_late,
        missing,
        late,
        cut_off,
        records,
        start_skew_ns: skew(&places),
        clock_error_ns: errors.max().filter(|_| all_measured),
        notes,
    }
}

/// What the hosts' kernels say of their clocks, which nobody compared.
fn kernels(hosts: &[Host]) -> String {
    let clocks = || hosts.iter().map(|host| (host, host.kernel_clock));
    let adrift: Vec<String> = clocks()
        .filter(|(_, clock)| clock.is_some_and(|clock| !clock.synchronized))
        .map(|(host, _)| called(host))
        .collect();
    if let [first, ..] = adrift.as_slice() {
        let more = match adrift.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return format!(", though nothing keeps that of {first}{more} in step, by its kernel");
    }
    let errors: Option<Vec<u64>> = clocks().map(|(_, clock)| Some(clock?.max_error_ns)).collect();
    let worst = errors.and_then(|errors| errors.into_iter().max());
    worst.map_or_else(String::new, |worst| {
        format!(", each right to {} at worst by its kernel", duration(Some(worst)))
    })
}

/// What is worth knowing of the hosts and their clocks.
fn remarks(hosts: &[Host], all_measured: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !all_measured && hosts.len() > 1 {
        notes.push(format!(
            "the hosts' clocks were not compared: they are taken to agree{}",
            kernels(hosts)
        ));
    }
    for host in hosts {
        for step in &host.steps {
            notes.push(format!(
                "{}: its clock was set by {:+.3} s during the run; no latency depends on it",
                called(host),
                step.by_ns as f64 / 1e9
            ));
        }
        if host.place.cut_off {
            let ended = host
                .summary
                .as_ref()
                .map_or(0, |own| own.requests.ok + own.requests.failed + own.requests.cancelled);
            notes.push(format!(
                "{} was cut off: {ended} finished requests of it are in, those in flight left no record",
                called(host)
            ));
        }
    }
    let versions = |host: &Host| host.header.version.clone();
    if let Some(first) = hosts.first().map(versions)
        && let Some(other) = hosts.iter().find(|host| host.header.version != first)
    {
        notes.push(format!(
            "hosts had different versions of tokclock: {first}, and {} on {}",
            other.header.version,
            called(other)
        ));
    }
    notes
}
