//! `gpus.csv`: one line for each device at each look, appended as they are seen.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{Device, Gauge, GpuSource, Reading, Sample, Throttle};

/// Name of the file in a result directory.
pub const GPUS_FILE: &str = "gpus.csv";
/// The columns before the figures.
const COLUMNS: [&str; 7] = ["time_ns", "source", "host", "index", "instance", "uuid", "name"];
/// The column after them.
const THROTTLE: &str = "throttle_reasons";

/// The file while it grows.
pub(super) struct Log {
    out: csv::Writer<File>,
}

impl Log {
    /// Begins it in the directory of a result.
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        let mut out = csv::Writer::from_path(dir.join(GPUS_FILE))?;
        let figures = Gauge::ALL.map(Gauge::name);
        out.write_record(COLUMNS.iter().chain(&figures).chain([&THROTTLE]))?;
        out.flush()?;
        Ok(Self { out })
    }

    /// Appends what a source told; it is in the file afterwards.
    pub(super) fn add(&mut self, source: &dyn GpuSource, samples: &[Sample]) -> io::Result<()> {
        for sample in samples {
            let Some(device) = source.devices().get(sample.device) else { continue };
            self.out.write_record(cells(source.name(), device, sample))?;
        }
        self.out.flush()
    }
}

fn cells(source: &str, device: &Device, sample: &Sample) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut cells = vec![
        sample.at.to_string(),
        source.to_owned(),
        text(&device.host),
        device.index.map(|index| index.to_string()).unwrap_or_default(),
        text(&device.instance),
        text(&device.uuid),
        text(&device.name),
    ];
    let figure = |gauge| sample.reading.get(gauge).map(|value| value.to_string());
    cells.extend(Gauge::ALL.map(|gauge| figure(gauge).unwrap_or_default()));
    cells.push(sample.reading.throttle.map(Throttle::cell).unwrap_or_default());
    cells
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// When, ns from the run's start.
    pub at: u64,
    /// The source.
    pub source: String,
    /// The device.
    pub device: Device,
    /// What it told.
    pub reading: Reading,
}

/// The lines of a file; one that was cut off at its end is left out.
///
/// # Errors
/// It cannot be read, or is no such file.
pub fn read_log(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Logged>> + use<>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path)?;
    let head: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    if !head.iter().any(|name| name == COLUMNS[0]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no column time_ns"));
    }
    Ok(reader.into_records().filter_map(move |record| {
        let record = match record {
            Ok(record) if record.len() < head.len() => return None,
            Ok(record) => record,
            Err(error) => return Some(Err(error.into())),
        };
        let cell = |name: &str| {
            let place = head.iter().position(|one| one == name)?;
            record.get(place).filter(|text| !text.is_empty())
        };
        let line = || record.position().map_or(0, csv::Position::line);
        let bad = || {
            let text = format!("line {} has no time", line());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        Some(logged(&cell).ok_or_else(bad))
    }))
}

fn logged<'a>(cell: &impl Fn(&str) -> Option<&'a str>) -> Option<Logged> {
    let text = |name: &str| cell(name).map(str::to_owned);
    let throttle = Throttle::of_cell(cell(THROTTLE).unwrap_or_default());
    let mut reading = Reading::throttled(throttle);
    for gauge in Gauge::ALL {
        if let Some(value) = cell(gauge.name()).and_then(|text| text.parse().ok()) {
            reading.set(gauge, value);
        }
    }
    Some(Logged {
        at: cell(COLUMNS[0])?.parse().ok()?,
        source: text("source").unwrap_or_default(),
        device: Device {
            index: cell("index").and_then(|number| number.parse().ok()),
            instance: text("instance"),
            uuid: text("uuid"),
            name: text("name"),
            host: text("host"),
        },
        reading,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_and_a_cut_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = Fake::of(1);
        source.devices[0].name = Some("odd, \"name\"\nof two lines".to_owned());
        let reading = Reading::throttled(Some(Throttle(4)))
            .with(Gauge::Power, 412.25)
            .with(Gauge::Energy, 123_456_789.125);
        let sample = Sample { device: 0, at: 17, reading: reading.clone() };
        let mut log = Log::create(dir.path()).unwrap();
        log.add(&source, &[sample.clone(), Sample { device: 9, ..sample.clone() }]).unwrap();
        log.add(&source, &[Sample { at: 18, ..sample }]).unwrap();
        let path = dir.path().join(GPUS_FILE);
        let lines: Vec<Logged> = read_log(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].at, lines[1].at), (17, 18));
        assert_eq!((&lines[0].device, &lines[0].reading), (&source.devices[0], &reading));

        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 40]).unwrap();
        assert_eq!(read_log(&path).unwrap().count(), 1);
        std::fs::write(&path, "a,b\n1,2\n").unwrap();
        assert!(read_log(&path).is_err());
    }
}
