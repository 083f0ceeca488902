//! The `traceparent` header (W3C Trace Context, version 00): one trace for each request of a run, one
//! span for each HTTP request that it becomes.

use ring::digest::{SHA256, digest};

use super::random::mix;

/// Legs that a request may have: itself, prefill, decode, baseline.
const LEGS: u64 = 4;
/// The spans of all requests have numbers that lie so far from those of all traces.
const SPANS: u64 = 1 << 63;

/// Names the traces and spans of a run: from its id and their numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traces {
    /// The first half of every trace id: what the traces of a run have in common. Never 0.
    run: u64,
    /// What the rest of them is mixed with.
    salt: u64,
}

impl Traces {
    /// Those of the run of this id.
    #[must_use]
    pub fn of_run(run_id: &str) -> Self {
        let hash = digest(&SHA256, run_id.as_bytes());
        let part = |at: usize| {
            let bytes = hash.as_ref().iter().skip(at).take(8);
            bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        Self { run: part(0).max(1), salt: part(8) }
    }

    /// The trace of request `index`: another for each index, never 0.
    #[must_use]
    pub const fn trace_id(self, index: u64) -> u128 {
        (self.run as u128) << 64 | mix(self.salt.wrapping_add(index)) as u128
    }

    /// The same as it is written.
    #[must_use]
    pub fn trace_text(self, index: u64) -> String {
        format!("{:032x}", self.trace_id(index))
    }

    /// The span of a leg of request `index`: 0 is the request itself, 1 prefill, 2 decode, 3 the
    /// baseline. Another for each leg of a run, never 0.
    #[must_use]
    pub const fn span_id(self, index: u64, leg: u8) -> u64 {
        let number = index.wrapping_mul(LEGS).wrapping_add(leg as u64);
        match mix(self.salt.wrapping_add(SPANS).wrapping_add(number)) {
            // One number of 2^64 is mixed to what no span may be called.
            0 => 1,
            span => span,
        }
    }

    /// Appends the value of the header for a leg of request `index`: 55 bytes, without allocating
    /// where `out` has room.
    pub fn write(self, index: u64, leg: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(b"00-");
        push_hex(self.run, out);
        push_hex(self.trace_id(index) as u64, out);
        out.push(b'-');
        push_hex(self.span_id(index, leg), out);
        // Sampled: a server that traces shall keep this one.
        out.extend_from_slice(b"-01");
    }
}

/// Appends 16 hexadecimal digits.
fn push_hex(number: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |place: u32| DIGITS[(number >> (4 * place) & 15) as usize];
    out.extend((0..16).rev().map(digit));
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::plan::{Materials, Plan};
    use crate::workload::Workload;

    /// The `traceparent` lines of the first two requests.
    fn sent(workload: &Workload) -> Vec<String> {
        let plan = Plan::new(workload, &Materials::default(), "run").unwrap();
        let lines = |item| {
            let mut out = Vec::new();
            let written = plan.render(item, &mut out).unwrap();
            let head = String::from_utf8(out[..written.body.start].to_vec()).unwrap();
            let is_it = |line: &&str| line.to_ascii_lowercase().starts_with("traceparent: ");
            head.lines().filter(is_it).map(str::to_owned).collect::<Vec<_>>()
        };
        (0..2).flat_map(lines).collect()
    }

    #[test]
    fn a_request_is_a_trace_where_that_is_asked_for_and_the_users_own_goes_before_it() {
        let mut workload = crate::workload::sample();
        assert!(sent(&workload).is_empty());
        workload.target.traceparent = true;
        let traces = Traces::of_run("run");
        let line = |index| {
            let (trace, span) = (traces.trace_text(index), traces.span_id(index, 0));
            format!("traceparent: 00-{trace}-{span:016x}-01")
        };
        assert_eq!(sent(&workload), [line(0), line(1)]);
        workload.target.headers.push(("Traceparent".into(), "own".into()));
        assert_eq!(sent(&workload), ["Traceparent: own", "Traceparent: own"]);
    }

    #[test]
    fn a_header_is_what_the_standard_says() {
        let traces = Traces::of_run("run");
        let mut out = Vec::new();
        traces.write(7, 2, &mut out);
        let text = String::from_utf8(out).unwrap();
        let parts: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{text}");
        assert_eq!((parts[0], parts[3]), ("00", "01"));
        assert!(text.bytes().all(|byte| byte == b'-' || b"0123456789abcdef".contains(&byte)));
        assert_eq!(parts[1], traces.trace_text(7));
        assert_eq!(parts[2], format!("{:016x}", traces.span_id(7, 2)));
    }

    #[test]
    fn no_two_requests_share_a_trace_and_no_two_legs_a_span() {
        let runs = ["a", "b"].map(Traces::of_run);
        let all = || runs.iter().flat_map(|run| (0..5000).map(move |index| (run, index)));
        let traces: HashSet<u128> = all().map(|(run, index)| run.trace_id(index)).collect();
        assert_eq!(traces.len(), 10_000);
        let legs = |(run, index): (&Traces, u64)| [0, 1, 2, 3].map(|leg| run.span_id(index, leg));
        let spans: HashSet<u64> = all().flat_map(legs).collect();
        assert_eq!(spans.len(), 40_000);
        assert!(!traces.contains(&0) && !spans.contains(&0));
    }

    #[test]
    fn the_number_that_is_mixed_to_none_has_a_span_too() {
        let traces = Traces { run: 1, salt: SPANS };
        assert_eq!(mix(0), 0);
        assert_eq!((traces.span_id(0, 0), traces.trace_id(0) >> 64), (1, 1));
    }
}
