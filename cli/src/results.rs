//! The directory of a result: `run.toml`, `summary.json`, `windows.csv`, `histograms.hlog`.
//! `requests.jsonl` is written beside them while the run goes on.

mod figures;
mod kept;
mod points;
mod rebuilt;

pub(crate) use figures::summarize;
pub(crate) use kept::{Kept, What, read};
pub(crate) use points::{Place, Point};
pub(crate) use rebuilt::{asked, draft, over};

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use tokclock_engine::measure::Facts;
use tokclock_engine::record::{Second, write_interval_log};

use crate::exit::Failure;

/// Where results go unless `--out` says otherwise.
const ROOT: &str = "tokclock-results";
/// Where a sweep or search keeps the results of its levels.
pub(crate) const LEVELS: &str = "levels";
/// The file of a result's figures.
pub(crate) const SUMMARY: &str = "summary.json";
/// The columns of `windows.csv`.
const COLUMNS: &str = "time_s,unix_time_s,offered_requests,started_requests,ok_requests,\
    failed_requests,cancelled_requests,dropped_requests,output_events,output_tokens,input_tokens,\
    in_flight_requests,ttft_mean_ns";
/// The file of a result's seconds.
const WINDOWS: &str = "windows.csv";
/// The file of a run's pooled histograms.
pub(crate) const HISTOGRAMS: &str = "histograms.hlog";
const NS_PER_S: u64 = 1_000_000_000;

/// The directory of one result.
#[derive(Debug)]
pub(crate) struct ResultDir {
    path: PathBuf,
}

impl ResultDir {
    /// Makes the directory: `out`, or one named after the time and `name`.
    ///
    /// # Errors
    /// A usage error if `out` exists and is not an empty directory; otherwise if it cannot be made.
    pub(crate) fn create(out: Option<&Path>, name: &str) -> Result<Self, Failure> {
        match out {
            Some(out) => Self::at(out),
            None => Self::fresh(Path::new(ROOT), &format!("{}-{name}", utc_now())),
        }
    }

    fn at(out: &Path) -> Result<Self, Failure> {
        let shown = out.display();
        if out.exists() {
            let mut entries = fs::read_dir(out).map_err(|error| {
                Failure::usage(format!("--out {shown} is no directory that can be used: {error}"))
            })?;
            if entries.next().is_some() {
                return Err(Failure::usage(format!(
                    "--out {shown} is not empty: name another directory, or empty it"
                )));
            }
        }
        fs::create_dir_all(out)
            .map_err(|error| Failure::could_not_run(format!("cannot create {shown}: {error}")))?;
        Ok(Self { path: out.to_owned() })
    }

