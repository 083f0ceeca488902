//! Results of other tools: recognised, their figures under our names, in ns.
//!
//! A figure is taken only where it is the same quantity as ours; where its definition differs in a
//! detail, the detail is said.

mod aiperf;
mod fields;
mod guidellm;
mod vllm;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use tokclock_engine::measure::compare::Observed;

use crate::exit::Failure;
use fields::At;

/// Bytes of a file of another tool, at most: it is held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A result of another tool.
#[derive(Debug)]
pub(super) struct Foreign {
    /// The tool, with its version if the file says it.
    pub(super) tool: String,
    /// What it gives.
    pub(super) observed: Observed,
    /// Where its definitions are not ours.
    pub(super) definitions: Vec<String>,
    /// Times that it gives and that have no equal here, by its names.
    pub(super) left_out: Vec<String>,
    /// What was asked for, as the file says it; null if it does not.
    pub(super) workload: Value,
}

/// Reads `path`, a file or AIPerf's directory.
///
/// # Errors
/// A usage error if it is of no tool that is known; otherwise if it cannot be read, with the field.
pub(super) fn open(path: &Path) -> Result<Foreign, Failure> {
    let shown = path.display();
    let failed = |reason: String| Failure::could_not_run(format!("{shown}: {reason}"));
    let path = if path.is_dir() { path.join(aiperf::FILE) } else { path.to_owned() };
    let value = parse(&path).map_err(failed)?;
    let beside = path.with_file_name(aiperf::RECORDS);
    read(&value, &beside)
        .ok_or_else(|| {
            Failure::usage(format!(
                "{shown}: it is no result of tokclock, AIPerf, GuideLLM or vllm bench serve"
            ))
        })?
        .map_err(failed)
}

/// Whether AIPerf wrote the directory.
#[must_use]
pub(super) fn is_aiperf(path: &Path) -> bool {
    path.join(aiperf::FILE).is_file()
}

/// Reads a file by what is in it; `None` if no tool that is known wrote it. `beside` is where AIPerf's
/// records would be.
fn read(value: &Value, beside: &Path) -> Option<Result<Foreign, String>> {
    let root = At::root(value);
    if vllm::is_it(value) {
        Some(vllm::read(root))
    } else if guidellm::is_it(value) {
        Some(guidellm::read(root))
    } else if aiperf::is_it(value) {
        Some(aiperf::read(root, beside))
    } else {
        None
    }
}

/// A JSON file of a size that can be held.
fn parse(path: &Path) -> Result<Value, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it has more than 1 GiB: save it without texts".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        match serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>().next() {
            Some(Ok(_)) => "it holds more than one result: give one file for each".to_owned(),
            _ => format!("it is no JSON: {error}"),
        }
    })
}

#[cfg(test)]
mod tests;
