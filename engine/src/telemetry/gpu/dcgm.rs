//! GPUs of any host, as NVIDIA's DCGM exporter tells of them in Prometheus text.

use std::time::Duration;

use prometheus_parse::{Scrape, Value};

use super::{Device, Gauge, GpuSource, Reading, Sample, Throttle};
use crate::clock;
use crate::reactor::probe::{Asked, text_at};
use crate::workload::{Dialect, Endpoint, Tls};

/// Where exporters give their figures unless the URL says otherwise.
const PATH: &str = "/metrics";
/// Characters of a label that are kept, at most.
const LABEL_MAX: usize = 100;
/// Devices of one exporter, at most: what has more is no exporter.
const DEVICES_MAX: usize = 1024;
/// How long an exporter may take, s; told where it took longer.
const PATIENCE_S: u64 = 2;
const NS_PER_S: u64 = 1_000_000_000;
const MIB: f64 = 1_048_576.0;

/// Names of the exporter's figures, without what all begin with, and what ours are in theirs.
const FIGURES: [(&str, Gauge, f64); 19] = [
    ("DEV_GPU_UTIL", Gauge::Utilisation, 0.01),
    ("DEV_MEM_COPY_UTIL", Gauge::MemoryUtilisation, 0.01),
    ("DEV_FB_USED", Gauge::MemoryUsed, MIB),
    ("DEV_FB_TOTAL", Gauge::MemoryTotal, MIB),
    ("DEV_POWER_USAGE", Gauge::Power, 1.0),
    ("DEV_TOTAL_ENERGY_CONSUMPTION", Gauge::Energy, 1e-3),
    ("DEV_GPU_TEMP", Gauge::Temperature, 1.0),
    ("DEV_SM_CLOCK", Gauge::SmClock, 1.0),
    ("DEV_MEM_CLOCK", Gauge::MemoryClock, 1.0),
    ("PROF_PCIE_TX_BYTES", Gauge::PcieTx, 1.0),
    ("PROF_PCIE_RX_BYTES", Gauge::PcieRx, 1.0),
    ("PROF_NVLINK_TX_BYTES", Gauge::NvlinkTx, 1.0),
    ("PROF_NVLINK_RX_BYTES", Gauge::NvlinkRx, 1.0),
    ("PROF_GR_ENGINE_ACTIVE", Gauge::EngineActive, 1.0),
    ("PROF_PIPE_TENSOR_ACTIVE", Gauge::TensorActive, 1.0),
    ("PROF_DRAM_ACTIVE", Gauge::DramActive, 1.0),
    ("PROF_SM_ACTIVE", Gauge::SmActive, 1.0),
    ("PROF_SM_OCCUPANCY", Gauge::SmOccupancy, 1.0),
    ("DEV_XID_ERRORS", Gauge::Xid, 1.0),
];
/// The reasons for which clocks are held down, by the older name and the newer.
const THROTTLE: [&str; 2] = ["DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS"];
/// Parts that memory is made of, where its total is not told.
const MEMORY_REST: [&str; 2] = ["DEV_FB_FREE", "DEV_FB_RESERVED"];

/// An exporter.
pub struct DcgmSource {
    endpoint: Endpoint,
    tls: Tls,
    name: String,
    devices: Vec<Device>,
}

impl DcgmSource {
    /// Asks an exporter which GPUs it knows.
    ///
    /// # Errors
    /// It cannot be reached, or tells of none.
    pub fn open(endpoint: &Endpoint, tls: &Tls) -> Result<Self, String> {
        let scheme = if endpoint.tls { "https" } else { "http" };
        let mut source = Self {
            name: format!("DCGM at {scheme}://{}", endpoint.host),
            endpoint: endpoint.clone(),
            tls: tls.clone(),
            devices: Vec::new(),
        };
        source.devices = source.ask()?.into_iter().map(|(device, _)| device).collect();
        Ok(source)
    }

