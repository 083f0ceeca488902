//! The latencies of some of a run's requests: of all of them, or of one class.

use hdrhistogram::Histogram;

use super::distribution::Distribution;
use super::judged::{Judged, Trial};
use super::metric::{Request, Since};
use super::summary::{Latency, Phases, Service};
use crate::record::{Outcome, Phase};
use crate::workload::Metric;

/// Some of a run's requests.
pub(super) struct Part<'a> {
    /// The measured ones, in order of origin.
    measured: &'a [&'a Request],
    /// Arrivals without a request: dropped, or without a record.
    lost: u64,
    /// When the run ended.
    end: u64,
    icl: &'a Histogram<u64>,
    itl: &'a Histogram<u64>,
}

impl<'a> Part<'a> {
    /// The part whose measured requests are `measured`, `all` of which were `offered` arrivals; with
    /// its pooled gaps.
    pub(super) fn new(
        measured: &'a [&'a Request],
        all: &[Request],
        offered: u64,
        end: u64,
        icl: &'a Histogram<u64>,
        itl: &'a Histogram<u64>,
    ) -> Self {
        // Those that were cancelled on purpose say nothing of the server, so no percentile holds them.
        let on_purpose = |r: &&Request| r.phase == Phase::Measure && r.is_cancelled_on_purpose();
        let on_purpose = all.iter().filter(on_purpose).count();
        let lost = offered.saturating_sub((measured.len() + on_purpose) as u64);
        Self { measured, lost, end, icl, itl }
    }

    /// The measured requests, in order of origin.
    pub(super) fn measured(&self) -> &'a [&'a Request] {
        self.measured
    }

    /// Arrivals without a request.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Latencies of the successful, with the pooled gaps as they are given.
    pub(super) fn latency(&self, icl: Distribution, itl: Distribution) -> Latency {
        let of = |value: &dyn Fn(&Request) -> Option<u64>| {
            let good = self.measured.iter().filter(|request| request.is_ok());
            Distribution::from_values(&good.filter_map(|r| value(r)).collect::<Vec<u64>>())
        };
        Latency {
            ttfb: of(&|r| r.ttfb(Since::Origin)),
            ttft: of(&|r| r.ttft(Since::Origin)),
            ttfo: of(&|r| r.ttfo(Since::Origin)),
            ttst: of(&Request::ttst),
            icl,
            itl,
            tpot: of(&Request::tpot),
            ntpot: of(&|r| r.ntpot(Since::Origin)),
            e2e: of(&|r| r.e2e(Since::Origin)),
            stream_tail: of(&Request::stream_tail),
            service: Service {
                ttfb: of(&|r| r.ttfb(Since::Write)),
                ttft: of(&|r| r.ttft(Since::Write)),
                ttfo: of(&|r| r.ttfo(Since::Write)),
                ntpot: of(&|r| r.ntpot(Since::Write)),
                e2e: of(&|r| r.e2e(Since::Write)),
            },
            phases: Phases {
                connect: of(&Request::connect),
                tls: of(&Request::tls),
                write: of(&Request::write),
                server_wait: of(&Request::server_wait),
                prefill_wait: of(&Request::prefill_wait),
                decode: of(&Request::decode),
                tail: of(&Request::stream_tail),
            },
        }
    }

    /// The judged samples of one metric. One after the other is made: all of them at once would be
    /// much memory.
    pub(super) fn trial(&self, metric: Metric) -> Trial<'a> {
        match metric {
            Metric::Icl => self.gaps(self.icl),
            Metric::Itl => self.gaps(self.itl),
            _ => Trial::of_requests(metric, self.measured, self.lost, self.end),
        }
    }

    fn gaps(&self, pooled: &'a Histogram<u64>) -> Trial<'a> {
        let count = |test: &dyn Fn(&Request) -> bool| {
            self.measured.iter().filter(|request| test(request)).count() as u64
        };
        // Only answers with a gap could give samples.
        let ok = count(&|r| r.is_ok() && r.second_token.get().is_some());
        let failed = count(&|r| r.outcome == Outcome::Error) + self.lost;
        let cut = count(&|r| r.outcome == Outcome::Cancelled);
        Trial::of_gaps(pooled, ok, failed, cut)
    }

    /// Percentiles in which bad requests took longer than anything.
    pub(super) fn judged(&self) -> Judged {
        Judged::of(|metric| self.trial(metric).distribution())
    }
}
