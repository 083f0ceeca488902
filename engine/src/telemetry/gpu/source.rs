//! Where figures of GPUs come from.

use super::Reading;

/// A GPU, or an instance of one that is divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Its number on its host.
    pub index: Option<u32>,
    /// The instance, of a GPU that is divided.
    pub instance: Option<String>,
    /// What no other GPU is called.
    pub uuid: Option<String>,
    /// Its model.
    pub name: Option<String>,
    /// The host it is in; none for this host.
    pub host: Option<String>,
}

impl Device {
    /// Whether both are the same piece of hardware, or parts of it.
    #[must_use]
    pub fn shares_hardware(&self, other: &Self) -> bool {
        match (&self.uuid, &other.uuid) {
            (Some(one), Some(other)) => one == other,
            _ => self.index == other.index && self.host == other.host,
        }
    }
}

/// What one device told.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its place among the devices of its source.
    pub device: usize,
    /// When, ns from the run's start.
    pub at: u64,
    /// What.
    pub reading: Reading,
}

/// Something that knows figures of GPUs.
pub trait GpuSource: Send {
    /// What it is, as it may be shown: without secrets.
    fn name(&self) -> &str;

    /// Its devices, which stay the same.
    fn devices(&self) -> &[Device];

    /// Looks at all of them; `now` is the run's clock. Takes no longer than a few seconds whatever
    /// happens.
    ///
    /// # Errors
    /// Nothing could be had, and why.
    fn sample(&mut self, now: &dyn Fn() -> u64) -> Result<Vec<Sample>, String>;
}
