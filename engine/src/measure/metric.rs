//! The latencies of one request, each with its formula.

use std::fmt;

use super::leg_times::LegTimes;
use crate::record::{ErrorClass, Outcome, Phase, Row, WaitCause};
use crate::workload::{Class, Metric, Workload};

/// From where a latency is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// `intended` in an open loop, `dispatched` in a closed one.
    Origin,
    /// `write_start`: the service variant.
    Write,
}

/// A number of ns or of tokens, or none, in 8 bytes where `Option<u64>` takes 16: all requests of a run
/// are held at once while its figures are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Maybe(u64);

impl Maybe {
    const NONE: u64 = u64::MAX;

    /// The number, if there is one.
    #[must_use]
    #[inline]
    pub fn get(self) -> Option<u64> {
        (self.0 != Self::NONE).then_some(self.0)
    }
}

/// The largest number stands for none; it becomes the one before it.
impl From<Option<u64>> for Maybe {
    fn from(number: Option<u64>) -> Self {
        Self(number.map_or(Self::NONE, |number| number.min(Self::NONE - 1)))
    }
}

/// As an option is shown.
impl fmt::Debug for Maybe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(formatter)
    }
}

/// What the figures need of one row. Times are ns from the run's start.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the other names are those of `Row`")]
pub struct Request {
    pub index: u64,
    /// Number of its class.
    pub class: u16,
    /// Its turn, from 0, where there are conversations.
    pub turn: Option<u32>,
    pub phase: Phase,
    pub outcome: Outcome,
    pub error: Option<ErrorClass>,
    pub wait_cause: Option<WaitCause>,
    pub attempts: u32,
    /// Time of failed attempts and of the pauses after them, ns.
    pub retry_ns: u64,
    pub intended: u64,
    /// Where its latencies start.
    pub origin: u64,
    pub dispatched: Maybe,
    pub connected: Maybe,
    pub tls_done: Maybe,
    pub write_start: Maybe,
    pub write_done: Maybe,
    pub first_byte: Maybe,
    pub first_token: Maybe,
    pub first_output: Maybe,
    pub second_token: Maybe,
    pub last_token: Maybe,
    pub done: Maybe,
    /// Input tokens by the server, else by our tokenizer.
    pub input_tokens: Maybe,
    pub output_tokens: Maybe,
    /// Input tokens that the server took from its cache, and that one without limits would have.
    pub cached_tokens: Maybe,
    pub ideal_cached_tokens: Maybe,
    pub first_tokens: Option<u32>,
    pub events: u32,
    /// Its output ended at its length limit.
    pub capped: bool,
    /// The answer came as a stream.
    pub stream: bool,
    /// Its legs, where prefill and decode are apart.
    pub legs: Option<Box<LegTimes>>,
}

/// The number of a row's class; 0 where there is one alone.
fn class_of(row: &Row, workload: &Workload) -> u16 {
    let Some(name) = &row.class else { return 0 };
    let is_it = |class: &Class| class.name.as_ref() == Some(name);
    workload.mix.iter().position(is_it).unwrap_or(0) as u16
}

impl Request {
    /// What the figures need of `row`, which `workload` produced.
    #[must_use]
    pub fn new(row: &Row, workload: &Workload) -> Self {
        let class = class_of(row, workload);
        let of = Self::of(row, workload.load.is_closed(), workload.target.stream);
        let legs = of.legs.map(|legs| legs.placed(row, workload));
        Self { class, legs, ..of }
    }

    /// The same where all that is known of the workload is whether its loop was closed and its
    /// answers were streamed; classes are not told apart.
    #[must_use]
    pub fn of(row: &Row, is_closed: bool, stream: bool) -> Self {
        let origin = if is_closed { row.dispatched.unwrap_or(row.intended) } else { row.intended };
        Self {
            index: row.index,
            class: 0,
            turn: row.turn,
            phase: row.phase,
            outcome: row.outcome,
            error: row.error,
            wait_cause: row.wait_cause,
            attempts: row.attempts,
            retry_ns: row.retry_ns,
            intended: row.intended,
            origin,
            dispatched: row.dispatched.into(),
            connected: row.connected.into(),
            tls_done: row.tls_done.into(),
            write_start: row.write_start.into(),
            write_done: row.write_done.into(),
            first_byte: row.first_byte.into(),
            first_token: row.first_token.into(),
            first_output: row.first_output.into(),
            second_token: row.second_token.into(),
            last_token: row.last_token.into(),
            done: row.done.into(),
            input_tokens: row.input_tokens.or(row.client_input_tokens).into(),
            output_tokens: row.output_tokens.into(),
            cached_tokens: row.cached_tokens.into(),
            ideal_cached_tokens: row.ideal_cached_tokens.into(),
            first_tokens: row.first_tokens,
            events: row.events,
            legs: LegTimes::of(row),
            capped: row.finish.as_deref() == Some("length"),
            stream,
        }
    }

