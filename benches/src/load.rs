//! Load points, carried out by the engine.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tokclock_engine::measure::Facts;
use tokclock_engine::plan::{Materials, Plan};
use tokclock_engine::record::{Outcome, Row, read_rows};
use tokclock_engine::run::{
    Control, Progress, REQUESTS_FILE, Setup, Way, check, cpus, locate, run,
};
use tokclock_engine::workload::{Client, Content, Dialect, Load, Stop, Target, Workload};

use crate::simulator::own_cpu_ns;

/// Input tokens of every request.
const INPUT_TOKENS: u32 = 32;
/// How long what is in flight at the end may take, ns.
const DRAIN_NS: u64 = 60_000_000_000;

/// What the engine brought from one load point.
#[derive(Debug)]
pub struct Carried {
    /// What is known of the run.
    pub facts: Facts,
    /// One for each request, all of them with a whole answer.
    pub rows: Vec<Row>,
    /// CPU time of this process while it ran, ns: reactor, feeder, writer and all else.
    pub process_cpu_ns: u64,
}

/// `requests` of so many output tokens each, streamed from an OpenAI chat server, from one reactor
/// on the last CPU that this process may use.
///
/// # Errors
/// If the address is no address of a server.
pub fn workload(
    address: SocketAddr,
    load: Load,
    requests: u64,
    tokens: u32,
) -> Result<Workload, Box<dyn Error>> {
    let located = locate(&format!("http://{address}"), Dialect::OpenaiChat, &Way::default())?;
    let stop = Stop { drain_ns: DRAIN_NS, ..Stop::after(requests) };
    Ok(Workload::plain(
        Target::chat(located.endpoint, "sim"),
        load,
        stop,
        Content::of_lengths(INPUT_TOKENS, tokens),
        Client::on(vec![cpus().len().saturating_sub(1)]),
    ))
}

/// A request of `workload` as it goes on the wire, for clients that send it unchanged.
///
/// # Errors
/// If the workload cannot be carried out.
pub fn request(workload: &Workload) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    Plan::new(workload, &Materials::default(), "bench")?.render(0, &mut bytes)?;
    Ok(bytes)
}

/// Carries out `workload`.
///
/// # Errors
/// If it cannot be, or if an answer is not as long as was asked for.
pub fn carry_out(workload: &Workload) -> Result<Carried, Box<dyn Error>> {
    let dir = TempDir::new()?;
    let setup = Setup {
        out_dir: dir.path().to_owned(),
        run_id: "bench".to_owned(),
        resolve_ns: 0,
        materials: Materials::default(),
        gpus: None,
        scrape: Default::default(),
        start_at_ns: None,
        shard: None,
    };
    check(workload)?;
    let cpu = own_cpu_ns();
    let facts = run(workload, &setup, &Arc::new(Control::new()), &Progress::new())?;
    let process_cpu_ns = own_cpu_ns() - cpu;
    let rows = rows(&dir.path().join(REQUESTS_FILE))?;
    let tokens = output_tokens(workload);
    let whole = |row: &&Row| {
        row.outcome == Outcome::Ok
            && row.events == tokens
            && row.output_tokens == Some(u64::from(tokens))
    };
    let (ok, asked) = (rows.iter().filter(whole).count() as u64, workload.stop.requests);
    if asked.is_some_and(|asked| asked != ok) || ok != rows.len() as u64 {
        return Err(format!("{ok} whole answers in {} of {asked:?} requests", rows.len()).into());
    }
    Ok(Carried { facts, rows, process_cpu_ns })
}

/// Output tokens of every request: their law is a constant.
fn output_tokens(workload: &Workload) -> u32 {
    workload.mix.first().map_or(0, |class| class.content.lengths.means().1 as u32)
}

fn rows(path: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    Ok(read_rows(path)?.collect::<Result<_, _>>()?)
}

impl Carried {
    /// From the first request taken up to the end of the last answer, ns.
    #[must_use]
    pub fn wall_ns(&self) -> u64 {
        let first = self.rows.iter().filter_map(|row| row.dispatched).min();
        let last = self.rows.iter().filter_map(|row| row.done).max();
        last.unwrap_or(0).saturating_sub(first.unwrap_or(0))
    }

    /// CPU time of the reactor, without what it spent spinning towards a due time, ns.
    #[must_use]
    pub fn work_ns(&self) -> u64 {
        self.facts.tallies.iter().map(|tally| tally.cpu_ns.saturating_sub(tally.spin_ns)).sum()
    }

    /// CPU time of the reactor that it spent spinning towards a due time, ns.
    #[must_use]
    pub fn spin_ns(&self) -> u64 {
        self.facts.tallies.iter().map(|tally| tally.spin_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokclock_sim::{Server, Settings};

    fn closed(server: &Server, requests: u64, tokens: u32) -> Workload {
        let load = Load::Closed { users: 2, ramp_ns: 0 };
        workload(server.address(), load, requests, tokens).unwrap()
    }

    #[test]
    fn every_answer_of_a_load_point_is_there_and_whole() {
        let server = Server::start(&Settings::default()).unwrap();
        let carried = carry_out(&closed(&server, 10, 5)).unwrap();
        assert_eq!(carried.rows.len(), 10);
        assert!(carried.wall_ns() > 0 && carried.work_ns() > 0);
        assert!(carried.process_cpu_ns >= carried.work_ns());
    }

    #[test]
    fn a_failed_answer_is_no_figure() {
        let settings = Settings { faults: "reset=50%".parse().unwrap(), ..Settings::default() };
        let server = Server::start(&settings).unwrap();
        assert!(carry_out(&closed(&server, 40, 5)).is_err());
    }

    #[test]
    fn the_request_of_a_workload_can_be_sent_as_it_is() {
        let server = Server::start(&Settings::default()).unwrap();
        let request = request(&closed(&server, 1, 5)).unwrap();
        let cpu = cpus()[0];
        let ask = crate::nothing::Ask {
            address: server.address(),
            request: &request,
            connections: 1,
            requests: 3,
            cpu,
            idle: crate::nothing::Idle::Sleep,
        };
        assert_eq!(crate::nothing::take(ask).unwrap().answers, 3);
        assert_eq!(server.stop().tokens, 4 * 5);
    }
}
