//! What a page reads of a run beside its summary: rows, histograms, seconds. What cannot be read is
//! said on the page, which goes without it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tokclock_engine::measure::Summary;
use tokclock_engine::measure::views::{Pools, Scene, Viewer, Views, merged, pools};

use crate::results::Kept;

/// Bytes of a file that is read whole, at most: ten days of seconds have less.
const FILE_MAX: u64 = 256 << 20;
const NS_PER_S: f64 = 1e9;

/// What was read.
#[derive(Debug)]
pub(super) struct Seen {
    /// Of the rows, if there are any to read.
    pub(super) views: Option<Views>,
    /// Of the histograms.
    pub(super) pools: Pools,
    /// Of the seconds.
    pub(super) tokens: Option<TokenRate>,
    /// What could not be read.
    pub(super) missing: Vec<String>,
}

/// Output tokens over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TokenRate {
    /// When the first bin begins, s from the run's start; it may begin before.
    pub(super) from_s: f64,
    /// Width of a bin, s.
    pub(super) width_s: f64,
    /// Output tokens that arrived in each, per second.
    pub(super) per_second: Vec<f64>,
}

impl Seen {
    /// Reads what there is.
    pub(super) fn of(kept: &Kept, summary: &Summary) -> Self {
        let mut missing = Vec::new();
        let views = views(kept, summary).map_err(|error| {
            missing.push(format!("requests.jsonl: {error}; no chart of single requests is shown"));
        });
        let log = whole(&kept.path.join("histograms.hlog"));
        let pools = log.and_then(|log| pools(&log)).unwrap_or_else(|error| {
            missing.push(format!("histograms.hlog: {error}; no chart of gaps is shown"));
            Pools::default()
        });
        let seconds = whole(&kept.path.join("windows.csv"));
        let tokens = seconds.and_then(|text| token_rate(&text, summary.run.start_realtime_ns));
        let tokens = tokens.map_err(|error| {
            missing.push(format!("windows.csv: {error}; no chart of output tokens is shown"));
        });
        Self { views: views.ok(), pools, tokens: tokens.ok(), missing }
    }
}

fn views(kept: &Kept, summary: &Summary) -> io::Result<Views> {
    let mut viewer = Viewer::new(Scene::of(summary));
    for row in kept.rows()? {
        viewer.add(&row?);
    }
    Ok(viewer.finish())
}

fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The output tokens of `windows.csv`.
fn token_rate(text: &[u8], start_realtime_ns: u64) -> io::Result<TokenRate> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut reader = csv::Reader::from_reader(text);
    let head = reader.headers()?.clone();
    let column = |name: &str| {
        head.iter().position(|one| one == name).ok_or_else(|| bad(&format!("no column {name}")))
    };
    let (time, tokens) = (column("unix_time_s")?, column("output_tokens")?);
    let mut first = None;
    let mut counts = Vec::new();
    for record in reader.records() {
        let record = record?;
        let number = |at: usize| record.get(at).and_then(|cell| cell.parse::<u64>().ok());
        let (Some(at), Some(count)) = (number(time), number(tokens)) else {
            return Err(bad(&format!("line {} is no second", counts.len() + 2)));
        };
        first.get_or_insert(at);
        counts.push(count);
    }
    let (together, sums) = merged(&counts);
    let width_s = together as f64;
    let from_s = first.map_or(0.0, |at| at as f64 - start_realtime_ns as f64 / NS_PER_S);
    let per_second = sums.iter().map(|sum| *sum as f64 / width_s).collect();
    Ok(TokenRate { from_s, width_s, per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_by_the_names_of_columns() {
        let text = b"time_s,unix_time_s,other,output_tokens\n0,100,x,7\n1,101,x,9\n";
        let rate = token_rate(text, 100_250_000_000).unwrap();
        assert_eq!(rate, TokenRate { from_s: -0.25, width_s: 1.0, per_second: vec![7.0, 9.0] });
        for (bad, why) in [
            (&b"time_s,output_tokens\n"[..], "no column unix_time_s"),
            (b"unix_time_s,output_tokens\n1,x\n", "line 2 is no second"),
        ] {
            assert_eq!(token_rate(bad, 0).unwrap_err().to_string(), why);
        }
    }
}
