//! Where shards lie, and what is known of their clocks.

use std::path::{Path, PathBuf};

use tokclock_engine::shard::{CLOCKS_FILE, Clocks, SHARD_FILE};

use crate::exit::Failure;
use crate::results::read;

/// The directory in which a coordinator keeps shards.
const SHARDS: &str = "shards";

/// Shards that were named.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Their directories.
    pub(super) dirs: Vec<PathBuf>,
    /// Directories beside which the file of clocks may lie.
    beside: Vec<PathBuf>,
}

impl Found {
    /// The shards that `named` stand for: shards, or directories that hold some.
    ///
    /// # Errors
    /// A directory that is none and holds none.
    pub(super) fn of(named: &[PathBuf]) -> Result<Self, Failure> {
        let mut found = Self::default();
        for dir in named {
            if dir.join(SHARD_FILE).is_file() {
                found.dirs.push(dir.clone());
                continue;
            }
            let inner = within(dir);
            let inner = if inner.is_empty() { within(&dir.join(SHARDS)) } else { inner };
            if inner.is_empty() {
                return Err(no_shard(dir));
            }
            found.dirs.extend(inner);
            found.beside.push(dir.clone());
            // A coordinator leaves the file beside the directory of its shards.
            let outer = dir.parent().filter(|_| dir.ends_with(SHARDS));
            found.beside.extend(outer.map(Path::to_owned));
        }
        Ok(found)
    }

    /// What is known of the clocks: from a file that is named, or from the one beside the shards.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(super) fn clocks(&self, named: Option<&Path>) -> Result<Option<Clocks>, Failure> {
        let mut beside = self.beside.iter().map(|dir| dir.join(CLOCKS_FILE));
        let beside = || beside.find(|path| path.is_file());
        let Some(path) = named.map(Path::to_owned).or_else(beside) else { return Ok(None) };
        let clocks = read::<Clocks>(&path).map_err(|failure| Failure::usage(failure.message))?;
        let wrong = |why: &str| Failure::usage(format!("--clocks {}: {why}", path.display()));
        let clocks = clocks.ok_or_else(|| wrong("no such file"))?;
        clocks.check().map_err(|why| wrong(&why))?;
        Ok(Some(*clocks))
    }
}

/// Why a directory is no shard.
pub(super) fn no_shard(dir: &Path) -> Failure {
    let shown = dir.display();
    if !dir.is_dir() {
        return Failure::usage(format!("{shown} is no directory: name those of shards"));
    }
    Failure::usage(format!("{shown} is no shard (there is no {SHARD_FILE}): run it with --shard"))
}

/// The shards one level below.
fn within(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join(SHARD_FILE).is_file()).collect();
    dirs.sort();
    dirs
}
