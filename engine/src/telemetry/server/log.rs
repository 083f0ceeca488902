//! `servers.csv`: a line for each look at each server, appended as they come and read back.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use csv::{StringRecord, Writer};

use super::figures::{Counter, Gauge, Pair};
use super::kinds::Kind;
use super::reading::{By, Counted, Reading, Share};

/// Name of the file in a result directory.
pub const SERVERS_FILE: &str = "servers.csv";

/// The file while it is written.
pub(super) struct Log(Mutex<File>);

impl Log {
    /// Makes the file, with its head.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(&line(&columns())?)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends a reading, whole.
    pub(super) fn add(&self, reading: &Reading) -> io::Result<()> {
        let line = line(&cells(reading))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }
}

/// The readings in a file, in its order. A last line that was not written to its end, by a run that was
/// killed, is left out.
///
/// # Errors
/// It cannot be read.
pub fn read_log(path: &Path) -> io::Result<impl Iterator<Item = Reading> + use<>> {
    let mut file = File::open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    file.seek(SeekFrom::Start(0))?;
    let is_torn = last != [b'\n'];
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    let head = reader.headers()?.clone();
    let mut rows = reader.into_records().map_while(Result::ok).peekable();
    Ok(std::iter::from_fn(move || {
        let row = rows.next()?;
        let is_whole = !is_torn || rows.peek().is_some();
        Some(reading(&head, &row).filter(|_| is_whole))
    })
    .flatten())
}

fn line(cells: &[String]) -> io::Result<Vec<u8>> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(cells)?;
    writer.into_inner().map_err(|error| error.into_error())
}

fn columns() -> Vec<String> {
    let own = ["t_ns", "took_ns", "url", "by", "place", "kind", "error"];
    let mut all: Vec<String> = own.map(str::to_owned).to_vec();
    all.extend(Gauge::ALL.iter().map(|gauge| gauge.name().to_owned()));
    all.push("kv_use_max".to_owned());
    all.extend(Counter::ALL.iter().map(|counter| counter.name().to_owned()));
    all.extend(Pair::ALL.iter().flat_map(|pair| sum_and_count(*pair)));
    all.extend(Pair::WITH_BUCKETS.iter().map(|pair| buckets_column(*pair)));
    all
}

/// The columns of a pair.
fn sum_and_count(pair: Pair) -> [String; 2] {
    let name = pair.name();
    match pair {
        Pair::Prefix | Pair::ExternalPrefix => [format!("{name}_hits"), format!("{name}_queries")],
        Pair::TransferBytes => [format!("{name}_sum"), format!("{name}_count")],
        _ => [format!("{name}_ns_sum"), format!("{name}_count")],
    }
}

fn buckets_column(pair: Pair) -> String {
    format!("{}_buckets", pair.name())
}

fn cells(reading: &Reading) -> Vec<String> {
    let Share { place, of } = reading.share;
    let place = place.map_or_else(|| "-".to_owned(), |place| place.to_string());
    let mut cells = vec![
        reading.at_ns.to_string(),
        reading.took_ns.to_string(),
        reading.url.clone(),
        reading.by.word().to_owned(),
        format!("{place}/{of}"),
    ];
    let counted = match &reading.said {
        Ok(counted) => counted,
        Err(reason) => {
            cells.extend([String::new(), reason.clone()]);
            cells.resize(columns().len(), String::new());
            return cells;
        }
    };
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    cells.extend([counted.kind.name().to_owned(), String::new()]);
    cells.extend(Gauge::ALL.iter().map(|gauge| known(counted.gauge(*gauge))));
    cells.push(known(counted.kv_use_max));
    cells.extend(Counter::ALL.iter().map(|counter| known(counted.counter(*counter))));
    cells.extend(Pair::ALL.iter().flat_map(|pair| {
        let pair = counted.pair(*pair);
        [known(pair.map(|(sum, _)| sum)), known(pair.map(|(_, count)| count))]
    }));
    cells.extend(Pair::WITH_BUCKETS.iter().map(|pair| {
        let all = counted.buckets(*pair).iter();
        all.map(|(bound, count)| format!("{bound}:{count}")).collect::<Vec<_>>().join(" ")
    }));
    cells
}

fn reading(head: &StringRecord, row: &StringRecord) -> Option<Reading> {
    let cell = |name: &str| {
        let at = head.iter().position(|column| column == name)?;
        row.get(at).filter(|cell| !cell.is_empty())
    };
    let number = |name: &str| cell(name)?.parse::<f64>().ok();
    let whole = |name: &str| cell(name)?.parse::<u64>().ok();
    let (place, of) = cell("place")?.split_once('/')?;
    let said = match cell("error") {
        Some(reason) => Err(reason.to_owned()),
        None => {
            let mut counted = Counted::nothing(Kind::named(cell("kind")?)?);
            for gauge in Gauge::ALL {
                counted.set_gauge(*gauge, number(gauge.name()));
            }
            counted.kv_use_max = number("kv_use_max").filter(|most| most.is_finite());
            for counter in Counter::ALL {
                counted.set_counter(*counter, number(counter.name()));
            }
            for pair in Pair::ALL {
                let [sum, count] = sum_and_count(*pair).map(|column| number(&column));
                counted.set_pair(*pair, sum.zip(count));
            }
            for pair in Pair::WITH_BUCKETS {
                let buckets = cell(&buckets_column(pair)).and_then(buckets);
                counted.set_buckets(pair, buckets.unwrap_or_default());
            }
            Ok(counted)
        }
    };
    Some(Reading {
        at_ns: whole("t_ns")?,
        took_ns: whole("took_ns")?,
        url: cell("url")?.to_owned(),
        by: if cell("by")? == By::Named.word() { By::Named } else { By::Target },
        share: Share { place: place.parse().ok(), of: of.parse().ok()? },
        said,
    })
}

fn buckets(text: &str) -> Option<Vec<(f64, f64)>> {
    let one = |bucket: &str| {
        let (bound, count) = bucket.split_once(':')?;
        Some((bound.parse().ok()?, count.parse().ok().filter(|count: &f64| count.is_finite())?))
    };
    text.split(' ').map(one).collect()
}
