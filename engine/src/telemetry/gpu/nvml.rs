//! The GPUs of this host, asked of NVIDIA's driver by its management library, which is loaded when
//! it is first needed: a host without it builds and runs all the same.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::{Device, Gauge, GpuSource, Reading, Sample, Throttle};

/// The unit of the driver's PCIe rates, bytes per second.
const KILOBYTE: f64 = 1000.0;

/// The library, and the GPUs that are looked at.
pub struct NvmlSource {
    nvml: Nvml,
    /// Numbers of the devices, in the order of `devices`.
    numbers: Vec<u32>,
    devices: Vec<Device>,
    /// Looks so far.
    looks: usize,
}

/// GPUs that were opened, and a remark on those that are not there.
pub type Opened = (NvmlSource, Option<String>);

impl NvmlSource {
    /// Opens the GPUs of these numbers that there are, or all.
    ///
    /// # Errors
    /// There is no driver here, or none of these GPUs.
    pub fn open(chosen: Option<&[u32]>) -> Result<Opened, String> {
        let nvml = Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
                "there is no NVIDIA driver here (libnvidia-ml.so.1 is not found)".to_owned()
            }
            error => format!("NVIDIA's driver does not answer: {error}"),
        })?;
        let count = nvml.device_count().map_err(|error| format!("NVIDIA's driver: {error}"))?;
        let all: Vec<u32> = (0..count).collect();
        let (there, missing): (Vec<u32>, Vec<u32>) =
            chosen.unwrap_or(&all).iter().partition(|number| **number < count);
        let has = match count {
            0 => "this host has no GPU".to_owned(),
            count => format!("this host has GPU 0 to {}", count - 1),
        };
        if there.is_empty() {
            return Err(has);
        }
        let remark = (!missing.is_empty()).then_some(has);
        let devices = there.iter().map(|number| describe(&nvml, *number)).collect();
        Ok((Self { nvml, numbers: there, devices, looks: 0 }, remark))
    }
}

fn describe(nvml: &Nvml, number: u32) -> Device {
    let device = nvml.device_by_index(number).ok();
    Device {
        index: Some(number),
        uuid: device.as_ref().and_then(|device| device.uuid().ok()),
        name: device.as_ref().and_then(|device| device.name().ok()),
        ..Device::default()
    }
}

impl GpuSource for NvmlSource {
    fn name(&self) -> &'static str {
        "NVML"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self, now: &dyn Fn() -> u64) -> Result<Vec<Sample>, String> {
        // Rates of PCIe are measured over 20 ms each while we wait: one GPU at a look, in turn.
        let turn = self.looks % self.numbers.len().max(1);
        self.looks += 1;
        let mut why = None;
        let mut samples = Vec::new();
        for (place, number) in self.numbers.iter().enumerate() {
            let device = match self.nvml.device_by_index(*number) {
                Ok(device) => device,
                Err(error) => {
                    why = Some(format!("GPU {number}: {error}"));
                    continue;
                }
            };
            let at = now();
            let mut reading = quick(&device);
            if place == turn {
                pcie(&device, &mut reading);
            }
            if !reading.is_empty() {
                samples.push(Sample { device: place, at, reading });
            }
        }
        if samples.is_empty() {
            return Err(why.unwrap_or_else(|| "the driver gives no figures".to_owned()));
        }
        Ok(samples)
    }
}

/// What takes its time.
fn pcie(device: &nvml_wrapper::Device<'_>, reading: &mut Reading) {
    let both = [(Gauge::PcieTx, PcieUtilCounter::Send), (Gauge::PcieRx, PcieUtilCounter::Receive)];
    for (gauge, counter) in both {
        if let Ok(rate) = device.pcie_throughput(counter) {
            reading.set(gauge, f64::from(rate) * KILOBYTE);
        }
    }
}

/// All that is known at once. Energy and power come first: they are what the time belongs to.
fn quick(device: &nvml_wrapper::Device<'_>) -> Reading {
    let mut reading = Reading::default();
    let mut set = |gauge, value: Option<f64>| {
        if let Some(value) = value {
            reading.set(gauge, value);
        }
    };
    let mega = |clock| device.clock_info(clock).ok().map(f64::from);
    set(Gauge::Energy, device.total_energy_consumption().ok().map(|mj| mj as f64 / 1e3));
    set(Gauge::Power, device.power_usage().ok().map(|mw| f64::from(mw) / 1e3));
    let busy = device.utilization_rates().ok();
    set(Gauge::Utilisation, busy.as_ref().map(|busy| f64::from(busy.gpu) / 100.0));
    set(Gauge::MemoryUtilisation, busy.as_ref().map(|busy| f64::from(busy.memory) / 100.0));
    let memory = device.memory_info().ok();
    set(Gauge::MemoryUsed, memory.as_ref().map(|memory| memory.used as f64));
    set(Gauge::MemoryTotal, memory.as_ref().map(|memory| memory.total as f64));
    let degrees = device.temperature(TemperatureSensor::Gpu).ok();
    set(Gauge::Temperature, degrees.map(f64::from));
    set(Gauge::SmClock, mega(Clock::SM));
    set(Gauge::MemoryClock, mega(Clock::Memory));
    reading.throttle = device.current_throttle_reasons().ok().map(|why| Throttle(why.bits()));
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_driver_or_with_one_does_not_fail() {
        match NvmlSource::open(Some(&[4_000])) {
            Ok(_) => panic!("no host has so many GPUs"),
            Err(reason) => assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}"),
        }
    }
}
