//! Carries out one load: the simulator beside us, a run in this process, both looked at afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use tokclock_engine::measure;
use tokclock_engine::measure::AccuracyReport;
use tokclock_engine::plan::Materials;
use tokclock_engine::record::{Row, read_rows};
use tokclock_engine::run::{self as engine, Progress, Setup};
use tokclock_engine::workload::Workload;

use super::child::Simulator;
use super::point::{self, Point, Rates, Seen};
use super::result::{Bounds, Placement, Rung};
use super::truth;
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::output::Screen;
use crate::resolve::gather::gather;
use crate::resolve::{self, Draft};
use crate::{cpus, progress};

/// All that the loads of a baseline have in common.
pub(super) struct Bench<'a> {
    pub(super) allowed: &'a [usize],
    pub(super) placement: Placement,
    pub(super) bounds: Bounds,
    pub(super) screen: Screen,
    pub(super) interrupts: &'a Interrupts,
    work: PathBuf,
    /// Driver and ring of the last load.
    pub(super) driver: (String, String),
    /// What a reader should know.
    pub(super) notes: Vec<String>,
}

/// One reactor, and up to this many CPUs for the simulator.
const SIMULATOR_CPUS_MAX: usize = 3;

/// Who gets which CPU: one for the reactor, others for the simulator, one for all else where there
/// are that many. Without a second one both share.
///
/// # Errors
/// If nobody knows which CPUs there are.
pub(super) fn place(allowed: &[usize]) -> Result<Placement, Failure> {
    let order = cpus::choose(allowed, Some(allowed.len().max(1)), None, 1)?;
    let numbers: Vec<usize> = order.iter().map(|&position| allowed[position]).collect();
    let (reactor, others) = (numbers[0], &numbers[1..]);
    let many = others.len().saturating_sub(1).clamp(1, SIMULATOR_CPUS_MAX);
    Ok(Placement {
        reactor_cpu: reactor,
        simulator_cpus: others
            .iter()
            .take(many)
            .copied()
            .chain(
                // Nobody else is left.
                others.is_empty().then_some(reactor),
            )
            .collect(),
        is_shared: others.is_empty(),
    })
}

impl<'a> Bench<'a> {
    /// Ready for loads whose files lie below `dir` while they last.
    ///
    /// # Errors
    /// If nobody knows which CPUs there are.
    pub(super) fn new(
        allowed: &'a [usize],
        bounds: Bounds,
        screen: Screen,
        interrupts: &'a Interrupts,
        dir: &Path,
    ) -> Result<Self, Failure> {
        Ok(Self {
            allowed,
            placement: place(allowed)?,
            bounds,
            screen,
            interrupts,
            work: dir.join("load"),
            driver: Default::default(),
            notes: Vec::new(),
        })
    }

