//! A load that workers on other hosts send and this process leads: it brings them to one plan and one
//! start, watches them, fetches what they leave and merges it.
//!
//! ```text
//! commands ─► workers: hello ─► prepare: one plan? ─► clocks, start ─► watch ─► fetch ─► merge
//! ```

mod answers;
mod command;
mod fetch;
mod link;
mod remarks;
mod timeline;
mod wanted;
mod watch;

pub(crate) use wanted::{Wanted, fill};

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::measure::Summary;
use tokclock_engine::run::Control;
use tokclock_engine::shard::exchange::{host_clock, round_trip_ns};
use tokclock_engine::shard::message::{Reply, Request};
use tokclock_engine::shard::{CLOCKS_FILE, Clocks, HostClock};
use tokclock_engine::workload::{Shard, Workload};

use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::merge::{Merging, merge_shards};
use crate::output::Screen;
use crate::progress::{self, Course};
use crate::resolve::{self, Draft};
use crate::results::ResultDir;
use crate::stage::Stage;
use answers::{answer, died, gone, greeted, readied, remark};
use link::{Link, Said};
use remarks::Remarks;
use timeline::Timeline;
use watch::Watch;

/// How long a worker may take to say who it is.
const HELLO_MAX_NS: u64 = 60_000_000_000;
/// How often it is looked whether somebody said something.
const TICK: Duration = Duration::from_millis(20);
/// Questions for the time before a load.
const EXCHANGES: usize = 20;
/// How long an answer to one may take, ns.
const EXCHANGE_MAX_NS: u64 = 2_000_000_000;
const EXCHANGE_TICK: Duration = Duration::from_micros(200);
/// And so often during it, ns.
const EXCHANGE_EVERY_NS: u64 = 1_000_000_000;
/// From the call to begin to the beginning, ns; and so many round trips more.
const LEAD_NS: u64 = 1_500_000_000;
const LEAD_ROUND_TRIPS: u64 = 8;
/// A worker of whose load nothing was heard for so long is lost, ns.
const SILENCE_MAX_NS: u64 = 60_000_000_000;
/// How long workers may take to end when they are no longer needed.
const END_MAX_NS: u64 = 10_000_000_000;

/// Workers that stand ready for loads.
pub(crate) struct Fleet {
    links: RefCell<Vec<Link>>,
    timeline: Timeline,
    screen: Screen,
    /// Workers that the last note on their number spoke of.
    told: Cell<usize>,
    /// What became of those that the last load has lost.
    lost: RefCell<Vec<String>>,
}

/// A load that workers are to send.
pub(crate) struct Shared<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) draft: &'a Draft,
    pub(crate) workload: &'a Workload,
    /// What workers call it.
    pub(crate) name: &'a str,
}

impl Fleet {
    /// Starts workers and hears who they are.
    ///
    /// # Errors
    /// One that does not start, does not say who it is in time, or is of another version.
    pub(crate) fn start(wanted: &Wanted, screen: Screen) -> Result<Self, Failure> {
        let timeline = Timeline::begin();
        let told_once = Arc::new(Remarks::new(screen));
        let (links, lost) = (RefCell::default(), RefCell::default());
        // Whatever fails from here on, those that run are ended.
        let mut fleet = Self { links, timeline, screen, told: Cell::new(0), lost };
        let links = fleet.links.get_mut();
        for (number, command) in wanted.commands.iter().enumerate() {
            let link = Link::start(number, command, timeline, &told_once).map_err(|error| {
                Failure::could_not_run(format!(
                    "--worker '{}' cannot be started: {error}",
                    command.text
                ))
            })?;
            links.push(link);
        }
        links.iter_mut().for_each(|link| link.ask(&Request::Hello));
        let until_ns = monotonic_ns().saturating_add(HELLO_MAX_NS);
        for link in links.iter_mut() {
            let host = answer(link, Some(until_ns), &|| false, &mut greeted)?;
            link.host = host;
        }
        let hosts: Vec<&str> = links.iter().map(|link| link.host.as_str()).collect();
        screen.note(format_args!("workers: {} ({})", hosts.len(), hosts.join(", ")));
        Ok(fleet)
    }

