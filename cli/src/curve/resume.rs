//! What a sweep or search that was ended has left: every level whose summary is whole.

use std::fs;
use std::path::Path;

use tokclock_engine::measure::Summary;

use super::campaign::Ran;
use crate::exit::Failure;
use crate::results::{LEVELS, ResultDir, SUMMARY};

/// Looks whether a directory is one of `command` that can go on.
///
/// # Errors
/// A usage error if it is not.
pub(super) fn check(dir: Option<&Path>, command: &str) -> Result<(), Failure> {
    let Some(dir) = dir else { return Ok(()) };
    let dir = ResultDir::reopen(dir)?;
    let reads = |line: &str| line.contains(&format!("tokclock {command} "));
    let text = fs::read_to_string(dir.path().join("run.toml"));
    if text.is_ok_and(|text| text.lines().next().is_some_and(reads)) {
        return Ok(());
    }
    let shown = dir.path().display();
    Err(Failure::usage(format!("--resume {shown}: its run.toml is not that of a {command}")))
}

/// The summary in a directory; `None` if it is not there, or not whole.
pub(super) fn summary(dir: &Path) -> Option<Summary> {
    let text = fs::read(dir.join(SUMMARY)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The runs of levels that came to their end, in the order of their names.
pub(super) fn runs(dir: &Path) -> Vec<Ran> {
    let entries = fs::read_dir(dir.join(LEVELS)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let run = |name: &String| {
        let repetition = repetition_of(name)?;
        let path = dir.join(LEVELS).join(name);
        let summary = summary(&path).filter(|summary| !summary.run.interrupted)?;
        let value = load(&path)?;
        Some(Ran { value, repetition, summary, dir: format!("{LEVELS}/{name}") })
    };
    names.iter().filter_map(run).collect()
}

/// A remark on runs that were found.
pub(super) fn found(count: usize) -> String {
    match count {
        1 => "1 run was there already".to_owned(),
        _ => format!("{count} runs were there already"),
    }
}

/// The load of a run, as its own `run.toml` says.
fn load(dir: &Path) -> Option<f64> {
    let text = fs::read_to_string(dir.join("run.toml")).ok()?;
    let table: toml::Table = toml::from_str(&text).ok()?;
    let number = |value: &toml::Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    ["rate", "concurrency"].into_iter().find_map(|key| table.get(key).and_then(number))
}

/// The name of the run of the `at`-th load that was tried.
pub(super) fn name(at: usize, repetition: usize) -> String {
    match repetition {
        0 => format!("{:02}", at + 1),
        more => format!("{:02}-{}", at + 1, more + 1),
    }
}

/// Which number a load has, from 0: that of its runs, else `wanted` where no other has that, else the
/// first after all others and not below `least`.
pub(super) fn number_of(value: f64, runs: &[Ran], wanted: Option<usize>, least: usize) -> usize {
    let taken: Vec<(f64, usize)> = runs
        .iter()
        .filter_map(|ran| Some((ran.value, number_in(ran.dir.rsplit('/').next()?)?)))
        .collect();
    free_number(value, &taken, wanted, least)
}

fn free_number(value: f64, taken: &[(f64, usize)], wanted: Option<usize>, least: usize) -> usize {
    if let Some((_, own)) = taken.iter().find(|(load, _)| *load == value) {
        return *own;
    }
    let is_free = |number: &usize| taken.iter().all(|(_, other)| other != number);
    let after = || taken.iter().map(|(_, number)| number + 1).fold(least, usize::max);
    wanted.filter(is_free).unwrap_or_else(after)
}

/// Which number a name says, from 0.
fn number_in(name: &str) -> Option<usize> {
    name.split('-').next()?.parse::<usize>().ok()?.checked_sub(1)
}

/// Which repetition a name says; `None` of what is no level.
fn repetition_of(name: &str) -> Option<usize> {
    let (number, repetition) = name.split_once('-').unwrap_or((name, "1"));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    repetition.parse::<usize>().ok().filter(|_| is_number)?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_keeps_its_number_and_takes_none_of_another() {
        let taken = [(1.0, 0), (2.0, 1), (4.0, 2), (2.0, 1)];
        let number = |value, wanted| free_number(value, &taken, wanted, 3);
        assert_eq!(number(2.0, Some(7)), 1, "it has one");
        assert_eq!(number(3.0, Some(2)), 3, "that is the number of 4");
        assert_eq!(number(8.0, Some(5)), 5);
        assert_eq!((number(6.0, None), free_number(6.0, &taken, None, 9)), (3, 9));
        assert_eq!(
            (number_in("04-2"), number_in("04"), number_in("pilot")),
            (Some(3), Some(3), None)
        );
    }

    #[test]
    fn names_say_which_level_and_which_repetition() {
        assert_eq!((name(0, 0), name(11, 2)), ("01".to_owned(), "12-3".to_owned()));
        for repetition in 0..3 {
            assert_eq!(repetition_of(&name(4, repetition)), Some(repetition));
        }
        for other in ["pilot", "01.cut-1", "recovery", "01-0", "", "-2"] {
            assert_eq!(repetition_of(other), None, "{other}");
        }
    }
}
