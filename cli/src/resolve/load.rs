//! When requests go and when they stop.

use tokclock_engine::workload::{Arrival, Content, Load, Overflow, Stop, Warmup};

use super::word;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::{Span, WarmUp};

/// Users, and requests in flight, at most.
const USERS_MAX: u64 = 1_000_000;
/// Requests of a run, at most.
const REQUESTS_MAX: u64 = 1_000_000_000;
/// Requests per second, at most.
const RATE_MAX: f64 = 1_000_000.0;
/// Users of a closed loop unless `--concurrency` says otherwise.
const USERS: u64 = 8;
/// Requests of a run without a stop rule; with many users at least so many for each.
const REQUESTS: u64 = 200;
const REQUESTS_PER_USER: u64 = 4;
/// A closed loop of more users than this starts with a ramp by default: a start in one instant keeps
/// all users in phase, and their bursts make a lag of the client's own.
const USERS_AT_ONCE: u64 = 100;
/// Time between two users of that ramp, ns.
const RAMP_NS_PER_USER: u64 = 500_000;
/// Longest such ramp, ns: larger crowds come faster.
const RAMP_MAX_NS: u64 = 1_000_000_000;
/// How long what is in flight may go on.
const DRAIN: Span = Span::from_ns(30_000_000_000);

/// Decides on the loop and its end, and writes both down in `options`.
pub(super) fn resolve(
    options: &mut Options,
    notes: &mut Vec<String>,
) -> Result<(Load, Stop), Failure> {
    if options.rate.is_some() && options.concurrency.is_some() {
        return Err(Failure::usage(
            "--rate and --concurrency exclude each other: an open loop does not wait for answers, \
             a closed loop does; to bound an open loop use --max-in-flight",
        ));
    }
    let load = match options.rate {
        Some(rate) => open(options, rate)?,
        None => closed(options)?,
    };
    let stop = stop(options, &load)?;
    if let (Load::Closed { users, .. }, Some(requests)) = (load, stop.requests)
        && stop.duration_ns.is_none()
        && users > requests
    {
        let idle = users - requests;
        notes.push(format!("{users} users for {requests} requests: {idle} of them never send"));
    }
    Ok((load, stop))
}

/// How many reactors this load needs: a core takes about 100 000 output events per second, half of
/// that is planned with; and no more than 1000 connections each.
pub(super) fn reactors_needed(load: &Load, content: &Content) -> usize {
    const EVENTS_PER_CORE: f64 = 50_000.0;
    const USERS_PER_CORE: u64 = 1000;
    let needed = match *load {
        Load::Closed { users, .. } => users.div_ceil(USERS_PER_CORE),
        Load::Open { rate, .. } => {
            // Finite and small: both factors are bounded.
            (rate * f64::from(content.output_tokens.max(1)) / EVENTS_PER_CORE).ceil() as u64
        }
    };
    usize::try_from(needed).unwrap_or(usize::MAX)
}

fn open(options: &mut Options, rate: f64) -> Result<Load, Failure> {
    if !(rate > 0.0 && rate <= RATE_MAX) {
        return Err(Failure::usage(format!(
            "--rate {rate} is no number of requests per second: give one above 0, up to {RATE_MAX}"
        )));
    }
    if options.ramp.is_some() {
        return Err(Failure::usage(
            "--ramp is for the users of a closed loop: drop it with --rate",
        ));
    }
    let law = options.arrival.get_or_insert_with(|| "poisson".to_owned());
    let arrival = match (law.as_str(), options.burstiness) {
        ("poisson", None) => Arrival::Poisson,
        ("constant", None) => Arrival::Constant,
        ("gamma", Some(burstiness)) if (0.001..=1000.0).contains(&burstiness) => {
            Arrival::Gamma { burstiness }
        }
        ("gamma", Some(burstiness)) => {
            return Err(Failure::usage(format!(
                "--burstiness {burstiness} is out of range: give one from 0.001 (bursts) to 1000 \
                 (nearly constant); 1 is Poisson"
            )));
        }
        ("gamma", None) => {
            return Err(Failure::usage("--arrival gamma needs --burstiness, such as 0.5"));
        }
        ("poisson" | "constant", Some(_)) => {
            return Err(Failure::usage(
                "--burstiness shapes gamma gaps alone: add --arrival gamma, or drop it",
            ));
        }
        (other, _) => {
            return Err(Failure::usage(format!(
                "--arrival `{other}`: expected poisson, constant or gamma"
            )));
        }
    };
    let max_in_flight = options.max_in_flight;
    within("--max-in-flight", max_in_flight, USERS_MAX)?;
    let overflow = match max_in_flight {
        Some(_) => word(&mut options.overflow, "wait")?,
        None if options.overflow.is_some() => {
            return Err(Failure::usage(
                "--overflow says what happens above --max-in-flight: give that too, or drop it",
            ));
        }
        None => Overflow::Wait,
    };
    Ok(Load::Open { rate, arrival, max_in_flight, overflow })
}

fn closed(options: &mut Options) -> Result<Load, Failure> {
    let only_open = [
        ("--arrival", options.arrival.is_some()),
        ("--burstiness", options.burstiness.is_some()),
        ("--max-in-flight", options.max_in_flight.is_some()),
        ("--overflow", options.overflow.is_some()),
    ];
    if let Some((flag, _)) = only_open.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!("{flag} is for an open loop: add --rate, or drop it")));
    }
    // Fewer requests than users by default would be a contradiction of our own making.
    let default = USERS.min(options.requests.unwrap_or(USERS)).max(1);
    let users = *options.concurrency.get_or_insert(default);
    within("--concurrency", Some(users), USERS_MAX)?;
    let default = if users > USERS_AT_ONCE {
        users.saturating_mul(RAMP_NS_PER_USER).min(RAMP_MAX_NS)
    } else {
        0
    };
    let ramp = options.ramp.get_or_insert(Span::from_ns(default));
    Ok(Load::Closed { users, ramp_ns: ramp.ns() })
}

fn stop(options: &mut Options, load: &Load) -> Result<Stop, Failure> {
    if options.requests.is_none() && options.duration.is_none() {
        options.requests = Some(match *load {
            Load::Closed { users, .. } => REQUESTS.max(users.saturating_mul(REQUESTS_PER_USER)),
            Load::Open { .. } => REQUESTS,
        });
    }
    within("--requests", options.requests, REQUESTS_MAX)?;
    if options.duration.is_some_and(|length| length.ns() == 0) {
        return Err(Failure::usage("--duration 0s measures nothing: give one such as 30s"));
    }
    let warmup = match *options.warmup.get_or_insert(WarmUp::Requests(0)) {
        WarmUp::Requests(0) => Warmup::None,
        WarmUp::Requests(requests) => {
            within("--warmup", Some(requests), REQUESTS_MAX)?;
            Warmup::Requests(requests)
        }
        WarmUp::Time(length) if length.ns() == 0 => Warmup::None,
        WarmUp::Time(length) => Warmup::Time(length.ns()),
    };
    Ok(Stop {
        requests: options.requests,
        duration_ns: options.duration.map(Span::ns),
        warmup,
        drain_ns: options.drain.get_or_insert(DRAIN).ns(),
    })
}

fn within(flag: &str, value: Option<u64>, max: u64) -> Result<(), Failure> {
    match value {
        Some(value) if !(1..=max).contains(&value) => {
            Err(Failure::usage(format!("{flag} {value} is out of range: give 1 to {max}")))
        }
        _ => Ok(()),
    }
}
