//! Memory of this process, and of the host.

use super::files::{Files, value_of};

/// Anonymous memory of this process that is resident, bytes; `None` where the kernel does not tell.
#[must_use]
pub fn anonymous_memory(files: &Files) -> Option<u64> {
    parse(&files.text("proc/self/status")?)
}

/// Memory of the whole host, bytes; `None` where the kernel does not tell.
#[must_use]
pub fn host_memory(files: &Files) -> Option<u64> {
    value_of(&files.text("proc/meminfo")?, "MemTotal")?.checked_mul(1024)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::host::files::tests::tree;

    #[test]
    fn the_memory_of_the_host_is_read_in_bytes() {
        let dir = tree(&[("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n")]);
        assert_eq!(host_memory(&Files::below(dir.path())), Some(16 << 20));
        assert_eq!(host_memory(&Files::below(&dir.path().join("none"))), None);
    }

    #[test]
    fn anonymous_memory_is_read_in_bytes() {
        assert_eq!(parse("VmRSS:\t 9 kB\nRssAnon:\t     120 kB\nRssFile:\t 1 kB\n"), Some(122_880));
        assert_eq!(parse("VmRSS:\t 9 kB\n"), None);
        assert!(anonymous_memory(&Files::here()).is_some_and(|bytes| bytes > 0));
    }
}
