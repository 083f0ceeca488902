//! What is worth saying and speaks against nobody's client.

use super::{Reason, ReasonKind, Severity};
use crate::measure::client::ClientReport;
use crate::measure::tokens::Tokens;

/// Share of gaps of exactly 0 above which a stream is said to come in bursts.
const ZERO_GAP_SHARE_MAX: f64 = 0.5;
/// Output tokens in an event, on average, above which it matters that their number is not known.
const TOKENS_PER_EVENT_MAX: f64 = 1.05;
/// Relative difference of token counts above which the report warns.
const TOKEN_DIFFERENCE_MAX: f64 = 0.05;

/// What is worth saying about the server's stream and the token counts; nothing against the client.
/// `per_token`: ITL has a sample per token, not only one per event.
#[must_use]
pub fn notes(report: &ClientReport, tokens: &Tokens, per_token: bool) -> Vec<Reason> {
    let mut notes = Vec::new();
    held_back(report, &mut notes);
    if let Some(share) = report.zero_gap_share.filter(|&share| share > ZERO_GAP_SHARE_MAX) {
        notes.push(Reason::share(
            (ReasonKind::BurstyStream, Severity::Note),
            (share, ZERO_GAP_SHARE_MAX),
            "of the gaps between output events are 0: tokens come in bursts, so ITL and TPOT say \
             little",
            "look for buffering in the server or a proxy before it",
        ));
    }
    if tokens.source.as_deref() == Some("events") {
        notes.push(Reason::new(
            (ReasonKind::TokensAreEvents, Severity::Note),
            (tokens.output as f64, 0.0, "count"),
            "output tokens are a count of output events: the server sent no usage".into(),
            "choose a tokenizer, or a server that reports usage",
        ));
    }
    let per_event = tokens.output as f64 / tokens.events.max(1) as f64;
    if !per_token && tokens.events > 0 && per_event > TOKENS_PER_EVENT_MAX {
        notes.push(Reason::new(
            (ReasonKind::TokensPerEventUnknown, Severity::Note),
            (per_event, TOKENS_PER_EVENT_MAX, "count"),
            format!(
                "the server counts {} output tokens in {} events and does not say which event has \
                 how many: ITL is here a time per event, TPOT one per token",
                tokens.output, tokens.events
            ),
            "choose a tokenizer, or --continuous-usage or --return-token-ids where the server has it",
        ));
    }
    let difference = tokens.relative_difference.map(f64::abs);
    if let Some(difference) = difference.filter(|&share| share > TOKEN_DIFFERENCE_MAX) {
        notes.push(Reason::share(
            (ReasonKind::TokenCountsDiffer, Severity::Note),
            (difference, TOKEN_DIFFERENCE_MAX),
            "is the difference between our count of output tokens and the server's",
            "choose the tokenizer of this model",
        ));
    }
    notes
}

/// That the client is slower than it could be.
#[must_use]
pub fn debug_build() -> Reason {
    Reason::new(
        (ReasonKind::DebugBuild, Severity::Note),
        (1.0, 0.0, "count"),
        "this is a DEBUG BUILD of tokclock: its client is several times slower, so lag and ceiling \
         are not those of a release"
            .into(),
        "measure with a release build: cargo build --release",
    )
}

/// An open loop whose requests waited for the user's own limit.
fn held_back(report: &ClientReport, notes: &mut Vec<Reason>) {
    let by_cap = report.slip.as_ref().and_then(|slip| slip.by_cause.get("cap"));
    if let Some(waited) = by_cap.filter(|waited| waited.count > 0) {
        notes.push(Reason::new(
            (ReasonKind::CapReached, Severity::Note),
            (waited.count as f64, 0.0, "count"),
            format!(
                "{} requests waited because --max-in-flight was reached: the rate asked for was \
                 not offered to the server",
                waited.count
            ),
            "raise --max-in-flight, or lower --rate",
        ));
    }
}
