//! GPUs of a test's own: they tell what they were told to tell.

use std::sync::mpsc;

use super::{Device, GpuSource, Reading, Sample};

/// A source with a script: what each device tells at each look; the last look is repeated.
pub(super) struct Fake {
    pub(super) devices: Vec<Device>,
    pub(super) script: Vec<Vec<Option<Reading>>>,
    looks: usize,
    /// The first look waits until the other end is dropped.
    hang: Option<mpsc::Receiver<()>>,
}

impl Fake {
    /// So many devices without a script.
    pub(super) fn of(devices: u32) -> Self {
        let device = |index| Device {
            index: Some(index),
            uuid: Some(format!("GPU-{index}")),
            ..Device::default()
        };
        let devices = (0..devices).map(device).collect();
        Self { devices, script: Vec::new(), looks: 0, hang: None }
    }

    /// One that hangs until the other value is dropped.
    pub(super) fn hanging() -> (Self, mpsc::Sender<()>) {
        let (release, hang) = mpsc::channel();
        (Self { hang: Some(hang), ..Self::of(1) }, release)
    }
}

impl GpuSource for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self, now: &dyn Fn() -> u64) -> Result<Vec<Sample>, String> {
        if let Some(hang) = self.hang.take() {
            let _ = hang.recv();
        }
        let last = self.script.len().saturating_sub(1);
        let told = self.script.get(self.looks.min(last));
        self.looks += 1;
        let told = told.into_iter().flatten().enumerate();
        let sample = |(device, reading): (usize, &Option<Reading>)| {
            Some(Sample { device, at: now(), reading: reading.clone()? })
        };
        let samples: Vec<Sample> = told.filter_map(sample).collect();
        if samples.is_empty() { Err("nothing scripted".to_owned()) } else { Ok(samples) }
    }
}
