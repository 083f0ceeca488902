//! Judgements on made-up hosts: a quiet bare machine, and what spoils it.

mod hosts;

use tokclock_engine::reactor::{DriverName, Refusal, Refused};
use tokclock_engine::telemetry::host::{
    ClockSource, Coalescing, Discipline, Group, IdleState, Limit, Ports, Quota, Softnet,
};

use super::facts::Facts;
use super::finding::{Finding, State, UNKNOWN};
use super::{about, examine, page, to_json};
use hosts::{blind, on_loopback, quiet, spread};

/// All findings of all groups.
fn all(facts: &Facts) -> Vec<Finding> {
    examine(facts).into_iter().flatten().collect()
}

#[track_caller]
fn found(facts: &Facts, id: &str) -> Finding {
    all(facts).into_iter().find(|finding| finding.id == id).unwrap()
}

/// What `spoil` does shows as `state` in finding `id` with `words` in its advice or value, and the
/// command that changes it.
#[track_caller]
fn spoilt(id: &str, state: State, words: &str, command: Option<&str>, spoil: impl Fn(&mut Facts)) {
    let mut facts = quiet();
    spoil(&mut facts);
    let finding = found(&facts, id);
    let said = format!("{} {}", finding.value, finding.advice.as_deref().unwrap_or_default());
    assert_eq!(finding.state, state, "{finding:?}");
    assert!(said.contains(words), "no {words:?} in {finding:?}");
    assert_eq!(finding.command.as_deref(), command);
}

#[test]
fn a_quiet_machine_has_nothing_to_change() {
    for facts in [quiet(), on_loopback()] {
        for finding in all(&facts) {
            assert_eq!(finding.state, State::Ok, "{finding:?}");
            assert_eq!((&finding.advice, &finding.command), (&None, &None), "{finding:?}");
            assert!(!finding.value.contains(UNKNOWN), "{finding:?}");
        }
    }
}

#[test]
fn findings_have_names_of_their_own_that_fit_their_column() {
    let findings = all(&quiet());
    let ids: std::collections::BTreeSet<_> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids.len(), findings.len());
    assert!(findings.iter().all(|finding| finding.title.len() <= 11));
}

#[test]
fn loopback_has_no_card_to_look_at() {
    let findings = all(&on_loopback());
    for id in ["interrupts", "moderation", "gro"] {
        assert!(findings.iter().all(|finding| finding.id != id));
    }
    assert!(found(&on_loopback(), "stamp_place").meaning.contains("sender's CPU"));
    assert!(found(&quiet(), "stamp_place").meaning.contains("interrupt"));
}

fn without_ring(facts: &mut Facts, why: Refusal) {
    facts.trial.driver = DriverName { driver: "epoll", ring: "" };
    facts.trial.refused = vec![Refused { ring: None, why }];
}

#[test]
fn why_there_is_no_ring_is_said_with_what_gives_it_back() {
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    let unset = Some("unset MONOIO_FORCE_LEGACY_DRIVER");
    spoilt("driver", State::Note, "asks for epoll", unset, |facts| {
        without_ring(facts, Refusal::Forced);
    });
    let allow = Some("sudo sysctl -w kernel.io_uring_disabled=0");
    spoilt("driver", State::Note, "kernel.io_uring_disabled", allow, |facts| {
        without_ring(facts, Refusal::Errno(EPERM));
        facts.ring_disabled = Some(2);
    });
    spoilt("driver", State::Note, "seccomp", None, |facts| {
        without_ring(facts, Refusal::Errno(EPERM));
        facts.seccomp = Some(2);
    });
    spoilt("driver", State::Note, "has no io_uring", None, |facts| {
        without_ring(facts, Refusal::Errno(ENOSYS));
    });
    spoilt("driver", State::Note, "lacks", None, |facts| {
        without_ring(facts, Refusal::Incomplete);
    });
}

