//! When requests go and when they stop.

use tokclock_engine::plan::replayed;
use tokclock_engine::workload::{
    Arrival, Class, Load, Overflow, RateSeries, Replay, Schedule, Shard, Stop, Until, Warmup,
};

use super::gather::Facts;
use super::word;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::{Levels, Span, WarmUp};

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
/// A warm-up that waits for a steady service is no longer than this, ns.
const WARMUP_MAX_NS: u64 = 60_000_000_000;
/// And may be as long as this however short the measured part is, ns: steadiness takes some time to see.
const WARMUP_LEAST_NS: u64 = 20_000_000_000;
/// Longest measured part of a run that ends when enough is known.
const UNTIL_LONGEST: Span = Span::from_ns(600_000_000_000);

/// Decides on the loop and its end, and writes both down in `options`.
pub(super) fn resolve(
    options: &mut Options,
    facts: &Facts,
    notes: &mut Vec<String>,
) -> Result<(Load, Stop), Failure> {
    keep_times(options, facts, notes);
    let ways = [
        ("--rate", options.rate.is_some()),
        ("--rates", options.rates.is_some()),
        ("--trace", options.trace.is_some()),
        ("--concurrency", options.concurrency.is_some()),
    ];
    let mut given = ways.iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
    if let (Some(one), Some(other)) = (given.next(), given.next()) {
        return Err(Failure::usage(format!(
            "{one} and {other} exclude each other: an open loop does not wait for answers, a closed \
             loop does; to bound an open loop use --max-in-flight"
        )));
    }
    let (load, stop) = again(options, facts)?;
    if let (Load::Closed { users, .. }, Some(requests)) = (&load, stop.requests)
        && stop.duration_ns.is_none()
        && *users > requests
    {
        let idle = users - requests;
        notes.push(format!("{users} users for {requests} requests: {idle} of them never send"));
    }
    if let (Some(entries), Some(requests), false) =
        (facts.entries(), stop.requests, facts.has_sessions)
        && requests > entries
        && options.trace.is_none()
    {
        notes.push(format!(
            "{requests} requests of {entries} entries: they are sent again, and a prefix cache knows \
             them then"
        ));
    }
    Ok((load, stop))
}

/// The loop and its end, where they do not contradict each other.
pub(super) fn again(options: &mut Options, facts: &Facts) -> Result<(Load, Stop), Failure> {
    let load = if options.rate.is_some() || options.rates.is_some() || options.trace.is_some() {
        open(options)?
    } else {
        closed(options, facts)?
    };
    let stop = stop(options, &load, facts)?;
    Ok((load, stop))
}

/// The one load that an option names.
fn only(flag: &str, levels: Option<&Levels>) -> Result<Option<f64>, Failure> {
    let Some(levels) = levels else { return Ok(None) };
    levels.one().map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "{flag} {levels} names several loads, and a run has one: `tokclock sweep` goes through \
             them, `tokclock search` looks for the highest that keeps objectives"
        ))
    })
}

/// A recording with times is replayed, unless something else is asked for.
fn keep_times(options: &mut Options, facts: &Facts, notes: &mut Vec<String>) {
    let asked = options.rate.is_some() || options.rates.is_some() || options.concurrency.is_some();
    let in_order = options.content.data_order.as_deref().is_none_or(|order| order == "sequential");
    if !facts.has_times() || asked || options.trace.is_some() || !in_order {
        return;
    }
    // That of a class is sent at the rate of all classes.
    let Some(data) = options.content.data.take() else { return };
    options.trace = Some(data);
    notes.push(
        "the recording has times, which are kept: --concurrency or --rate would replace them"
            .to_owned(),
    );
}

/// How many reactors this part of a load needs: a core takes about 100 000 output events per second, half of
/// that is planned with; and no more than 1000 connections each.
pub(super) fn reactors_needed(load: &Load, mix: &[Class], part: Shard) -> usize {
    const EVENTS_PER_CORE: f64 = 50_000.0;
    const USERS_PER_CORE: u64 = 1000;
    let needed = match load {
        Load::Closed { users, .. } => part.part_of(*users).div_ceil(USERS_PER_CORE),
        Load::Open { schedule, .. } => {
            let rate = match schedule {
                Schedule::Rate { rate, .. } => *rate,
                Schedule::Series { series, .. } => {
                    series.pieces().iter().map(|piece| piece.from.max(piece.to)).fold(0.0, f64::max)
                }
                Schedule::Replay(_) => 0.0,
            };
            let output = mix.iter().map(|class| class.content.lengths.means().1.max(1.0));
            // Finite and small: both factors are bounded.
            (rate / f64::from(part.of) * output.fold(0.0, f64::max) / EVENTS_PER_CORE).ceil() as u64
        }
    };
    usize::try_from(needed.max(1)).unwrap_or(usize::MAX)
}

