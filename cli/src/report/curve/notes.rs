//! What else is worth knowing of a curve.

use tokclock_engine::measure::curve::{Curve, Variable};
use tokclock_engine::measure::{Reason, ReasonKind};

use super::super::front;
use super::super::text::{Page, escape};
use super::words::loads;

/// Writes the notes of the curve, then those of its levels: each kind once, as the lowest level says
/// it, with all loads at which it was seen.
pub(in super::super) fn write(page: &mut Page, curve: &Curve) {
    let seen = seen(curve);
    if !seen.is_empty() || !curve.notes.is_empty() {
        page.blank();
    }
    of_document(page, &curve.notes);
    for (reason, at) in seen {
        front::reason(page, &told(&reason, curve.variable, &at));
    }
}

/// Notes that stand by themselves.
pub(in super::super) fn of_document(page: &mut Page, notes: &[String]) {
    for note in notes {
        page.words("note", &escape(note));
    }
}

fn seen(curve: &Curve) -> Vec<(Reason, Vec<f64>)> {
    let mut seen: Vec<(Reason, Vec<f64>)> = Vec::new();
    for level in curve.by_load() {
        for reason in &level.notes {
            let is_same = |kind: ReasonKind| kind == reason.kind;
            match seen.iter_mut().find(|(first, _)| is_same(first.kind)) {
                Some((first, at)) => {
                    first.severity = first.severity.max(reason.severity);
                    at.push(level.value);
                }
                None => seen.push((reason.clone(), vec![level.value])),
            }
        }
    }
    for (_, at) in &mut seen {
        at.dedup();
    }
    // The gravest first.
    seen.sort_by_key(|(reason, _)| std::cmp::Reverse(reason.severity));
    seen
}

/// With the loads before the message; what the message says in figures is the first one's.
fn told(reason: &Reason, variable: Variable, at: &[f64]) -> Reason {
    let message = escape(&reason.message);
    let of_first = if at.len() > 1 { " (at the first of them)" } else { "" };
    Reason {
        message: format!("at {}: {message}{of_first}", loads(variable, at)),
        advice: escape(&reason.advice),
        ..reason.clone()
    }
}