#[test]
fn lesser_flags_of_the_ring_are_a_note() {
    const EINVAL: i32 = 22;
    spoilt("driver", State::Note, "Linux 6.1", None, |facts| {
        facts.trial.driver.ring = "COOP_TASKRUN";
        let ring = Some("SINGLE_ISSUER|DEFER_TASKRUN");
        facts.trial.refused = vec![Refused { ring, why: Refusal::Errno(EINVAL) }];
    });
}

#[test]
fn stamps_that_do_not_come_are_a_warning_and_few_that_are_unusable_a_note() {
    spoilt("stamps", State::Warn, "--stamps observed", None, |facts| {
        for one in &mut facts.trial.cpus {
            (one.stamped, one.accepted, one.lag) = (0, 0, None);
        }
    });
    spoilt("stamps", State::Note, "98.33 %", None, |facts| {
        facts.trial.cpus.truncate(1);
        facts.trial.cpus[0].accepted = 118;
    });
}

#[test]
fn late_wake_ups_say_what_makes_them() {
    let late = |facts: &mut Facts| facts.trial.cpus[1].socket = spread(120_000, 2_000_000);
    spoilt("wake_ups", State::Warn, "see idle and governor", None, late);
    spoilt("wake_ups", State::Warn, "hypervisor", None, |facts| {
        late(facts);
        facts.cpus.virtual_machine = Some(true);
    });
    spoilt("wake_ups", State::Warn, "Others run", None, |facts| {
        late(facts);
        facts.load = Some(9.0);
    });
    spoilt("wake_ups", State::Note, "p99 400.0 µs", None, |facts| {
        facts.trial.cpus[2].timer = spread(20_000, 400_000);
    });
    spoilt("wake_ups", State::Note, UNKNOWN, None, |facts| {
        facts.trial.cpus.iter_mut().for_each(|one| one.timer = None);
    });
}

#[test]
fn clocks_that_are_slow_or_adrift_are_named() {
    let source = |available: &str| {
        let available = available.split(' ').map(str::to_owned).collect();
        Some(ClockSource { current: "hpet".to_owned(), available })
    };
    let back =
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource";
    spoilt("clock", State::Warn, "microsecond", Some(back), |facts| {
        facts.clock_source = source("tsc hpet");
    });
    spoilt("clock", State::Warn, "does not trust", None, |facts| {
        facts.clock_source = source("hpet");
    });
    let adrift = Discipline {
        synchronised: false,
        frequency_ppm: 0.0,
        max_error_ns: 0,
        estimated_error_ns: 0,
        leap: false,
    };
    spoilt("wall_clock", State::Note, "by nobody", None, |facts| facts.discipline = Some(adrift));
    spoilt("wall_clock", State::Note, "leap second", None, |facts| {
        facts.discipline = Some(Discipline { synchronised: true, leap: true, ..adrift });
    });
    spoilt("timer", State::Warn, "highres", None, |facts| {
        facts.timer_resolution_ns = Some(4_000_000);
    });
}

#[test]
fn where_reactors_lie_is_judged() {
    spoilt("cpus", State::Warn, "none is left", None, |facts| {
        facts.reactors.insert(0, 0);
        facts.left_over = None;
    });
    spoilt("cpus", State::Note, "one physical core", None, |facts| facts.cpus.cpus[3].core = 2);
    spoilt("cpus", State::Note, "2 NUMA nodes", None, |facts| facts.cpus.cpus[3].node = Some(1));
    let placed = "taskset -c 6,7,0 tokclock run --cpus 6,7 URL";
    spoilt("isolation", State::Note, "would not run", Some(placed), |facts| {
        facts.cpus.isolated = Some(vec![6, 7]);
    });
}

