//! From a source to readers: which files, and what is inside once they are unpacked.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::error::DataError;
use crate::workload::Source;

/// What gets a file from the hub: repository, file in it, revision.
pub type Hub<'a> = dyn Fn(&str, Option<&str>, Option<&str>) -> Result<PathBuf, String> + 'a;

/// Bytes looked at to find out what a file is.
const HEAD_BYTES: usize = 64 * 1024;
const ENDINGS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "txt", "parquet"];

/// A file, opened and looked at.
pub(super) struct Input {
    /// For messages.
    pub(super) name: String,
    /// The ending of its name in lower case, that of compression taken off.
    pub(super) ending: String,
    /// Its first bytes, without a byte order mark.
    pub(super) head: Vec<u8>,
    /// All of it.
    pub(super) content: Content,
}

/// What is read.
pub(super) enum Content {
    /// Text, in order.
    Text(Box<dyn Read>),
    /// A Parquet file, which is read from its end.
    Parquet(File),
}

/// Something to be opened when its turn comes.
pub(super) enum Place {
    File(PathBuf),
    Stdin,
}

/// The places of a source, in order; at least one.
///
/// # Errors
/// A folder that cannot be listed or has no data in it, and what the hub says.
pub(super) fn places(source: &Source, hub: &Hub<'_>) -> Result<Vec<Place>, DataError> {
    match source {
        Source::Stdin => Ok(vec![Place::Stdin]),
        Source::File(path) | Source::Folder(path) if path.is_dir() => folder(path),
        Source::File(path) | Source::Folder(path) => Ok(vec![Place::File(path.clone())]),
        Source::Hub { repo, file, revision } => {
            let path = hub(repo, file.as_deref(), revision.as_deref()).map_err(DataError::Hub)?;
            Ok(vec![Place::File(path)])
        }
    }
}

fn folder(path: &Path) -> Result<Vec<Place>, DataError> {
    let open = |error| DataError::Open { file: path.display().to_string(), error };
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(open)? {
        let file = entry.map_err(open)?.path();
        if ENDINGS.contains(&ending(&file).as_str()) && !file.is_dir() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(DataError::Unfit {
            file: path.display().to_string(),
            reason: format!("no file in this folder ends in .{}", ENDINGS.join(", .")),
        });
    }
    files.sort();
    Ok(files.into_iter().map(Place::File).collect())
}

impl Place {
    /// What messages call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// That it cannot be opened or unpacked, or is no text.
    pub(super) fn open(&self) -> Result<Input, DataError> {
        let name = self.name();
        let failed = |error| DataError::Open { file: name.clone(), error };
        let Self::File(path) = self else {
            return Input::new(name, String::new(), Box::new(io::stdin()));
        };
        let mut file = File::open(path).map_err(failed)?;
        let ending = ending(path);
        let mut magic = Vec::new();
        if ending == "parquet" {
            let _ = file.by_ref().take(4).read_to_end(&mut magic).map_err(failed)?;
            file.rewind().map_err(failed)?;
        }
        if magic == b"PAR1" {
            return Ok(Input { name, ending, head: magic, content: Content::Parquet(file) });
        }
        Input::new(name, ending, Box::new(file))
    }
}

impl Input {
    /// Looks at the beginning of a text.
    ///
    /// # Errors
    /// That it cannot be read or unpacked, or is no text.
    pub(super) fn new(
        name: String,
        ending: String,
        mut reader: Box<dyn Read>,
    ) -> Result<Self, DataError> {
        let failed = |error| DataError::Open { file: name.clone(), error };
        let unfit = |reason: &str| DataError::Unfit { file: name.clone(), reason: reason.into() };
        let magic = begin(&mut reader, 2).map_err(failed)?;
        let is_gzip = magic == [0x1F, 0x8B];
        reader = Box::new(Cursor::new(magic).chain(reader));
        if is_gzip {
            reader = Box::new(MultiGzDecoder::new(reader));
        }
        let mut head = begin(&mut reader, HEAD_BYTES).map_err(failed)?;
        if head.starts_with(&[0xEF, 0xBB, 0xBF]) {
            head.drain(..3);
        }
        match head.as_slice() {
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
                return Err(unfit("this is UTF-16: save it as UTF-8"));
            }
            [b'P', b'A', b'R', b'1', ..] => {
                return Err(unfit("Parquet is read from a file that ends in .parquet, unpacked"));
            }
            _ if head.contains(&0) => return Err(unfit("this is no text: it has bytes of 0")),
            _ => {}
        }
        let content = Content::Text(Box::new(Cursor::new(head.clone()).chain(reader)));
        Ok(Self { name, ending, head, content })
    }
}

fn begin(reader: &mut dyn Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(bytes as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The ending of a name in lower case, that of compression taken off.
pub(super) fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map(|(_, ending)| ending.to_owned()).unwrap_or_default()
}