    /// A directory that did not exist: two runs may start in the same second.
    fn fresh(root: &Path, name: &str) -> Result<Self, Failure> {
        let failed = |path: &Path, error: &io::Error| {
            Failure::could_not_run(format!(
                "cannot create {}: {error}: name a directory with --out",
                path.display()
            ))
        };
        fs::create_dir_all(root).map_err(|error| failed(root, &error))?;
        let mut path = root.join(name);
        let mut number = 1;
        loop {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    path = root.join(format!("{name}-{number}"));
                }
                Err(error) => return Err(failed(&path, &error)),
            }
        }
    }

    /// The directory of a result that was begun before.
    ///
    /// # Errors
    /// A usage error if it is none.
    pub(crate) fn reopen(path: &Path) -> Result<Self, Failure> {
        if path.join("run.toml").is_file() {
            return Ok(Self { path: path.to_owned() });
        }
        Err(Failure::usage(format!(
            "--resume {}: there is no run.toml in it; name the directory of a sweep or search",
            path.display()
        )))
    }

    /// The directory of one level of this result. What a level that was cut off left there is kept
    /// beside it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn level(&self, name: &str) -> Result<Self, Failure> {
        let levels = self.path.join(LEVELS);
        let path = levels.join(name);
        let failed = |error: io::Error| {
            Failure::could_not_run(format!("cannot create {}: {error}", path.display()))
        };
        fs::create_dir_all(&levels).map_err(failed)?;
        if path.exists() {
            self.set_aside(name)?;
        }
        fs::create_dir(&path).map_err(failed)?;
        Ok(Self { path })
    }

    /// Keeps what is in the directory of one level under a name that stands for no level.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(crate) fn set_aside(&self, name: &str) -> Result<(), Failure> {
        let levels = self.path.join(LEVELS);
        let path = levels.join(name);
        let mut cut = (1..).map(|number| levels.join(format!("{name}.cut-{number}")));
        let free = cut.find(|path| !path.exists()).unwrap_or_default();
        fs::rename(&path, free).map_err(|error| {
            Failure::could_not_run(format!("cannot rename {}: {error}", path.display()))
        })
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory if nothing was put into it: the run never came about.
    pub(crate) fn abandon(&self) {
        // It fails where something is in it, which is to stay.
        let _ = fs::remove_dir(&self.path);
    }

    /// Writes `run.toml`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_run(&self, text: &str) -> Result<(), Failure> {
        self.write("run.toml", |out| out.write_all(text.as_bytes()))
    }

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_summary(&self, summary: &impl Serialize) -> Result<(), Failure> {
        self.write_json(SUMMARY, summary)
    }

    /// Writes a JSON file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.write(name, |out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            out.write_all(b"\n")
        })
    }

    /// Writes a file of bytes that stand ready.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.write(name, |out| out.write_all(bytes))
    }

    /// Writes a page for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_page(&self, name: &str, text: &str) -> Result<(), Failure> {
        self.write(name, |out| out.write_all(text.as_bytes()))
    }

    /// Writes `windows.csv`, one line per second of wall-clock time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_windows(&self, facts: &Facts) -> Result<(), Failure> {
        self.write(WINDOWS, |out| windows(out, facts, Told::ALL))
    }

    /// Removes a file that turned out to be of no use.
    pub(crate) fn remove(&self, name: &str) {
        // Where it cannot be removed it does no harm.
        let _ = fs::remove_file(self.path.join(name));
    }

    /// Writes `histograms.hlog`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_histograms(&self, facts: &Facts) -> Result<(), Failure> {
        self.write(HISTOGRAMS, |out| write_interval_log(out, facts))
    }

    fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        write_whole(&self.path.join(name), content)
    }
}

/// Writes a file under another name until it is whole: a file that is there can be read.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_whole(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.part"));
    let whole = || {
        let mut out = BufWriter::new(fs::File::create(&part)?);
        content(&mut out)?;
        out.flush()?;
        fs::rename(&part, path)
    };
    whole().map_err(|error| {
        // What is left of it is of no use.
        let _ = fs::remove_file(&part);
        Failure::could_not_run(format!("cannot write {}: {error}", path.display()))
    })
}

/// The same where the content comes from what may fail otherwise too.
///
/// # Errors
/// What the content gives, or if it cannot be written.
pub(crate) fn write_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failure = None;
    write_whole(path, |out| {
        content(out).map_err(|why| {
            let error = io::Error::other(why.to_string());
            failure = Some(why);
            error
        })
    })
    .map_err(|error| failure.unwrap_or(error))
}

/// What is known of the seconds of a run; the columns of all else stay empty.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// The time of day, and what was in flight.
    live: bool,
    /// When output arrived.
    output: bool,
}

impl Told {
    /// All of it.
    const ALL: Self = Self { live: true, output: true };
}

