//! The figures of a run that was cut off before it wrote them: from its finished requests and, where
//! it is there, from the file that reproduces it.

use std::io;
use std::path::Path;

use tokclock_engine::measure::{self, Facts, Summary};
use tokclock_engine::record::{Remains, Row, read_rows};
use tokclock_engine::run::{Located, REQUESTS_FILE};
use tokclock_engine::workload::{Client, Content, Endpoint, Load, Stop, Target, Workload};

use super::figures::servers_of;
use super::{ResultDir, Told, WINDOWS, windows};
use crate::config::Options;
use crate::exit::Failure;
use crate::resolve::Draft;
use crate::resolve::gather::Gathered;
use crate::resolve::gpus::GpusAsked;
use crate::{gpus, output};

/// What stands for the URL of a server that nobody names.
const EMBEDDED: &str = "the embedded simulator";

/// Rebuilds the figures of the run in `path`, writes them there and says so; `None` if it has left no
/// finished requests either.
///
/// # Errors
/// Requests or a `run.toml` that cannot be read.
pub(super) fn rebuild(path: &Path, run_toml: Option<&str>) -> Result<Option<Summary>, Failure> {
    let requests = path.join(REQUESTS_FILE);
    if !requests.is_file() {
        return Ok(None);
    }
    let draft = run_toml.map(|_| draft(&path.join("run.toml"))).transpose()?;
    let mut workload = draft.as_ref().map_or_else(unknown, asked);
    let mut remains = Remains::new(&workload);
    over(&requests, |rows| rows.for_each(|row| remains.add(&row, &workload)))?;
    if draft.is_none() {
        workload.load = Load::Closed { users: remains.in_flight_max(), ramp_ns: 0 };
    }
    let has_chunks = remains.has_chunks();
    let facts = remains.facts(&workload);
    let mut servers = servers_of(path, &facts);
    let mut summary = over(&requests, |rows| {
        measure::summarize_remains(&workload, &facts, rows.inspect(|row| servers.hear(row)))
    })?;
    summary.servers = servers.finish();
    summary.run.name = draft.as_ref().map(|draft| draft.name().to_owned());
    if draft.is_none() {
        nothing_asked(&mut summary);
        for note in summary.notes.iter_mut().take(1) {
            note.message.push_str(
                "; there is no run.toml, so what was asked for is not known: latencies count from when \
                 requests were sent, as those of a closed loop with as many users as were seen at once",
            );
        }
    }
    let interval_ns = draft.as_ref().and_then(|draft| GpusAsked::of(draft.options()).ok());
    let interval_ns = interval_ns.map(|asked| asked.interval_ns);
    // What cannot be read is left out: the rest of the result is worth more.
    summary.gpus = gpus::report(path, &summary, interval_ns, &[]).ok().flatten();
    save(path, &summary, &facts, has_chunks);
    Ok(Some(summary))
}

/// Takes back what a summary says of a load that nobody knows.
fn nothing_asked(summary: &mut Summary) {
    const UNKNOWN: &str = "unknown";
    summary.target.dialect = UNKNOWN.to_owned();
    let asked = &mut summary.workload;
    asked.tokenizer = UNKNOWN.to_owned();
    asked.classes.clear();
    (asked.input_tokens, asked.output_tokens, asked.requests) = (None, None, None);
}

/// Writes what was rebuilt, and says what became of it.
fn save(path: &Path, summary: &Summary, facts: &Facts, has_chunks: bool) {
    let dir = ResultDir { path: path.to_owned() };
    let told = Told { live: false, output: has_chunks };
    let written = dir
        .write(WINDOWS, |out| windows(out, facts, told))
        .and_then(|()| dir.write_summary(summary));
    let shown = path.display();
    match written {
        Ok(()) => output::note(format_args!(
            "{shown}: the run was cut off and left no summary.json; rebuilt from {} finished requests",
            summary.requests.ok + summary.requests.failed + summary.requests.cancelled
        )),
        // A result on a medium that cannot be written can still be looked at.
        Err(failure) => output::note(format_args!(
            "{shown}: the run was cut off; its figures are rebuilt, but not kept: {failure}"
        )),
    }
}

/// Gives the finished requests in a file to `take`.
pub(crate) fn over<T>(
    path: &Path,
    take: impl FnOnce(&mut dyn Iterator<Item = Row>) -> T,
) -> Result<T, Failure> {
    let unreadable = |error: io::Error| {
        Failure::could_not_run(format!("cannot read {}: {error}", path.display()))
    };
    let mut bad = None;
    let rows = read_rows(path).map_err(unreadable)?;
    let mut rows = rows.map_while(|row| row.map_err(|error| bad = Some(error)).ok());
    let taken = take(&mut rows);
    drop(rows);
    bad.map_or(Ok(taken), |error| Err(unreadable(error)))
}

/// The options of a run as they were resolved, without what only sending needs: keys, certificates,
/// templates, CPUs, recordings.
pub(crate) fn draft(path: &Path) -> Result<Draft, Failure> {
    let unread = |failure: Failure| {
        Failure::could_not_run(format!(
            "cannot rebuild the result: {}: {}; move it away to go without what it says",
            path.display(),
            failure.message.trim_start_matches("--config ")
        ))
    };
    let mut options = Options::read(path).map_err(unread)?;
    options.header.clear();
    (options.api_key_env, options.api_key_file) = (None, None);
    (options.cacert, options.cert, options.key) = (None, None, None);
    (options.reactors, options.cpus) = (None, None);
    (options.template, options.dialect) = match options.dialect.as_deref() {
        Some("template") => (None, None),
        _ => (options.template, options.dialect),
    };
    // Which conversations there were stands in the records.
    if options.sessions.take().is_some() {
        options.requests = options.requests.or(Some(1));
    }
    if options.connections.as_deref() == Some("per-session") {
        options.connections = None;
    }
    Draft::new(options, &[0], &|_| Ok(Gathered::default())).map_err(unread)
}

/// The load of a run as it was asked for; nobody is asked for an address.
pub(crate) fn asked(draft: &Draft) -> Workload {
    let options = draft.options();
    let mut urls = options.servers().to_vec();
    if urls.is_empty() {
        urls.push(EMBEDDED.to_owned());
    }
    let model = options.model.clone().unwrap_or_default();
    let locate = |url: &String| Located { endpoint: endpoint(url), resolve_ns: 0 };
    draft.workload(&urls.iter().map(locate).collect::<Vec<_>>(), &model)
}

/// What is left to say of a run of which nothing is known.
fn unknown() -> Workload {
    Workload::plain(
        Target { model: String::new(), ..Target::chat(endpoint("unknown"), "") },
        Load::Closed { users: 0, ramp_ns: 0 },
        Stop { requests: None, ..Stop::after(0) },
        Content::of_lengths(0, 0),
        Client::on(vec![0]),
    )
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        url: url.to_owned(),
        addresses: Vec::new(),
        host: String::new(),
        base_path: String::new(),
        query: String::new(),
        path: String::new(),
        via: None,
        tunnel: None,
        tls: url.starts_with("https://"),
        server_name: String::new(),
    }
}
