//! How far a run is, on stderr while it goes on. Silent where stderr is no terminal.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokclock_engine::run::{Progress, Snapshot};

use crate::output::Screen;

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(200);
/// The rate shown is that of so many ticks.
const TICKS_OF_RATE: usize = 10;
const NS_PER_S: f64 = 1e9;

/// Where a load point stands among others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    /// What is going on, such as `level 2 of 5: 4 users`; nothing where it is alone.
    pub(crate) label: String,
    /// How long those after it will take, where that is known, ns.
    pub(crate) after_ns: Option<u64>,
}

/// What is watched.
pub(crate) trait Watched: Sync {
    /// How far it is.
    fn snapshot(&self) -> Snapshot;

    /// What else is to be said of it, in few words.
    fn remark(&self) -> Option<String> {
        None
    }
}

impl Watched for Progress {
    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }
}

/// Does `work` and draws how far it is meanwhile.
pub(crate) fn during<T>(
    screen: Screen,
    watched: &dyn Watched,
    course: &Course,
    work: impl FnOnce() -> T,
) -> T {
    if screen.quiet || !io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        scope.spawn(move || draw(watched, course, &wait));
        let result = work();
        // The drawing thread sees the closed channel at once, and the scope waits for it.
        drop(done);
        result
    })
}

fn draw(watched: &dyn Watched, course: &Course, wait: &mpsc::Receiver<()>) {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
        bar.set_style(style);
    }
    let mut recent = VecDeque::with_capacity(TICKS_OF_RATE + 1);
    while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let now = watched.snapshot();
        recent.push_back(now);
        if recent.len() > TICKS_OF_RATE {
            recent.pop_front();
        }
        let rate = recent.front().map_or(0.0, |then| rate(then, &now));
        let (position, length) = position(&now);
        bar.set_length(length);
        bar.set_position(position);
        let line = course.line(&now, rate);
        bar.set_message(match watched.remark() {
            Some(remark) => format!("{line}, {remark}"),
            None => line,
        });
    }
    bar.finish_and_clear();
}

impl Course {
    /// What is said beside the bar.
    fn line(&self, now: &Snapshot, rate: f64) -> String {
        let own = line(now, rate);
        if self.label.is_empty() {
            return own;
        }
        let left = now.planned_ns.map(|planned| planned.saturating_sub(now.elapsed_ns));
        match self.after_ns.zip(left) {
            Some((after, left)) => {
                let all = (after.saturating_add(left)) as f64 / NS_PER_S;
                format!("{}, {own}, {all:.0} s left in all", self.label)
            }
            None => format!("{}, {own}", self.label),
        }
    }
}

/// How far, and of how much: requests where their number is planned, else time.
fn position(now: &Snapshot) -> (u64, u64) {
    let by_time = now.planned_ns.map(|planned| (now.elapsed_ns, planned));
    let by_requests = now.planned.map(|planned| (now.issued, planned));
    // With both rules the one that is further along will end the run.
    let share = |(done, planned): &(u64, u64)| *done as f64 / (*planned).max(1) as f64;
    let (done, planned) = match (by_time, by_requests) {
        (Some(time), Some(requests)) if share(&time) > share(&requests) => time,
        (Some(time), None) => time,
        (_, Some(requests)) => requests,
        (None, None) => (0, 1),
    };
    (done.min(planned), planned.max(1))
}

/// Requests that ended per second between two moments.
fn rate(then: &Snapshot, now: &Snapshot) -> f64 {
    let ended = |at: &Snapshot| at.ok + at.failed;
    let passed = now.elapsed_ns.saturating_sub(then.elapsed_ns);
    if passed == 0 {
        return 0.0;
    }
    ended(now).saturating_sub(ended(then)) as f64 * NS_PER_S / passed as f64
}

fn line(now: &Snapshot, rate: f64) -> String {
    let ttft = match now.ttft_mean_ns {
        Some(mean) => format!("mean TTFT {:.1} ms", mean as f64 / 1e6),
        None => "no token yet".to_owned(),
    };
    let left = match (now.planned, now.planned_ns) {
        (Some(planned), _) => format!("{} requests left", planned.saturating_sub(now.issued)),
        (None, Some(planned)) => {
            let left = planned.saturating_sub(now.elapsed_ns) as f64 / NS_PER_S;
            format!("{left:.0} s left")
        }
        (None, None) => String::new(),
    };
    let (flight, failed) = (now.in_flight, now.failed);
    format!("{rate:.1}/s, {flight} in flight, {failed} failed, {ttft}, {left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(elapsed_ns: u64, ok: u64) -> Snapshot {
        Snapshot {
            elapsed_ns,
            issued: ok + 4,
            planned: Some(100),
            planned_ns: None,
            ok,
            failed: 1,
            cancelled: 0,
            in_flight: 3,
            ttft_mean_ns: Some(52_340_000),
            output_tokens: 0,
        }
    }

    #[test]
    fn the_line_says_rate_flight_errors_ttft_and_what_is_left() {
        let now = at(2_000_000_000, 30);
        let rate = rate(&at(1_000_000_000, 10), &now);
        let expected = "20.0/s, 3 in flight, 1 failed, mean TTFT 52.3 ms, 66 requests left";
        assert_eq!(line(&now, rate), expected);
    }

    #[test]
    fn a_level_says_which_it_is_and_what_all_of_them_will_take() {
        let course =
            Course { label: "level 2 of 5: 4 users".into(), after_ns: Some(40_000_000_000) };
        let now = Snapshot { planned_ns: Some(12_000_000_000), ..at(2_000_000_000, 30) };
        let said = course.line(&now, 1.0);
        assert!(said.starts_with("level 2 of 5: 4 users, 1.0/s, "), "{said}");
        assert!(said.ends_with(", 50 s left in all"), "{said}");
    }

    #[test]
    fn the_rule_that_is_further_along_is_shown() {
        let now = Snapshot { planned_ns: Some(4_000_000_000), ..at(2_000_000_000, 6) };
        assert_eq!(position(&now), (2_000_000_000, 4_000_000_000));
        let now = Snapshot { planned_ns: None, ..now };
        assert_eq!(position(&now), (10, 100));
    }

    #[test]
    fn a_moment_without_length_has_no_rate() {
        assert_eq!(rate(&at(5, 1), &at(5, 9)), 0.0);
    }
}