    /// Brings workers to the plan of a load; gives how many of them send it.
    ///
    /// # Errors
    /// One that cannot send its part, or would send another load.
    pub(crate) fn prepare(&self, shared: &Shared<'_>, control: &Control) -> Result<usize, Failure> {
        self.lost.borrow_mut().clear();
        let links = &mut *self.links.borrow_mut();
        let brought = self.bring(links, shared, control);
        if let Err(failure) = &brought
            && links.iter().any(|link| link.is_gone || link.has_died)
        {
            self.lost.replace(vec![failure.message.clone()]);
        }
        brought
    }

    fn bring(
        &self,
        links: &mut [Link],
        shared: &Shared<'_>,
        control: &Control,
    ) -> Result<usize, Failure> {
        let hosts = wanted::hosts_of(shared.draft.load(), links.len());
        if hosts < links.len() && self.told.replace(hosts) != hosts {
            self.screen.note(format_args!(
                "{hosts} of {} workers send: there are no more users, or places in flight, for others",
                links.len()
            ));
        }
        let options = shared.draft.run_toml(&shared.workload.target.model)?;
        for link in &mut links[..hosts] {
            if link.is_gone {
                return Err(gone(link));
            }
            link.has_died = false;
            let (name, options) = (shared.name.to_owned(), options.clone());
            let shard = shard(link.number, hosts)?;
            link.ask(&Request::Prepare { name, options, shard });
        }
        let (plan, seed) = (shared.stage.plan(shared.workload), shared.workload.seed);
        for link in &mut links[..hosts] {
            let is_over = || control.is_stopped();
            let theirs = answer(link, None, &is_over, &mut readied)?;
            if theirs != (plan.clone(), seed) {
                return Err(Failure::could_not_run(format!(
                    "{} would send another load: its plan is {} and ours {plan}; recordings, \
                     tokenizers and the files that options name must be the same on all hosts",
                    link.name(),
                    theirs.0
                )));
            }
        }
        Ok(hosts)
    }

    /// Carries out a load that `hosts` workers were brought to, and writes the whole result into `dir`.
    ///
    /// # Errors
    /// If nothing was measured, or it cannot be saved.
    pub(crate) fn carry_out(
        &self,
        hosts: usize,
        dir: &ResultDir,
        interrupts: &Interrupts,
        course: &Course,
    ) -> Result<Summary, Failure> {
        let links = &mut self.links.borrow_mut()[..hosts];
        self.measure_clocks(links)?;
        self.call(links);
        let watched = links.iter().map(|link| (link.number, Arc::clone(&link.seen)));
        let watch = Watch::new(watched.collect());
        let lost = progress::during(self.screen, &watch, course, || {
            follow(links, &watch, interrupts.control())
        });
        let clocks = Clocks::new(links.iter().filter_map(clock_of).collect());
        dir.write_json(CLOCKS_FILE, &clocks)?;
        let shards = dir.path().join("shards");
        let fetched = fetch::all(links, &shards);
        links.iter_mut().for_each(|link| link.ask(&Request::Forget));
        let mut told: Vec<String> = lost.iter().map(|(_, why)| why.clone()).collect();
        let mut dirs = Vec::new();
        for (link, result) in links.iter().zip(fetched) {
            let is_told = lost.iter().any(|(number, _)| *number == link.number);
            match result {
                Ok(dir) => dirs.push(dir),
                Err(why) if !is_told => {
                    told.push(format!("{}: its result did not come: {why}", link.name()));
                }
                Err(_) => {}
            }
        }
        told.iter().for_each(|why| self.screen.note(why));
        if dirs.is_empty() {
            let why = told.first().cloned().unwrap_or_else(|| "no worker sent".to_owned());
            self.lost.replace(told);
            return Err(Failure::could_not_run(format!("nothing was measured: {why}")));
        }
        self.lost.replace(told);
        let of = u32::try_from(hosts).ok();
        let how =
            Merging { clocks: Some(&clocks), histograms_only: false, of, screen: self.screen };
        merge_shards(&dirs, dir, &how)
    }

