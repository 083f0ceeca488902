//! GPUs over the measurement window: what they did, what it took, what came of it.

mod energy;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::sums::Sums;
use super::distribution::ratio;
use super::rate::{Rate, Window};
use crate::telemetry::gpu::{Device, GpuTold, Logged};

/// What is known of the GPUs of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpusReport {
    /// Where figures came from.
    pub sources: Vec<GpuSourceReport>,
    /// How often they were looked at, ns; null where that is not known.
    pub interval_ns: Option<u64>,
    /// The measurement window, which all figures are of, ns from the run's start.
    pub window_ns: [u64; 2],
    /// Each device.
    pub devices: Vec<GpuReport>,
    /// GPUs that these are: instances of one count once, and so does one that two sources know.
    pub count: u64,
    /// Energy of all of them over the window, J; null where that of one is not known.
    pub energy_j: Option<f64>,
    /// The smallest share of the window over which the energy of a GPU is known; over the rest its
    /// mean power is taken to hold.
    pub energy_covers: Option<f64>,
    /// Power of all of them, W.
    pub mean_power_w: Option<f64>,
    /// Output tokens for each joule.
    pub output_tokens_per_joule: Option<f64>,
    /// Joules for each output token.
    pub joules_per_output_token: Option<f64>,
    /// Input tokens for each joule.
    pub input_tokens_per_joule: Option<f64>,
    /// Output tokens per second for each GPU.
    pub output_tps_per_gpu: Option<f64>,
    /// Input tokens per second for each GPU.
    pub input_tps_per_gpu: Option<f64>,
}

/// Where figures of GPUs came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSourceReport {
    /// `NVML`, or `DCGM at` a URL.
    pub source: String,
    /// Looks; null where nobody counted.
    pub looks: Option<u64>,
    /// Those that brought nothing.
    pub failed: Option<u64>,
    /// Why the last of those did not.
    pub reason: Option<String>,
}

/// One device over the window. What it does not tell is null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReport {
    /// Its number on its host.
    pub index: Option<u32>,
    /// The instance, of a GPU that is divided.
    pub instance: Option<String>,
    /// What no other GPU is called.
    pub uuid: Option<String>,
    /// Its model.
    pub name: Option<String>,
    /// The host it is in; null for this one.
    pub host: Option<String>,
    /// Which source told of it.
    pub source: String,
    /// Looks in the window that brought something of it.
    pub samples: u64,
    /// Mean time between these, ns.
    pub sampled_every_ns: Option<u64>,
    /// Mean time after which its figures change, over the whole run, ns: no figure is known finer than
    /// that. Null where they changed less than twice.
    pub refreshed_every_ns: Option<u64>,
    /// Energy between the two times of `energy_ns`, J.
    pub energy_j: Option<f64>,
    /// How that is known.
    pub energy_by: Option<EnergyBy>,
    /// From when to when, ns from the run's start: the window, as far as looks reach.
    pub energy_ns: Option<[u64; 2]>,
    /// Energy for each second of this time, W.
    pub mean_power_w: Option<f64>,
    /// Share of looks at which its clocks were held down by power, heat or another GPU.
    pub throttled_share: Option<f64>,
    /// The same by reason, those that hold nobody up among them.
    #[serde(default)]
    pub throttle_reasons: BTreeMap<String, f64>,
    /// Numbers of errors that its driver began to tell of in the window.
    #[serde(default)]
    pub xid_errors: Vec<u64>,
    /// What it told at each look.
    #[serde(flatten)]
    pub figures: GpuFigures,
}

/// Figures of a device over the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each name is its definition in cli/docs/metrics.md")]
pub struct GpuFigures {
    pub utilisation: Option<Spread>,
    pub memory_utilisation: Option<Spread>,
    pub memory_used_bytes: Option<Spread>,
    pub memory_total_bytes: Option<f64>,
    pub power_w: Option<Spread>,
    pub temperature_c: Option<Spread>,
    pub sm_clock_mhz: Option<Spread>,
    pub memory_clock_mhz: Option<Spread>,
    pub pcie_tx_bytes_per_s: Option<Spread>,
    pub pcie_rx_bytes_per_s: Option<Spread>,
    pub nvlink_tx_bytes_per_s: Option<Spread>,
    pub nvlink_rx_bytes_per_s: Option<Spread>,
    pub engine_active: Option<Spread>,
    pub tensor_active: Option<Spread>,
    pub dram_active: Option<Spread>,
    pub sm_active: Option<Spread>,
    pub sm_occupancy: Option<Spread>,
}

/// The values of one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// Their mean.
    pub mean: f64,
    /// The most.
    pub max: f64,
}

