//! `tokclock data convert`: our own JSONL from any recording, or from a synthetic load.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use tokclock_engine::plan::data::{DataSet, Entry};

use super::convert_load;
use super::load::Load;
use crate::args::ConvertArgs;
use crate::config::Options;
use crate::exit::{Code, Failure};
use crate::output;
use crate::report::text::{count, escape, plural};

/// Reads all of it, then writes.
pub(super) fn run(args: &ConvertArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let most = args.data.typed_requests();
    let mut options = args.data.options()?;
    let generates = convert_load::generates(&options)?;
    if is_synthetic(&options) {
        convert_load::prepare(&mut options)?;
    } else if !options.class.is_empty() {
        return Err(Failure::usage(
            "convert writes one recording or a synthetic load: convert each --class with --data \
             alone",
        ));
    }
    // A recording is written whole, not as often as a run would send it.
    let load = Load::new(options, allowed)?;
    load.remark(args.data.quiet);
    let mut out = Out::open(&args.to, args.force)?;
    match load.materials.data.first().and_then(Option::as_ref) {
        Some(data) => recording(&load, data, most, &mut out)?,
        None => convert_load::write(&load, most, generates, &mut |entry| out.write(entry))?,
    }
    let (name, written) = out.finish()?;
    let word = plural(written, "entry", "entries");
    if !args.data.quiet {
        output::note(escape(&format!("{name}: {} {word} written", count(written))));
    }
    Ok(Code::Ok)
}

/// Whether no recording is named.
fn is_synthetic(options: &Options) -> bool {
    let names_one =
        |data: &Option<String>| data.as_ref().is_some_and(|data| !data.contains("prompt_tokens"));
    options.trace.is_none()
        && !names_one(&options.content.data)
        && !options.class.iter().any(|class| names_one(&class.content.data))
}

/// Every entry in the order of the file, its times as they are; of a replay those of its part.
fn recording(load: &Load, data: &DataSet, most: Option<u64>, out: &mut Out) -> Result<(), Failure> {
    let (start, end) = load.replayed_ns();
    let is_in = |number: &u64| {
        data.time_ns(*number).is_none_or(|time| time >= start && end.is_none_or(|end| time < end))
    };
    let most = usize::try_from(most.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    for number in (0..data.len()).filter(is_in).take(most) {
        let entry = data.entry(number);
        out.write(&entry.map_err(|error| Failure::could_not_run(error.to_string()))?)?;
    }
    Ok(())
}

/// Where entries go.
struct Out {
    name: String,
    to: Box<dyn Write>,
    line: Vec<u8>,
    written: u64,
}

impl Out {
    fn open(path: &Path, force: bool) -> Result<Self, Failure> {
        let mut name = path.display().to_string();
        let to: Box<dyn Write> = if path == Path::new("-") {
            "standard output".clone_into(&mut name);
            Box::new(BufWriter::new(io::stdout()))
        } else {
            let file = if force { File::create(path) } else { File::create_new(path) };
            let file = file.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    Failure::usage(format!("--to {name} exists: --force overwrites it"))
                }
                _ => Failure::usage(format!("--to {name}: {error}")),
            })?;
            Box::new(BufWriter::new(file))
        };
        Ok(Self { name, to, line: Vec::new(), written: 0 })
    }

    fn write(&mut self, entry: &Entry) -> Result<(), Failure> {
        self.line.clear();
        entry.write(&mut self.line);
        self.line.push(b'\n');
        let done = self.to.write_all(&self.line);
        self.written += 1;
        self.checked(done)
    }

    /// What it is called, and how many entries were written.
    fn finish(mut self) -> Result<(String, u64), Failure> {
        let done = self.to.flush();
        self.checked(done)?;
        Ok((self.name, self.written))
    }

    /// A closed pipe (`| head`) is no error: what follows goes nowhere.
    fn checked(&mut self, done: io::Result<()>) -> Result<(), Failure> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.to = Box::new(io::sink());
                Ok(())
            }
            Err(error) => Err(Failure::could_not_run(format!("--to {}: {error}", self.name))),
            Ok(()) => Ok(()),
        }
    }
}
