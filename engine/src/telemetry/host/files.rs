//! The files that the kernel tells of itself in, and the small forms that they are written in.

use std::fs;
use std::path::{Path, PathBuf};

/// The tree that /proc and /sys are looked for in.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Those of this host.
    #[must_use]
    pub fn here() -> Self {
        Self::below(Path::new("/"))
    }

    /// Those of a tree of one's own, such as a copy of another host's.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The whole file without blanks around it; `None` if it cannot be read.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The first number of a file.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<u64> {
        numbers(&self.text(path)?).first().copied()
    }

    /// The CPUs that a file lists; an empty file lists none.
    #[must_use]
    pub fn cpus(&self, path: &str) -> Option<Vec<usize>> {
        cpu_list(&self.text(path)?)
    }

    /// Names in a folder, in order; none if there is no such folder.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| (trailing_number(name), name.clone()));
        names
    }

    /// The last part of where a link leads.
    #[must_use]
    pub fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The first folder called `name` in `path` or above it, inside the tree; links are followed.
    pub(super) fn above(&self, path: &str, name: &str) -> Option<String> {
        let root = self.root.canonicalize().ok()?;
        let from = self.root.join(path).canonicalize().ok()?;
        let found =
            from.ancestors().map(|folder| folder.join(name)).find(|there| there.is_dir())?;
        Some(found.strip_prefix(root).ok()?.to_str()?.to_owned())
    }
}

/// The number that a name ends with, so that `rx-10` comes after `rx-9`.
fn trailing_number(name: &str) -> u64 {
    let digits = name.trim_start_matches(|char: char| !char.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

/// All numbers of a text that stand alone.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The number behind `key` in lines such as `key 12` or `key: 12 kB`.
pub(super) fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        first.strip_suffix(':').unwrap_or(first) == key
    })?;
    numbers(line).first().copied()
}

/// Reads a list of CPUs such as `0,2-5`, in order; an empty text lists none.
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    /// More CPUs than any machine has.
    const CPU_MAX: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last > CPU_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Reads a mask of CPUs such as `00000001,0000000f`, the highest 32 first.
pub(super) fn cpu_mask(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (place, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let set = (0..32).filter(|bit| bits & (1 << bit) != 0);
        cpus.extend(set.map(|bit| place * 32 + bit));
    }
    Some(cpus)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree of files such as a host has.
    pub(in crate::telemetry::host) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::TempDir::new().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn lists_and_masks_of_cpus_are_read() {
        assert_eq!(cpu_list("0,2-5\n"), Some(vec![0, 2, 3, 4, 5]));
        assert_eq!(cpu_list(""), Some(vec![]));
        assert_eq!((cpu_list("all"), cpu_list("0-99999999")), (None, None));
        assert_eq!(cpu_mask("00000001,0000000a"), Some(vec![1, 3, 32]));
        assert_eq!(cpu_mask("0"), Some(vec![]));
        assert_eq!(cpu_mask("rest"), None);
    }

    #[test]
    fn a_value_is_found_by_its_whole_key() {
        let text = "nr_periods 12\nnr_throttled 3\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(value_of(text, "nr_throttled"), Some(3));
        assert_eq!(value_of(text, "Seccomp"), Some(2));
        assert_eq!(value_of(text, "nr"), None);
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        let dir = tempfile::TempDir::new().unwrap();
        let files = Files::below(dir.path());
        assert_eq!((files.text("proc/version"), files.number("sys/x")), (None, None));
        assert!(files.names("sys/class/net").is_empty());
        assert_eq!(files.above("sys", "msi_irqs"), None);
    }

    #[test]
    fn queues_come_in_the_order_of_their_numbers() {
        let dir = tempfile::TempDir::new().unwrap();
        for queue in ["rx-10", "rx-9", "tx-0"] {
            fs::create_dir(dir.path().join(queue)).unwrap();
        }
        assert_eq!(Files::below(dir.path()).names(""), ["tx-0", "rx-9", "rx-10"]);
    }
}