    /// What it tells now.
    fn ask(&self) -> Result<Vec<(Device, Reading)>, String> {
        let Endpoint { base_path, query, host, .. } = &self.endpoint;
        let path = if base_path.is_empty() { PATH } else { base_path };
        let asked = Asked {
            endpoint: &self.endpoint,
            dialect: Dialect::Template,
            headers: &[],
            tls: &self.tls,
        };
        let begun = clock::monotonic_ns();
        let text = text_at(&asked, &format!("{path}{query}"), Duration::from_secs(PATIENCE_S));
        let is_late = clock::monotonic_ns() - begun >= PATIENCE_S * NS_PER_S;
        let text = text.map_err(|reason| match is_late {
            true => format!("no whole answer within {PATIENCE_S} s"),
            false => reason,
        })?;
        let told = read(&text);
        if told.is_empty() {
            return Err(
                "it tells of no GPU: there is no DCGM_FI_DEV_… or DCGM_FI_PROF_… in it".into()
            );
        }
        let own_host = || Some(host.clone());
        let named = told.into_iter().map(|(device, reading)| {
            (Device { host: device.host.clone().or_else(own_host), ..device }, reading)
        });
        Ok(named.collect())
    }
}

impl GpuSource for DcgmSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self, now: &dyn Fn() -> u64) -> Result<Vec<Sample>, String> {
        let before = now();
        let told = self.ask()?;
        let at = before.midpoint(now());
        let known = told.into_iter().filter_map(|(device, reading)| {
            let place = self.devices.iter().position(|one| *one == device)?;
            Some(Sample { device: place, at, reading })
        });
        let samples: Vec<Sample> = known.collect();
        if samples.is_empty() {
            return Err("the GPUs that it told of are gone".to_owned());
        }
        Ok(samples)
    }
}

/// The devices in a page of an exporter, and what it says of each.
fn read(text: &str) -> Vec<(Device, Reading)> {
    let Ok(scrape) = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))) else {
        return Vec::new();
    };
    let mut told: Vec<(Device, Reading)> = Vec::new();
    // What is left of memory beside what is used, of each device.
    let mut rest: Vec<f64> = Vec::new();
    for sample in &scrape.samples {
        let Some(figure) = sample.metric.strip_prefix("DCGM_FI_") else { continue };
        let (Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value)) = sample.value
        else {
            continue;
        };
        let device = device(&sample.labels);
        let place = told.iter().position(|(known, _)| *known == device).unwrap_or_else(|| {
            told.push((device, Reading::default()));
            rest.push(0.0);
            told.len() - 1
        });
        if told.len() > DEVICES_MAX {
            return Vec::new();
        }
        if let (Some((_, reading)), Some(rest)) = (told.get_mut(place), rest.get_mut(place)) {
            take(reading, rest, figure, value);
        }
    }
    for ((_, reading), rest) in told.iter_mut().zip(rest) {
        if let (None, Some(used)) =
            (reading.get(Gauge::MemoryTotal), reading.get(Gauge::MemoryUsed))
            && rest > 0.0
        {
            reading.set(Gauge::MemoryTotal, used + rest);
        }
    }
    told.retain(|(_, reading)| !reading.is_empty());
    told
}

/// Puts one figure into a reading.
fn take(reading: &mut Reading, memory_rest: &mut f64, figure: &str, value: f64) {
    // Blanks are told by the number itself, before it gets another unit.
    let whole = Reading::default().with(Gauge::Power, value);
    let Some(value) = whole.get(Gauge::Power) else { return };
    if let Some((_, gauge, unit)) = FIGURES.iter().find(|(name, ..)| *name == figure) {
        reading.set(*gauge, value * unit);
    } else if THROTTLE.contains(&figure) {
        reading.throttle = Some(Throttle(value as u64));
    } else if MEMORY_REST.contains(&figure) {
        *memory_rest += value * MIB;
    }
}