    /// What became of workers that the last load has lost, in one line; nothing if it was whole.
    #[must_use]
    pub(crate) fn lost(&self) -> Option<String> {
        let lost = self.lost.borrow();
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// Asks workers for their times until the offsets are known well enough to begin together.
    fn measure_clocks(&self, links: &mut [Link]) -> Result<(), Failure> {
        links.iter().for_each(|link| link.seen.renew());
        for round in 1..=EXCHANGES {
            links.iter_mut().for_each(Link::ask_time);
            let until_ns = monotonic_ns().saturating_add(EXCHANGE_MAX_NS);
            let is_behind = |link: &Link| !link.is_gone && link.seen.exchanges().len() < round;
            while links.iter().any(is_behind) && monotonic_ns() < until_ns {
                thread::sleep(EXCHANGE_TICK);
            }
            if let Some(link) = links.iter().find(|link| link.seen.exchanges().is_empty()) {
                return Err(Failure::could_not_run(format!(
                    "{} does not say its time, so there can be no common start{}",
                    link.name(),
                    remark(link)
                )));
            }
        }
        Ok(())
    }

    /// Tells workers when to begin, each by its own clock.
    fn call(&self, links: &mut [Link]) {
        let trips = links.iter().filter_map(|link| round_trip_ns(&link.seen.exchanges()));
        let longest = trips.max().unwrap_or(0);
        let lead = LEAD_NS.saturating_add(longest.saturating_mul(LEAD_ROUND_TRIPS));
        let at_ns = self.timeline.now_ns().saturating_add(lead);
        let run_id = format!("{:014x}", resolve::draw());
        for link in links {
            let offset = clock_of(link).map_or(0, |clock| clock.offset_ns);
            let (at_realtime_ns, run_id) = (at_ns.saturating_add_signed(offset), run_id.clone());
            link.ask(&Request::Start { at_realtime_ns, run_id });
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let links = self.links.get_mut();
        links.iter_mut().for_each(Link::dismiss);
        let until_ns = monotonic_ns().saturating_add(END_MAX_NS);
        while links.iter_mut().any(|link| !link.has_ended()) && monotonic_ns() < until_ns {
            thread::sleep(TICK);
        }
        links
            .iter_mut()
            .filter_map(|link| (!link.has_ended()).then_some(link))
            .for_each(Link::kill);
    }
}

/// Waits for all workers of a load; gives the numbers of those that were lost, and why.
fn follow(links: &mut [Link], watch: &Watch, control: &Control) -> Vec<(usize, String)> {
    let mut lost = Vec::new();
    let mut is_over = vec![false; links.len()];
    let mut wished = (false, false);
    let mut asked_ns = monotonic_ns();
    while is_over.contains(&false) {
        let is_due = monotonic_ns().saturating_sub(asked_ns) >= EXCHANGE_EVERY_NS;
        let wish = match (control.is_stopped(), control.is_cut()) {
            (_, true) if !wished.1 => Some(Request::Cut),
            (true, _) if !wished.0 => Some(Request::Stop),
            _ => None,
        };
        wished = (control.is_stopped(), control.is_cut());
        for (link, is_over) in links.iter_mut().zip(&mut is_over) {
            if *is_over {
                continue;
            }
            if let Some(wish) = &wish {
                link.ask(wish);
            }
            if is_due {
                link.ask_time();
            }
            if let Some(end) = end_of(link) {
                *is_over = true;
                watch.over(link.number, end.is_err());
                lost.extend(end.err().map(|why| (link.number, why)));
            }
        }
        if is_due {
            asked_ns = monotonic_ns();
        }
        thread::sleep(TICK);
    }
    lost
}

/// Whether a worker's load is over: in order, or why not.
fn end_of(link: &mut Link) -> Option<Result<(), String>> {
    while let Some(said) = link.hear(Duration::ZERO) {
        match said {
            Said::Reply(Reply::Done { .. }) => return Some(Ok(())),
            Said::Reply(Reply::Failed { message, .. } | Reply::Error { message }) => {
                return Some(Err(format!("{}: {message}", link.name())));
            }
            Said::Reply(Reply::Died { signal }) => return Some(Err(died(link, signal))),
            Said::Gone => return Some(Err(gone(link).message)),
            Said::Reply(_) => {}
        }
    }
    if link.seen.silent_ns() > SILENCE_MAX_NS {
        link.give_up();
        let seconds = SILENCE_MAX_NS / 1_000_000_000;
        return Some(Err(format!("{}: nothing was heard of it for {seconds} s", link.name())));
    }
    None
}

/// The part of worker `number` of so many.
fn shard(number: usize, of: usize) -> Result<Shard, Failure> {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Shard::new(small(number), small(of)).map_err(|error| Failure::usage(error.to_string()))
}

fn clock_of(link: &Link) -> Option<HostClock> {
    host_clock(u32::try_from(link.number).ok()?, &link.seen.exchanges())
}
