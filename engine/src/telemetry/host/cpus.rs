//! The CPUs: cores and siblings, nodes, what else runs on them, how fast and how deep they sleep.

use super::files::Files;

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// The first hardware thread of its core; itself where nobody says.
    pub core: usize,
    /// The NUMA node that it belongs to.
    pub node: Option<usize>,
    /// What decides on its frequency, such as `performance`.
    pub governor: Option<String>,
    /// What sets its frequency, such as `intel_pstate`.
    pub frequency_driver: Option<String>,
    /// How it may sleep, from light to deep.
    pub idle_states: Vec<IdleState>,
}

/// One way of a CPU to sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Such as `C1E`.
    pub name: String,
    /// How long waking takes, µs.
    pub exit_us: u64,
    /// It is not used.
    pub disabled: bool,
}

/// All CPUs of interest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpus {
    /// Those asked for, in that order.
    pub cpus: Vec<Cpu>,
    /// CPUs that are online.
    pub online: Option<usize>,
    /// CPUs that the scheduler keeps free.
    pub isolated: Option<Vec<usize>>,
    /// CPUs without a tick while one thread runs.
    pub nohz_full: Option<Vec<usize>>,
    /// What lets CPUs sleep, such as `intel_idle`; `none` where nothing does.
    pub idle_driver: Option<String>,
    /// What decides how deep, such as `menu`.
    pub idle_governor: Option<String>,
    /// `idle=` of the kernel's command line.
    pub idle_option: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// A hypervisor is below.
    pub virtual_machine: Option<bool>,
    /// NUMA nodes that are online.
    pub nodes: Option<usize>,
    /// CPUs may run faster than their nominal frequency.
    pub boost: Option<bool>,
    /// What the CPU says of its time stamp counter, such as `constant_tsc`; none where there are no
    /// such flags.
    pub tsc_flags: Option<Vec<String>>,
}

impl Cpus {
    /// Reads what is told of the CPUs `numbers`.
    #[must_use]
    pub fn read(files: &Files, numbers: &[usize]) -> Self {
        let system = "sys/devices/system/cpu";
        let info = files.text("proc/cpuinfo");
        let line = files.text("proc/cmdline").unwrap_or_default();
        let idle_option = line.split_whitespace().find_map(|word| word.strip_prefix("idle="));
        Self {
            cpus: numbers.iter().map(|&number| Cpu::read(files, number)).collect(),
            online: files.cpus(&format!("{system}/online")).map(|cpus| cpus.len()),
            isolated: files.cpus(&format!("{system}/isolated")),
            nohz_full: files.cpus(&format!("{system}/nohz_full")),
            idle_driver: files.text(&format!("{system}/cpuidle/current_driver")),
            idle_governor: files
                .text(&format!("{system}/cpuidle/current_governor"))
                .or_else(|| files.text(&format!("{system}/cpuidle/current_governor_ro"))),
            idle_option: idle_option.map(str::to_owned),
            model: info.as_deref().and_then(|info| field(info, "model name")),
            virtual_machine: info.as_deref().and_then(is_virtual),
            nodes: files.cpus("sys/devices/system/node/online").map(|nodes| nodes.len()),
            boost: boost(files, system),
            tsc_flags: info.as_deref().and_then(tsc_flags),
        }
    }
}

impl Cpu {
    fn read(files: &Files, number: usize) -> Self {
        let folder = format!("sys/devices/system/cpu/cpu{number}");
        let siblings = files.cpus(&format!("{folder}/topology/thread_siblings_list"));
        let node_of = |name: &String| name.strip_prefix("node")?.parse().ok();
        let text = |file: &str| files.text(&format!("{folder}/{file}"));
        Self {
            number,
            core: siblings.and_then(|cpus| cpus.first().copied()).unwrap_or(number),
            node: files.names(&folder).iter().find_map(node_of),
            governor: text("cpufreq/scaling_governor"),
            frequency_driver: text("cpufreq/scaling_driver"),
            idle_states: idle_states(files, &format!("{folder}/cpuidle")),
        }
    }
}

fn idle_states(files: &Files, folder: &str) -> Vec<IdleState> {
    let read = |state: String| {
        Some(IdleState {
            name: files.text(&format!("{folder}/{state}/name"))?,
            exit_us: files.number(&format!("{folder}/{state}/latency"))?,
            disabled: files.number(&format!("{folder}/{state}/disable")) == Some(1),
        })
    };
    files.names(folder).into_iter().filter_map(read).collect()
}

/// The value behind the first `name : value` of /proc/cpuinfo.
fn field(info: &str, name: &str) -> Option<String> {
    let (_, value) = info.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

/// Whether the flags name a hypervisor; other architectures do not tell.
fn is_virtual(info: &str) -> Option<bool> {
    let flags = field(info, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The flags that speak of the time stamp counter.
fn tsc_flags(info: &str) -> Option<Vec<String>> {
    let flags = field(info, "flags")?;
    let ours = flags.split_whitespace().filter(|flag| flag.contains("tsc"));
    Some(ours.map(str::to_owned).collect())
}

/// Whether boosting is on: by the common switch, or by that of intel_pstate, which says the opposite.
fn boost(files: &Files, system: &str) -> Option<bool> {
    let common = files.number(&format!("{system}/cpufreq/boost")).map(|on| on != 0);
    let intel = files.number(&format!("{system}/intel_pstate/no_turbo"));
    common.or_else(|| intel.map(|off| off == 0))
}

/// How many threads of the whole host wanted to run over the last minute, on average, those waiting for
/// a disk too.
#[must_use]
pub fn load_average(files: &Files) -> Option<f64> {
    parse_load(&files.text("proc/loadavg")?)
}

/// Such as `0.52 0.58 0.59 3/467 2817`.
fn parse_load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::host::files::tests::tree;

    #[test]
    fn nodes_boost_and_the_counter_are_read_where_they_are_told() {
        let dir = tree(&[
            ("sys/devices/system/node/online", "0-1\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("proc/cpuinfo", "flags\t\t: fpu tsc constant_tsc nonstop_tsc rdtscp\n"),
        ]);
        let cpus = Cpus::read(&Files::below(dir.path()), &[]);
        assert_eq!((cpus.nodes, cpus.boost), (Some(2), Some(false)));
        assert_eq!(cpus.tsc_flags.unwrap(), ["tsc", "constant_tsc", "nonstop_tsc", "rdtscp"]);
        let dir = tree(&[("sys/devices/system/cpu/cpufreq/boost", "1\n")]);
        let cpus = Cpus::read(&Files::below(dir.path()), &[]);
        assert_eq!((cpus.nodes, cpus.boost, cpus.tsc_flags), (None, Some(true), None));
    }

    #[test]
    fn the_model_is_read_where_there_is_one() {
        let info = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t\t: fpu tsc\n";
        assert_eq!(field(info, "model name").as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(field("processor\t: 0\n", "model name"), None);
    }

    #[test]
    fn a_hypervisor_shows_in_the_flags_alone() {
        assert_eq!(is_virtual("flags\t\t: fpu hypervisor tsc\n"), Some(true));
        assert_eq!(is_virtual("flags\t\t: fpu tsc\n"), Some(false));
        assert_eq!(is_virtual("Features\t: fp asimd\n"), None, "Arm has no such line");
    }

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(parse_load("0.52 0.58 0.59 3/467 2817\n"), Some(0.52));
        assert_eq!((parse_load(""), parse_load("NaN 0 0 1/2 3")), (None, None));
    }
}
