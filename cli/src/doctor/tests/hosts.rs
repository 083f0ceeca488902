//! Made-up hosts.

use tokclock_engine::clock::StampSource;
use tokclock_engine::reactor::DriverName;
use tokclock_engine::reactor::trial::{CpuTrial, Spread, Trial};
use tokclock_engine::telemetry::host::{
    ClockSource, Coalescing, Cpu, Cpus, Discipline, Group, IdleState, Interface, Irq, Limit,
    Network, Ports, Queue, Route, Softnet,
};

use super::super::facts::Facts;

/// Times with this median and 99th percentile, ns.
pub(super) fn spread(p50: u64, p99: u64) -> Option<Spread> {
    Some(Spread { count: 120, min: p50 / 2, p50, p99, max: p99 * 2 })
}

fn tried(cpu: usize) -> CpuTrial {
    CpuTrial {
        cpu,
        timer: spread(4_000, 9_000),
        socket: spread(6_000, 15_000),
        lag: spread(5_000, 14_000),
        reads: 120,
        stamped: 120,
        accepted: 120,
    }
}

fn cpu(number: usize) -> Cpu {
    Cpu {
        number,
        core: number,
        node: Some(0),
        governor: Some("performance".to_owned()),
        frequency_driver: Some("intel_pstate".to_owned()),
        idle_states: vec![IdleState { name: "C1".to_owned(), exit_us: 2, disabled: false }],
    }
}

/// Four cores, reactors on 1 to 3, a card whose interrupts go to CPU 0, and nothing to complain of.
pub(super) fn quiet() -> Facts {
    let irq = |number, name: &str| Irq { number, name: name.to_owned(), cpus: vec![0] };
    Facts {
        allowed: vec![0, 1, 2, 3],
        reactors: vec![1, 2, 3],
        left_over: Some(0),
        cpus: Cpus {
            cpus: (0..4).map(cpu).collect(),
            online: Some(4),
            isolated: Some(Vec::new()),
            nohz_full: Some(Vec::new()),
            idle_driver: Some("intel_idle".to_owned()),
            idle_governor: Some("menu".to_owned()),
            idle_option: None,
            model: Some("Fast CPU".to_owned()),
            virtual_machine: Some(false),
            nodes: None,
            boost: None,
            tsc_flags: None,
        },
        trial: Trial {
            driver: DriverName { driver: "io_uring", ring: "SINGLE_ISSUER|DEFER_TASKRUN" },
            refused: Vec::new(),
            cpus: (1..4).map(tried).collect(),
        },
        stamp_source: StampSource { counter: true, reading_ns: 9.0 },
        clock_source: Some(ClockSource {
            current: "tsc".to_owned(),
            available: vec!["tsc".to_owned(), "hpet".to_owned()],
        }),
        discipline: Some(Discipline {
            synchronised: true,
            frequency_ppm: -3.5,
            max_error_ns: 0,
            estimated_error_ns: 0,
            leap: false,
        }),
        timer_resolution_ns: Some(1),
        open_files: Some(Limit { soft: 1024, hard: 1_048_576 }),
        ports: Some(Ports { low: 32_768, high: 60_999, used: 3, time_wait: 0, reuse: Some(2) }),
        network: Network {
            stamp_before_queue: Some(true),
            rfs_entries: Some(0),
            busy_poll_us: Some(0),
            busy_read_us: Some(0),
            backlog: Some(1000),
            receive_max: Some(6_291_456),
            send_max: Some(4_194_304),
        },
        route: Route {
            to: "192.0.2.9".parse().unwrap(),
            from: "192.0.2.2".parse().unwrap(),
            interface: Some("eth2".to_owned()),
        },
        interface: Some(Interface {
            name: "eth2".to_owned(),
            driver: Some("mlx5_core".to_owned()),
            speed_mbit: Some(100_000),
            mtu: Some(9000),
            node: Some(0),
            queues: vec![Queue { rps: Vec::new(), flows: 0 }],
            irqs: vec![irq(121, "mlx5_comp0"), irq(122, "mlx5_comp1")],
            hold_ns: Some(0),
        }),
        coalescing: Some(Coalescing { receive_us: 0, receive_packets: 0, adaptive: false }),
        gro: Some(true),
        softnet: Some(Softnet { dropped: 0, squeezed: 4 }),
        load: Some(0.1),
        steal_share: Some(0.0),
        group: Some(Group::default()),
        seccomp: Some(0),
        ring_disabled: Some(0),
    }
}

/// The same for a server on this host.
pub(super) fn on_loopback() -> Facts {
    let mut facts = quiet();
    facts.route.interface = Some("lo".to_owned());
    facts.interface = Some(Interface {
        name: "lo".to_owned(),
        mtu: Some(65_536),
        queues: vec![Queue { rps: Vec::new(), flows: 0 }],
        ..Interface::default()
    });
    (facts.coalescing, facts.gro) = (None, None);
    facts
}

/// A container that is shown next to nothing.
pub(super) fn blind() -> Facts {
    let mut facts = quiet();
    facts.cpus = Cpus {
        cpus: (0..4).map(|number| Cpu { number, core: number, ..Cpu::default() }).collect(),
        ..Cpus::default()
    };
    (facts.clock_source, facts.discipline, facts.timer_resolution_ns) = (None, None, None);
    (facts.open_files, facts.ports, facts.network) = (None, None, Network::default());
    (facts.interface, facts.route.interface, facts.coalescing) = (None, None, None);
    (facts.gro, facts.softnet, facts.load, facts.steal_share) = (None, None, None, None);
    (facts.group, facts.seccomp, facts.ring_disabled) = (None, None, None);
    facts
}
