//! One device: its looks, added up as they come.

use std::collections::BTreeMap;

use super::super::distribution::ratio;
use super::super::rate::Window;
use super::energy::{ByCounter, ByPower, Covered};
use super::{EnergyBy, GpuFigures, GpuReport, Spread};
use crate::telemetry::gpu::{Device, Gauge, Reading, Throttle};

/// Power between two looks is taken for known where these lie no farther apart, ns; or so many
/// intervals.
const GAP_MAX_NS: u64 = 2_000_000_000;
const GAP_INTERVALS: u64 = 5;
/// The counter is preferred as long as it reaches over so much of what power reaches over.
const COUNTER_REACH: f64 = 0.9;
/// Different errors of a driver that are kept, at most.
const XIDS_MAX: usize = 16;

/// What was seen of one figure.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Values {
    fn add(&mut self, value: f64) {
        let is_first = self.count == 0;
        self.min = if is_first { value } else { self.min.min(value) };
        self.max = if is_first { value } else { self.max.max(value) };
        self.sum += value;
        self.count += 1;
    }

    fn spread(&self) -> Option<Spread> {
        let mean = ratio(self.sum, self.count as f64)?;
        Some(Spread { min: self.min, mean: mean.clamp(self.min, self.max), max: self.max })
    }
}

/// When a device's figures were seen to change, over the whole run.
#[derive(Debug, Clone, Default)]
struct Changes {
    last: Option<Reading>,
    count: u64,
    from: u64,
    to: u64,
}

impl Changes {
    fn add(&mut self, at: u64, reading: &Reading) {
        // Where there is a counter of energy it is the surest: it never stands still by chance.
        let key = match reading.get(Gauge::Energy) {
            Some(joules) => Reading::default().with(Gauge::Energy, joules),
            None => reading.clone(),
        };
        let Some(last) = self.last.replace(key) else { return };
        if self.last.as_ref() == Some(&last) {
            return;
        }
        if self.count == 0 {
            self.from = at;
        }
        self.to = at;
        self.count += 1;
    }

    fn every_ns(&self) -> Option<u64> {
        self.to.saturating_sub(self.from).checked_div(self.count.checked_sub(1)?)
    }
}

/// The sums of one device.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    window: Window,
    values: [Values; Gauge::ALL.len()],
    samples: u64,
    first: u64,
    last: u64,
    throttle_known: u64,
    throttled: u64,
    reasons: BTreeMap<&'static str, u64>,
    last_xid: Option<u64>,
    xids: Vec<u64>,
    changes: Changes,
    power: ByPower,
    counter: ByCounter,
}

impl Sums {
    pub(super) fn new(window: Window, interval_ns: Option<u64>) -> Self {
        let gap_max_ns = GAP_MAX_NS.max(interval_ns.unwrap_or(0).saturating_mul(GAP_INTERVALS));
        Self {
            window,
            values: [Values::default(); Gauge::ALL.len()],
            samples: 0,
            first: 0,
            last: 0,
            throttle_known: 0,
            throttled: 0,
            reasons: BTreeMap::new(),
            last_xid: None,
            xids: Vec::new(),
            changes: Changes::default(),
            power: ByPower::new(window, gap_max_ns),
            counter: ByCounter::new(window),
        }
    }

    pub(super) fn add(&mut self, at: u64, reading: &Reading) {
        self.changes.add(at, reading);
        let new_xid = self.new_xid(reading);
        if let Some(watts) = reading.get(Gauge::Power) {
            self.power.add(at, watts);
        }
        if let Some(joules) = reading.get(Gauge::Energy) {
            self.counter.add(at, joules);
        }
        if !self.window.holds(Some(at)) {
            return;
        }
        self.first = if self.samples == 0 { at } else { self.first };
        self.last = at;
        self.samples += 1;
        for (values, gauge) in self.values.iter_mut().zip(Gauge::ALL) {
            if let Some(value) = reading.get(gauge) {
                values.add(value);
            }
        }
        if let Some(throttle) = reading.throttle {
            self.throttle(throttle);
        }
        if let Some(xid) = new_xid.filter(|xid| !self.xids.contains(xid))
            && self.xids.len() < XIDS_MAX
        {
            self.xids.push(xid);
        }
    }

