//! `tokclock trace`: a load point of few requests, each of which is looked at.

use std::path::Path;

use tokclock_engine::measure::Summary;
use tokclock_engine::measure::trace::{Tracer, Traces};
use tokclock_engine::measure::views::Scene;

use crate::args::TraceArgs;
use crate::exit::{Code, Failure};
use crate::report;
use crate::resolve::shard;
use crate::results::{Kept, write_with};
use crate::run;

/// Runs the load point, shows its requests and gives the exit code, that of a run.
///
/// # Errors
/// If the options make no sense, or the run cannot be done or saved.
pub(crate) fn trace(args: &TraceArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let options = args.options()?;
    if args.common.fleet.has_workers() {
        return Err(Failure::usage(
            "trace looks at requests of this host: give --worker to run, sweep or search",
        ));
    }
    shard::refuse(&options, "trace from one host")?;
    if let Some(path) = &args.perfetto {
        check_place(path)?;
    }
    run::measure(options, &args.common, allowed, |summary, dir, screen| {
        let kept = Kept::open(dir.path())?;
        let traces = look(args, summary, &kept)?;
        screen.report(&report::trace_page(summary, &traces, screen.width(), screen.colour()));
        if let Some(path) = &args.perfetto {
            write_with(path, |out| report::perfetto(std::slice::from_ref(&kept), out))?;
            screen.note(format_args!("perfetto: {} (open it at ui.perfetto.dev)", path.display()));
        }
        Ok(())
    })
}

/// What the finished requests of a result show.
fn look(args: &TraceArgs, summary: &Summary, kept: &Kept) -> Result<Traces, Failure> {
    let mut tracer = Tracer::new(Scene::of(summary), args.wanted());
    for point in kept.points()? {
        point.each_row(|row| {
            tracer.add(row);
            Ok(())
        })?;
    }
    Ok(tracer.finish())
}

/// Whether a file can be written there, before any load: what is found out after it is too late.
fn check_place(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let shown = path.display();
    if path.is_dir() {
        return Err(Failure::usage(format!(
            "--perfetto {shown} is a directory: name a file in it"
        )));
    }
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::usage(format!(
            "--perfetto {shown}: there is no directory {}: make it first",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_the_load() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_place(Path::new("trace.json")).is_ok());
        assert!(check_place(&dir.path().join("trace.json")).is_ok());
        assert_eq!(check_place(dir.path()).unwrap_err().code as u8, 2);
        let missing = dir.path().join("missing/trace.json");
        assert!(check_place(&missing).unwrap_err().message.contains("make it first"));
    }
}
