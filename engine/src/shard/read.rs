//! Reads what a shard has left: `shard.json`, and `seconds.hlog` line by line, in memory that does not
//! grow with it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;

use super::{SECONDS_FILE, SHARD_FILE, ShardFile};
use crate::measure::Facts;
use crate::record::{Decoder, Pooled, Remains, histogram, read_rows};
use crate::run::REQUESTS_FILE;
use crate::workload::Workload;

/// Bytes of a line, at most: a histogram of ours with every bucket in use has less.
const LINE_MAX: u64 = 4 << 20;
/// Tags that are added up, at most.
const TAGS_MAX: usize = 64;
/// Seconds from the start of a log that a line may lie, at most: longer than any run.
const START_MAX_S: f64 = 1e8;

/// The directory of a shard.
#[derive(Debug)]
pub struct Left {
    /// Where it is.
    pub dir: PathBuf,
    /// What it says of itself.
    pub file: ShardFile,
}

impl Left {
    /// Reads the `shard.json` of `dir`.
    ///
    /// # Errors
    /// If there is none, or it is none.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let text = fs::read(dir.join(SHARD_FILE))?;
        let file = ShardFile::read(&text).map_err(bad)?;
        Ok(Self { dir: dir.to_owned(), file })
    }

    /// The facts of a shard of `workload` that was killed: what its records and its histograms tell.
    /// Rows hold every gap up to the end where they hold output events; else the seconds do, up to
    /// the last whole one.
    ///
    /// # Errors
    /// If a file cannot be read, or holds what no run writes.
    pub fn remains(&self, workload: &Workload) -> io::Result<Facts> {
        let start = self.file.start();
        let start = (start.monotonic_ns, start.realtime_ns);
        let mut remains = Remains::new(workload).started(start, self.file.header.start_at_ns);
        let requests = self.dir.join(REQUESTS_FILE);
        if requests.is_file() {
            for row in read_rows(&requests)? {
                remains.add(&row?, workload);
            }
        }
        let has_chunks = remains.has_chunks();
        let mut facts = remains.facts(workload);
        let seconds = self.dir.join(SECONDS_FILE);
        if seconds.is_file() {
            let mut sums = Sums::default();
            add_seconds(&seconds, &mut sums)?;
            let Pooled { icl, itl, lag, lag_output } = sums.pooled();
            (facts.pooled.lag, facts.pooled.lag_output) = (lag, lag_output);
            if !has_chunks {
                (facts.pooled.icl, facts.pooled.itl) = (icl, itl);
            }
        }
        Ok(facts)
    }
}

/// Sums of histograms, one for each tag.
#[derive(Default)]
pub struct Sums {
    decoder: Decoder,
    sums: Vec<(String, Histogram<u64>)>,
}

impl Sums {
    /// The sum of a tag, if it has come.
    #[must_use]
    pub fn get(&self, tag: &str) -> Option<&Histogram<u64>> {
        self.sums.iter().find(|(name, _)| name == tag).map(|(_, sum)| sum)
    }

    /// All of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Histogram<u64>)> {
        self.sums.iter().map(|(tag, sum)| (tag.as_str(), sum))
    }

    /// Those that no single request knows; `lag` holds every read.
    #[must_use]
    pub fn pooled(&self) -> Pooled {
        let of = |tag| self.get(tag).cloned().unwrap_or_else(histogram);
        Pooled { icl: of("icl"), itl: of("itl"), lag: of("lag"), lag_output: of("lag_output") }
    }

    fn add(&mut self, line: &Line<'_>, bytes: &[u8]) -> Result<(), String> {
        let place = match self.sums.iter().position(|(name, _)| name == line.tag) {
            Some(place) => place,
            None if self.sums.len() < TAGS_MAX => {
                self.sums.push((line.tag.to_owned(), histogram()));
                self.sums.len() - 1
            }
            None => return Err("it has too many tags".into()),
        };
        self.decoder.add(bytes, &mut self.sums[place].1)
    }
}

/// Adds up what a `seconds.hlog` holds, by tag. A last line that is cut is left out.
///
/// # Errors
/// If it cannot be read, or a line is none of a shard's, with its number.
pub fn add_seconds(path: &Path, sums: &mut Sums) -> io::Result<()> {
    each_line(File::open(path)?, &mut |line, bytes| sums.add(line, bytes))
}

/// Hands on the histograms of a `seconds.hlog`, each with its tag and the start of its second, as it is
/// counted from the second in which the run began. One second may come in several parts, which add up.
/// A last line that is cut is left out. Where sums are all that is wanted, [`add_seconds`] is quicker.
///
/// # Errors
/// If it cannot be read, or a line is none of a shard's, with its number.
pub fn read_seconds(
    path: &Path,
    each: &mut dyn FnMut(&str, Duration, &Histogram<u64>),
) -> io::Result<()> {
    read_seconds_of(File::open(path)?, each)
}

/// The same of a log that lies elsewhere.
///
/// # Errors
/// The same.
pub fn read_seconds_of(
    log: impl Read,
    each: &mut dyn FnMut(&str, Duration, &Histogram<u64>),
) -> io::Result<()> {
    let (mut decoder, mut values) = (Decoder::default(), histogram());
    each_line(log, &mut |line, bytes| {
        values.reset();
        decoder.add(bytes, &mut values)?;
        each(line.tag, line.start, &values);
        Ok(())
    })
}

/// What stands before the histogram of a line.
struct Line<'a> {
    tag: &'a str,
    start: Duration,
}

/// What is done with a line and the bytes of its histogram.
type Use<'a> = &'a mut dyn FnMut(&Line<'_>, &[u8]) -> Result<(), String>;

fn each_line(log: impl Read, each: Use<'_>) -> io::Result<()> {
    let mut log = BufReader::with_capacity(256 << 10, log);
    let (mut text, mut bytes) = (Vec::new(), Vec::new());
    for number in 1_u64.. {
        text.clear();
        (&mut log).take(LINE_MAX).read_until(b'\n', &mut text)?;
        let Some(line) = text.strip_suffix(b"\n") else {
            if text.len() as u64 == LINE_MAX {
                return Err(bad(format!("line {number}: it is too long")));
            }
            break;
        };
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let used = parse(line).and_then(|(line, encoded)| {
            bytes.clear();
            STANDARD.decode_vec(encoded, &mut bytes).map_err(|_| "it is not base64")?;
            each(&line, &bytes)
        });
        used.map_err(|error| bad(format!("line {number}: {error}")))?;
    }
    Ok(())
}

/// A line and its encoded histogram: `Tag=NAME,START,LENGTH,MOST,HISTOGRAM`.
fn parse(line: &[u8]) -> Result<(Line<'_>, &str), String> {
    let none = || "it is no line of an interval log".to_owned();
    let line = std::str::from_utf8(line).map_err(|_| none())?;
    let (tag, rest) = line
        .strip_prefix("Tag=")
        .and_then(|line| line.split_once(','))
        .ok_or_else(|| "it has no tag".to_owned())?;
    let mut parts = rest.splitn(4, ',');
    let (Some(start), Some(length), Some(most), Some(encoded)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(none());
    };
    let number = |text: &str| {
        let number: f64 = text.parse().map_err(|_| none())?;
        if (0.0..=f64::MAX).contains(&number) { Ok(number) } else { Err(none()) }
    };
    for text in [length, most] {
        number(text)?;
    }
    let start = Some(number(start)?).filter(|start| *start <= START_MAX_S);
    let start = Duration::try_from_secs_f64(start.ok_or_else(none)?).map_err(|_| none())?;
    Ok((Line { tag, start }, encoded))
}

fn bad(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
