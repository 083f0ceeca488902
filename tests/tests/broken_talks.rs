//! Conversations with servers that fail: every turn is sent, or is counted as one that was not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tokclock_engine::record::{Outcome, Row};
use tokclock_engine::workload::{
    Arrival, Cancel, CancelAfter, Connections, Law as Lengths, Load, Overflow, Retries, Stop,
    Turns, Workload,
};
use tokclock_sim::Settings;
use tokclock_tests::{
    MS, Sim, at_rate, carry_out, closed, on_reactors, requests, settings, workload,
};

const SESSIONS: u64 = 20;
const TURNS: u64 = 3;

/// What became of conversations: each row in its place, each turn accounted for.
fn accounted(faults: &str, load: Load, change: impl Fn(&mut Workload)) -> Vec<Row> {
    let sim = Sim::start(Settings { faults: faults.parse().unwrap(), ..settings() });
    let stop = Stop { requests: None, sessions: Some(SESSIONS), ..requests(1) };
    let mut asked = workload(sim.address(), load, stop);
    let content = &mut asked.mix[0].content;
    let count = Lengths::of_lengths(&TURNS.to_string()).unwrap();
    content.conversation.turns = Some(Turns { count, input: None });
    content.think = Some(Lengths::of_times("exp:5ms").unwrap());
    change(&mut asked);
    let ran = carry_out(&on_reactors(asked, 2));
    let _ = sim.stop();
    let mut by_session: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    ran.rows.iter().for_each(|row| by_session.entry(row.session.unwrap()).or_default().push(row));
    assert_eq!(by_session.len() as u64, SESSIONS, "{faults}: one that fails stops no other");
    let mut done = 0;
    for own in by_session.values_mut() {
        own.sort_by_key(|row| row.turn);
        assert!(own.iter().map(|row| row.turn.unwrap()).eq(0..own.len() as u32), "{faults}");
        let (last, before) = own.split_last().unwrap();
        assert!(before.iter().all(|row| row.outcome == Outcome::Ok), "{faults}");
        assert!(last.outcome != Outcome::Ok || own.len() as u64 == TURNS, "{faults}");
        done += u64::from(last.outcome == Outcome::Ok);
    }
    let sum = |field: fn(&tokclock_engine::record::Tally) -> u64| {
        ran.facts.tallies.iter().map(field).sum::<u64>()
    };
    let unsent = sum(|tally| tally.turns_unsent);
    assert_eq!(ran.rows.len() as u64 + unsent, SESSIONS * TURNS, "{faults}");
    assert_eq!(sum(|tally| tally.sessions_done), done, "{faults}");
    ran.rows
}

fn loads() -> [Load; 3] {
    let arriving = |most| at_rate(200.0, Arrival::Constant, most, Overflow::Wait);
    [closed(5), arriving(None), arriving(Some(3))]
}

#[test]
fn faults_of_every_kind_end_a_conversation_and_no_other() {
    for faults in ["reset=15%", "truncate=15%", "error-event=15%", "close-before=15%", "empty=15%"]
    {
        for load in loads() {
            let rows = accounted(faults, load, |_| {});
            assert!(rows.iter().any(|row| row.outcome == Outcome::Error), "{faults}");
        }
    }
}

#[test]
fn a_limit_on_a_request_ends_its_conversation() {
    for load in loads() {
        let rows = accounted("stall=15%", load, |asked| {
            asked.limits.idle_ns = Some(300 * MS);
        });
        assert!(rows.iter().any(|row| row.outcome == Outcome::Error));
    }
}

#[test]
fn a_request_that_is_tried_again_keeps_its_conversation() {
    for load in loads() {
        let rows = accounted("status:503=20%", load, |asked| {
            asked.client.retries = Retries { max: 9, backoff_ns: MS };
        });
        assert_eq!(rows.len() as u64, SESSIONS * TURNS, "all turns are sent in the end");
        assert!(rows.iter().any(|row| row.retries > 0));
    }
}

#[test]
fn a_request_that_is_cancelled_ends_its_conversation() {
    for load in loads() {
        let rows = accounted("", load, |asked| {
            asked.client.cancel = Some(Cancel { rate: 0.15, after: CancelAfter::Time(5 * MS) });
        });
        assert!(rows.iter().any(|row| row.outcome == Outcome::Cancelled));
    }
}

#[test]
fn connections_of_their_own_change_nothing_of_it() {
    for load in loads() {
        let own = |asked: &mut Workload| asked.client.connections = Connections::PerSession;
        let rows = accounted("reset=10% close-after=20%", load, own);
        assert!(rows.iter().any(|row| row.outcome == Outcome::Error));
    }
}
