//! The record of a request, from the records of its legs.

use super::Planned;
use crate::record::{Arm, KvFallback, Leg, Legs, Marks, NONE, Outcome, Settled};

/// The legs of one request, as far as they are over.
#[derive(Debug, Default)]
pub(crate) struct Legged {
    /// The prefill server's.
    pub(crate) prefill: Option<Settled>,
    /// The decode server's.
    pub(crate) decode: Option<Settled>,
    /// The one that was sent once more.
    pub(crate) baseline: Option<Settled>,
    /// The prefill leg was the first that failed.
    pub(crate) prefill_failed: bool,
    /// Bytes of the hand-off object; none if there was none.
    pub(crate) handoff_bytes: Option<u64>,
    /// The decode server is known to count what is handed over among what it had in a cache. Not all do:
    /// vLLM 0.32 tells of its own prefix cache alone.
    pub(crate) counts_handoffs: bool,
    /// Which servers they went to, by URL: prefill, decode.
    pub(crate) urls: [String; 2],
}

/// One record of all of them: that of the decode leg, which the user sees, begun when the first leg
/// was.
pub(crate) fn join(legged: Legged, planned: &Planned, intended: u64, dispatched: u64) -> Settled {
    let Legged { prefill, decode, baseline, prefill_failed, handoff_bytes, counts_handoffs, urls } =
        legged;
    let [prefill_url, decode_url] = urls;
    let legs = Legs {
        arm: Arm::Direct,
        handoff_bytes,
        prefill: prefill.as_ref().map(|settled| leg(settled, prefill_url)),
        decode: decode.as_ref().map(|settled| leg(settled, decode_url.clone())),
        baseline: baseline.as_ref().map(|settled| leg(settled, decode_url)),
    };
    let is_sequential = !planned.flow.is_concurrent();
    // Whoever has a whole answer does not mind.
    let is_ok = decode.as_ref().is_some_and(|decode| decode.outcome == Outcome::Ok);
    let is_prefills = prefill_failed && !is_ok;
    let fallback = decode.as_ref().and_then(|decode| {
        fallback(decode, is_sequential && handoff_bytes.is_none(), counts_handoffs)
    });
    let (mut settled, other) = match (prefill, decode) {
        (prefill, Some(decode)) => (decode, prefill),
        (Some(prefill), None) => (unseen(prefill), None),
        (None, None) => (Settled::new(0, intended), None),
    };
    if let Some(prefill) = other {
        begin_with(&mut settled, &prefill, is_sequential);
        if is_prefills {
            (settled.outcome, settled.error) = (prefill.outcome, prefill.error);
            settled.error_text = prefill.error_text;
        }
    }
    if is_prefills {
        let text = settled.error_text.take().unwrap_or_default();
        settled.error_text = Some(format!("prefill server: {text}").trim_end().to_owned());
    }
    (settled.marks.intended, settled.marks.dispatched) = (intended, dispatched);
    settled.legs = Some(Box::new(legs));
    settled.kv_fallback = fallback;
    settled
}

/// Whether the decode server has computed the prompt again.
fn fallback(decode: &Settled, is_unhanded: bool, counts: bool) -> Option<KvFallback> {
    if decode.outcome != Outcome::Ok {
        return None;
    }
    if is_unhanded {
        return Some(KvFallback::NoParams);
    }
    (counts && had_it(decode) == Some(false)).then_some(KvFallback::NotCached)
}

/// Whether a server says that it had at least half of the prompt in a cache; none where it does not say.
pub(crate) fn had_it(settled: &Settled) -> Option<bool> {
    let usage = settled.usage?;
    Some(usage.cached_tokens? * 2 >= usage.input_tokens?)
}

/// A prefill leg that no decode leg followed: nothing of its answer was the user's.
fn unseen(mut prefill: Settled) -> Settled {
    let Marks { intended, .. } = prefill.marks;
    let before = prefill.marks;
    prefill.marks = Marks {
        dispatched: before.dispatched,
        connected: before.connected,
        tls_done: before.tls_done,
        write_start: before.write_start,
        write_done: before.write_done,
        done: before.done,
        ..Marks::new(intended)
    };
    prefill.chunks.clear();
    (prefill.events, prefill.output_tokens, prefill.output_source) = (0, None, None);
    prefill.finish = None;
    prefill
}

/// Puts the beginning of the prefill leg in the place of the decode leg's.
fn begin_with(settled: &mut Settled, prefill: &Settled, is_sequential: bool) {
    let (own, first) = (settled.marks, prefill.marks);
    let marks = &mut settled.marks;
    let prefill_is_first = is_sequential || first.write_start <= own.write_start;
    if prefill_is_first {
        (marks.connected, marks.tls_done) = (first.connected, first.tls_done);
        settled.reused = prefill.reused;
    }
    marks.write_start = own.write_start.min(first.write_start);
    marks.write_done = match (is_sequential, first.write_done, own.write_done) {
        (true, first, _) => first,
        (false, NONE, own) => own,
        (false, first, NONE) => first,
        (false, first, own) => first.max(own),
    };
    settled.attempts = settled.attempts.max(prefill.attempts);
    settled.malformed_events += prefill.malformed_events;
    settled.bytes += prefill.bytes;
    settled.reads += prefill.reads;
    settled.lag_max = settled.lag_max.max(prefill.lag_max);
    settled.wait_cause = prefill.wait_cause;
}

