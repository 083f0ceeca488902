//! A request on another time axis.

use super::Row;
use super::legs::{Leg, Legs};

impl Row {
    /// The same request where the run began `by` ns earlier: every moment moves, no duration does.
    #[must_use]
    pub fn shifted(mut self, by: u64) -> Self {
        self.shift(by);
        self
    }

    /// Every field is named, so that a new one has to be thought of.
    fn shift(&mut self, by: u64) {
        let Self {
            intended,
            dispatched,
            connected,
            tls_done,
            write_start,
            write_done,
            first_byte,
            head_done,
            first_token,
            first_output,
            second_token,
            last_token,
            done,
            chunks,
            legs,
            // Durations, counts and words stay, and what a server says by its own clock.
            index: _,
            request_id: _,
            trace_id: _,
            phase: _,
            class: _,
            session: _,
            turn: _,
            shard: _,
            reactor: _,
            connection: _,
            reused: _,
            attempts: _,
            retries: _,
            retry_ns: _,
            wait_cause: _,
            outcome: _,
            error: _,
            error_text: _,
            malformed_events: _,
            status: _,
            finish: _,
            input_tokens: _,
            client_input_tokens: _,
            cached_tokens: _,
            ideal_cached_tokens: _,
            output_tokens: _,
            output_source: _,
            client_output_tokens: _,
            reasoning_tokens: _,
            first_tokens: _,
            events: _,
            bytes: _,
            reads: _,
            coalesced: _,
            lag_max: _,
            text: _,
            reasoning_text: _,
            retry_after: _,
            kv_fallback: _,
            server: _,
        } = self;
        *intended = intended.saturating_add(by);
        let sending = [dispatched, connected, tls_done, write_start, write_done];
        let answer = [first_byte, head_done, first_token, first_output, second_token, last_token];
        for mark in sending.into_iter().chain(answer).chain([done]) {
            later(mark, by);
        }
        for (arrival, _) in chunks.iter_mut().flatten() {
            *arrival = arrival.saturating_add(by);
        }
        if let Some(legs) = legs {
            legs.shift(by);
        }
    }
}

impl Legs {
    fn shift(&mut self, by: u64) {
        let Self { prefill, decode, baseline, arm: _, handoff_bytes: _ } = self;
        for leg in [prefill, decode, baseline].into_iter().flatten() {
            leg.shift(by);
        }
    }
}

impl Leg {
    fn shift(&mut self, by: u64) {
        let Self {
            connected,
            tls_done,
            write_start,
            write_done,
            first_byte,
            head_done,
            first_token,
            done,
            url: _,
            connection: _,
            reused: _,
            status: _,
            error: _,
            input_tokens: _,
            cached_tokens: _,
            bytes: _,
            lag_max: _,
            server: _,
        } = self;
        let sending = [connected, tls_done, write_start, write_done];
        for mark in sending.into_iter().chain([first_byte, head_done, first_token, done]) {
            later(mark, by);
        }
    }
}

