//! A stand-in for NVIDIA's DCGM exporter: `GET /metrics` on a port of its own, with figures of GPUs
//! that follow what the server does.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::document::{self, Extra, put};
use crate::http::{self, Route};
use crate::socket;

/// What DCGM gives for a field that it does not know.
const BLANK: &str = "9223372036854775794";

/// Watts of a GPU without and with all of its work.
const WATTS: [f64; 2] = [90.0, 650.0];

/// MiB of a GPU's memory: all of it, and what a loaded model takes.
const MEBIBYTES: [f64; 2] = [81_559.0, 40_000.0];

/// How long a scraper may take for its question.
const READ: Duration = Duration::from_secs(2);

/// A stand-in for NVIDIA's DCGM exporter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DcgmSettings {
    /// The port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// GPUs that it tells of, which are all alike.
    pub gpus: u32,
    /// How often its figures are renewed; what is asked in between is told the last.
    pub interval_ns: u64,
}

impl Default for DcgmSettings {
    fn default() -> Self {
        Self { port: 0, gpus: 1, interval_ns: 1_000_000_000 }
    }
}

impl DcgmSettings {
    /// Says what is wrong with them, or nothing.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if !(1..=64).contains(&self.gpus) {
            return Some("gpus is not between 1 and 64".to_owned());
        }
        let least_ns = 10_000_000;
        let short = self.interval_ns < least_ns;
        short.then(|| "the interval of DCGM is below 10ms; give a longer one".to_owned())
    }
}

/// How much of what a server can do it does, 0 to 1.
pub(crate) type Load = Box<dyn Fn() -> f64 + Send>;

/// A running exporter; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    stop: Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// The figures of one moment, which hold until the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    at_ns: u64,
    load: f64,
    watts: f64,
    millijoules: f64,
}

impl Reading {
    fn first(at_ns: u64) -> Self {
        Self { at_ns, load: 0.0, watts: WATTS[0], millijoules: 0.0 }
    }

    /// The next: the energy is the power told so far times how long it held.
    fn next(self, at_ns: u64, load: f64) -> Self {
        let held_ns = at_ns.saturating_sub(self.at_ns) as f64;
        let millijoules = self.millijoules + self.watts * held_ns / 1e6;
        let load = load.clamp(0.0, 1.0);
        let watts = WATTS[0] + (WATTS[1] - WATTS[0]) * load;
        Self { at_ns, load, watts: (watts * 1e3).round() / 1e3, millijoules }
    }

    fn text(&self, gpus: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let load = self.load;
        let used = MEBIBYTES[1] + (MEBIBYTES[0] - 2_000.0 - MEBIBYTES[1]) * load;
        let whole = |value: f64| format!("{value:.0}");
        let share = |value: f64| format!("{value:.6}");
        for (name, kind, help, value) in [
            ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", whole(1_980.0)),
            ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", whole(2_619.0)),
            ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", whole(32.0 + 38.0 * load)),
            (
                "DCGM_FI_DEV_POWER_USAGE",
                "gauge",
                "Power draw (in W).",
                format!("{:.3}", self.watts),
            ),
            (
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "counter",
                "Energy since the start (in mJ).",
                whole(self.millijoules),
            ),
            ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries.", whole(0.0)),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", whole(100.0 * load)),
            (
                "DCGM_FI_DEV_MEM_COPY_UTIL",
                "gauge",
                "Memory utilization (in %).",
                whole(60.0 * load),
            ),
            ("DCGM_FI_DEV_XID_ERRORS", "gauge", "The last XID error.", whole(0.0)),
            ("DCGM_FI_DEV_FB_FREE", "gauge", "Free memory (in MiB).", whole(MEBIBYTES[0] - used)),
            ("DCGM_FI_DEV_FB_USED", "gauge", "Used memory (in MiB).", whole(used)),
            ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Reserved memory (in MiB).", whole(512.0)),
            ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink traffic.", BLANK.to_owned()),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Graphics engine active.", share(load)),
            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Tensor pipe active.", share(0.4 * load)),
            ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Memory interface active.", share(0.6 * load)),
            ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe bytes sent per s.", whole(3e9 * load)),
            ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe bytes taken per s.", whole(1e9 * load)),
        ] {
            put(&mut out, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
            for gpu in 0..gpus {
                put(&mut out, format_args!("{name}{{{}}} {value}\n", labels(gpu)));
            }
        }
        out
    }
}

