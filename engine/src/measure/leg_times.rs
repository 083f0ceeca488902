//! The times of one request's legs, each with its formula.

use super::metric::{Maybe, Request};
use crate::record::{Arm, KvFallback, Leg, Row};
use crate::workload::{Metric, Workload};

/// What the figures of legs need of one row. Times are ns from the run's start.
#[derive(Debug, Clone, PartialEq)]
pub struct LegTimes {
    /// The way of the request.
    pub arm: Arm,
    /// Numbers of its prefill and its decode server; 0 where it had none.
    pub servers: (u16, u16),
    /// First byte to the prefill server, and the last of its answer.
    pub prefill_write: Maybe,
    /// When the prefill server's answer was whole.
    pub prefill_done: Maybe,
    /// First byte to the decode server.
    pub decode_write: Maybe,
    /// From the first byte to the first token of the same prompt once more.
    pub once_more: Maybe,
    /// What the decode server found of it in its cache; none where it does not say.
    pub once_more_is_cached: Option<bool>,
    /// Bytes of the hand-off object.
    pub handoff_bytes: Maybe,
    /// The prompt is known to have been computed again.
    pub fallback: Option<KvFallback>,
    /// The decode server says that it had at least half of the prompt in a cache; none where it does not
    /// say.
    pub had_it: Option<bool>,
}

impl LegTimes {
    /// The legs of `row`, if it has any.
    #[must_use]
    pub fn of(row: &Row) -> Option<Box<Self>> {
        let legs = row.legs.as_deref()?;
        let mark = |leg: Option<&Leg>, mark: fn(&Leg) -> Option<u64>| leg.and_then(mark).into();
        let (prefill, decode) = (legs.prefill.as_ref(), legs.decode.as_ref());
        let baseline = legs.baseline.as_ref().filter(|leg| leg.error.is_none());
        let cached = |leg: &Leg| Some(leg.cached_tokens? * 2 >= leg.input_tokens?);
        Some(Box::new(Self {
            arm: legs.arm,
            servers: (0, 0),
            prefill_write: mark(prefill, |leg| leg.write_start),
            prefill_done: mark(prefill, |leg| leg.done),
            decode_write: mark(decode, |leg| leg.write_start),
            once_more: mark(baseline, |leg| leg.first_token?.checked_sub(leg.write_start?)),
            once_more_is_cached: baseline.and_then(cached),
            handoff_bytes: legs.handoff_bytes.into(),
            fallback: row.kv_fallback,
            had_it: decode.and_then(cached),
        }))
    }

    /// The same, with the numbers of its servers among those of `workload`.
    #[must_use]
    pub(super) fn placed(mut self: Box<Self>, row: &Row, workload: &Workload) -> Box<Self> {
        let legs = row.legs.as_deref();
        let url = |leg: Option<&Leg>| leg.map(|leg| leg.url.clone()).unwrap_or_default();
        let prefill = url(legs.and_then(|legs| legs.prefill.as_ref()));
        let decode = url(legs.and_then(|legs| legs.decode.as_ref()));
        let disagg = workload.target.disagg.as_ref();
        let prefills = disagg.iter().flat_map(|one| &one.prefill).map(|one| &one.endpoint.url);
        let decodes = workload.target.endpoints.iter().map(|one| &one.url);
        let place = |mut urls: Box<dyn Iterator<Item = &String> + '_>, url: &String| {
            urls.position(|one| one == url).unwrap_or(0) as u16
        };
        self.servers = (place(Box::new(prefills), &prefill), place(Box::new(decodes), &decode));
        self
    }
}

impl Request {
    /// Prefill leg = last byte of the prefill server's answer − first byte written to it.
    #[must_use]
    pub fn prefill_leg(&self) -> Option<u64> {
        let legs = self.legs.as_ref()?;
        legs.prefill_done.get()?.checked_sub(legs.prefill_write.get()?)
    }

    /// Client gap = first byte written to the decode server − last byte of the prefill server's
    /// answer; where both are asked at once: − first byte written to the prefill server. Our own part.
    #[must_use]
    pub fn client_gap(&self) -> Option<u64> {
        let legs = self.legs.as_ref()?;
        let write = legs.decode_write.get()?;
        let done = legs.prefill_done.get().filter(|done| *done <= write);
        write.checked_sub(done.or(legs.prefill_write.get())?)
    }

    /// Decode first token = `first_token` − first byte written to the decode server.
    #[must_use]
    pub fn decode_first(&self) -> Option<u64> {
        self.first_token.get()?.checked_sub(self.legs.as_ref()?.decode_write.get()?)
    }

    /// How long a leg had been waited for at `cut`; 0 where it had not begun.
    pub(super) fn leg_age(&self, metric: Metric, cut: u64) -> u64 {
        let legs = self.legs.as_ref();
        let begun = legs.and_then(|legs| match metric {
            Metric::PrefillLeg => legs.prefill_write.get(),
            Metric::DecodeFirst => legs.decode_write.get(),
            _ => None,
        });
        begun.map_or(0, |begun| cut.saturating_sub(begun))
    }

    /// `first_token` − last byte of the prefill server's answer; may lie below zero where both are
    /// asked at once.
    #[must_use]
    pub fn after_prefill(&self) -> Option<i64> {
        let done = self.legs.as_ref()?.prefill_done.get()?;
        i64::try_from(i128::from(self.first_token.get()?) - i128::from(done)).ok()
    }

    /// What the hand-off took, by a baseline: decode first token − the same of the same prompt once
    /// more, whose KV cache was there.
    #[must_use]
    pub fn handoff(&self) -> Option<i64> {
        let once_more = self.legs.as_ref()?.once_more.get()?;
        i64::try_from(i128::from(self.decode_first()?) - i128::from(once_more)).ok()
    }

    /// TPOT from the second token on: `(last_token − second_token)` by the tokens after it.
    #[must_use]
    pub fn tpot_after_second(&self) -> Option<u64> {
        let span = self.last_token.get()?.checked_sub(self.second_token.get()?)?;
        // One token an event, but for the first event where its number is known.
        let first = self.first_tokens.map_or(1, u64::from);
        span.checked_div(self.output_tokens.get()?.checked_sub(first + 1)?)
    }
}
