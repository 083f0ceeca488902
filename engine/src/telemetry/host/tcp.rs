//! What the TCP stack of this host lost because a socket's queue was full.

use serde::{Deserialize, Serialize};

use super::files::Files;

/// Counters of all sockets of the network namespace since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpLosses {
    /// Segments that came and were thrown away: `RcvPruned`, `TCPBacklogDrop`, `TCPRcvQDrop` and
    /// `TCPZeroWindowDrop` of /proc/net/netstat.
    pub dropped: u64,
    /// Times that a socket told its peer to stop: `TCPToZeroWindowAdv`.
    pub windows_closed: u64,
}

impl TcpLosses {
    /// Reads the counters; `None` where the kernel does not tell.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        parse(&files.text("proc/net/netstat")?)
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            dropped: self.dropped.saturating_sub(before.dropped),
            windows_closed: self.windows_closed.saturating_sub(before.windows_closed),
        }
    }
}

/// Pairs of lines: names, then values, both behind the same word.
fn parse(text: &str) -> Option<TcpLosses> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let counted = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find_map(|(name, value)| (name == wanted).then(|| value.parse::<u64>().ok())?)
    };
    let dropped = ["RcvPruned", "TCPBacklogDrop", "TCPRcvQDrop", "TCPZeroWindowDrop"];
    Some(TcpLosses {
        // Older kernels lack some of them.
        dropped: dropped.iter().filter_map(|name| counted(name)).sum(),
        windows_closed: counted("TCPToZeroWindowAdv")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent PruneCalled RcvPruned TCPBacklogDrop TCPToZeroWindowAdv\n\
                    TcpExt: 9 61 2 3 4\nIpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(parse(text), Some(TcpLosses { dropped: 5, windows_closed: 4 }));
        assert_eq!(parse("TcpExt: RcvPruned\nTcpExt: 1\n"), None, "not told is no zero");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_difference_is_what_came_since() {
        let before = TcpLosses { dropped: 4, windows_closed: 6 };
        let now = TcpLosses { dropped: 9, windows_closed: 6 };
        assert_eq!(now.since(before), TcpLosses { dropped: 5, windows_closed: 0 });
    }
}