/// The labels of one GPU, as the exporter of NVIDIA writes them.
fn labels(gpu: u32) -> String {
    format!(
        r#"gpu="{gpu}",UUID="GPU-00000000-0000-4000-8000-{gpu:012}",pci_bus_id="00000000:{:02X}:00.0",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="tokclock-sim""#,
        gpu + 1
    )
}

impl Exporter {
    /// Starts it.
    ///
    /// # Errors
    /// If the port cannot be had, or there is no thread left.
    pub(crate) fn start(settings: &DcgmSettings, load: Load) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port))?);
        let address = listener.local_addr()?;
        let (stop, stopped) = channel();
        let reading = Arc::new(Mutex::new(Reading::first(clock::monotonic_ns())));
        let mut exporter = Self { address, listener, stop, threads: Vec::new() };
        let (told, listener) = (Arc::clone(&reading), Arc::clone(&exporter.listener));
        let (gpus, interval) = (settings.gpus, Duration::from_nanos(settings.interval_ns));
        let named = |name: &str| thread::Builder::new().name(name.into());
        let renews = named("sim-gpu").spawn(move || renew(&reading, &load, interval, &stopped))?;
        exporter.threads.push(renews);
        exporter.threads.push(named("sim-dcgm").spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                // One that goes away or asks nothing is no fault of ours.
                let _ = answer(client, &told, gpus);
            }
        })?);
        Ok(exporter)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Without its thread there is nothing to stop.
        let _ = self.stop.send(());
        socket::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn locked(reading: &Mutex<Reading>) -> MutexGuard<'_, Reading> {
    reading.lock().unwrap_or_else(PoisonError::into_inner)
}

fn renew(reading: &Mutex<Reading>, load: &Load, interval: Duration, stopped: &Receiver<()>) {
    while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let load = load();
        let mut reading = locked(reading);
        *reading = reading.next(clock::monotonic_ns(), load);
    }
}

fn answer(mut client: TcpStream, reading: &Mutex<Reading>, gpus: u32) -> io::Result<()> {
    client.set_read_timeout(Some(READ))?;
    client.set_nodelay(true)?;
    let mut input = Vec::new();
    let mut out = Vec::new();
    loop {
        match http::read_head(&input) {
            Ok(Some(head)) if head.route == Route::Metrics => {
                let extra = Extra { close: true, ..Extra::default() };
                let body = locked(reading).text(gpus);
                document::typed(&mut out, 200, "text/plain; version=0.0.4", &body, extra);
                break;
            }
            Ok(Some(_)) => {
                document::error(&mut out, 404, "there is nothing but /metrics here", true);
                break;
            }
            Ok(None) => {}
            Err(refusal) => {
                document::error(&mut out, refusal.status, refusal.message, true);
                break;
            }
        }
        let before = input.len();
        input.resize(before + 4096, 0);
        let length = client.read(&mut input[before..])?;
        input.truncate(before + length);
        if length == 0 {
            return Ok(());
        }
    }
    client.write_all(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_over_time() {
        let first = Reading::first(0);
        let second = first.next(2_000_000_000, 0.5);
        assert_eq!((second.watts, second.millijoules), (370.0, 180_000.0));
        assert_eq!(second.next(3_000_000_000, 9.0).millijoules, 550_000.0);
        assert_eq!(second.next(3_000_000_000, 9.0).watts, WATTS[1]);
    }

    #[test]
    fn every_gpu_has_every_field() {
        let text = String::from_utf8(Reading::first(0).text(2)).unwrap();
        assert_eq!(text.lines().filter(|line| line.contains("gpu=\"1\"")).count(), 18);
        assert!(text.contains(&format!("{BLANK}\n")));
        assert!(text.contains(r#"DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-00000000-"#));
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        assert_eq!(DcgmSettings::default().fault(), None);
        for wrong in [
            DcgmSettings { gpus: 0, ..DcgmSettings::default() },
            DcgmSettings { interval_ns: 1, ..DcgmSettings::default() },
        ] {
            assert!(wrong.fault().is_some(), "{wrong:?}");
        }
    }
}