    /// An error that was not there at the look before. The number stays until the next error, so that
    /// of the first look may be of any age.
    fn new_xid(&mut self, reading: &Reading) -> Option<u64> {
        let xid = reading.get(Gauge::Xid)? as u64;
        let before = self.last_xid.replace(xid)?;
        (xid != before && xid != 0).then_some(xid)
    }

    fn throttle(&mut self, throttle: Throttle) {
        self.throttle_known += 1;
        self.throttled += u64::from(throttle.slows());
        for name in throttle.names() {
            *self.reasons.entry(name).or_default() += 1;
        }
    }

    /// The energy that is known best, and how.
    fn energy(&self) -> Option<(Covered, EnergyBy)> {
        let power = self.power.covered.map(|covered| (covered, EnergyBy::Power));
        let counter = self.counter.covered.map(|covered| (covered, EnergyBy::Counter));
        match (counter, power) {
            (Some(counter), Some(power)) => {
                let reaches = counter.0.ns as f64 >= power.0.ns as f64 * COUNTER_REACH;
                Some(if reaches { counter } else { power })
            }
            (counter, power) => counter.or(power),
        }
    }

    pub(super) fn report(&self, source: &str, device: &Device) -> GpuReport {
        let Device { index, instance, uuid, name, host } = device.clone();
        let energy = self.energy();
        let share = |count: u64| ratio(count as f64, self.throttle_known as f64);
        let reasons = self.reasons.iter();
        let span = self.last.saturating_sub(self.first);
        GpuReport {
            index,
            instance,
            uuid,
            name,
            host,
            source: source.to_owned(),
            samples: self.samples,
            sampled_every_ns: self.samples.checked_sub(1).and_then(|gaps| span.checked_div(gaps)),
            refreshed_every_ns: self.changes.every_ns(),
            energy_j: energy.map(|(covered, _)| covered.joules),
            energy_by: energy.map(|(_, by)| by),
            energy_ns: energy.map(|(covered, _)| [covered.from, covered.to]),
            mean_power_w: energy.map(|(covered, _)| covered.watts()),
            throttled_share: share(self.throttled),
            throttle_reasons: reasons
                .filter_map(|(name, count)| Some(((*name).to_owned(), share(*count)?)))
                .collect(),
            xid_errors: self.xids.clone(),
            figures: self.figures(),
        }
    }

    fn figures(&self) -> GpuFigures {
        let of = |gauge: Gauge| self.values.get(gauge as usize).and_then(Values::spread);
        GpuFigures {
            utilisation: of(Gauge::Utilisation),
            memory_utilisation: of(Gauge::MemoryUtilisation),
            memory_used_bytes: of(Gauge::MemoryUsed),
            memory_total_bytes: of(Gauge::MemoryTotal).map(|total| total.max),
            power_w: of(Gauge::Power),
            temperature_c: of(Gauge::Temperature),
            sm_clock_mhz: of(Gauge::SmClock),
            memory_clock_mhz: of(Gauge::MemoryClock),
            pcie_tx_bytes_per_s: of(Gauge::PcieTx),
            pcie_rx_bytes_per_s: of(Gauge::PcieRx),
            nvlink_tx_bytes_per_s: of(Gauge::NvlinkTx),
            nvlink_rx_bytes_per_s: of(Gauge::NvlinkRx),
            engine_active: of(Gauge::EngineActive),
            tensor_active: of(Gauge::TensorActive),
            dram_active: of(Gauge::DramActive),
            sm_active: of(Gauge::SmActive),
            sm_occupancy: of(Gauge::SmOccupancy),
        }
    }
}
