//! GPUs beside a load: opened before it, reported after it. What cannot be had of them costs a line and
//! nothing else.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokclock_engine::measure::{GpuSums, GpusReport, Summary, Window};
use tokclock_engine::run::{Way, locate};
use tokclock_engine::telemetry::gpu::{
    DcgmSource, GPUS_FILE, GpuSource, GpuTold, GpuWatch, NvmlSource, read_log,
};
use tokclock_engine::workload::{Dialect, Tls, Workload};

use crate::output::Screen;
use crate::report::text::escape;
use crate::resolve::gpus::GpusAsked;

/// The GPUs that a command looks at.
#[derive(Default)]
pub(crate) struct Gpus {
    watch: Option<Arc<GpuWatch>>,
    /// Sources about which something was said: of several loads, once is enough.
    said: Mutex<BTreeSet<String>>,
}

impl Gpus {
    /// Opens what was asked for, as far as it is there. `tls` is how the servers are spoken to.
    pub(crate) fn open(
        asked: &GpusAsked,
        workload: &Workload,
        is_embedded: bool,
        screen: Screen,
    ) -> Self {
        let mut sources: Vec<Box<dyn GpuSource>> = Vec::new();
        if let Some(chosen) = asked.on_host(&workload.target.endpoints, is_embedded) {
            match NvmlSource::open(chosen) {
                Ok((source, remark)) => {
                    if let Some(remark) = remark {
                        screen.note(format_args!("--gpu: {remark}; the others are left out"));
                    }
                    sources.push(Box::new(source));
                }
                // Whoever did not ask for them does not miss them.
                Err(reason) if chosen.is_some() => {
                    screen.note(format_args!("--gpu: {reason}; the run goes on without them"));
                }
                Err(_) => {}
            }
        }
        // The name in a certificate is the exporter's own.
        let tls = Tls { server_name: None, ..workload.target.tls.clone() };
        for url in &asked.dcgm {
            match dcgm(url, &tls) {
                Ok(source) => sources.push(Box::new(source)),
                Err(reason) => screen.note(format_args!(
                    "--dcgm {}: {}; the run goes on without it",
                    escape(url),
                    escape(&reason)
                )),
            }
        }
        let watch = GpuWatch::new(asked.interval_ns, sources);
        let watch = watch.has_sources().then(|| Arc::new(watch));
        Self { watch, said: Mutex::default() }
    }

    /// What a run needs to look at them.
    pub(crate) fn watch(&self) -> Option<Arc<GpuWatch>> {
        self.watch.clone()
    }

    /// Puts what was seen during the run of `summary`, whose result lies in `dir`, into it.
    pub(crate) fn report(&self, dir: &Path, summary: &mut Summary, screen: Screen) {
        let Some(watch) = &self.watch else { return };
        let told = watch.told();
        for one in &told {
            self.say(one, screen);
        }
        match report(dir, summary, Some(watch.interval_ns()), &told) {
            Ok(gpus) => summary.gpus = gpus,
            Err(error) => self.say(&unreadable(&error), screen),
        }
    }

    /// Says of a source that it failed, unless that was said before.
    fn say(&self, told: &GpuTold, screen: Screen) {
        let Some(reason) = &told.reason else { return };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.insert(told.source.clone()) {
            return;
        }
        let source = if told.source.is_empty() { "GPUs" } else { &told.source };
        let of = match told.looks {
            0 => String::new(),
            looks => format!("{} of {looks} looks brought nothing: ", told.failed),
        };
        screen.note(format_args!("{}: {of}{}", escape(source), escape(reason)));
    }
}

fn unreadable(error: &io::Error) -> GpuTold {
    let reason = Some(format!("cannot read back {GPUS_FILE}: {error}"));
    GpuTold { reason, ..GpuTold::default() }
}

fn dcgm(url: &str, tls: &Tls) -> Result<DcgmSource, String> {
    let located = locate(url, Dialect::Template, &Way::default());
    let located = located.map_err(|error| error.to_string())?;
    DcgmSource::open(&located.endpoint, tls)
}

/// What the GPUs of a result come to, from the file in its directory; `None` where there is none.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn report(
    dir: &Path,
    summary: &Summary,
    interval_ns: Option<u64>,
    told: &[GpuTold],
) -> io::Result<Option<GpusReport>> {
    let path = dir.join(GPUS_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let window = &summary.run.window;
    let window = Window { start: window.start_ns, end: window.end_ns };
    let mut sums = GpuSums::new(window, interval_ns);
    for line in read_log(&path)? {
        sums.add(&line?);
    }
    Ok(sums.finish(&summary.rate, told))
}
