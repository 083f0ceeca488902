//! `--shard auto`: which part of a load this process is, by what its launcher put into the environment.
//!
//! | launcher | index | how many | said by |
//! |---|---|---|---|
//! | whoever sets it | `TOKCLOCK_SHARD=i/n` | | this program; `tools/ray` sets it |
//! | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | docs.open-mpi.org, "Environment variables set for MPI applications" |
//! | MPICH and its kin (PMI) | `PMI_RANK` | `PMI_SIZE` | MPICH's Hydra; Slurm's `srun --mpi=pmi2` sets them too |
//! | Slurm | `SLURM_PROCID` | `SLURM_STEP_NUM_TASKS` | srun(1), "Output environment variables" |
//! | Kubernetes Indexed Job | `JOB_COMPLETION_INDEX` | `JOB_COMPLETIONS` | kubernetes.io, "Jobs"; the second is ours, manifests must set it |
//! | torchrun | `RANK` | `WORLD_SIZE` | docs.pytorch.org, "torchrun (Elastic Launch)" |
//!
//! PMIx alone gives no size: `PMIX_RANK` stands in messages only. `SLURM_NTASKS` is not asked, since
//! a batch script has it, with `SLURM_PROCID=0`, before `srun` has started anything.

use tokclock_engine::workload::Shard;

use crate::exit::Failure;

/// Wins over all launchers.
const OURS: &str = "TOKCLOCK_SHARD";

/// A launcher, by the variables that it sets.
struct Launcher {
    name: &'static str,
    index: &'static str,
    of: &'static str,
    /// What to do where it gives an index and no number of shards.
    remedy: &'static str,
    /// It starts processes within an allocation of Slurm, whose variables then count its daemons.
    within_slurm: bool,
}

const SLURM: &str = "Slurm";

/// In the order in which they are asked.
const LAUNCHERS: [Launcher; 5] = [
    Launcher {
        name: "Open MPI",
        index: "OMPI_COMM_WORLD_RANK",
        of: "OMPI_COMM_WORLD_SIZE",
        remedy: "start by mpirun, or set TOKCLOCK_SHARD=i/n",
        within_slurm: true,
    },
    Launcher {
        name: "PMI",
        index: "PMI_RANK",
        of: "PMI_SIZE",
        remedy: "start by mpiexec, or set TOKCLOCK_SHARD=i/n",
        within_slurm: true,
    },
    Launcher {
        name: SLURM,
        index: "SLURM_PROCID",
        of: "SLURM_STEP_NUM_TASKS",
        remedy: "a batch script is no shard: start the shards by srun",
        within_slurm: false,
    },
    Launcher {
        name: "Kubernetes",
        index: "JOB_COMPLETION_INDEX",
        of: "JOB_COMPLETIONS",
        remedy: "set it in the manifest to the Job's completions",
        within_slurm: false,
    },
    Launcher {
        name: "torchrun",
        index: "RANK",
        of: "WORLD_SIZE",
        remedy: "start by torchrun, or set TOKCLOCK_SHARD=i/n",
        within_slurm: false,
    },
];

/// How many tasks of a launcher there are on this host: the variables that say so.
const ON_THIS_HOST: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"];

/// What the environment says of one launcher.
enum Found {
    Nothing,
    /// Part of what it sets: what is there, and what is missing.
    Part(String),
    Shard(Shard),
}

/// The shard that the launcher of this process made of it. `env` reads the environment.
///
/// # Errors
/// A usage error that says which variables were found and what is missing or wrong, where no launcher
/// says both numbers or two launchers do not agree.
pub(crate) fn detect(env: &dyn Fn(&str) -> Option<String>) -> Result<Shard, Failure> {
    if let Some(text) = value(env, OURS) {
        return text.parse().map_err(|error| wrong(format!("{OURS}: {error}")));
    }
    let mut said: Vec<(&Launcher, Shard)> = Vec::new();
    let mut parts = Vec::new();
    for launcher in &LAUNCHERS {
        match launcher.found(env)? {
            Found::Shard(shard) => said.push((launcher, shard)),
            Found::Part(text) => parts.push(text),
            Found::Nothing => {}
        }
    }
    if said.iter().any(|(launcher, _)| launcher.within_slurm) {
        said.retain(|(launcher, _)| launcher.name != SLURM);
    }
    let Some(&(first, shard)) = said.first() else { return Err(nothing(env, &parts)) };
    match said.iter().find(|&&(_, other)| other != shard) {
        None => Ok(shard),
        Some(&(second, other)) => Err(wrong(format!(
            "{} says {shard} ({}, {}), but {} says {other} ({}, {}): set {OURS}=i/n",
            first.name, first.index, first.of, second.name, second.index, second.of
        ))),
    }
}

/// A remark where the launcher put more than one task on this host: they share what a host has.
#[must_use]
pub(crate) fn remark(env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let most =
        ON_THIS_HOST.iter().filter_map(|name| value(env, name)?.parse::<u32>().ok()).max()?;
    (most > 1).then(|| {
        format!(
            "{most} shards run on this host: they share its CPUs, its network card and its ports; one \
             shard with more reactors does the same"
        )
    })
}

