//! GPUs while a load goes on: looked at by threads of their own, kept in `gpus.csv` as they are seen.
//!
//! ```text
//! NVML, DCGM exporters ─► GpuSource ─► GpuWatch (a thread each) ─► gpus.csv ─► figures of a result
//! ```

mod dcgm;
#[cfg(test)]
mod fake;
mod gauge;
mod log;
mod nvml;
mod source;
mod watch;

pub use dcgm::DcgmSource;
pub use gauge::{Gauge, Reading, Throttle};
pub use log::{GPUS_FILE, Logged, read_log};
pub use nvml::{NvmlSource, Opened};
pub use source::{Device, GpuSource, Sample};
pub(crate) use watch::Watching;
pub use watch::{GpuTold, GpuWatch};