#[test]
fn sleep_and_frequency_come_with_a_command() {
    let shallow = Some("sudo cpupower idle-set -D 21");
    spoilt("idle", State::Note, "C6 (133 µs to wake)", shallow, |facts| {
        let deep = IdleState { name: "C6".to_owned(), exit_us: 133, disabled: false };
        facts.cpus.cpus[2].idle_states.push(deep);
    });
    spoilt("idle", State::Ok, "C1", None, |facts| {
        let deep = IdleState { name: "C6".to_owned(), exit_us: 133, disabled: true };
        facts.cpus.cpus[2].idle_states.push(deep);
    });
    spoilt("idle", State::Ok, "idle=poll", None, |facts| {
        facts.cpus.idle_option = Some("poll".to_owned());
    });
    let fast = Some("sudo cpupower frequency-set -g performance");
    spoilt("governor", State::Note, "powersave", fast, |facts| {
        facts.cpus.cpus[1].governor = Some("powersave".to_owned());
    });
}

#[test]
fn others_on_the_host_and_above_it_are_judged() {
    spoilt("load", State::Note, "1.200 threads", None, |facts| facts.load = Some(1.2));
    spoilt("load", State::Warn, "End what else runs", None, |facts| facts.load = Some(3.2));
    spoilt("steal", State::Note, "2.000 %", None, |facts| facts.steal_share = Some(0.02));
}

#[test]
fn limits_are_judged_by_what_a_large_load_needs() {
    spoilt("container", State::Warn, "CPU time of 1.500 CPUs, used up 8 times", None, |facts| {
        let quota = Some(Quota { quota_us: 150_000, period_us: 100_000 });
        facts.group = Some(Group { quota, throttled: 8, memory_max: None });
    });
    spoilt("container", State::Note, "memory 536.9 MB", None, |facts| {
        facts.group = Some(Group { memory_max: Some(1 << 29), ..Group::default() });
    });
    let raise = Some("ulimit -n 1048576");
    spoilt("descriptors", State::Note, "1024 open files, up to 4096", raise, |facts| {
        facts.open_files = Some(Limit { soft: 1024, hard: 4096 });
    });
    spoilt("descriptors", State::Ok, "up to without limit", None, |facts| {
        facts.open_files = Some(Limit { soft: 1024, hard: u64::MAX });
    });
    let widen = Some("sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'");
    spoilt("ports", State::Note, "--close rst", widen, |facts| {
        facts.ports =
            Some(Ports { low: 50_000, high: 50_999, used: 2, time_wait: 0, reuse: Some(0) });
    });
    let larger = Some("sudo sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'");
    spoilt("tcp_memory", State::Note, "212.0 kB", larger, |facts| {
        facts.network.receive_max = Some(212_000);
    });
}

#[test]
fn a_closed_connection_holds_its_port_unless_it_is_reused() {
    let ports = |facts: &Facts| found(facts, "ports").meaning;
    assert!(ports(&quiet()).contains("about 470 new ones"), "{}", ports(&quiet()));
    assert!(ports(&on_loopback()).contains("after a second"), "{}", ports(&on_loopback()));
}

#[test]
fn the_card_is_judged_by_what_delays_a_stamp() {
    let move_it = Some("echo 0 | sudo tee /proc/irq/122/smp_affinity_list");
    spoilt("interrupts", State::Note, "A reactor's CPU takes 1 of them", move_it, |facts| {
        facts.interface.as_mut().unwrap().irqs[1].cpus = vec![2];
    });
    spoilt("interrupts", State::Note, UNKNOWN, None, |facts| {
        facts.interface.as_mut().unwrap().irqs.clear();
    });
    let at_once = Some("sudo ethtool -C eth2 adaptive-rx off rx-usecs 0");
    spoilt("moderation", State::Note, "adaptive, rx-usecs 8", at_once, |facts| {
        let coalescing = Coalescing { receive_us: 8, receive_packets: 128, adaptive: true };
        facts.coalescing = Some(coalescing);
    });
    let release = Some("echo 0 | sudo tee /sys/class/net/eth2/gro_flush_timeout");
    spoilt("gro", State::Note, "held for 20.00 µs", release, |facts| {
        facts.interface.as_mut().unwrap().hold_ns = Some(20_000);
    });
    spoilt("interface", State::Note, "node 1", None, |facts| {
        facts.interface.as_mut().unwrap().node = Some(1);
    });
    spoilt("interface", State::Note, "on the host", None, |facts| {
        facts.interface.as_mut().unwrap().driver = None;
    });
}

