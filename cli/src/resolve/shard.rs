//! Which part of a load this host sends, when it begins, and what that rules out.

mod detect;

use tokclock_engine::clock;
use tokclock_engine::workload::{Load, Shard, Stop, Warmup};

use crate::config::Options;
use crate::exit::Failure;
use crate::host::fnv1a;
use crate::values::{Moment, ShardAsked};

/// A start may be past by so much, ns: then it is made up for at once, and said. A longer time is a
/// slip of the pen.
const LATE_MAX_NS: u64 = 60_000_000_000;

/// Decides on the part, and writes it down in `options`; none where nobody asked for one.
///
/// # Errors
/// A usage error that says what to do.
pub(super) fn resolve(
    options: &mut Options,
    notes: &mut Vec<String>,
) -> Result<Option<Shard>, Failure> {
    if let Some(at) = options.hosts.start_at {
        check_start(at, clock::realtime_ns())?;
    }
    let shard = match options.hosts.shard {
        None => return Ok(None),
        Some(ShardAsked::Is(shard)) => shard,
        Some(ShardAsked::Auto) => {
            let env = |name: &str| std::env::var(name).ok();
            notes.extend(detect::remark(&env));
            detect::detect(&env)?
        }
    };
    options.hosts.shard = Some(ShardAsked::Is(shard));
    if shard.is_whole() {
        return Ok(Some(shard));
    }
    if options.seed.is_none() {
        return Err(Failure::usage("--shard needs --seed: all hosts must draw the same plan"));
    }
    if options.servers().is_empty() {
        return Err(Failure::usage(
            "--shard needs a URL: without one each host would load a simulator of its own",
        ));
    }
    Ok(Some(shard))
}

fn check_start(at: Moment, now_ns: u64) -> Result<(), Failure> {
    let past_ns = now_ns.saturating_sub(at.ns());
    if past_ns <= LATE_MAX_NS {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--start-at {} was {} s ago: name an instant that is to come",
        at.rfc3339(),
        past_ns / 1_000_000_000
    )))
}

/// Refuses a load that so many hosts cannot share.
///
/// # Errors
/// A usage error that says what to do.
pub(super) fn check(shard: Shard, load: &Load, stop: &Stop) -> Result<(), Failure> {
    let hosts = u64::from(shard.of);
    if shard.is_whole() {
        return Ok(());
    }
    let failure = match (load, stop.warmup) {
        (_, Warmup::Auto(_)) => {
            "--warmup auto depends on what one host sees, and shards never decide \
             alone: give a time or a number of requests"
                .to_owned()
        }
        _ if stop.until.is_some() => {
            "--until depends on what one host sees, and shards never decide \
             alone: give --duration or --requests"
                .to_owned()
        }
        (Load::Closed { users, .. }, _) if *users < hosts => format!(
            "--concurrency {users} is too few for {hosts} hosts: each needs a user; give at least \
             {hosts}, or use fewer hosts"
        ),
        (Load::Open { max_in_flight: Some(most), .. }, _) if *most < hosts => format!(
            "--max-in-flight {most} is too few for {hosts} hosts: each needs a place; give at least \
             {hosts}, or use fewer hosts"
        ),
        _ => return Ok(()),
    };
    Err(Failure::usage(failure))
}

/// Refuses a part of a load where one host would decide on the loads alone, or show its own requests.
/// `instead` says what to do.
///
/// # Errors
/// A usage error.
pub(crate) fn refuse(options: &Options, instead: &str) -> Result<(), Failure> {
    let given = [
        ("--shard", options.hosts.shard.is_some()),
        ("--start-at", options.hosts.start_at.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is for `tokclock run`, since shards never decide alone: drop it, and {instead}"
        ))),
        None => Ok(()),
    }
}

/// Whether this host looks at servers' metrics: of several hosts one is enough, and all see the same.
#[must_use]
pub(crate) fn watches_servers(shard: Option<Shard>) -> bool {
    shard.is_none_or(|shard| shard.index == 0)
}

/// The id of a run that all hosts give it without a word: 14 hexadecimal digits of what they share.
#[must_use]
pub(crate) fn run_id(plan: &str, seed: u64, start_at_ns: u64) -> String {
    let hash = fnv1a(format!("{plan} {seed} {start_at_ns}").as_bytes());
    // The upper bits depend on all that was said.
    format!("{:014x}", hash >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_764_547_200_000_000_000;

    #[test]
    fn a_start_long_past_is_refused_and_one_just_past_is_not() {
        let start = |ago_s: i64| {
            let at = NOW.saturating_add_signed(-ago_s * 1_000_000_000);
            check_start(Moment::from_ns(at), NOW)
        };
        assert!([-86_400, 0, 59, 60].map(start).iter().all(Result::is_ok));
        let message = start(61).unwrap_err().message;
        assert!(message.contains("2025-11-30T23:58:59Z was 61 s ago"), "{message}");
    }

    #[test]
    fn an_id_is_the_same_on_all_hosts_and_another_for_another_load() {
        let id = run_id("sha256:ab", 7, NOW);
        assert_eq!(id, run_id("sha256:ab", 7, NOW));
        assert!(id.len() == 14 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        let others = [
            run_id("sha256:ac", 7, NOW),
            run_id("sha256:ab", 8, NOW),
            run_id("sha256:ab", 7, NOW + 1),
        ];
        assert!(!others.contains(&id), "{others:?}");
    }
}
