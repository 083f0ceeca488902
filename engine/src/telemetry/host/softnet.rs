//! What the kernel's receive path lost or put off.

use serde::{Deserialize, Serialize};

use super::files::Files;

/// Counters of all CPUs since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Softnet {
    /// Packets dropped because a CPU's backlog was full.
    pub dropped: u64,
    /// Times that a CPU ended its turn with packets left.
    pub squeezed: u64,
}

impl Softnet {
    /// Reads the counters; `None` where the kernel does not tell.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        parse(&files.text("proc/net/softnet_stat")?)
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            dropped: self.dropped.saturating_sub(before.dropped),
            squeezed: self.squeezed.saturating_sub(before.squeezed),
        }
    }
}

/// One line per CPU, hexadecimal: packets, dropped, squeezed, and more.
fn parse(text: &str) -> Option<Softnet> {
    let mut sum = Softnet::default();
    let mut is_empty = true;
    for line in text.lines() {
        let mut columns = line.split_whitespace().skip(1).map(|hex| u64::from_str_radix(hex, 16));
        let (Some(Ok(dropped)), Some(Ok(squeezed))) = (columns.next(), columns.next()) else {
            return None;
        };
        sum.dropped += dropped;
        sum.squeezed += squeezed;
        is_empty = false;
    }
    (!is_empty).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_CPUS: &str = "\
0002d6c9 00000003 0000000a 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
0001b3e2 00000001 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
";

    #[test]
    fn the_second_and_third_columns_are_added_over_the_cpus() {
        assert_eq!(parse(TWO_CPUS), Some(Softnet { dropped: 4, squeezed: 26 }));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0002d6c9 packets\n"), None);
    }

    #[test]
    fn a_difference_is_what_came_since() {
        let before = Softnet { dropped: 4, squeezed: 26 };
        let now = Softnet { dropped: 9, squeezed: 26 };
        assert_eq!(now.since(before), Softnet { dropped: 5, squeezed: 0 });
        // A CPU that was taken offline takes its counts with it.
        assert_eq!(before.since(now), Softnet { dropped: 0, squeezed: 0 });
    }
}
