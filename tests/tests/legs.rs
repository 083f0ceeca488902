//! The router's role against a prefill and a decode server whose truth is known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{SocketAddr, TcpListener};

use tokclock_engine::measure::{LegsReport, summarize};
use tokclock_engine::record::{Arm, ErrorClass, KvFallback, Leg, Legs, Outcome, Row};
use tokclock_engine::run::{Way, locate, settle_paths};
use tokclock_engine::workload::{Dialect, Disagg, Flow, Load, Pick, Prefill, Workload};
use tokclock_sim::{Flow as Served, Law, Role, RoleSettings, Settings};
use tokclock_tests::{MS, Ran, Sim, Truth, carry_out, closed, requests, set_lengths, workload};

/// How long the hand-off takes, the prompt on each side, and the prompt computed again.
const HANDOFF: u64 = 15 * MS;
const PREFILL: u64 = 12 * MS;
const FIRST: u64 = 4 * MS;
const AGAIN: u64 = 60 * MS;

fn part(role: RoleSettings, ttft: u64) -> Sim {
    Sim::start(Settings {
        ttft: Law::Constant(ttft),
        itl: Law::Constant(MS),
        role: Some(role),
        ..Settings::default()
    })
}

fn prefill(flow: Served) -> RoleSettings {
    RoleSettings {
        role: Role::Prefill,
        flow,
        handoff: Law::Constant(HANDOFF),
        ..RoleSettings::default()
    }
}

fn decode(flow: Served) -> RoleSettings {
    RoleSettings {
        role: Role::Decode,
        flow,
        handoff: Law::Constant(HANDOFF),
        recompute: Law::Constant(AGAIN),
        ..RoleSettings::default()
    }
}

/// A load of `users` by way of these servers, every prompt sent once more.
fn legged(
    flow: Flow,
    prefill: (SocketAddr, u16),
    decode: SocketAddr,
    load: Load,
    n: u64,
) -> Workload {
    let mut asked = workload(decode, load, requests(n));
    set_lengths(&mut asked, 64, 8);
    let endpoint = locate(&format!("http://{}", prefill.0), Dialect::OpenaiChat, &Way::default());
    let prefill = Prefill {
        endpoint: endpoint.unwrap().endpoint,
        host: "127.0.0.1".into(),
        port: prefill.1,
        engine_id: Some(RoleSettings::ENGINE_ID.into()),
        tensor_parallel: 1,
        pipeline_parallel: 1,
    };
    asked.target.disagg = Some(Disagg {
        flow,
        prefill: vec![prefill],
        routers: Vec::new(),
        pick: Pick::RoundRobin,
        baseline: if flow == Flow::VllmNixl { 1.0 } else { 0.0 },
    });
    settle_paths(&mut asked.target);
    asked
}

fn report(asked: &Workload, ran: &Ran) -> LegsReport {
    summarize(asked, &ran.facts, ran.rows.iter().cloned()).legs.unwrap()
}

fn legs(row: &Row) -> (&Legs, &Leg, &Leg) {
    let legs = row.legs.as_deref().unwrap();
    (legs, legs.prefill.as_ref().unwrap(), legs.decode.as_ref().unwrap())
}

fn is_ok(ran: &Ran, n: usize) {
    assert_eq!(ran.rows.len(), n);
    for row in &ran.rows {
        assert_eq!(row.outcome, Outcome::Ok, "{:?} {:?}", row.error, row.error_text);
    }
}

/// What a server saw of a request, in the order of arrival.
fn seen<'a>(truth: &'a [Truth], row: &Row) -> Vec<&'a Truth> {
    let is_it = |one: &&Truth| one.request_id.as_deref() == Some(&row.request_id);
    let mut seen: Vec<&Truth> = truth.iter().filter(is_it).collect();
    seen.sort_by_key(|one| one.read_ns);
    seen
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// From when the server had the request to when it sent its first token.
fn first_after(truth: &Truth) -> u64 {
    truth.events[0][0] - truth.arrived_ns.unwrap_or(truth.read_ns)
}

