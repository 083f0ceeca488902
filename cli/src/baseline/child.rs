//! The simulator as a process of its own: started, asked for its report, and never left behind.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokclock_sim::Report;

use super::point::Point;
use crate::exit::Failure;
use crate::values::CpuList;

/// How long it may take to say where it listens.
const START_MAX: Duration = Duration::from_secs(20);
/// How long it may take to end once it was told to.
const END_MAX: Duration = Duration::from_secs(20);

/// A simulator that runs. It ends when its standard input does, so whatever becomes of this process
/// the simulator goes with it.
#[derive(Debug)]
pub(super) struct Simulator {
    child: Child,
    url: String,
}

impl Simulator {
    /// Starts this program as `tokclock sim` for `point`, on `cpus`; its log goes to `truth`.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(
        point: &Point,
        cpus: &[usize],
        truth: Option<&Path>,
    ) -> Result<Self, Failure> {
        let failed =
            |what: String| Failure::could_not_run(format!("the simulator does not start: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut child = Command::new(program)
            .args(arguments(point, cpus, truth))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at a terminal is for us alone: what is in flight may still end.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        match address(&mut child) {
            Ok(url) => Ok(Self { child, url }),
            Err(said) => {
                end(&mut child);
                Err(failed(said))
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Ends it and gives its report; its log is then whole.
    ///
    /// # Errors
    /// If it does not end, or its report cannot be read.
    pub(super) fn stop(mut self) -> Result<Report, Failure> {
        let failed =
            |what: String| Failure::could_not_run(format!("the simulator gave no report: {what}"));
        drop(self.child.stdin.take());
        let said = self.child.stdout.take().map(read_aside);
        let text = said.and_then(|said| said.recv_timeout(END_MAX).ok());
        let text = text.ok_or_else(|| failed("it did not end".into()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Lets it end by itself, or ends it.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    for _ in 0..200 {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    // It had a second; an error means that it is gone.
    let _ = child.kill();
    let _ = child.wait();
}

fn arguments(point: &Point, cpus: &[usize], truth: Option<&Path>) -> Vec<OsString> {
    let ns = |ns: u64| format!("{ns}ns");
    let mut line: Vec<OsString> = [
        "sim".to_owned(),
        "--until-stdin-ends".into(),
        "--port=0".into(),
        format!("--cpus={}", CpuList(cpus.to_vec())),
        format!("--ttft={}", ns(point.ttft_ns)),
        format!("--itl={}", ns(point.itl_ns)),
        format!("--events-per-write={}", point.events_per_write),
    ]
    .map(OsString::from)
    .into();
    if let Some(truth) = truth {
        line.extend(["--truth".into(), truth.into()]);
    }
    line
}

/// The address on the first line that it says; else what it said in place of one.
fn address(child: &mut Child) -> Result<String, String> {
    let Some(stderr) = child.stderr.take() else { return Err("it says nothing".to_owned()) };
    let (say, said) = mpsc::channel();
    // Reads on to the end, so that nothing it says later can block it.
    thread::spawn(move || {
        let mut lines = BufReader::new(stderr);
        let mut line = String::new();
        let _ = lines.read_line(&mut line);
        let _ = say.send(line);
        let _ = std::io::copy(&mut lines, &mut std::io::sink());
    });
    let line = said.recv_timeout(START_MAX).map_err(|_| "it says nothing".to_owned())?;
    match line.split_whitespace().next() {
        Some(url) if url.starts_with("http://") => Ok(url.to_owned()),
        _ => Err(line.trim().trim_start_matches("error: ").to_owned()),
    }
}

/// All that comes from `from`, once it has ended.
fn read_aside(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (say, said) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        if from.read_to_string(&mut text).is_ok() {
            let _ = say.send(text);
        }
    });
    said
}
