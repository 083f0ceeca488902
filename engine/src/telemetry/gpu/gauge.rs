//! What a GPU can tell of itself at one moment, each figure in one unit.

/// One figure of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// Share of time in which anything ran on it, 0 to 1.
    Utilisation,
    /// Share of time in which its memory was read or written, 0 to 1.
    MemoryUtilisation,
    /// Memory in use, bytes.
    MemoryUsed,
    /// Memory in all, bytes.
    MemoryTotal,
    /// Power, W.
    Power,
    /// Energy since its driver was loaded, J.
    Energy,
    /// Temperature, degrees Celsius.
    Temperature,
    /// Clock of its multiprocessors, MHz.
    SmClock,
    /// Clock of its memory, MHz.
    MemoryClock,
    /// Bytes per second that it sends over PCIe.
    PcieTx,
    /// Bytes per second that it receives over PCIe.
    PcieRx,
    /// Bytes per second that it sends over `NVLink`.
    NvlinkTx,
    /// Bytes per second that it receives over `NVLink`.
    NvlinkRx,
    /// Share of time in which a graphics or compute engine was active, 0 to 1.
    EngineActive,
    /// Share of cycles in which tensor pipes were active, 0 to 1.
    TensorActive,
    /// Share of cycles in which its memory's interface moved data, 0 to 1.
    DramActive,
    /// Share of time in which a multiprocessor had work, 0 to 1.
    SmActive,
    /// Share of the places for warps that were taken, 0 to 1.
    SmOccupancy,
    /// Number of the last error that its driver told of, however long ago; 0 for none.
    Xid,
}

/// How many there are.
const COUNT: usize = Gauge::ALL.len();
/// From here on a number means that there is none: DCGM's blank 64-bit integers.
const BLANK_INTEGER: f64 = 9.2e18;
/// DCGM's blank fractions and 32-bit integers, and the three numbers after each, which say why.
const BLANKS: [f64; 2] = [140_737_488_355_328.0, 2_147_483_632.0];

impl Gauge {
    /// All, in the order of the columns of `gpus.csv`.
    pub const ALL: [Self; 19] = [
        Self::Utilisation,
        Self::MemoryUtilisation,
        Self::MemoryUsed,
        Self::MemoryTotal,
        Self::Power,
        Self::Energy,
        Self::Temperature,
        Self::SmClock,
        Self::MemoryClock,
        Self::PcieTx,
        Self::PcieRx,
        Self::NvlinkTx,
        Self::NvlinkRx,
        Self::EngineActive,
        Self::TensorActive,
        Self::DramActive,
        Self::SmActive,
        Self::SmOccupancy,
        Self::Xid,
    ];

    /// Its name in files, with its unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utilisation => "utilisation",
            Self::MemoryUtilisation => "memory_utilisation",
            Self::MemoryUsed => "memory_used_bytes",
            Self::MemoryTotal => "memory_total_bytes",
            Self::Power => "power_w",
            Self::Energy => "energy_total_j",
            Self::Temperature => "temperature_c",
            Self::SmClock => "sm_clock_mhz",
            Self::MemoryClock => "memory_clock_mhz",
            Self::PcieTx => "pcie_tx_bytes_per_s",
            Self::PcieRx => "pcie_rx_bytes_per_s",
            Self::NvlinkTx => "nvlink_tx_bytes_per_s",
            Self::NvlinkRx => "nvlink_rx_bytes_per_s",
            Self::EngineActive => "engine_active",
            Self::TensorActive => "tensor_active",
            Self::DramActive => "dram_active",
            Self::SmActive => "sm_active",
            Self::SmOccupancy => "sm_occupancy",
            Self::Xid => "xid",
        }
    }
}

/// What a GPU told at one moment; what it does not give is `None`, never a zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    values: [Option<f64>; COUNT],
    /// Why its clocks are held down.
    pub throttle: Option<Throttle>,
}

impl Reading {
    /// One that tells why clocks are held down, and nothing else.
    #[must_use]
    pub fn throttled(throttle: Option<Throttle>) -> Self {
        Self { throttle, ..Self::default() }
    }

