//! `tokclock merge`: results of several hosts that sent one load become one result.

mod added;
mod found;
mod gathered;
mod pooled;
mod told;

use std::path::{Path, PathBuf};

use tokclock_engine::measure::{MergedFrom, Summary};
use tokclock_engine::run::{REQUESTS_FILE, SERVERS_FILE};
use tokclock_engine::shard::Clocks;
use tokclock_engine::telemetry::gpu::GPUS_FILE;

use crate::args::MergeArgs;
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};
use crate::report;
use crate::results::{ResultDir, asked, draft};
use found::Found;

/// The file that reproduces a result.
const RUN: &str = "run.toml";
/// What a host is told and a whole load is not.
const OF_A_SHARD: [&str; 2] = ["shard", "start-at"];

/// How shards are merged.
pub(crate) struct Merging<'a> {
    /// How far the hosts' clocks are apart, where that is known.
    pub(crate) clocks: Option<&'a Clocks>,
    /// Go by histograms alone.
    pub(crate) histograms_only: bool,
    /// How many shards there were to be; by default as many as they say.
    pub(crate) of: Option<u32>,
    /// Where remarks go.
    pub(crate) screen: Screen,
}

/// Merges shards and gives the exit code.
///
/// # Errors
/// Shards that cannot be read or do not belong together, or a result that cannot be written.
pub(crate) fn merge(args: &MergeArgs) -> Result<Code, Failure> {
    let screen = args.screen();
    let found = Found::of(&args.dirs)?;
    let clocks = found.clocks(args.clocks.as_deref())?;
    let out = ResultDir::create(args.out.as_deref(), "merge")?;
    let how =
        Merging { clocks: clocks.as_ref(), histograms_only: args.histograms, of: None, screen };
    let summary = merge_shards(&found.dirs, &out, &how).inspect_err(|_| out.abandon())?;
    screen.report(&report::console(&summary, screen.width(), screen.colour()));
    screen.note(format_args!("results: {}", out.path().display()));
    if !args.no_report {
        report::html::leave(&out, screen);
    }
    if screen.json {
        output::json(&summary)?;
    }
    let asked = draft(&out.path().join(RUN))?;
    Ok(Code::of_run(&summary.verdicts(), asked.max_error_rate))
}

/// Makes one result of the shards in `dirs` and writes it into `out`; a `run.toml` that is there stays.
///
/// # Errors
/// Shards that cannot be read or do not belong together, or a result that cannot be written. What was
/// written until then is removed.
pub(crate) fn merge_shards(
    dirs: &[PathBuf],
    out: &ResultDir,
    how: &Merging<'_>,
) -> Result<Summary, Failure> {
    let has_run = out.path().join(RUN).is_file();
    let merged = into(dirs, out, how);
    if merged.is_err() {
        let made = [REQUESTS_FILE, SERVERS_FILE, GPUS_FILE];
        made.into_iter().chain((!has_run).then_some(RUN)).for_each(|name| out.remove(name));
    }
    merged
}

fn into(dirs: &[PathBuf], out: &ResultDir, how: &Merging<'_>) -> Result<Summary, Failure> {
    let run = out.path().join(RUN);
    if !run.is_file() {
        out.write_run(&run_toml(dirs)?)?;
    }
    let draft = draft(&run)?;
    let workload = asked(&draft);
    let gathered = gathered::gather(dirs, &workload, how.clocks)?;
    let has_records = gathered.hosts.iter().any(|host| host.dir.join(REQUESTS_FILE).is_file());
    let mut notes = Vec::new();
    let (mut summary, records) = if how.histograms_only || !has_records {
        (added::summarize(&gathered, &workload, &mut notes)?, MergedFrom::Histograms)
    } else {
        let summary = pooled::summarize(&gathered, &draft, &workload, out, &mut notes)?;
        (summary, MergedFrom::Pooled)
    };
    told::tell(&mut summary, &gathered, how.of, records, notes);
    out.write_windows(&gathered.facts)?;
    out.write_histograms(&gathered.facts)?;
    // The last one: where it is, the result is whole.
    out.write_summary(&summary)?;
    if summary.is_partial() {
        how.screen.note("the result is partial: it holds a part of the load");
    }
    Ok(summary)
}

/// The options of the whole load, from the first shard that has them.
fn run_toml(dirs: &[PathBuf]) -> Result<String, Failure> {
    for dir in dirs {
        // One that is no shard is named before anything is said of its files.
        gathered::left(dir)?;
    }
    let text = dirs.iter().find_map(|dir| std::fs::read_to_string(dir.join(RUN)).ok());
    let Some(text) = text else {
        let first = dirs.first().map(PathBuf::as_path).unwrap_or(Path::new("."));
        return Err(Failure::usage(format!(
            "{}: no shard has a {RUN}, which says what was asked for",
            first.display()
        )));
    };
    whole_load(&text).map_err(|why| Failure::could_not_run(format!("{RUN} of a shard: {why}")))
}

/// Options without what a shard alone has; words before them stay.
fn whole_load(text: &str) -> Result<String, String> {
    let mut options: toml::Table =
        toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut is_shard = false;
    for key in OF_A_SHARD {
        is_shard |= options.remove(key).is_some();
    }
    if !is_shard {
        return Ok(text.to_owned());
    }
    let mut whole: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    whole.push_str(&toml::to_string(&options).map_err(|error| error.to_string())?);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_whole_load_name_no_shard() {
        let text = "# Reproduces this run\nurl = \"http://a\"\nshard = \"1/3\"\nrate = 5.0\n";
        assert_eq!(
            whole_load(text).unwrap(),
            "# Reproduces this run\nrate = 5.0\nurl = \"http://a\"\n"
        );
        let plain = "# words\nrate = 5.0 # kept as it is\n";
        assert_eq!(whole_load(plain).unwrap(), plain);
        assert!(whole_load("rate = ").is_err());
    }
}
