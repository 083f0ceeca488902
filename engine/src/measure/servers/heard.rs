//! The client's own figures of the requests that a server had, over the time of its readings.

use crate::record::{Arm, KvFallback, Leg, Legs, Row};
use crate::telemetry::server::Share;

/// A mean while it is made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) total_ns: f64,
    pub(super) count: u64,
}

impl Sum {
    fn add(&mut self, ns: u64, count: u64) {
        self.total_ns += ns as f64;
        self.count += count;
    }
}

/// Requests of one server.
#[derive(Debug)]
pub(super) struct Heard {
    bounds: Option<(u64, u64)>,
    share: Share,
    /// Scheme, host and port of its URL.
    origin: String,
    /// Requests went by a router, so that nobody knows who had them.
    by_router: bool,
    /// Whether there were requests of conversations, and others: among both nobody knows whose is
    /// whose.
    sessions: (bool, bool),
    ttft: Sum,
    itl: Sum,
    e2e: Sum,
    /// Tokens of the prompts that were handed to it, where it decodes for others.
    handed_tokens: Option<u64>,
}

impl Heard {
    /// Of the time between two readings.
    pub(super) fn over(bounds: Option<(u64, u64)>, share: Share, url: &str) -> Self {
        let none = Sum::default();
        let after = url.find("://").map_or(0, |at| at + 3);
        let end = url[after..].find('/').map_or(url.len(), |at| after + at);
        Self {
            bounds,
            share,
            origin: url[..end].to_owned(),
            by_router: false,
            sessions: (false, false),
            ttft: none,
            itl: none,
            e2e: none,
            handed_tokens: None,
        }
    }

    /// Adds a request, to each figure if what ends that lies within the time. A server counts those too
    /// that failed later.
    pub(super) fn add(&mut self, row: &Row) {
        if self.bounds.is_none() {
            return;
        }
        match row.session {
            Some(_) => self.sessions.0 = true,
            None => self.sessions.1 = true,
        }
        if let Some(legs) = row.legs.as_deref() {
            self.add_legs(row, legs);
            return;
        }
        if let Some(place) = self.share.place
            && row.session.unwrap_or(row.index) % self.share.of.max(1) != place
        {
            return;
        }
        let Some((begun, first)) = row.write_start.zip(row.first_token) else { return };
        self.add_stream(row, begun, first);
    }

    /// Adds what one of two servers had of a request: each counts from when it was asked.
    fn add_legs(&mut self, row: &Row, legs: &Legs) {
        self.by_router |= legs.arm == Arm::Router;
        let all = [&legs.prefill, &legs.decode, &legs.baseline];
        let [prefill, decode, again] = all.map(|leg| leg.as_ref().filter(|leg| self.is_here(leg)));
        if let Some(leg) = decode
            && let Some((begun, first)) = leg.write_start.zip(row.first_token)
        {
            self.add_stream(row, begun, first);
            let is_handed = row.kv_fallback != Some(KvFallback::NoParams) && self.is_within(first);
            let tokens = leg.input_tokens.filter(|_| is_handed).unwrap_or(0);
            *self.handed_tokens.get_or_insert(0) += tokens;
        }
        // Its one token is there with its whole answer.
        if let Some(leg) = prefill
            && let Some((begun, done)) = leg.write_start.zip(leg.done)
            && leg.error.is_none()
            && self.is_within(done)
        {
            self.ttft.add(done.saturating_sub(begun), 1);
            self.e2e.add(done.saturating_sub(begun), 1);
        }
        if let Some((begun, first)) = again.and_then(|leg| leg.write_start.zip(leg.first_token))
            && self.is_within(first)
        {
            self.ttft.add(first.saturating_sub(begun), 1);
            self.e2e.add(first.saturating_sub(begun), 1);
        }
    }

    fn is_here(&self, leg: &Leg) -> bool {
        let rest = leg.url.strip_prefix(&self.origin);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn is_within(&self, at: u64) -> bool {
        self.bounds.is_some_and(|(from, to)| (from..=to).contains(&at))
    }

    /// Adds a stream that was asked for at `begun`, and whose first token came at `first`.
    fn add_stream(&mut self, row: &Row, begun: u64, first: u64) {
        if self.is_within(first) {
            self.ttft.add(first.saturating_sub(begun), 1);
        }
        let Some(last) = row.last_token.filter(|last| self.is_within(*last)) else { return };
        self.e2e.add(last.saturating_sub(begun), 1);
        let first_tokens = u64::from(row.first_tokens.unwrap_or(1));
        let later = row.output_tokens.unwrap_or(u64::from(row.events)).saturating_sub(first_tokens);
        if later > 0 && row.events > 1 {
            self.itl.add(last.saturating_sub(first), later);
        }
    }

    /// Tokens of the prompts that were handed to it; `None` where none was, or nobody knows.
    pub(super) fn handed_tokens(&self) -> Option<u64> {
        self.handed_tokens.filter(|_| !self.by_router)
    }

    /// TTFT, ITL and E2E as the client had them; `None` where it is not known which requests the
    /// server had.
    pub(super) fn sums(&self) -> Option<[Sum; 3]> {
        let is_whole = self.share.of <= 1;
        let is_known = self.share.place.is_some() && self.sessions != (true, true);
        ((is_whole || is_known) && !self.by_router).then_some([self.ttft, self.itl, self.e2e])
    }
}
