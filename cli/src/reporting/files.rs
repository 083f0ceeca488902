//! The files of a report, by format.

use std::io::{self, Write};

use tokclock_engine::measure::{LoadReport, Request, Run, Summary};
use tokclock_engine::record::SecondsLog;

use crate::args::Format;
use crate::exit::Failure;
use crate::report;
use crate::results::{HISTOGRAMS, Kept, Point};

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Page,
    Summaries,
    Requests,
    Markdown,
    Document,
    Cases,
    Histograms,
    Perfetto,
}

impl File {
    /// Those of a format, the one for stdout first.
    pub(super) fn of(format: Format) -> &'static [Self] {
        match format {
            Format::Html => &[Self::Page],
            Format::Csv => &[Self::Summaries, Self::Requests],
            Format::Md => &[Self::Markdown],
            Format::Json => &[Self::Document],
            Format::Junit => &[Self::Cases],
            Format::Hlog => &[Self::Histograms],
            Format::Perfetto => &[Self::Perfetto],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Page => "report.html",
            Self::Summaries => "report.csv",
            Self::Requests => "requests.csv",
            Self::Markdown => "report.md",
            Self::Document => "report.json",
            Self::Cases => "report.xml",
            Self::Histograms => "report.hlog",
            Self::Perfetto => "perfetto.json",
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// What cannot be read or written.
    pub(super) fn write(self, results: &[Kept], out: &mut dyn Write) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::could_not_run(format!("cannot write {}: {error}", self.name()))
        };
        let text = match self {
            Self::Page => report::html::page(results)?.into_bytes(),
            Self::Requests => return report::requests_csv(results, out),
            Self::Histograms => return histograms(results, out),
            Self::Perfetto => return report::perfetto(results, out),
            Self::Summaries => report::summary_csv(results)?,
            Self::Markdown => report::markdown(results).into_bytes(),
            Self::Cases => report::junit(results)?.into_bytes(),
            Self::Document => {
                let document = report::Document::of(results);
                serde_json::to_writer_pretty(&mut *out, &document)
                    .map_err(|error| failed(error.into()))?;
                b"\n".to_vec()
            }
        };
        out.write_all(&text).map_err(failed)
    }
}

/// Latencies by second, from the requests, and what was kept of each run as a whole.
fn histograms(results: &[Kept], mut out: &mut dyn Write) -> Result<(), Failure> {
    let mut log = SecondsLog::default();
    for kept in results {
        for point in kept.points()? {
            let Some(summary) = &point.summary else { continue };
            let Run { start_realtime_ns, end_ns, .. } = summary.run;
            log.begin(&prefix(results, kept, &point), start_realtime_ns, end_ns);
            let (is_closed, stream) = loop_of(summary);
            point.each_row(|row| {
                log.add(&Request::of(&row, is_closed, stream));
                Ok(())
            })?;
            let path = point.path.join(HISTOGRAMS);
            let whole = match std::fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                read => read.and_then(|text| log.add_whole(&text)),
            };
            whole.map_err(|error| {
                Failure::could_not_run(format!("cannot read {}: {error}", path.display()))
            })?;
        }
    }
    log.write(&mut out)
        .map_err(|error| Failure::could_not_run(format!("cannot write report.hlog: {error}")))
}

/// What tells the tags of several load points apart; nothing where there is one.
fn prefix(results: &[Kept], kept: &Kept, point: &Point<'_>) -> String {
    let mut parts = Vec::new();
    if results.len() > 1 {
        parts.push(kept.path.display().to_string());
    }
    if !point.within.is_empty() {
        parts.push(point.within.clone());
    }
    let safe =
        |char: char| if char.is_alphanumeric() || "-_./".contains(char) { char } else { '_' };
    parts.iter().map(|part| format!("{part}/").chars().map(safe).collect::<String>()).collect()
}

/// Whether the loop was closed, and answers were streamed.
fn loop_of(summary: &Summary) -> (bool, bool) {
    let is_closed = matches!(summary.workload.load, LoadReport::Closed { .. });
    (is_closed, summary.target.stream)
}
