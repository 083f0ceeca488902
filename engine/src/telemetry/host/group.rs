//! What a container or a service manager allows this process: its control group.

use super::files::{Files, numbers, value_of};

/// Limits on this process, the narrowest of its group and those above it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// CPU time, if it is limited.
    pub quota: Option<Quota>,
    /// Periods in which the quota was used up, since the group exists.
    pub throttled: u64,
    /// Memory, bytes, if it is limited.
    pub memory_max: Option<u64>,
}

/// CPU time per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// CPU time, µs.
    pub quota_us: u64,
    /// The period, µs.
    pub period_us: u64,
}

impl Quota {
    /// How many CPUs that is.
    #[must_use]
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }
}

/// One hierarchy of groups: where it is mounted, and the group of this process in it.
struct Hierarchy {
    folder: String,
    group: String,
    unified: bool,
}

impl Group {
    /// Reads the limits of both kinds of hierarchy; `None` where none is to be seen.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        let groups = files.text("proc/self/cgroup")?;
        let mounts = files.text("proc/self/mountinfo")?;
        let all = hierarchies(&groups, &mounts);
        if all.is_empty() {
            return None;
        }
        let mut limits = Self::default();
        for hierarchy in &all {
            for folder in hierarchy.upwards() {
                limits.tighten(files, &folder, hierarchy.unified);
            }
        }
        Some(limits)
    }

    /// Takes over what is narrower in one group.
    fn tighten(&mut self, files: &Files, folder: &str, unified: bool) {
        let number = |file: &str| files.number(&format!("{folder}/{file}"));
        let (quota, memory) = if unified {
            let quota = files.text(&format!("{folder}/cpu.max")).as_deref().and_then(cpu_max);
            // "max" is no number.
            (quota, number("memory.max"))
        } else {
            let quota = number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us"));
            let quota = quota.map(|(quota_us, period_us)| Quota { quota_us, period_us });
            (quota, number("memory.limit_in_bytes").filter(|&bytes| bytes < UNLIMITED))
        };
        if let Some(quota) = quota
            && self.quota.is_none_or(|old| quota.cpus() < old.cpus())
        {
            self.quota = Some(quota);
            let counts = files.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
            self.throttled = value_of(&counts, "nr_throttled").unwrap_or(0);
        }
        let limits = [self.memory_max, memory];
        self.memory_max = limits.into_iter().flatten().min();
    }
}

/// How system calls are filtered: 0 not at all, 1 to a handful, 2 by a filter such as container runtimes
/// have.
#[must_use]
pub fn seccomp(files: &Files) -> Option<u64> {
    value_of(&files.text("proc/self/status")?, "Seccomp")
}

/// Version 1 writes "no limit" as a number of this size.
const UNLIMITED: u64 = 1 << 60;

impl Hierarchy {
    /// The folders of the group and of all above it.
    fn upwards(&self) -> Vec<String> {
        let mut group = self.group.trim_end_matches('/');
        let mut folders = vec![format!("{}{group}", self.folder)];
        while let Some((above, _)) = group.rsplit_once('/') {
            folders.push(format!("{}{above}", self.folder));
            group = above;
        }
        folders
    }
}

/// The hierarchies that limit CPU time or memory, from /proc/self/cgroup and /proc/self/mountinfo.
fn hierarchies(groups: &str, mounts: &str) -> Vec<Hierarchy> {
    let mut all = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (&[_, _, _, root, folder, ..], &[kind, _, options]) = (&left[..], &right[..]) else {
            continue;
        };
        let controls = |name: &str| options.split(',').any(|option| option == name);
        let unified = kind == "cgroup2";
        if !unified && !(kind == "cgroup" && (controls("cpu") || controls("memory"))) {
            continue;
        }
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, group) = (parts.next()?, parts.next()?);
            let is_it = if unified { names.is_empty() } else { names.split(',').any(controls) };
            is_it.then_some(group)
        });
        if let Some(own) = own {
            // In a container the mount begins at a group of its own.
            let group = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
            let folder = folder.trim_start_matches('/').to_owned();
            all.push(Hierarchy { folder, group: group.to_owned(), unified });
        }
    }
    all
}

/// Such as `50000 100000`, or `max 100000` for no limit.
fn cpu_max(text: &str) -> Option<Quota> {
    match numbers(text)[..] {
        [quota_us, period_us] => Some(Quota { quota_us, period_us }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::host::files::tests::tree;

    const UNIFIED: &str = "\
24 1 0:22 / /proc rw,nosuid - proc proc rw
31 23 0:28 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate
";

    #[test]
    fn a_container_of_two_cpus_sees_its_own_limits() {
        let dir = tree(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 12\nnr_periods 90\nnr_throttled 7\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
        ]);
        let group = Group::read(&Files::below(dir.path())).unwrap();
        assert_eq!(group.quota.map(Quota::cpus), Some(2.0));
        assert_eq!((group.throttled, group.memory_max), (7, Some(1 << 30)));
    }

    #[test]
    fn the_narrowest_limit_on_the_way_up_holds() {
        let dir = tree(&[
            ("proc/self/cgroup", "0::/user.slice/session.scope\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/user.slice/session.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.stat", "nr_throttled 3\n"),
            ("sys/fs/cgroup/user.slice/session.scope/memory.max", "max\n"),
        ]);
        let group = Group::read(&Files::below(dir.path())).unwrap();
        assert_eq!(group.quota, Some(Quota { quota_us: 50_000, period_us: 100_000 }));
        assert_eq!((group.throttled, group.memory_max), (3, None));
    }

    #[test]
    fn version_1_is_read_beside_an_empty_version_2() {
        let dir = tree(&[
            ("proc/self/cgroup", "4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "536870912\n"),
        ]);
        let group = Group::read(&Files::below(dir.path())).unwrap();
        assert_eq!(group, Group { memory_max: Some(1 << 29), ..Group::default() });
    }

    #[test]
    fn a_group_above_the_mount_is_the_top_of_what_is_seen() {
        let mounts = "31 23 0:28 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let all = hierarchies("0::/docker/a1/init\n", mounts);
        assert_eq!(all[0].upwards(), ["sys/fs/cgroup/init", "sys/fs/cgroup"]);
    }

    #[test]
    fn without_hierarchies_nothing_is_said() {
        let dir = tree(&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", "")]);
        assert_eq!(Group::read(&Files::below(dir.path())), None);
    }
}
