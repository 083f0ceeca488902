//! Which servers' metrics are read, and how often.

use std::collections::BTreeSet;

use tokclock_engine::run::Way;
use tokclock_engine::telemetry::server::{SCRAPED_MAX, Scrape, beside, named};
use tokclock_engine::workload::Target;

use super::target::check_address;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::Span;

/// From one look to the next.
const INTERVAL: Span = Span::from_ns(500_000_000);
/// The shortest time from one look to the next: a server has better things to do.
const INTERVAL_MIN: Span = Span::from_ns(20_000_000);

/// Refuses what makes no sense, and writes down what is filled in.
pub(super) fn resolve(options: &mut Options) -> Result<(), Failure> {
    let is_off = options.no_scrape == Some(true);
    if is_off && !options.scrape.is_empty() {
        return Err(Failure::usage(
            "--scrape and --no-scrape do not go together: drop one of them",
        ));
    }
    if is_off && options.scrape_interval.is_some() {
        return Err(Failure::usage("--scrape-interval is of no use with --no-scrape: drop it"));
    }
    for url in &options.scrape {
        check_address(url, "http://host:8000/metrics")
            .map_err(|failure| Failure::usage(format!("--scrape: {}", failure.message)))?;
    }
    let mut seen = BTreeSet::new();
    options.scrape.retain(|url| seen.insert(url.clone()));
    if options.scrape.len() > SCRAPED_MAX {
        return Err(Failure::usage(format!(
            "--scrape: {} servers are too many, {SCRAPED_MAX} can be read: name fewer",
            options.scrape.len()
        )));
    }
    if !is_off {
        let interval = options.scrape_interval.get_or_insert(INTERVAL);
        if interval.ns() < INTERVAL_MIN.ns() {
            return Err(Failure::usage(
                "--scrape-interval is too short: the servers would be busy with it; give 20ms or more",
            ));
        }
    }
    Ok(())
}

/// The servers that are read: those that were named; else, unless that is off, those of the load that
/// have metrics, which are asked here.
pub(crate) fn scraped(options: &Options, target: &Target, way: &Way) -> Scrape {
    let is_off = options.no_scrape == Some(true);
    let may_ask = !is_off && options.no_server_facts != Some(true);
    let servers = match options.scrape.as_slice() {
        [] if may_ask => beside(target),
        urls => urls.iter().map(|url| named(url, target, way)).collect(),
    };
    Scrape { servers, interval_ns: options.scrape_interval.unwrap_or(INTERVAL).ns() }
}