#[test]
fn legs_are_those_of_the_servers_and_add_up() {
    let (p, d) = (part(prefill(Served::VllmNixl), PREFILL), part(decode(Served::VllmNixl), FIRST));
    let asked = legged(Flow::VllmNixl, (p.address(), 1), d.address(), closed(8), 64);
    let ran = carry_out(&asked);
    is_ok(&ran, 64);
    let (_, at_prefill) = p.stop();
    let (_, at_decode) = d.stop();
    assert_eq!((at_prefill.len(), at_decode.len()), (64, 128), "each prompt once more");
    let start = ran.facts.start_monotonic_ns;
    let (mut errors, mut estimates, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for row in &ran.rows {
        let (legs, prefill, decode) = legs(row);
        let done = prefill.done.unwrap();
        let sum = (done - prefill.write_start.unwrap())
            + (decode.write_start.unwrap() - done)
            + (row.first_token.unwrap() - decode.write_start.unwrap());
        assert_eq!(sum, row.first_token.unwrap() - row.write_start.unwrap());
        assert_eq!((row.kv_fallback, row.cached_tokens.is_some()), (None, true));
        // The same moments by the servers' own clocks, which is the same clock.
        let (first, both) = (seen(&at_prefill, row)[0], seen(&at_decode, row));
        let sent = first.tail.unwrap();
        assert!(start + done >= sent[0], "an answer is not there before it was sent");
        assert!(start + prefill.write_start.unwrap() <= first.read_ns);
        assert!(start + decode.write_start.unwrap() <= both[0].read_ns);
        assert!(start + row.first_token.unwrap() >= both[0].events[0][0]);
        errors.push((start + done).abs_diff(sent[1]));
        let once_more = legs.baseline.as_ref().unwrap();
        let took = |write: Option<u64>, first: Option<u64>| first.unwrap() - write.unwrap();
        estimates.push(
            took(decode.write_start, row.first_token)
                .saturating_sub(took(once_more.write_start, once_more.first_token)),
        );
        truths.push(first_after(both[0]).saturating_sub(first_after(both[1])));
    }
    let report = report(&asked, &ran);
    let handoff = report.handoff.unwrap();
    assert_eq!((handoff.left_out, handoff.cache_assumed), (0, false));
    // The first contacts of the two are not among them.
    assert_eq!(handoff.estimate.unwrap().count + report.first_contact.requests, 64);
    let (ours, theirs) = (median(estimates), median(truths));
    assert!(ours.abs_diff(theirs) * 20 < HANDOFF, "{ours} {theirs}");
    assert!(median(errors) * 4 < PREFILL);
    assert_eq!((report.direct, report.kv_fallback.count), (64, 0));
}

#[test]
fn every_silent_recompute_is_found() {
    let faulty = RoleSettings { no_params: 0.2, ..prefill(Served::VllmNixl) };
    let lossy = RoleSettings {
        fallback: 0.3,
        recompute: Law::Constant(8 * MS),
        ..decode(Served::VllmNixl)
    };
    let (p, d) = (part(faulty, MS), part(lossy, FIRST));
    let mut asked = legged(Flow::VllmNixl, (p.address(), 1), d.address(), closed(8), 100);
    asked.target.disagg.as_mut().unwrap().baseline = 0.0;
    let ran = carry_out(&asked);
    is_ok(&ran, 100);
    let _ = p.stop();
    let (_, at_decode) = d.stop();
    let mut knows = false;
    for row in &ran.rows {
        let truth = seen(&at_decode, row)[0];
        // A record says it once its server was seen to count hand-offs; the summary looks at all.
        knows |= row.kv_fallback == Some(KvFallback::NotCached);
        let handed = legs(row).0.handoff_bytes.is_some();
        let expected = match (handed, truth.cached_tokens) {
            (false, _) => Some(KvFallback::NoParams),
            (true, Some(0)) => Some(KvFallback::NotCached),
            (true, _) => None,
        };
        if knows || expected != Some(KvFallback::NotCached) {
            assert_eq!(row.kv_fallback, expected, "{truth:?}");
        }
    }
    let is_unhanded = |row: &&Row| row.kv_fallback == Some(KvFallback::NoParams);
    let no_params = ran.rows.iter().filter(is_unhanded).count() as u64;
    let again = at_decode.iter().filter(|one| one.cached_tokens == Some(0)).count() as u64;
    let found = report(&asked, &ran).kv_fallback;
    assert_eq!((found.count, found.no_params, found.unknown), (again, no_params, 0), "{found:?}");
    assert!(found.no_params > 5 && found.not_cached > 5, "{found:?}");
}

#[test]
fn a_router_is_measured_beside_ours() {
    const DELAY: u64 = 9 * MS;
    let (p, d) = (part(prefill(Served::VllmNixl), PREFILL), part(decode(Served::VllmNixl), FIRST));
    let url = |sim: &Sim| format!("http://{}", sim.address());
    let router = part(
        RoleSettings {
            role: Role::Router,
            prefill: vec![url(&p)],
            decode: vec![url(&d)],
            router_delay: Law::Constant(DELAY),
            ..RoleSettings::default()
        },
        0,
    );
    let mut asked = legged(Flow::VllmNixl, (p.address(), 1), d.address(), closed(2), 120);
    let endpoint = locate(&url(&router), Dialect::OpenaiChat, &Way::default()).unwrap().endpoint;
    let disagg = asked.target.disagg.as_mut().unwrap();
    (disagg.routers, disagg.baseline) = (vec![endpoint], 0.0);
    settle_paths(&mut asked.target);
    let ran = carry_out(&asked);
    is_ok(&ran, 120);
    let arms = |arm| ran.rows.iter().filter(|row| row.legs.as_ref().unwrap().arm == arm).count();
    assert_eq!((arms(Arm::Direct), arms(Arm::Router)), (60, 60));
    let (_, at_decode) = d.stop();
    assert!(at_decode.iter().all(|one| one.cached_tokens != Some(0)), "no arm was computed again");
    let by = report(&asked, &ran).router.unwrap();
    let over = by.overhead.p50.unwrap();
    // A proxy costs more than it thinks, and a busy machine makes it more.
    assert!(over > DELAY as i64 * 3 / 4 && over < 4 * DELAY as i64, "{over}");
    let [Some(low), Some(high)] = by.ci95.p50 else { unreachable!("60 requests an arm: {by:?}") };
    assert!(low < over && over < high);
}

#[test]
fn both_servers_are_asked_at_once_where_they_must_be() {
    for (flow, served) in [(Flow::Sglang, Served::Sglang), (Flow::VllmPush, Served::VllmPush)] {
        let asked_port = RoleSettings { side_port: free_port(), ..prefill(served) };
        let port = asked_port.side_port;
        let (p, d) = (part(asked_port, PREFILL), part(decode(served), FIRST));
        let asked = legged(flow, (p.address(), port), d.address(), closed(4), 16);
        let ran = carry_out(&asked);
        is_ok(&ran, 16);
        let (_, at_prefill) = p.stop();
        let (_, at_decode) = d.stop();
        assert_eq!((at_prefill.len(), at_decode.len()), (16, 16));
        assert!(at_decode.iter().all(|one| one.fallback.is_none()), "{flow}: {at_decode:?}");
        for row in &ran.rows {
            let (_, prefill, decode) = legs(row);
            assert!(decode.write_start.unwrap() < prefill.done.unwrap(), "{flow}: at once");
            assert!(row.first_token.unwrap() - row.write_start.unwrap() >= PREFILL + HANDOFF);
            assert_eq!(
                row.write_start,
                Some(prefill.write_start.unwrap().min(decode.write_start.unwrap()))
            );
        }
        let report = report(&asked, &ran);
        assert!(report.concurrent && report.handoff.is_none());
        assert_eq!(report.after_prefill.unwrap().count + report.first_contact.requests, 16);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_not_there_fails_its_request_and_breaks_the_other_leg_off() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let d = part(decode(Served::VllmNixl), FIRST);
    let ran = carry_out(&legged(Flow::VllmNixl, (nobody, 1), d.address(), closed(2), 4));
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Error, Some(ErrorClass::ConnectRefused)));
        assert!(row.error_text.as_ref().unwrap().starts_with("prefill server: "), "{row:?}");
    }
    assert_eq!(ran.rows.len(), 4);
    let (report, _) = d.stop();
    assert_eq!(report.requests, 0, "nothing is handed to a decode server that was not prefilled");

    // The decode server is away: nobody takes over, and the prefill leg of a rendezvous would wait.
    let port = free_port();
    let p = part(RoleSettings { side_port: port, ..prefill(Served::Sglang) }, PREFILL);
    let ran = carry_out(&legged(Flow::Sglang, (p.address(), port), nobody, closed(2), 4));
    for row in &ran.rows {
        assert_eq!((row.outcome, row.error), (Outcome::Error, Some(ErrorClass::ConnectRefused)));
        assert!(!row.error_text.as_ref().unwrap().contains("prefill"), "{row:?}");
    }
    assert_eq!(ran.rows.len(), 4);
    let _ = p.stop();
}
