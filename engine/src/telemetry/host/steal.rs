//! What the hypervisor took from this host.

use super::files::Files;

/// The kernel's count of stolen and of all CPU time, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Steal {
    stolen: u64,
    all: u64,
}

impl Steal {
    /// Reads the counters; zeros where the kernel does not tell.
    #[must_use]
    pub fn now() -> Self {
        Files::here().text("proc/stat").map_or(Self { stolen: 0, all: 0 }, |text| parse(&text))
    }

    /// The share of CPU time stolen since this moment, 0 to 1; `None` if unknown.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        share(self, Self::now())
    }

    /// The share of CPU time stolen since the host started, 0 to 1; `None` if unknown.
    #[must_use]
    pub fn share_so_far(self) -> Option<f64> {
        share(Self { stolen: 0, all: 0 }, self)
    }
}

fn share(before: Steal, now: Steal) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|&all| all > 0)?;
    Some(now.stolen.saturating_sub(before.stolen) as f64 / all as f64)
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks.
fn parse(text: &str) -> Steal {
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    Steal { stolen: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        let steal = parse("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2\n");
        assert_eq!((steal.stolen, steal.all), (80, 360));
        assert_eq!(steal.share_so_far(), Some(80.0 / 360.0));
    }

    #[test]
    fn an_unreadable_file_is_unknown_and_no_zero_share() {
        let steal = parse("");
        assert_eq!((steal.stolen, steal.all), (0, 0));
        assert_eq!(steal.share_so_far(), None);
    }
}