fn later(mark: &mut Option<u64>, by: u64) {
    if let Some(at) = mark {
        *at = at.saturating_add(by);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::measure::Request;
    use crate::measure::rows::{closed, open, row_at};
    use crate::record::{KvFallback, ServerTimings, TimesSource};

    /// A leg with everything in it; its moments are 1000 to 1999.
    fn leg() -> Leg {
        Leg {
            url: "http://a".into(),
            connection: 3,
            reused: true,
            status: Some(200),
            error: None,
            connected: Some(1001),
            tls_done: Some(1002),
            write_start: Some(1003),
            write_done: Some(1004),
            first_byte: Some(1005),
            head_done: Some(1006),
            first_token: Some(1007),
            done: Some(1008),
            input_tokens: Some(4),
            cached_tokens: Some(2),
            bytes: 5,
            lag_max: 6,
            server: Some(Box::new(told())),
        }
    }

    fn told() -> ServerTimings {
        ServerTimings {
            source: TimesSource::Ollama,
            endpoint: 1,
            queue_ns: Some(11),
            prefill_ns: Some(12),
            ttft_ns: Some(13),
            decode_ns: Some(14),
            e2e_ns: Some(15),
            kv_transfer_ns: Some(16),
            mean_itl_ns: Some(17),
            received_realtime_ns: Some(18),
            sent_realtime_ns: Some(19),
            named: vec![("x".into(), 20)],
        }
    }

    /// A request with everything in it: its moments, and no other number, are 1000 to 1999.
    fn full() -> Row {
        let legs = Legs {
            handoff_bytes: Some(21),
            prefill: Some(leg()),
            decode: Some(leg()),
            baseline: Some(leg()),
            ..Legs::by_router()
        };
        Row {
            trace_id: Some("t".into()),
            class: Some("c".into()),
            session: Some(1),
            turn: Some(2),
            shard: Some(3),
            retries: 4,
            retry_ns: 5,
            error_text: Some("e".into()),
            intended: 1000,
            dispatched: Some(1001),
            connected: Some(1002),
            tls_done: Some(1003),
            write_start: Some(1004),
            write_done: Some(1005),
            first_byte: Some(1006),
            head_done: Some(1007),
            first_token: Some(1008),
            first_output: Some(1009),
            second_token: Some(1010),
            last_token: Some(1011),
            done: Some(1012),
            client_input_tokens: Some(6),
            cached_tokens: Some(7),
            ideal_cached_tokens: Some(8),
            client_output_tokens: Some(9),
            reasoning_tokens: Some(10),
            chunks: Some(vec![(1013, 1), (1014, 2)]),
            text: Some("a".into()),
            reasoning_text: Some("b".into()),
            retry_after: Some(11),
            legs: Some(Box::new(legs)),
            kv_fallback: Some(KvFallback::NotCached),
            server: Some(Box::new(told())),
            ..row_at(9, 0, 0, &[1])
        }
    }

    /// Numbers of a document, in order.
    fn numbers(value: &Value, into: &mut Vec<u64>) {
        match value {
            Value::Number(number) => into.extend(number.as_u64()),
            Value::Array(all) => all.iter().for_each(|one| numbers(one, into)),
            Value::Object(all) => all.values().for_each(|one| numbers(one, into)),
            _ => {}
        }
    }

    #[test]
    fn every_moment_moves_and_nothing_else() {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        numbers(&serde_json::to_value(full()).unwrap(), &mut before);
        numbers(&serde_json::to_value(full().shifted(50_000)).unwrap(), &mut after);
        assert_eq!(before.len(), after.len());
        let is_moment = |number: &u64| (1000..2000).contains(number);
        assert_eq!(before.iter().filter(|number| is_moment(number)).count(), 15 + 3 * 8);
        for (before, after) in before.iter().zip(&after) {
            let by = if is_moment(before) { 50_000 } else { 0 };
            assert_eq!(after - before, by, "{before}");
        }
    }

    #[test]
    fn a_full_request_leaves_no_field_out() {
        let value = serde_json::to_value(full()).unwrap();
        let nothing: Vec<_> =
            value.as_object().unwrap().iter().filter(|(_, value)| value.is_null()).collect();
        // Those of a request that went well and kept to its time.
        let names: Vec<&str> = nothing.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["error", "wait_cause"]);
    }

    proptest! {
        #[test]
        fn no_latency_changes(
            by in 0u64..1 << 50,
            times in prop::collection::vec(1u64..1000, 0..5),
            sent in 0u64..1000,
            is_open: bool,
        ) {
            let mut at = sent;
            let tokens: Vec<u64> = times.iter().map(|gap| { at += gap; at }).collect();
            let row = row_at(1, sent / 2, sent, &tokens);
            let workload = if is_open { open(1.0) } else { closed(1) };
            let of = |row: Row| {
                let request = Request::new(&row, &workload);
                crate::workload::Metric::ALL.map(|metric| request.value(metric))
            };
            prop_assert_eq!(of(row.clone()), of(row.shifted(by)));
        }
    }
}
