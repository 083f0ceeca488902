//! Memory of this process.

use super::files::Files;

/// Anonymous memory of this process that is resident, bytes; `None` where the kernel does not tell.
#[must_use]
pub fn anonymous_memory(files: &Files) -> Option<u64> {
    parse(&files.text("proc/self/status")?)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_read_in_bytes() {
        assert_eq!(parse("VmRSS:\t 9 kB\nRssAnon:\t     120 kB\nRssFile:\t 1 kB\n"), Some(122_880));
        assert_eq!(parse("VmRSS:\t 9 kB\n"), None);
        assert!(anonymous_memory(&Files::here()).is_some_and(|bytes| bytes > 0));
    }
}
