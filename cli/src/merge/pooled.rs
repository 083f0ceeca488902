//! A result from the records of all requests: the same figures that one host would have come to.

use std::io::{self, BufWriter, Write};

use tokclock_engine::measure::{Facts, Summary};
use tokclock_engine::run::{REQUESTS_FILE, SERVERS_FILE};
use tokclock_engine::shard::{Records, merge_rows, once, shift_table};
use tokclock_engine::telemetry::gpu::GPUS_FILE;
use tokclock_engine::workload::Workload;

use super::gathered::{Gathered, Host, refused};
use crate::exit::Failure;
use crate::gpus;
use crate::resolve::Draft;
use crate::resolve::gpus::GpusAsked;
use crate::results::{self, ResultDir, write_with};

/// Files that one host alone has looked at, and the column of their moments.
const BESIDE: [(&str, &str); 2] = [(SERVERS_FILE, "t_ns"), (GPUS_FILE, "time_ns")];

/// Writes the records of all hosts into `out` and gives the figures.
///
/// # Errors
/// Records that cannot be read or written, or that two hosts both hold.
pub(super) fn summarize(
    gathered: &Gathered,
    draft: &Draft,
    workload: &Workload,
    out: &ResultDir,
    notes: &mut Vec<String>,
) -> Result<Summary, Failure> {
    let Gathered { hosts, facts } = gathered;
    let mut requests = Vec::new();
    let path = out.path().join(REQUESTS_FILE);
    write_with(&path, |out| {
        // Whatever fails here names its file.
        write_rows(records(hosts, facts), out, &mut requests)
            .map_err(|error| Failure::could_not_run(format!("records: {error}")))
    })?;
    once(&mut requests).map_err(refused)?;
    for (file, column) in BESIDE {
        beside(hosts, facts, (file, column), out, notes)?;
    }
    let mut summary = results::summarize(workload, facts, out.path())?;
    let interval_ns = GpusAsked::of(draft.options()).ok().map(|asked| asked.interval_ns);
    // What cannot be read is left out: the rest of the result is worth more.
    summary.gpus = gpus::report(out.path(), &summary, interval_ns, &[]).ok().flatten();
    Ok(summary)
}

fn records(hosts: &[Host], facts: &Facts) -> Vec<Records> {
    let with_records = hosts.iter().filter(|host| host.dir.join(REQUESTS_FILE).is_file());
    let of = |host: &Host| Records {
        shard: host.place.shard,
        path: host.dir.join(REQUESTS_FILE),
        later_ns: later(host, facts),
        first_reactor: host.place.first_reactor,
    };
    with_records.map(of).collect()
}

/// How much later a host's run began than that of all, ns.
fn later(host: &Host, facts: &Facts) -> u64 {
    host.place.start_ns.saturating_sub(facts.start_realtime_ns)
}

fn write_rows(
    records: Vec<Records>,
    out: &mut dyn Write,
    requests: &mut Vec<(u64, u32)>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    merge_rows(records, &mut |row| {
        requests.push((row.index, row.shard.unwrap_or_default()));
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")
    })?;
    out.flush()
}

/// Takes over what the first host that looked at it has seen.
fn beside(
    hosts: &[Host],
    facts: &Facts,
    (file, column): (&str, &str),
    out: &ResultDir,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut those = hosts.iter().filter(|host| host.dir.join(file).is_file());
    let Some(host) = those.next() else { return Ok(()) };
    let others = those.count();
    if others > 0 {
        notes.push(format!(
            "{file} is that of shard {} alone; {others} more have one of their own",
            host.place.shard
        ));
    }
    let from = host.dir.join(file);
    write_with(&out.path().join(file), |out| {
        shift_table(&from, out, column, later(host, facts)).map_err(|error| {
            Failure::could_not_run(format!("cannot read {}: {error}", from.display()))
        })
    })
}
