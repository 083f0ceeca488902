//! Results as the files of other tools, by the definitions of those tools: `report --as`.
//!
//! What has no true equivalent here is left out, and said; no value is made up.

mod aiperf;
mod records;
mod vllm;

use std::path::{Path, PathBuf};

use crate::args::Peer;
use crate::exit::Failure;
use crate::output;
use crate::reporting::make;
use crate::results::{Kept, Point, write_whole};
use records::Records;

/// The file that says what is missing.
const LEFT_OUT: &str = "left-out.md";

/// A file of another tool: its name and its bytes.
type Named = (String, Vec<u8>);

/// What a peer's files do not hold, or hold in another sense.
#[derive(Debug, Default)]
struct Remarks {
    left_out: Vec<(&'static str, String)>,
    differs: Vec<(&'static str, String)>,
}

impl Remarks {
    /// These fields are not there, and why.
    fn leave_out(&mut self, fields: &'static str, why: impl Into<String>) {
        self.left_out.push((fields, why.into()));
    }

    /// These fields are there, and are not quite what the other tool would have written.
    fn differ(&mut self, fields: &'static str, how: impl Into<String>) {
        self.differs.push((fields, how.into()));
    }

    fn page(&self, tool: &str) -> String {
        let mut page = format!(
            "# {tool}\n\nThese files were written by tokclock {} from its own records, by the \
             definitions of {tool}.\n",
            env!("CARGO_PKG_VERSION")
        );
        for (title, head, lines) in [
            ("Left out", "why", &self.left_out),
            ("There, but not quite the same", "how", &self.differs),
        ] {
            if lines.is_empty() {
                continue;
            }
            page.push_str(&format!("\n## {title}\n\n| field | {head} |\n| --- | --- |\n"));
            for (fields, why) in lines {
                let names: Vec<String> =
                    fields.split(' ').map(|field| format!("`{field}`")).collect();
                page.push_str(&format!("| {} | {why} |\n", names.join(" ")));
            }
        }
        page
    }
}

/// Writes the files of a tool for every load point of a result: into a directory of its name beside
/// that load point, or below `out`, there under `number` where there are several results.
///
/// # Errors
/// Records that cannot be read, or files that cannot be written.
pub(crate) fn write(
    peer: Peer,
    kept: &Kept,
    out: Option<&Path>,
    number: Option<usize>,
) -> Result<(), Failure> {
    let folder = match peer {
        Peer::Aiperf => "aiperf",
        Peer::Vllm => "vllm",
    };
    for point in kept.points()? {
        let dir = base(kept, &point, out, number).join(folder);
        let Some(records) = Records::of(&point)? else {
            output::note(format_args!("{}: there is no summary.json", point.path.display()));
            continue;
        };
        let mut remarks = Remarks::default();
        let (tool, files) = match peer {
            Peer::Aiperf => ("AIPerf", aiperf::files(&records, &mut remarks)?),
            Peer::Vllm => ("vllm bench serve", vllm::files(&records, &mut remarks)?),
        };
        make(&dir)?;
        for (name, bytes) in &files {
            put(&dir.join(name), bytes)?;
        }
        put(&dir.join(LEFT_OUT), remarks.page(tool).as_bytes())?;
        let names: Vec<&str> =
            remarks.left_out.iter().flat_map(|(fields, _)| fields.split(' ')).collect();
        output::note(format_args!("left out ({LEFT_OUT} says why): {}", names.join(", ")));
    }
    Ok(())
}

/// Below what a load point's files go.
fn base(kept: &Kept, point: &Point<'_>, out: Option<&Path>, number: Option<usize>) -> PathBuf {
    let Some(out) = out else { return kept.path.join(&point.within) };
    let result = number.map_or_else(PathBuf::new, |number| {
        let name = kept.path.file_name().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{number}-{name}"))
    });
    out.join(result).join(&point.within)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_whole(path, |out| std::io::Write::write_all(out, bytes))?;
    output::note(format_args!("{}", path.display()));
    Ok(())
}

/// `value` as an indented JSON document.
fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| Failure::could_not_run(format!("no JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