fn leg(settled: &Settled, url: String) -> Leg {
    let reached = |mark: u64| (mark != NONE).then_some(mark);
    let marks = settled.marks;
    Leg {
        url,
        connection: settled.connection,
        reused: settled.reused,
        status: (settled.status != 0).then_some(settled.status),
        error: settled.error,
        connected: reached(marks.connected),
        tls_done: reached(marks.tls_done),
        write_start: reached(marks.write_start),
        write_done: reached(marks.write_done),
        first_byte: reached(marks.first_byte),
        head_done: reached(marks.head_done),
        first_token: reached(marks.first_token),
        done: reached(marks.done),
        input_tokens: settled.usage.and_then(|usage| usage.input_tokens),
        cached_tokens: settled.usage.and_then(|usage| usage.cached_tokens),
        bytes: settled.bytes,
        lag_max: settled.lag_max,
        server: settled.server.clone(),
    }
}

#[cfg(test)]
mod tests {
    use tokclock_parser::event::Usage;

    use super::*;
    use crate::disagg::Route;
    use crate::record::ErrorClass;
    use crate::workload::Flow;

    fn planned(flow: Flow) -> Planned {
        let route = Route::Direct { prefill: 1, decode: 0 };
        Planned { route, flow, head: Vec::new(), body: Vec::new(), baseline: None }
    }

    fn at(write: u64, first: u64, done: u64) -> Settled {
        let mut settled = Settled::new(7, 0);
        settled.outcome = Outcome::Ok;
        settled.status = 200;
        let marks = &mut settled.marks;
        (marks.write_start, marks.write_done, marks.first_byte) = (write, write + 1, first);
        (marks.first_token, marks.done) = (first, done);
        settled
    }

    fn legged(prefill: Option<Settled>, decode: Option<Settled>) -> Legged {
        let urls = ["p".into(), "d".into()];
        Legged { prefill, decode, handoff_bytes: Some(9), urls, ..Legged::default() }
    }

    #[test]
    fn a_request_begins_with_its_first_leg_and_ends_with_the_users() {
        let joined = join(
            legged(Some(at(10, 50, 60)), Some(at(62, 90, 120))),
            &planned(Flow::VllmNixl),
            3,
            5,
        );
        let marks = joined.marks;
        assert_eq!(
            (marks.intended, marks.dispatched, marks.write_start, marks.write_done),
            (3, 5, 10, 11)
        );
        assert_eq!((marks.first_token, marks.done, joined.outcome), (90, 120, Outcome::Ok));
        let legs = joined.legs.unwrap();
        let (prefill, decode) = (legs.prefill.unwrap(), legs.decode.unwrap());
        let sum = (prefill.done.unwrap() - prefill.write_start.unwrap())
            + (decode.write_start.unwrap() - prefill.done.unwrap())
            + (decode.first_token.unwrap() - decode.write_start.unwrap());
        assert_eq!(sum, marks.first_token - marks.write_start, "legs add up to the service TTFT");
        let both =
            join(legged(Some(at(10, 50, 60)), Some(at(8, 90, 120))), &planned(Flow::Sglang), 3, 5);
        assert_eq!((both.marks.write_start, both.marks.write_done), (8, 11));
    }

    #[test]
    fn the_first_leg_to_fail_is_the_reason() {
        let refused = || {
            let mut prefill = at(10, NONE, 20);
            (prefill.outcome, prefill.status) = (Outcome::Error, 503);
            prefill.error = Some(ErrorClass::HttpStatus);
            prefill.error_text = Some("busy".into());
            prefill
        };
        let broken = || {
            let mut decode = at(11, NONE, 21);
            (decode.outcome, decode.error) = (Outcome::Error, Some(ErrorClass::ConnReset));
            decode
        };
        let failed = |decode, prefill_failed| {
            let legs = Legged { prefill_failed, ..legged(Some(refused()), decode) };
            join(legs, &planned(Flow::Sglang), 0, 0)
        };
        let alone = failed(None, true);
        assert_eq!(alone.error, Some(ErrorClass::HttpStatus));
        assert_eq!(alone.error_text.as_deref(), Some("prefill server: busy"));
        assert_eq!((alone.marks.first_byte, alone.events), (NONE, 0));
        assert_eq!(failed(Some(broken()), true).error, Some(ErrorClass::HttpStatus));
        let both = failed(Some(broken()), false);
        assert_eq!((both.error, both.error_text), (Some(ErrorClass::ConnReset), None));
        let whole = failed(Some(at(11, 15, 21)), true);
        assert_eq!((whole.outcome, whole.error), (Outcome::Ok, None));
    }

    #[test]
    fn a_prompt_that_was_computed_again_is_found_out() {
        let run = |cached: Option<u64>, handed: bool, counts_handoffs: bool| {
            let mut decode = at(20, 30, 40);
            decode.usage =
                Some(Usage { input_tokens: Some(100), cached_tokens: cached, ..Usage::default() });
            let mut legs = legged(Some(at(1, 9, 10)), Some(decode));
            (legs.handoff_bytes, legs.counts_handoffs) = (handed.then_some(1), counts_handoffs);
            join(legs, &planned(Flow::VllmNixl), 0, 0).kv_fallback
        };
        assert_eq!(run(Some(99), true, true), None);
        assert_eq!(run(None, true, true), None, "nothing is said of it");
        assert_eq!(run(Some(0), true, true), Some(KvFallback::NotCached));
        assert_eq!(run(Some(0), true, false), None, "it may count its own cache alone");
        assert_eq!(run(None, false, true), Some(KvFallback::NoParams));
    }
}