fn open(options: &mut Options) -> Result<Load, Failure> {
    let schedule = match (only("--rate", options.rate.as_ref())?, &options.rates) {
        (Some(rate), _) => at_rate(options, rate)?,
        (None, Some(series)) => {
            let series: RateSeries = series
                .parse()
                .map_err(|error| Failure::usage(format!("--rates {series}: {error}")))?;
            no_ramp(options, "--rates says how rates rise")?;
            Schedule::Series { series, arrival: arrival(options)? }
        }
        (None, None) => replay(options)?,
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
    Ok(Load::Open { schedule, max_in_flight, overflow })
}

fn at_rate(options: &mut Options, rate: f64) -> Result<Schedule, Failure> {
    if !(rate > 0.0 && rate <= RATE_MAX) {
        return Err(Failure::usage(format!(
            "--rate {rate} is no number of requests per second: give one above 0, up to {RATE_MAX}"
        )));
    }
    let arrival = arrival(options)?;
    match options.ramp.map(Span::ns) {
        None | Some(0) => Ok(Schedule::Rate { rate, arrival }),
        Some(ramp_ns) => {
            let series = RateSeries::ramp(rate, ramp_ns)
                .map_err(|error| Failure::usage(format!("--ramp: {error}")))?;
            Ok(Schedule::Series { series, arrival })
        }
    }
}

fn replay(options: &mut Options) -> Result<Schedule, Failure> {
    no_ramp(options, "a recording has its own times")?;
    if options.arrival.is_some() || options.burstiness.is_some() {
        return Err(Failure::usage(
            "--arrival is a law of gaps, and a recording has its own times: drop one of them",
        ));
    }
    let speed = *options.trace_speed.get_or_insert(1.0);
    let loops = *options.trace_loops.get_or_insert(1);
    if !(speed.is_finite() && speed > 0.0) {
        return Err(Failure::usage(format!("--trace-speed {speed}: give a number above 0")));
    }
    within("--trace-loops", Some(loops), REQUESTS_MAX)?;
    let start_ns = options.trace_start.map_or(0, Span::ns);
    let end_ns = options.trace_end.map(Span::ns);
    if end_ns.is_some_and(|end| end <= start_ns) {
        return Err(Failure::usage("--trace-end lies before --trace-start: nothing would be sent"));
    }
    Ok(Schedule::Replay(Replay { speed, start_ns, end_ns, loops }))
}

fn no_ramp(options: &Options, why: &str) -> Result<(), Failure> {
    match options.ramp {
        Some(_) => Err(Failure::usage(format!(
            "--ramp is for --rate and for the users of a closed loop; {why}: drop it"
        ))),
        None => Ok(()),
    }
}

fn arrival(options: &mut Options) -> Result<Arrival, Failure> {
    let law = options.arrival.get_or_insert_with(|| "poisson".to_owned());
    match (law.as_str(), options.burstiness) {
        ("poisson", None) => Ok(Arrival::Poisson),
        ("constant", None) => Ok(Arrival::Constant),
        ("gamma", Some(burstiness)) if (0.001..=1000.0).contains(&burstiness) => {
            Ok(Arrival::Gamma { burstiness })
        }
        ("gamma", Some(burstiness)) => Err(Failure::usage(format!(
            "--burstiness {burstiness} is out of range: give one from 0.001 (bursts) to 1000 \
             (nearly constant); 1 is Poisson"
        ))),
        ("gamma", None) => Err(Failure::usage("--arrival gamma needs --burstiness, such as 0.5")),
        ("poisson" | "constant", Some(_)) => Err(Failure::usage(
            "--burstiness shapes gamma gaps alone: add --arrival gamma, or drop it",
        )),
        (other, _) => {
            Err(Failure::usage(format!("--arrival `{other}`: expected poisson, constant or gamma")))
        }
    }
}

fn closed(options: &mut Options, facts: &Facts) -> Result<Load, Failure> {
    let only_open = [
        ("--trace-speed", options.trace_speed.is_some()),
        ("--trace-loops", options.trace_loops.is_some()),
        ("--trace-start", options.trace_start.is_some()),
        ("--trace-end", options.trace_end.is_some()),
        ("--arrival", options.arrival.is_some()),
        ("--burstiness", options.burstiness.is_some()),
        ("--max-in-flight", options.max_in_flight.is_some()),
        ("--overflow", options.overflow.is_some()),
    ];
    if let Some((flag, _)) = only_open.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{flag} is for an open loop: add --rate, --rates or --trace, or drop it"
        )));
    }
    // Fewer requests than users by default would be a contradiction of our own making.
    let items = options.requests.or(options.sessions).or(facts.entries());
    let default = USERS.min(items.unwrap_or(USERS)).max(1);
    let users = users(only("--concurrency", options.concurrency.as_ref())?, default)?;
    options.concurrency = Some(Levels::One(users as f64));
    let default = if users > USERS_AT_ONCE {
        users.saturating_mul(RAMP_NS_PER_USER).min(RAMP_MAX_NS)
    } else {
        0
    };
    let ramp = options.ramp.get_or_insert(Span::from_ns(default));
    Ok(Load::Closed { users, ramp_ns: ramp.ns() })
}