/// How an energy is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnergyBy {
    /// The device's own counter.
    Counter,
    /// The sum of its power over time.
    Power,
}

/// The lines of a run as they are added up.
#[derive(Debug)]
pub struct GpuSums {
    window: Window,
    interval_ns: Option<u64>,
    devices: Vec<(String, Device, Sums)>,
}

impl GpuSums {
    /// Nothing yet, of a run with this window that was looked at every `interval_ns`.
    #[must_use]
    pub fn new(window: Window, interval_ns: Option<u64>) -> Self {
        Self { window, interval_ns, devices: Vec::new() }
    }

    /// Adds a line; those of a device come in the order of their times.
    pub fn add(&mut self, line: &Logged) {
        let is_it = |(source, device, _): &&mut (String, Device, Sums)| {
            *source == line.source && *device == line.device
        };
        if let Some((_, _, sums)) = self.devices.iter_mut().find(is_it) {
            sums.add(line.at, &line.reading);
            return;
        }
        let mut sums = Sums::new(self.window, self.interval_ns);
        sums.add(line.at, &line.reading);
        self.devices.push((line.source.clone(), line.device.clone(), sums));
    }

    /// What it comes to, at these rates; `None` if there is no device.
    #[must_use]
    pub fn finish(self, rate: &Rate, told: &[GpuTold]) -> Option<GpusReport> {
        let devices: Vec<GpuReport> =
            self.devices.iter().map(|(source, device, sums)| sums.report(source, device)).collect();
        if devices.is_empty() {
            return None;
        }
        let whole: Vec<&GpuReport> = hardware(&self.devices)
            .into_iter()
            .filter_map(|parts| {
                // Parts of one GPU and a second source tell its energy again.
                let mut parts = parts.iter().filter_map(|place| devices.get(*place));
                let first = parts.clone().next();
                parts.find(|one| one.mean_power_w.is_some()).or(first)
            })
            .collect();
        let count = whole.len() as u64;
        let mean_power_w: Option<f64> = whole.iter().map(|one| one.mean_power_w).sum();
        let seconds = self.window.seconds();
        let covers = |one: &&GpuReport| {
            let [from, to] = one.energy_ns?;
            ratio(to.saturating_sub(from) as f64 / 1e9, seconds)
        };
        let per_watt = |tps: Option<f64>| ratio(tps?, mean_power_w?);
        let per_gpu = |tps: Option<f64>| ratio(tps?, count as f64);
        Some(GpusReport {
            sources: sources(&self.devices, told),
            interval_ns: self.interval_ns,
            window_ns: [self.window.start, self.window.end],
            count,
            energy_j: mean_power_w.map(|watts| watts * seconds),
            energy_covers: whole
                .iter()
                .map(covers)
                .collect::<Option<Vec<_>>>()
                .and_then(|shares| shares.into_iter().reduce(f64::min).map(|share| share.min(1.0))),
            mean_power_w,
            output_tokens_per_joule: per_watt(rate.output_tps),
            joules_per_output_token: mean_power_w.and_then(|watts| ratio(watts, rate.output_tps?)),
            input_tokens_per_joule: per_watt(rate.input_tps),
            output_tps_per_gpu: per_gpu(rate.output_tps),
            input_tps_per_gpu: per_gpu(rate.input_tps),
            devices,
        })
    }
}

/// Places of the devices that are the same hardware.
fn hardware(devices: &[(String, Device, Sums)]) -> Vec<Vec<usize>> {
    let mut all: Vec<(&Device, Vec<usize>)> = Vec::new();
    for (place, (_, device, _)) in devices.iter().enumerate() {
        match all.iter_mut().find(|(known, _)| known.shares_hardware(device)) {
            Some((_, parts)) => parts.push(place),
            None => all.push((device, vec![place])),
        }
    }
    all.into_iter().map(|(_, parts)| parts).collect()
}

/// The sources, as far as anybody knows what became of their looks.
fn sources(devices: &[(String, Device, Sums)], told: &[GpuTold]) -> Vec<GpuSourceReport> {
    let mut sources: Vec<GpuSourceReport> = told
        .iter()
        .filter(|one| !one.source.is_empty())
        .map(|one| GpuSourceReport {
            source: one.source.clone(),
            looks: Some(one.looks),
            failed: Some(one.failed),
            reason: one.reason.clone(),
        })
        .collect();
    for (source, ..) in devices {
        if !sources.iter().any(|one| one.source == *source) {
            let source = source.clone();
            sources.push(GpuSourceReport { source, looks: None, failed: None, reason: None });
        }
    }
    sources
}
