//! `tokclock report`: results that lie there, rendered again.

mod files;

use std::path::{Path, PathBuf};

use crate::args::{Format, ReportArgs};
use crate::exit::{Code, Failure};
use crate::output;
use crate::peers;
use crate::results::{Kept, write_with};
use files::File;

/// Renders results again and gives the exit code.
///
/// # Errors
/// A result that cannot be read, or files that cannot be written.
pub(crate) fn report(args: &ReportArgs) -> Result<Code, Failure> {
    let formats = formats(args);
    if args.out.as_deref() == Some(Path::new("-")) {
        let file = only(&formats, args)?;
        let results = open(&args.dirs)?;
        let mut bytes = Vec::new();
        file.write(&results, &mut bytes)?;
        output::result(String::from_utf8_lossy(&bytes).trim_end());
        return Ok(Code::Ok);
    }
    let results = open(&args.dirs)?;
    let dir = match (&args.out, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [one]) => one.clone(),
        (None, _) => PathBuf::from("."),
    };
    make(&dir)?;
    for file in formats.iter().flat_map(|format| File::of(*format)) {
        let path = dir.join(file.name());
        write_with(&path, |out| file.write(&results, out))?;
        output::note(format_args!("{}", path.display()));
    }
    for (number, kept) in (1..).zip(&results) {
        for peer in &args.peers {
            let number = (results.len() > 1).then_some(number);
            peers::write(*peer, kept, args.out.as_deref(), number)?;
        }
    }
    Ok(Code::Ok)
}

fn open(dirs: &[PathBuf]) -> Result<Vec<Kept>, Failure> {
    dirs.iter().map(|dir| Kept::open(dir)).collect()
}

/// What is written, each once.
fn formats(args: &ReportArgs) -> Vec<Format> {
    let mut formats = args.format.clone();
    if formats.is_empty() && args.peers.is_empty() {
        formats.push(Format::Html);
    }
    formats.sort();
    formats.dedup();
    formats
}

/// The one file that goes to stdout.
fn only(formats: &[Format], args: &ReportArgs) -> Result<File, Failure> {
    match (formats, args.peers.as_slice()) {
        ([one], []) => File::of(*one).first().copied().ok_or_else(|| {
            // Every format has a file.
            Failure::could_not_run("nothing to write")
        }),
        (_, []) => Err(Failure::usage(
            "--out - prints one format: name one with --format, or a directory with --out",
        )),
        _ => Err(Failure::usage("--as writes several files: name a directory with --out, not -")),
    }
}

/// Makes a directory for files, with those above it.
pub(crate) fn make(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| {
        Failure::could_not_run(format!("cannot create {}: {error}", dir.display()))
    })
}