    /// It belongs to the measured part, and to the figures.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.phase == Phase::Measure && !self.is_cancelled_on_purpose()
    }

    /// It was cancelled as one of the share that was asked for, which says nothing of the server.
    #[must_use]
    pub fn is_cancelled_on_purpose(&self) -> bool {
        self.error == Some(ErrorClass::CancelRate)
    }

    /// It ended well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// It failed.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.outcome == Outcome::Error
    }

    /// When it completed: `done`, else its last token.
    #[must_use]
    pub fn completed(&self) -> Option<u64> {
        self.done.get().or(self.last_token.get())
    }

    /// TTFB = `first_byte − start`.
    #[must_use]
    pub fn ttfb(&self, since: Since) -> Option<u64> {
        between(self.start(since), self.first_byte.get())
    }

    /// TTFT = `first_token − start`.
    #[must_use]
    pub fn ttft(&self, since: Since) -> Option<u64> {
        between(self.start(since), self.first_token.get())
    }

    /// TTFO = first output that is not reasoning `− start`.
    #[must_use]
    pub fn ttfo(&self, since: Since) -> Option<u64> {
        between(self.start(since), self.first_output.get())
    }

    /// TTST = `second_token − first_token`.
    #[must_use]
    pub fn ttst(&self) -> Option<u64> {
        between(self.first_token.get(), self.second_token.get())
    }

    /// TPOT = `(last_token − first_token) / (output_tokens − tokens of the first output event)`,
    /// the latter 1 if unknown; absent with fewer than two output events or a divisor below 1.
    #[must_use]
    pub fn tpot(&self) -> Option<u64> {
        self.second_token.get()?;
        let first = self.first_tokens.map_or(1, u64::from);
        divided(self.decode()?, self.output_tokens.get()?.checked_sub(first)?)
    }

    /// NTPOT = `(last_token − start) / output_tokens`.
    #[must_use]
    pub fn ntpot(&self, since: Since) -> Option<u64> {
        divided(between(self.start(since), self.last_token.get())?, self.output_tokens.get()?)
    }

    /// E2E = `last_token − start`; without streaming `done − start`.
    #[must_use]
    pub fn e2e(&self, since: Since) -> Option<u64> {
        between(
            self.start(since),
            if self.stream { self.last_token.get() } else { self.done.get() },
        )
    }

    /// Mean gap between its output events: `(last_token − first_token) / (events − 1)`.
    #[must_use]
    pub fn mean_gap(&self) -> Option<u64> {
        divided(self.decode()?, u64::from(self.events.checked_sub(1)?))
    }

    /// Connect phase = `connected − dispatched`, on a new connection only.
    #[must_use]
    pub fn connect(&self) -> Option<u64> {
        // Failed attempts and the pauses after them are no part of opening the last connection.
        let begun = self.dispatched.get().map(|at| at.saturating_add(self.retry_ns));
        between(begun, self.connected.get())
    }

    /// TLS phase = `tls_done − connected`, on a new connection only.
    #[must_use]
    pub fn tls(&self) -> Option<u64> {
        between(self.connected.get(), self.tls_done.get())
    }

    /// Write phase = `write_done − write_start`.
    #[must_use]
    pub fn write(&self) -> Option<u64> {
        between(self.write_start.get(), self.write_done.get())
    }

    /// Server wait = `first_byte − write_done`.
    #[must_use]
    pub fn server_wait(&self) -> Option<u64> {
        between(self.write_done.get(), self.first_byte.get())
    }

    /// Prefill wait = `first_token − first_byte`.
    #[must_use]
    pub fn prefill_wait(&self) -> Option<u64> {
        between(self.first_byte.get(), self.first_token.get())
    }

    /// Decode = `last_token − first_token`.
    #[must_use]
    pub fn decode(&self) -> Option<u64> {
        between(self.first_token.get(), self.last_token.get())
    }

    /// Stream tail = `done − last_token`.
    #[must_use]
    pub fn stream_tail(&self) -> Option<u64> {
        between(self.last_token.get(), self.done.get())
    }

    /// Schedule slip = `write_start − intended`; has a meaning in an open loop only.
    #[must_use]
    pub fn slip(&self) -> Option<u64> {
        between(Some(self.intended), self.write_start.get())
    }

    /// The one value of `metric` that this request has. Its ITL is its TPOT, its ICL the mean gap.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<u64> {
        match metric {
            Metric::Ttfb => self.ttfb(Since::Origin),
            Metric::Ttft => self.ttft(Since::Origin),
            Metric::Ttfo => self.ttfo(Since::Origin),
            Metric::Ttst => self.ttst(),
            Metric::Icl => self.mean_gap(),
            Metric::Itl | Metric::Tpot => self.tpot(),
            Metric::Ntpot => self.ntpot(Since::Origin),
            Metric::E2e => self.e2e(Since::Origin),
            Metric::PrefillLeg => self.prefill_leg(),
            Metric::ClientGap => self.client_gap(),
            Metric::DecodeFirst => self.decode_first(),
        }
    }

    /// The least that `metric` can be, for a request that was cut while in flight: its value where
    /// known, else how long it had been waited for. `end` is when the run ended.
    #[must_use]
    pub fn at_least(&self, metric: Metric, end: u64) -> u64 {
        let cut = self.done.get().unwrap_or(end);
        match metric {
            Metric::Ttfb | Metric::Ttft | Metric::Ttfo => {
                self.value(metric).unwrap_or_else(|| cut.saturating_sub(self.origin))
            }
            // More tokens may have been to come, so that only the age is sure.
            Metric::E2e => cut.saturating_sub(self.origin),
            Metric::Ttst => {
                self.ttst().or_else(|| between(self.first_token.get(), Some(cut))).unwrap_or(0)
            }
            Metric::PrefillLeg | Metric::ClientGap | Metric::DecodeFirst => {
                self.value(metric).unwrap_or_else(|| self.leg_age(metric, cut))
            }
            Metric::Icl | Metric::Itl | Metric::Tpot | Metric::Ntpot => 0,
        }
    }

    fn start(&self, since: Since) -> Option<u64> {
        match since {
            Since::Origin => Some(self.origin),
            Since::Write => self.write_start.get(),
        }
    }
}