impl Launcher {
    /// What the environment says of it.
    fn found(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Found, Failure> {
        let (index, of) = (value(env, self.index), value(env, self.of));
        match (index, of) {
            // Clusters that start no tasks set sizes too: alone they mean nothing.
            (None, _) => Ok(Found::Nothing),
            (Some(index), None) => Ok(Found::Part(format!(
                "{}={index} ({}) is set, but {} is missing: {}",
                self.index, self.name, self.of, self.remedy
            ))),
            (Some(index), Some(of)) => format!("{index}/{of}")
                .parse()
                .map(Found::Shard)
                .map_err(|error| wrong(format!("{}, {}: {error}", self.index, self.of))),
        }
    }
}

/// The value of a variable that is set to something.
fn value(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Why there is no shard where no launcher says both numbers.
fn nothing(env: &dyn Fn(&str) -> Option<String>, parts: &[String]) -> Failure {
    if !parts.is_empty() {
        return wrong(parts.join("; "));
    }
    if let Some(rank) = value(env, "PMIX_RANK") {
        return wrong(format!(
            "PMIX_RANK={rank} is set, but PMIx has no variable that says how many: set {OURS}=i/n"
        ));
    }
    let indices: Vec<&str> = LAUNCHERS.iter().map(|launcher| launcher.index).collect();
    wrong(format!(
        "no launcher's variables are set ({}): start by srun, mpirun, torchrun or as a Kubernetes \
         Indexed Job, set {OURS}=i/n, or give --shard i/n",
        indices.join(", ")
    ))
}

fn wrong(what: impl AsRef<str>) -> Failure {
    Failure::usage(format!("--shard auto: {}", what.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What these variables make of a process.
    fn of(variables: &[(&str, &str)]) -> Result<String, String> {
        let env = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        detect(&env).map(|shard| shard.to_string()).map_err(|failure| failure.message)
    }

    fn remarked(variables: &[(&str, &str)]) -> Option<String> {
        remark(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_launcher_is_understood() {
        for launcher in &LAUNCHERS {
            assert_eq!(of(&[(launcher.index, "1"), (launcher.of, "3")]), Ok("1/3".into()));
            let last = of(&[(launcher.index, "3"), (launcher.of, "3")]).unwrap_err();
            assert!(last.contains(launcher.index) && last.contains("3/3"), "{last}");
            let part = of(&[(launcher.index, "1")]).unwrap_err();
            assert!(part.contains(launcher.index) && part.contains(launcher.of), "{part}");
            assert!(part.contains(launcher.remedy), "{part}");
        }
    }

    /// As seen in a step of three tasks, in Open MPI's four ranks and in MPICH's two.
    #[test]
    fn real_environments_are_understood() {
        let step = [
            ("SLURM_PROCID", "2"),
            ("SLURM_NTASKS", "3"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_STEP_TASKS_PER_NODE", "1(x3)"),
        ];
        assert_eq!(of(&step), Ok("2/3".into()));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "1"),
            ("PMIX_RANK", "3"),
        ];
        assert_eq!(of(&open_mpi), Ok("3/4".into()));
        let mpich = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")];
        assert_eq!(of(&mpich), Ok("0/2".into()));
    }

    #[test]
    fn a_batch_script_of_slurm_is_no_shard() {
        let said = of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "3")]).unwrap_err();
        assert!(said.contains("SLURM_STEP_NUM_TASKS") && said.contains("srun"), "{said}");
    }

    /// In a step of three daemons, six ranks: Slurm counts the daemons.
    #[test]
    fn mpi_within_slurm_counts_and_not_slurm() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "3")];
        for (index, size) in
            [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")]
        {
            let nested = [slurm[0], slurm[1], (index, "4"), (size, "6")];
            assert_eq!(of(&nested), Ok("4/6".into()));
        }
    }

    #[test]
    fn launchers_that_agree_are_one_and_those_that_do_not_are_refused() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "3")];
        let same = [slurm[0], slurm[1], ("RANK", "1"), ("WORLD_SIZE", "3")];
        assert_eq!(of(&same), Ok("1/3".into()));
        let said = of(&[slurm[0], slurm[1], ("RANK", "3"), ("WORLD_SIZE", "6")]).unwrap_err();
        for part in ["Slurm says 1/3", "torchrun says 3/6", "RANK", "SLURM_PROCID", OURS] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn one_launcher_that_says_all_is_enough_beside_one_that_does_not() {
        let both = [("JOB_COMPLETION_INDEX", "0"), ("RANK", "1"), ("WORLD_SIZE", "4")];
        assert_eq!(of(&both), Ok("1/4".into()));
    }

    #[test]
    fn our_own_variable_wins_and_a_wrong_one_is_named() {
        let both = [(OURS, " 2/5 "), ("RANK", "1"), ("WORLD_SIZE", "4")];
        assert_eq!(of(&both), Ok("2/5".into()));
        let said = of(&[(OURS, "5/5")]).unwrap_err();
        assert!(said.contains(OURS) && said.contains("5/5"), "{said}");
    }

    #[test]
    fn numbers_that_are_none_are_named() {
        for wrong in ["x", "-1", "1.0"] {
            let said = of(&[("RANK", wrong), ("WORLD_SIZE", "4")]).unwrap_err();
            assert!(said.contains("RANK") && said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn without_a_launcher_all_ways_are_named() {
        for environment in [&[][..], &[("RANK", " ")], &[("WORLD_SIZE", "4")]] {
            let said = of(environment).unwrap_err();
            assert!(said.contains("SLURM_PROCID") && said.contains("--shard i/n"), "{said}");
        }
        let pmix = of(&[("PMIX_RANK", "1")]).unwrap_err();
        assert!(pmix.contains("PMIX_RANK=1") && pmix.contains(OURS), "{pmix}");
    }

    #[test]
    fn shards_that_share_a_host_are_remarked_on() {
        assert_eq!(remarked(&[]), None);
        assert_eq!(remarked(&[("LOCAL_WORLD_SIZE", "1")]), None);
        assert_eq!(remarked(&[("LOCAL_WORLD_SIZE", "x")]), None);
        for name in ON_THIS_HOST {
            let said = remarked(&[(name, "2"), ("LOCAL_WORLD_SIZE", "2")]).unwrap();
            assert!(said.starts_with("2 shards run on this host"), "{said}");
        }
    }
}
