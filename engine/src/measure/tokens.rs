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
    /// Input tokens by our tokenizer, over the requests that both sides counted, or over all that it
    /// counted if there are none such: what was said, without what a chat template adds.
    #[serde(default)]
    pub input_client_count: Option<u64>,
    /// Input tokens by the server, likewise.
    #[serde(default)]
    pub input_server_count: Option<u64>,
    /// Input tokens of a request by the server beyond those by our tokenizer: what its template adds,
    /// where both count alike.
    #[serde(default)]
    pub input_added: Option<Added>,
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

/// Tokens that the server counts beyond ours, over the requests that both counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The least.
    pub min: i64,
    /// The median.
    pub p50: i64,
    /// The most.
    pub max: i64,
}

/// Sums while rows go by.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenSums {
    input: u64,
    input_client: Option<u64>,
    /// Input tokens by client and server of the requests that have both.
    input_both: Option<(u64, u64)>,
    /// How often the server counted so many more than we.
    added: BTreeMap<i64, u64>,
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
        self.input_client = plus(self.input_client, row.client_input_tokens);
        if let (Some(client), Some(server)) = (row.client_input_tokens, row.input_tokens) {
            let (c, s) = self.input_both.unwrap_or_default();
            self.input_both = Some((c.saturating_add(client), s.saturating_add(server)));
            let added = i128::from(server) - i128::from(client);
            *self.added.entry(i64::try_from(added).unwrap_or(i64::MAX)).or_default() += 1;
        }
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
            input_client_count: self.input_both.map(|(client, _)| client).or(self.input_client),
            input_server_count: self.input_both.map(|(_, server)| server),
            input_added: added(&self.added),
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

/// The middle and the ends of what is counted by value.
fn added(counts: &BTreeMap<i64, u64>) -> Option<Added> {
    let (&min, &max) = (counts.keys().next()?, counts.keys().next_back()?);
    let half = counts.values().sum::<u64>().div_ceil(2);
    let mut so_far = 0;
    let p50 = counts.iter().find_map(|(&value, &count)| {
        so_far += count;
        (so_far >= half).then_some(value)
    })?;
    Some(Added { min, p50, max })
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
    fn what_a_template_adds_is_told_apart() {
        let asked = |index, client, server| Row {
            client_input_tokens: Some(client),
            input_tokens: server,
            ..row(index, &[1])
        };
        let rows = [asked(0, 1, Some(5)), asked(1, 10, Some(14)), asked(2, 7, Some(12))];
        let got = sum(&rows);
        assert_eq!((got.input_client_count, got.input_server_count), (Some(18), Some(31)));
        assert_eq!(got.input_added, Some(Added { min: 4, p50: 4, max: 5 }));
        assert_eq!(got.input, 31, "what the server counts is what was sent");
        let silent = sum(&[asked(0, 9, None)]);
        assert_eq!((silent.input_client_count, silent.input_server_count), (Some(9), None));
        assert_eq!((silent.input_added, silent.input), (None, 9));
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