#[test]
fn a_bond_is_named_with_its_card() {
    let mut facts = quiet();
    facts.route.interface = Some("bond0".to_owned());
    let finding = found(&facts, "interface");
    assert!(finding.value.starts_with("bond0 over eth2 from 192.0.2.2, mlx5_core"), "{finding:?}");
}

#[test]
fn settings_of_the_stack_are_judged_together() {
    let spread_out = |facts: &mut Facts| {
        facts.interface.as_mut().unwrap().queues[0].rps = vec![0, 2];
    };
    spoilt("rps", State::Note, "CPU 0,2", None, spread_out);
    let before = Some("sudo sysctl -w net.core.netdev_tstamp_prequeue=1");
    spoilt("stamp_place", State::Note, "inside latencies", before, |facts| {
        facts.network.stamp_before_queue = Some(false);
    });
    spoilt("rps", State::Note, "after that hand-over", None, |facts| {
        spread_out(facts);
        facts.network.stamp_before_queue = Some(false);
    });
    let without = Some("sudo sysctl -w net.core.busy_read=0");
    spoilt("busy_poll", State::Note, "busy_read 50 µs", without, |facts| {
        facts.network.busy_read_us = Some(50);
    });
    let longer = Some("sudo sysctl -w net.core.netdev_max_backlog=10000");
    spoilt("softnet", State::Note, "12 packets dropped", longer, |facts| {
        facts.softnet = Some(Softnet { dropped: 12, squeezed: 0 });
    });
}

#[test]
fn what_is_not_told_is_unknown_and_never_ok() {
    let told = ["driver", "stamps", "wake_ups", "cpus"];
    for finding in all(&blind()) {
        if !told.contains(&finding.id) {
            assert_eq!((finding.state, &finding.value[..]), (State::Note, UNKNOWN), "{finding:?}");
        }
    }
}

#[test]
fn the_page_fits_80_columns_but_for_commands_that_are_to_be_copied() {
    let mut bad = quiet();
    without_ring(&mut bad, Refusal::Forced);
    bad.coalescing = Some(Coalescing { receive_us: 8, receive_packets: 0, adaptive: true });
    for facts in [quiet(), on_loopback(), blind(), bad] {
        let page = page::write(&about(&facts), &examine(&facts), 80, false);
        let is_command = |line: &str| line.starts_with(&" ".repeat(14));
        for line in page.lines().filter(|line| !is_command(line)) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(!page.contains('\x1b'));
    }
}

#[test]
fn the_page_ends_with_what_is_worth_a_look() {
    let mut facts = quiet();
    facts.load = Some(9.0);
    facts.gro = None;
    let page = page::write(&about(&facts), &examine(&facts), 80, true);
    assert!(page.ends_with("warnings    load\nnotes       GRO\n"), "{page}");
    assert!(page.contains("\x1b[1;31mwarn\x1b[0m") && page.contains("\x1b[1;32mok\x1b[0m"));
}

#[test]
fn the_json_has_every_finding_with_every_member() {
    let facts = quiet();
    let findings = all(&facts);
    let text = to_json(&facts, None, &findings).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "tokclock.doctor/1");
    assert_eq!(json["interface"], "eth2");
    let listed = json["findings"].as_array().unwrap();
    assert_eq!(listed.len(), findings.len());
    for one in listed {
        let mut members: Vec<&str> = one.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = ["id", "title", "state", "value", "meaning", "advice", "command"];
        members.sort_unstable();
        expected.sort_unstable();
        assert_eq!(members, expected);
        assert_eq!(one["state"], "ok");
    }
}