/// `to − from`; absent if either is, or if they are not in order.
fn between(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    to?.checked_sub(from?)
}

/// `span / parts` to the nearest ns; absent for no parts.
fn divided(span: u64, parts: u64) -> Option<u64> {
    let whole = span.checked_div(parts)?;
    Some(whole + u64::from(span % parts >= parts.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::measure::rows::{MS, closed, open, row};

    #[test]
    fn each_latency_follows_its_formula() {
        let mut row = row(0, &[100, 120, 140]);
        row.connected = Some(5 * MS);
        row.tls_done = Some(8 * MS);
        row.dispatched = Some(MS);
        row.write_start = Some(9 * MS);
        row.write_done = Some(11 * MS);
        row.first_byte = Some(60 * MS);
        row.done = Some(150 * MS);
        let r = Request::new(&row, &open(10.0));
        let ms = |value: Option<u64>| value.map(|ns| ns as f64 / MS as f64);
        assert_eq!(ms(r.ttfb(Since::Origin)), Some(60.0));
        assert_eq!(ms(r.ttft(Since::Origin)), Some(100.0));
        assert_eq!(ms(r.ttft(Since::Write)), Some(91.0));
        assert_eq!(ms(r.ttst()), Some(20.0));
        assert_eq!(ms(r.tpot()), Some(20.0));
        assert_eq!(r.ntpot(Since::Origin), Some(46_666_667));
        assert_eq!(ms(r.e2e(Since::Origin)), Some(140.0));
        assert_eq!(ms(r.stream_tail()), Some(10.0));
        assert_eq!(ms(r.connect()), Some(4.0));
        assert_eq!(ms(r.tls()), Some(3.0));
        assert_eq!(ms(r.write()), Some(2.0));
        assert_eq!(ms(r.server_wait()), Some(49.0));
        assert_eq!(ms(r.prefill_wait()), Some(40.0));
        assert_eq!(ms(r.decode()), Some(40.0));
        assert_eq!(ms(r.slip()), Some(9.0));
        assert_eq!(ms(Request::new(&row, &closed(1)).ttft(Since::Origin)), Some(99.0));
    }

    #[test]
    fn tpot_leaves_out_the_tokens_of_the_first_event() {
        let mut row = row(0, &[60, 120, 180]);
        row.output_tokens = Some(10);
        assert_eq!(Request::new(&row, &open(1.0)).tpot(), Some(13_333_333));
        row.first_tokens = Some(4);
        assert_eq!(Request::new(&row, &open(1.0)).tpot(), Some(20 * MS));
        row.first_tokens = Some(10);
        assert_eq!(Request::new(&row, &open(1.0)).tpot(), None, "divisor below 1");
    }

    #[test]
    fn one_token_has_no_time_per_token() {
        let r = Request::new(&row(0, &[80]), &open(1.0));
        assert_eq!((r.tpot(), r.ttst(), r.mean_gap()), (None, None, None));
        assert_eq!(r.e2e(Since::Origin), Some(80 * MS));
    }

    #[test]
    fn without_streaming_e2e_ends_with_the_body() {
        let mut workload = open(1.0);
        workload.target.stream = false;
        let mut row = row(0, &[80]);
        row.done = Some(95 * MS);
        assert_eq!(Request::new(&row, &workload).e2e(Since::Origin), Some(95 * MS));
    }

    proptest! {
        #[test]
        fn e2e_is_ttft_and_all_gaps(
            start in 0u64..1 << 40, gaps in prop::collection::vec(0u64..1 << 35, 1..50),
        ) {
            let mut row = row(0, &[]);
            row.intended = start;
            let mut at = start;
            let times: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            row.first_token = times.first().copied();
            row.second_token = times.get(1).copied();
            row.last_token = times.last().copied();
            let r = Request::new(&row, &open(1.0));
            let sum: u64 = gaps[1..].iter().sum();
            prop_assert_eq!(r.e2e(Since::Origin), r.ttft(Since::Origin).map(|ttft| ttft + sum));
        }
    }
}