    /// A figure of it.
    #[must_use]
    pub fn get(&self, gauge: Gauge) -> Option<f64> {
        self.values.get(gauge as usize).copied().flatten()
    }

    /// Takes a figure, unless it is none: not finite, below 0, or a number that stands for a blank.
    pub fn set(&mut self, gauge: Gauge, value: f64) {
        let is_blank = value >= BLANK_INTEGER
            || BLANKS.iter().any(|blank| (*blank..*blank + 4.0).contains(&value));
        if let Some(place) = self.values.get_mut(gauge as usize)
            && value.is_finite()
            && value >= 0.0
            && !is_blank
        {
            *place = Some(value);
        }
    }

    /// The same with a figure.
    #[must_use]
    pub fn with(mut self, gauge: Gauge, value: f64) -> Self {
        self.set(gauge, value);
        self
    }

    /// Whether it tells nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.throttle.is_none() && self.values.iter().all(Option::is_none)
    }
}

/// Why clocks are held down: the driver's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle(pub u64);

/// The driver's names of its bits.
const REASONS: [(u64, &str); 9] = [
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
];
/// A reason that none of these names is.
const OTHER: &str = "other";
/// What no load suffers from: nothing to do, and clocks that somebody chose.
const HARMLESS: u64 = 0x1 | 0x2 | 0x100;
/// What stands in a file where no reason holds.
const NOTHING: &str = "none";

impl Throttle {
    /// The reasons by their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known: u64 = REASONS.iter().map(|(bit, _)| bit).sum();
        let named = REASONS.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name);
        named.chain((self.0 & !known != 0).then_some(OTHER))
    }

    /// Whether a load is slowed by it.
    #[must_use]
    pub fn slows(self) -> bool {
        self.0 & !HARMLESS != 0
    }

    /// As it stands in a cell of a file.
    pub(super) fn cell(self) -> String {
        let names: Vec<&str> = self.names().collect();
        if names.is_empty() { NOTHING.to_owned() } else { names.join("|") }
    }

    /// From such a cell.
    pub(super) fn of_cell(cell: &str) -> Option<Self> {
        let bit = |name: &str| {
            let known = REASONS.iter().find(|(_, own)| *own == name);
            known.map_or(1 << 63, |(bit, _)| *bit)
        };
        match cell {
            "" => None,
            NOTHING => Some(Self(0)),
            names => Some(Self(names.split('|').map(bit).fold(0, |all, bit| all | bit))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gauge_has_its_own_place_and_name() {
        for (place, gauge) in Gauge::ALL.into_iter().enumerate() {
            assert_eq!(gauge as usize, place);
            assert_eq!(Gauge::ALL.iter().filter(|one| one.name() == gauge.name()).count(), 1);
        }
    }

    #[test]
    fn blanks_and_nonsense_are_no_figures() {
        let mut reading = Reading::default();
        for none in [
            9_223_372_036_854_775_794.0,
            9.22e18,
            2_147_483_632.0,
            140_737_488_355_330.0,
            f64::NAN,
            f64::INFINITY,
            -1.0,
        ] {
            reading.set(Gauge::Power, none);
            assert!(reading.is_empty(), "{none}");
        }
        reading.set(Gauge::Power, 0.0);
        assert_eq!(reading.get(Gauge::Power), Some(0.0));
    }

    #[test]
    fn reasons_have_names_and_come_back_from_a_cell() {
        let throttle = Throttle(0x4 | 0x40);
        assert_eq!(throttle.cell(), "sw_power_cap|hw_thermal_slowdown");
        assert_eq!(Throttle::of_cell(&throttle.cell()), Some(throttle));
        assert!(throttle.slows() && !Throttle(0x1 | 0x2).slows() && !Throttle(0).slows());
        assert_eq!(Throttle::of_cell("none"), Some(Throttle(0)));
        assert_eq!(Throttle::of_cell(""), None);
        let unknown = Throttle(1 << 20);
        assert_eq!(unknown.cell(), "other");
        assert!(Throttle::of_cell("other").is_some_and(Throttle::slows));
    }
}