/// Which device a line is about. Labels of pods and the like tell no other.
fn device(labels: &prometheus_parse::Labels) -> Device {
    let label = |names: &[&str]| {
        let text = names.iter().find_map(|name| labels.get(name)).filter(|text| !text.is_empty());
        text.map(|text| text.chars().take(LABEL_MAX).collect::<String>())
    };
    Device {
        index: label(&["gpu"]).and_then(|number| number.parse().ok()),
        instance: label(&["GPU_I_ID"]),
        uuid: label(&["UUID", "uuid"]),
        name: label(&["modelName"]),
        host: label(&["Hostname", "hostname"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lines of a figure, for two GPUs.
    fn lines(name: &str, kind: &str, values: [&str; 2]) -> String {
        let line = |(number, value): (usize, &&str)| {
            format!(
                "DCGM_FI_{name}{{gpu=\"{number}\",UUID=\"GPU-{number}\",pci_bus_id=\"00000000:0{number}:00.0\",\
                 device=\"nvidia{number}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-7\"}} {value}\n"
            )
        };
        let all: String = values.iter().enumerate().map(line).collect();
        format!(
            "# HELP DCGM_FI_{name} of a GPU (in some unit).\n# TYPE DCGM_FI_{name} {kind}\n{all}"
        )
    }

    #[test]
    fn figures_come_in_our_units_and_blanks_do_not_come() {
        let blank = "9223372036854775794";
        let text = lines("DEV_GPU_UTIL", "gauge", ["87", "0"])
            + &lines("DEV_POWER_USAGE", "gauge", ["512.5", blank])
            + &lines("DEV_TOTAL_ENERGY_CONSUMPTION", "counter", ["1500000", blank])
            + &lines("DEV_FB_USED", "gauge", ["1024", "0"])
            + &lines("DEV_FB_FREE", "gauge", ["3072", blank])
            + &lines("PROF_PIPE_TENSOR_ACTIVE", "gauge", ["0.25", "0.0"])
            + &lines("PROF_PCIE_TX_BYTES", "counter", ["4000000", "NaN"])
            + &lines("DEV_CLOCK_THROTTLE_REASONS", "gauge", ["4", "0"])
            + &lines("DEV_SOMETHING_ELSE", "gauge", ["1", "2"]);
        let told = read(&text);
        assert_eq!(told.len(), 2);
        let (device, one) = &told[0];
        assert_eq!((device.index, device.uuid.as_deref()), (Some(0), Some("GPU-0")));
        assert_eq!(device.name.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!(device.host.as_deref(), Some("node-7"));
        assert!((one.get(Gauge::Utilisation).unwrap() - 0.87).abs() < 1e-12);
        assert_eq!(one.get(Gauge::Power), Some(512.5));
        assert_eq!(one.get(Gauge::Energy), Some(1500.0));
        assert_eq!(one.get(Gauge::MemoryUsed), Some(1024.0 * MIB));
        assert_eq!(one.get(Gauge::MemoryTotal), Some(4096.0 * MIB));
        assert_eq!(one.get(Gauge::TensorActive), Some(0.25));
        assert_eq!(one.get(Gauge::PcieTx), Some(4e6));
        assert_eq!(one.throttle, Some(Throttle(4)));
        let (_, two) = &told[1];
        assert_eq!((two.get(Gauge::Utilisation), two.get(Gauge::Power)), (Some(0.0), None));
        assert_eq!((two.get(Gauge::Energy), two.get(Gauge::MemoryTotal)), (None, None));
        assert_eq!(two.get(Gauge::PcieTx), None);
    }

    #[test]
    fn instances_of_a_gpu_are_devices_and_pods_are_none() {
        let line = |more: &str, value: u32| {
            format!("DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",UUID=\"GPU-a\"{more}}} {value}\n")
        };
        let text = line("", 10)
            + &line(",pod=\"x\"", 20)
            + &line(",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"3\"", 30);
        let told = read(&text);
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[0].1.get(Gauge::Utilisation), Some(0.2));
        assert_eq!(told[1].0.instance.as_deref(), Some("3"));
        assert!(told[0].0.shares_hardware(&told[1].0));
    }

    #[test]
    fn what_is_no_page_of_an_exporter_tells_of_no_device() {
        for text in [
            "",
            "<html>no metrics</html>",
            "vllm:num_requests_running 3\n",
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"",
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} word\n",
            "DCGM_FI_DEV_UNKNOWN{gpu=\"0\"} 1\n",
            "\u{0}\u{1}{{{}}} = = =\n\"\n",
        ] {
            assert!(read(text).is_empty(), "{text:?}");
        }
    }
}
