//! Which CPUs the reactors get: distinct physical cores first, one core left for the rest.

use tokclock_engine::telemetry::host::{Cpus, Files};

use crate::exit::Failure;
use crate::values::CpuList;

/// Chooses one CPU for each reactor, as positions in `allowed`, the CPUs that this process may use
/// by the numbers of the kernel.
///
/// `wanted` is what the user asked for, `listed` the CPUs that they named, `needed` what the load
/// needs if they asked for nothing.
///
/// # Errors
/// A usage error if there are not so many CPUs, or not those.
pub(crate) fn choose(
    allowed: &[usize],
    wanted: Option<usize>,
    listed: Option<&CpuList>,
    needed: usize,
) -> Result<Vec<usize>, Failure> {
    if allowed.is_empty() {
        return Err(Failure::could_not_run("cannot find out which CPUs this process may use"));
    }
    if wanted == Some(0) {
        return Err(Failure::usage("--reactors 0 would send nothing: give at least 1"));
    }
    let order = match listed {
        Some(list) => positions(allowed, &list.0)?,
        None => by_core(allowed, core_of),
    };
    let most = order.len();
    let count = match (wanted, listed) {
        (Some(wanted), Some(_)) if wanted > most => {
            return Err(Failure::usage(format!(
                "--reactors {wanted} is more than the {most} CPUs of --cpus: name more, or fewer \
                 reactors"
            )));
        }
        (Some(wanted), None) if wanted > most => {
            return Err(Failure::usage(format!(
                "--reactors {wanted} is more than the {most} CPUs that this process may use: give \
                 at most {most}"
            )));
        }
        (Some(wanted), _) => wanted,
        (None, Some(_)) => most,
        (None, None) => needed.clamp(1, most.saturating_sub(1).max(1)),
    };
    Ok(order.into_iter().take(count).collect())
}

/// A CPU (by its number) for something else than the reactors, if there is one left.
#[must_use]
pub(crate) fn left_over(allowed: &[usize], reactors: &[usize]) -> Option<usize> {
    let free = |&(position, _): &(usize, &usize)| !reactors.contains(&position);
    allowed.iter().enumerate().find(free).map(|(_, &cpu)| cpu)
}

fn positions(allowed: &[usize], cpus: &[usize]) -> Result<Vec<usize>, Failure> {
    let position = |cpu: &usize| {
        allowed.iter().position(|there| there == cpu).ok_or_else(|| {
            let there = CpuList(allowed.to_vec());
            Failure::usage(format!("--cpus: CPU {cpu} is not among those allowed here ({there})"))
        })
    };
    cpus.iter().map(position).collect()
}

/// All positions: one CPU of each physical core first, then their siblings. The first core comes
/// last of its round, since most interrupts and the other threads live there.
fn by_core(allowed: &[usize], core_of: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let mut ranked = Vec::new();
    for (position, &cpu) in allowed.iter().enumerate() {
        let core = core_of(cpu);
        let round = match seen.iter_mut().find(|(known, _)| *known == core) {
            Some((_, threads)) => {
                *threads += 1;
                *threads
            }
            None => {
                seen.push((core, 0));
                0
            }
        };
        let is_first_core = seen.first().is_some_and(|&(first, _)| first == core);
        ranked.push((round, is_first_core, position));
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, position)| position).collect()
}

/// The first hardware thread of the core that `cpu` belongs to; itself where nobody says.
fn core_of(cpu: usize) -> usize {
    Cpus::read(&Files::here(), &[cpu]).cpus.first().map_or(cpu, |cpu| cpu.core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_cores_come_before_their_siblings_and_the_first_core_last() {
        // CPUs 0-3 are the first threads of four cores, 4-7 the second ones.
        let order = by_core(&[0, 1, 2, 3, 4, 5, 6, 7], |cpu| cpu % 4);
        assert_eq!(order, [1, 2, 3, 0, 5, 6, 7, 4]);
    }

    #[test]
    fn one_core_is_left_for_the_rest_where_there_is_one() {
        assert_eq!(choose(&[4, 5], None, None, 9).unwrap().len(), 1);
        assert_eq!(choose(&[4], None, None, 9).unwrap(), [0]);
    }

    #[test]
    fn named_cpus_become_positions() {
        let list = CpuList(vec![9, 4]);
        assert_eq!(choose(&[4, 7, 9], None, Some(&list), 1).unwrap(), [2, 0]);
        assert_eq!(choose(&[4, 7, 9], Some(1), Some(&list), 1).unwrap(), [2]);
        assert_eq!(left_over(&[4, 7, 9], &[2, 0]), Some(7));
    }

    #[test]
    fn more_reactors_than_cpus_are_refused_with_the_number_there_is() {
        let error = choose(&[0, 1], Some(3), None, 1).unwrap_err();
        assert!(error.message.contains("at most 2"), "{error}");
        assert!(choose(&[0, 1], Some(0), None, 1).is_err());
        assert!(choose(&[0, 1], None, Some(&CpuList(vec![2])), 1).is_err());
        assert!(choose(&[0, 1], Some(2), Some(&CpuList(vec![1])), 1).is_err());
    }
}