/// Every second from the one in which the run began to the one in which it ended, empty ones too.
fn windows(out: &mut impl Write, facts: &Facts, told: Told) -> io::Result<()> {
    let first = facts.start_realtime_ns / NS_PER_S;
    let last = facts.start_realtime_ns.saturating_add(facts.end) / NS_PER_S;
    let mut seconds = facts.seconds();
    let length = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
    if seconds.len() < length {
        seconds.resize(length, Second::default());
    }
    writeln!(out, "{COLUMNS}")?;
    for (time, second) in (0_u64..).zip(&seconds) {
        let unix = first + time;
        let Second { offered, started, ok, failed, cancelled, dropped, .. } = second;
        let Second { events, output_tokens, input_tokens, in_flight, .. } = second;
        let known =
            |is_known: bool, number: u64| if is_known { number.to_string() } else { String::new() };
        let (unix, in_flight) = (known(told.live, unix), known(told.live, *in_flight));
        let (events, output_tokens) =
            (known(told.output, *events), known(told.output, *output_tokens));
        let ttft = second.ttft_sum_ns.checked_div(second.ttft_count);
        let ttft = ttft.map(|mean| mean.to_string()).unwrap_or_default();
        writeln!(
            out,
            "{time},{unix},{offered},{started},{ok},{failed},{cancelled},{dropped},\
             {events},{output_tokens},{input_tokens},{in_flight},{ttft}"
        )?;
    }
    Ok(())
}

/// The time as directories are named after it: `20260131T235959Z`.
#[expect(clippy::disallowed_methods, reason = "names a directory, measures nothing")]
fn utc_now() -> String {
    let text = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    text.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

#[cfg(test)]
mod tests {
    use tokclock_engine::record::{Pooled, Tally};

    use super::*;

    fn facts(seconds: Vec<Second>, end: u64) -> Facts {
        Facts {
            start_monotonic_ns: 1,
            start_realtime_ns: 1_700_000_000_900_000_000,
            load_start: 0,
            start_late_ns: 0,
            window_start: 0,
            window_end: end,
            window_by_requests: true,
            end,
            interrupted: false,
            driver: "io_uring".to_owned(),
            ring: String::new(),
            kernel_stamps: true,
            tallies: vec![Tally { seconds, ..Tally::default() }],
            pooled: Pooled::default(),
            host: tokclock_engine::telemetry::host::Watched::default(),
            resolve_ns: 0,
            ramp_ns: 0,
            steered: Default::default(),
            ceiling: None,
        }
    }

    #[test]
    fn every_second_has_a_line_and_every_line_all_columns() {
        let busy = Second { ok: 2, ttft_sum_ns: 30, ttft_count: 2, ..Second::default() };
        // From 0.9 s into a second for 2.2 s: four wall-clock seconds are touched.
        let facts = facts(vec![Second::default(), busy], 2_200_000_000);
        let mut out = Vec::new();
        windows(&mut out, &facts, Told::ALL).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 4);
        let columns = COLUMNS.split(',').count();
        assert!(lines.iter().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!(lines[1], "0,1700000000,0,0,0,0,0,0,0,0,0,0,");
        assert_eq!(lines[2], "1,1700000001,0,0,2,0,0,0,0,0,0,0,15");
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("a/b");
        assert!(ResultDir::create(Some(&out), "x").is_ok());
        assert!(ResultDir::create(Some(&out), "x").is_ok(), "an empty one may be used");
        fs::write(out.join("summary.json"), "{}").unwrap();
        let failure = ResultDir::create(Some(&out), "x").unwrap_err();
        assert_eq!(failure.code as u8, 2);
        let failure = ResultDir::create(Some(&out.join("summary.json")), "x").unwrap_err();
        assert_eq!(failure.code as u8, 2);
    }

    #[test]
    fn two_runs_in_one_second_get_two_directories() {
        let root = tempfile::tempdir().unwrap();
        let one = ResultDir::fresh(root.path(), "run").unwrap();
        let two = ResultDir::fresh(root.path(), "run").unwrap();
        assert_ne!(one.path(), two.path());
        one.abandon();
        two.write_run("seed = 1\n").unwrap();
        let kept = two.path().to_owned();
        two.abandon();
        assert!(kept.join("run.toml").exists());
        assert!(!root.path().join("run").exists());
    }

    #[test]
    fn directories_are_named_after_the_time_in_utc() {
        let name = utc_now();
        assert_eq!(name.len(), "20260131T235959Z".len());
        assert!(name.ends_with('Z') && name.as_bytes()[8] == b'T');
    }
}
