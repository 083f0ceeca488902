//! A request as it goes on the wire: its head, the length of its body, and the requests that it becomes
//! where prefill and decode are apart.

use std::io::Write;
use std::ops::Range;

use super::{Plan, PlanError, head};
use crate::disagg::{self, Planned};

impl Plan {
    /// Appends the request that goes out first of those that a request becomes whose body is `whole`.
    pub(super) fn write_legs(
        &self,
        index: u64,
        item: u64,
        whole: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(Range<usize>, Option<Box<Planned>>), PlanError> {
        let Some(planner) = &self.legs else { return Ok((0..0, None)) };
        if !disagg::is_object(whole) {
            return Err(PlanError::NoObject { index });
        }
        let digits = self.write_head(planner.first(item), (index, item), out);
        let body_at = out.len();
        let planned = planner.split((item, index), whole, out, |to, head| {
            let digits = self.write_head(to, (index, item), head);
            head.truncate(digits.start);
        });
        Ok((close_head(digits, body_at, out), Some(Box::new(planned))))
    }

    /// The server of an item: request *i* goes to number *i mod n*.
    pub(crate) fn server(&self, item: u64) -> usize {
        (item % self.heads.len() as u64) as usize
    }

    /// Appends the head of a leg (0: the whole) of request `index` of `item` to a server; where the digits of the body's length
    /// belong.
    pub(super) fn write_head(
        &self,
        (server, leg): (usize, u8),
        (index, item): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let head = &self.heads[server];
        out.extend_from_slice(&head.fixed);
        push_number(index, out);
        if let Some(session) = &head.session {
            out.extend_from_slice(session);
            push_number(item, out);
        }
        if let Some(traces) = self.traces {
            out.extend_from_slice(head::TRACE);
            traces.write(index, leg, out);
        }
        out.extend_from_slice(head::CONTENT_LENGTH);
        let at = out.len();
        out.extend_from_slice(&[b'0'; LENGTH_DIGITS]);
        out.extend_from_slice(head::END);
        at..at + LENGTH_DIGITS
    }
}

/// Digits that are kept free for the length of a body: up to 10 GB.
const LENGTH_DIGITS: usize = 10;

/// Fills in the length of the body that begins at `body_at` and closes the gap before it. Where the
/// body then lies.
pub(super) fn close_head(digits: Range<usize>, body_at: usize, out: &mut Vec<u8>) -> Range<usize> {
    let length = out.len() - body_at;
    let spare = write_length(length, &mut out[digits.clone()]);
    out.drain(digits.start..digits.start + spare);
    body_at - spare..out.len()
}

pub(super) fn push_number(number: u64, out: &mut Vec<u8>) {
    // Writing into a vector cannot fail.
    let _ = write!(out, "{number}");
}

/// Writes `length` into the end of `digits`; how many digits before it are left over.
fn write_length(mut length: usize, digits: &mut [u8]) -> usize {
    let mut spare = digits.len();
    loop {
        spare -= 1;
        digits[spare] = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 || spare == 0 {
            return spare;
        }
    }
}