/// A number of users is whole.
fn users(asked: Option<f64>, default: u64) -> Result<u64, Failure> {
    let users = match asked {
        None => return Ok(default),
        Some(users) if users.fract() == 0.0 && users >= 0.0 => users as u64,
        Some(users) => {
            return Err(Failure::usage(format!(
                "--concurrency {users} is no number of users: give a whole one"
            )));
        }
    };
    within("--concurrency", Some(users), USERS_MAX)?;
    Ok(users)
}

fn stop(options: &mut Options, load: &Load, facts: &Facts) -> Result<Stop, Failure> {
    if options.sessions.is_some() && !facts.has_sessions {
        return Err(Failure::usage(
            "--sessions counts conversations, and requests here stand alone: add --turns, or use \
             --requests",
        ));
    }
    if options.requests.is_none() && options.duration.is_none() && options.sessions.is_none() {
        default_stop(options, load, facts);
    }
    within("--requests", options.requests, REQUESTS_MAX)?;
    within("--sessions", options.sessions, REQUESTS_MAX)?;
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
        WarmUp::Auto => Warmup::Auto(longest_warmup(options)),
    };
    let ramp_ns = options.ramp.map_or(0, Span::ns);
    let warmup = match (load, warmup) {
        // What is sent while the rate rises is not measured.
        (Load::Open { .. }, Warmup::None) if ramp_ns > 0 => Warmup::Time(ramp_ns),
        (Load::Open { .. }, Warmup::Time(ns)) if ramp_ns > 0 => {
            Warmup::Time(ns.saturating_add(ramp_ns))
        }
        (Load::Open { .. }, Warmup::Requests(_) | Warmup::Auto(_)) if ramp_ns > 0 => {
            return Err(Failure::usage(
                "--ramp is a warm-up by time: give --warmup as a time too, or drop it",
            ));
        }
        (_, warmup) => warmup,
    };
    Ok(Stop {
        requests: options.requests,
        duration_ns: options.duration.map(Span::ns),
        sessions: options.sessions,
        warmup,
        drain_ns: options.drain.get_or_insert(DRAIN).ns(),
        until: until(options)?,
    })
}

/// How long a warm-up may be that waits for a steady service: as long as the measured part, ns.
fn longest_warmup(options: &Options) -> u64 {
    let measured = options.duration.map_or(WARMUP_MAX_NS, Span::ns);
    measured.clamp(WARMUP_LEAST_NS, WARMUP_MAX_NS)
}

fn until(options: &Options) -> Result<Option<Until>, Failure> {
    let rule = options.until.as_deref().map(str::parse::<Until>).transpose();
    rule.map_err(|error| Failure::usage(format!("--until {error}")))
}

/// When a load ends for which nothing was said: a recording once, a series of rates to its end, else
/// after a few hundred requests.
fn default_stop(options: &mut Options, load: &Load, facts: &Facts) {
    if options.until.is_some() {
        options.duration = Some(UNTIL_LONGEST);
        return;
    }
    if let Load::Open { schedule: Schedule::Series { series, .. }, .. } = load
        && let Some(length) = series.duration_ns()
    {
        options.duration = Some(Span::from_ns(length));
        return;
    }
    let requests = match (load, facts.entries()) {
        (_, Some(entries)) => {
            let all = match load {
                Load::Open { schedule: Schedule::Replay(replay), .. } => {
                    played(facts, replay).saturating_mul(replay.loops)
                }
                _ => entries,
            };
            let all = all.max(1);
            if facts.has_sessions {
                options.sessions = Some(all);
            } else {
                options.requests = Some(all);
            }
            return;
        }
        (Load::Closed { users, .. }, None) => REQUESTS.max(users.saturating_mul(REQUESTS_PER_USER)),
        (Load::Open { .. }, None) => REQUESTS,
    };
    if facts.has_sessions {
        let turns = facts.mean_turns.max(1.0);
        options.sessions = Some(((requests as f64 / turns).ceil() as u64).max(1));
    } else {
        options.requests = Some(requests);
    }
}

/// Entries that a replay takes of its recording.
fn played(facts: &Facts, replay: &Replay) -> u64 {
    facts.recording.as_ref().map_or(0, |data| {
        let entries = replayed(data, replay);
        entries.end.saturating_sub(entries.start)
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
