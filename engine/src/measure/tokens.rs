//! Token totals of the successful requests, and whether two counts of them agree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::ratio;
use crate::record::{Row, TokenSource};

/// Tokens of the successful requests of the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input tokens: by the server where it said so, else by our tokenizer.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Output events that they came in; 0 where answers were not streamed.
    pub events: u64,
    /// Reasoning tokens among them; null if the server never said.
    pub reasoning: Option<u64>,
    /// Where `output` comes from: `usage`, `token_ids`, `client`, `events` (one per output event),
    /// or `mixed`; null without any.
    pub source: Option<String>,
    /// How many requests were counted by each.
    pub sources: BTreeMap<String, u64>,
    /// Output tokens by our tokenizer, over the requests that both sides counted, or over all that
    /// it counted if there are none such; null if it counted none.
    pub client_count: Option<u64>,
    /// Output tokens by the server's usage or token ids, likewise.
    pub server_count: Option<u64>,
    /// `(client_count − server_count) / server_count` over the requests that both counted.
    pub relative_difference: Option<f64>,
    /// What `output` means, where that needs saying.
    pub note: Option<String>,
}

/// Sums while rows go by.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenSums {
    input: u64,
    output: u64,
    events: u64,
    reasoning: Option<u64>,
    sources: BTreeMap<String, u64>,
    client_alone: Option<u64>,
    server_alone: Option<u64>,
    /// Client and server counts of the requests that have both.
    both: Option<(u64, u64)>,
}

impl TokenSums {
    /// Adds a successful request of the measured part.
    pub(super) fn add(&mut self, row: &Row) {
        let input = row.input_tokens.or(row.client_input_tokens).unwrap_or(0);
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(row.output_tokens.unwrap_or(0));
        self.events = self.events.saturating_add(row.events.into());
        self.reasoning = plus(self.reasoning, row.reasoning_tokens);
        if let Some(source) = row.output_source {
            *self.sources.entry(name(source).into()).or_default() += 1;
        }
        let by_server =
            matches!(row.output_source, Some(TokenSource::Usage | TokenSource::TokenIds));
        let server = row.output_tokens.filter(|_| by_server);
        let counted =
            || row.output_tokens.filter(|_| row.output_source == Some(TokenSource::Client));
        let client = row.client_output_tokens.or_else(counted);
        self.client_alone = plus(self.client_alone, client);
        self.server_alone = plus(self.server_alone, server);
        if let (Some(client), Some(server)) = (client, server) {
            let (c, s) = self.both.unwrap_or_default();
            self.both = Some((c.saturating_add(client), s.saturating_add(server)));
        }
    }

    /// What the sums come to.
    pub(super) fn finish(self) -> Tokens {
        let source = match self.sources.len() {
            0 => None,
            1 => self.sources.keys().next().cloned(),
            _ => Some("mixed".into()),
        };
        let note = match source.as_deref() {
            Some("events") => Some("one token per output event: an event count"),
            Some("mixed") if self.sources.contains_key("events") => {
                Some("of some requests one token per output event: an event count")
            }
            _ => None,
        };
        Tokens {
            input: self.input,
            output: self.output,
            events: self.events,
            reasoning: self.reasoning,
            source,
            sources: self.sources,
            client_count: self.both.map(|(client, _)| client).or(self.client_alone),
            server_count: self.both.map(|(_, server)| server).or(self.server_alone),
            relative_difference: self
                .both
                .and_then(|(client, server)| ratio(client as f64 - server as f64, server as f64)),
            note: note.map(Into::into),
        }
    }
}

fn plus(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        (sum, more) => sum.or(more),
    }
}

fn name(source: TokenSource) -> &'static str {
    match source {
        TokenSource::Usage => "usage",
        TokenSource::TokenIds => "token_ids",
        TokenSource::Client => "client",
        TokenSource::Events => "events",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::row;

    fn sum(rows: &[Row]) -> Tokens {
        let mut sums = TokenSums::default();
        rows.iter().for_each(|row| sums.add(row));
        sums.finish()
    }

    #[test]
    fn both_counts_are_compared_over_the_requests_that_have_both() {
        let mut both = row(0, &[1, 2, 3, 4]);
        both.client_output_tokens = Some(5);
        let got = sum(&[both, row(1, &[1, 2])]);
        assert_eq!((got.output, got.client_count, got.server_count), (6, Some(5), Some(4)));
        assert_eq!(got.relative_difference, Some(0.25));
        assert_eq!(got.source.as_deref(), Some("usage"));
        assert_eq!((got.reasoning, got.note), (None, None));
    }

    #[test]
    fn a_count_of_events_says_so() {
        let mut counted = row(0, &[1, 2]);
        counted.output_source = Some(TokenSource::Events);
        counted.reasoning_tokens = Some(1);
        let got = sum(&[counted]);
        assert_eq!(got.source.as_deref(), Some("events"));
        assert!(got.note.unwrap().contains("event count"));
        assert_eq!((got.client_count, got.server_count), (None, None));
        assert_eq!(got.reasoning, Some(1));
    }
}