    /// Whether the user wants it to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.interrupts.control().is_stopped()
    }

    /// Carries out `point`, again if the hypervisor took too much, or if it was `to_keep` and was
    /// not kept. `None` if it was interrupted.
    ///
    /// # Errors
    /// If the load cannot be carried out or read back.
    pub(super) fn rung(&mut self, point: &Point, to_keep: bool) -> Result<Option<Rung>, Failure> {
        if !self.is_stopped() {
            self.screen.note(point.title());
        }
        let Some(first) = self.once(point)? else { return Ok(None) };
        if !first.has_steal && (!to_keep || first.is_sustained()) {
            return Ok(Some(first));
        }
        let Some(second) = self.once(point)? else { return Ok(None) };
        let first_is_better = match (first.has_steal, second.has_steal) {
            (true, false) => false,
            (false, true) => true,
            _ => first.is_sustained() && !second.is_sustained(),
        };
        let better = if first_is_better { first } else { second };
        Ok(Some(Rung { is_repeated: true, ..better }))
    }

    fn once(&mut self, point: &Point) -> Result<Option<Rung>, Failure> {
        let Some((workload, mut seen)) = self.carry_out(point)? else { return Ok(None) };
        let rows = std::mem::take(&mut seen.rows);
        let summary = measure::summarize(&workload, &seen.facts, rows.iter().cloned());
        seen.rows = rows;
        Ok(Some(point::rung(point, &seen, &summary, &self.bounds)))
    }

    /// Carries out `point` for its rates alone. `None` if it was interrupted.
    ///
    /// # Errors
    /// If the load cannot be carried out or read back.
    pub(super) fn rates(&mut self, point: &Point) -> Result<Option<Rates>, Failure> {
        Ok(self.carry_out(point)?.map(|(_, seen)| point::rates(&seen.rows, 0)))
    }

    fn carry_out(&mut self, point: &Point) -> Result<Option<(Workload, Seen)>, Failure> {
        if self.is_stopped() {
            return Ok(None);
        }
        let work = Work::make(&self.work)?;
        let log = work.0.join("truth.jsonl");
        let log = point.is_witnessed.then_some(log.as_path());
        let simulator = Simulator::start(point, &self.placement.simulator_cpus, log)?;
        let workload = self.workload(point, simulator.url())?;
        let setup = Setup {
            out_dir: work.0.clone(),
            run_id: format!("{:014x}", resolve::draw()),
            resolve_ns: 0,
            materials: Materials::default(),
            gpus: None,
            scrape: Default::default(),
            start_at_ns: None,
            shard: None,
        };
        let progress = Progress::new();
        let facts = progress::during(self.screen, &progress, &progress::Course::default(), || {
            engine::run(&workload, &setup, self.interrupts.control(), &progress)
        })
        .map_err(|error| failed(&error))?;
        let simulator = simulator.stop()?;
        if facts.interrupted {
            return Ok(None);
        }
        self.driver = (facts.driver.clone(), facts.ring.clone());
        let rows = rows(&work.0.join(engine::REQUESTS_FILE))?;
        let accuracy = match log {
            Some(log) => truth::compare(&rows, log, facts.start_monotonic_ns)?,
            None => AccuracyReport::default(),
        };
        Ok(Some((workload, Seen { facts, rows, simulator, accuracy })))
    }

    fn workload(&self, point: &Point, url: &str) -> Result<Workload, Failure> {
        let options = point.options(url, self.placement.reactor_cpu);
        let draft = Draft::new(options, self.allowed, &|needed| gather(needed, None, None))?;
        let located =
            engine::locate(url, draft.api.dialect, &draft.way).map_err(|error| failed(&error))?;
        let workload = draft.workload(&[located], "sim");
        engine::check(&workload).map_err(|error| failed(&error))?;
        Ok(workload)
    }
}

/// A directory for the files of one load; it goes with this.
struct Work(PathBuf);

impl Work {
    fn make(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| {
            Failure::could_not_run(format!("cannot create {}: {error}", path.display()))
        })?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed is in the way of nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rows(path: &Path) -> Result<Vec<Row>, Failure> {
    read_rows(path).and_then(Iterator::collect).map_err(|error| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    })
}

fn failed(error: &impl std::error::Error) -> Failure {
    Failure::could_not_run(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reactor_has_a_cpu_of_its_own_where_there_are_two() {
        let placed = place(&[4, 5]).unwrap();
        assert!(!placed.is_shared && placed.simulator_cpus.len() == 1);
        assert_ne!(placed.reactor_cpu, placed.simulator_cpus[0]);
        let many: Vec<usize> = (0..16).collect();
        let placed = place(&many).unwrap();
        assert_eq!(placed.simulator_cpus.len(), SIMULATOR_CPUS_MAX);
        assert!(!placed.simulator_cpus.contains(&placed.reactor_cpu));
    }

    #[test]
    fn one_cpu_is_shared_and_that_is_said() {
        let placed = place(&[7]).unwrap();
        assert_eq!(placed.simulator_cpus, [7]);
        assert!(placed.is_shared);
        assert!(place(&[]).is_err());
    }
}
