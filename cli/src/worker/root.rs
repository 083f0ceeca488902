//! The directory in which a worker keeps the results of its loads until they are fetched.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// The directory of one worker, which nobody else can read.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    /// The user named where it is: what lies there stays.
    is_named: bool,
    /// Something was measured that nobody has taken.
    has_results: bool,
}

impl Root {
    /// Below `named`, or among the system's temporary directories.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn make(named: Option<&Path>) -> Result<Self, Failure> {
        let below = named.map_or_else(std::env::temp_dir, Path::to_owned);
        let failed = |error: std::io::Error| {
            Failure::could_not_run(format!(
                "cannot make a directory in {}: {error}: name another with --dir",
                below.display()
            ))
        };
        if named.is_some() {
            fs::create_dir_all(&below).map_err(failed)?;
        }
        let dir = tempfile::Builder::new()
            .prefix("tokclock-worker-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&below)
            .map_err(failed)?;
        // It outlives this process where somebody may want it.
        let path = dir.keep();
        Ok(Self { path, is_named: named.is_some(), has_results: false })
    }

    /// Where it is.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something lies there that nobody has taken yet.
    pub(super) fn keep(&mut self, has_results: bool) {
        self.has_results = has_results;
    }

    /// Everything was taken that is wanted.
    pub(super) fn remove(&self) {
        if self.is_named {
            remove_empty(&self.path);
        } else {
            // What cannot be removed is the system's to clean up.
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    /// Nobody said that all was taken: gives what stays.
    pub(super) fn leave(&self) -> Option<&Path> {
        if self.has_results {
            return Some(&self.path);
        }
        self.remove();
        None
    }
}

/// Removes a directory in which there is nothing but such directories.
fn remove_empty(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // It fails where something is in it, which is to stay.
    let _ = fs::remove_dir(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_can_look_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::make(Some(&dir.path().join("x"))).unwrap();
        let mode = fs::metadata(root.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Root::make(Some(&file)).unwrap_err().message.contains("--dir"));
    }

    #[test]
    fn what_nobody_took_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut root = Root::make(Some(dir.path())).unwrap();
        fs::create_dir_all(root.path().join("levels/01")).unwrap();
        fs::write(root.path().join("levels/01/shard.json"), "{}").unwrap();
        root.keep(true);
        assert_eq!(root.leave(), Some(root.path()));
        assert!(root.path().join("levels/01/shard.json").exists());
        root.remove();
        assert!(root.path().exists(), "the user named the directory");
        fs::remove_file(root.path().join("levels/01/shard.json")).unwrap();
        root.keep(false);
        assert_eq!(root.leave(), None);
        assert!(!root.path().exists() && dir.path().exists());
    }
}
