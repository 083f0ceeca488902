//! A result from histograms alone: latencies within 0.1 %, no records.

use std::collections::BTreeMap;

use tokclock_engine::measure::{Summary, summarize_added};
use tokclock_engine::shard::{SECONDS_FILE, Sums, add_seconds};
use tokclock_engine::workload::Workload;

use super::gathered::Gathered;
use super::told::called;
use crate::exit::Failure;

/// Adds up the seconds of all hosts and gives the figures.
///
/// # Errors
/// Histograms that are missing or cannot be read.
pub(super) fn summarize(
    gathered: &Gathered,
    workload: &Workload,
    notes: &mut Vec<String>,
) -> Result<Summary, Failure> {
    let mut sums = Sums::default();
    for host in &gathered.hosts {
        let path = host.dir.join(SECONDS_FILE);
        let shown = path.display();
        if !path.is_file() {
            return Err(Failure::usage(format!(
                "{shown} is missing: without records it is needed; run the host again, or leave it out"
            )));
        }
        add_seconds(&path, &mut sums)
            .map_err(|error| Failure::could_not_run(format!("cannot read {shown}: {error}")))?;
        if host.summary.is_none() {
            notes.push(format!(
                "{} left no summary.json: of its requests only those are counted that ended well",
                called(host)
            ));
        }
    }
    if workload.mix.len() > 1 {
        notes.push("classes have no figures of their own without records".to_owned());
    }
    notes.push(
        "latencies are from histograms, within 0.1 %, and have no intervals; what only records tell \
         is absent"
            .to_owned(),
    );
    let latencies: BTreeMap<_, _> =
        sums.iter().map(|(tag, values)| (tag.to_owned(), values.clone())).collect();
    let hosts: Vec<&Summary> =
        gathered.hosts.iter().filter_map(|host| host.summary.as_ref()).collect();
    Ok(summarize_added(workload, &gathered.facts, &latencies, &hosts))
}
