//! Tries out what a run relies on, with the reactors' own driver, timer and socket: which ring there
//! is, how late a CPU wakes, whether kernel stamps come.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use core_affinity::CoreId;
use socket2::Socket;

use super::driver::{Driver, DriverName, Refused};
use super::receive::arrived;
use super::socket::{self, Received};
use crate::clock::RunClock;
use crate::workload::Address;

/// Wake-ups by timer on each CPU, and how long they may take together.
const TIMERS: u32 = 120;
const TIMERS_NS: u64 = 250_000_000;
/// From one to the next, ns: long enough for a CPU to fall asleep, and no multiple of a tick.
const TIMER_GAP_NS: u64 = 1_137_113;
/// Messages to each CPU.
const MESSAGES: u32 = 120;
/// From one to the next.
const MESSAGE_GAP: Duration = Duration::from_millis(2);
/// How long a CPU may take to be ready for messages.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The driver that reactors get here.
    pub driver: DriverName,
    /// What would have been better and could not be had.
    pub refused: Vec<Refused>,
    /// One for each CPU, in the order asked for.
    pub cpus: Vec<CpuTrial>,
}

/// What was found on one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuTrial {
    /// Its number.
    pub cpu: usize,
    /// How late it woke by a timer.
    pub timer: Option<Spread>,
    /// From the start of a send(2) on another CPU (where there is one) to the bytes in our hands.
    pub socket: Option<Spread>,
    /// From the kernel's stamp to the bytes in our hands, where there was an acceptable one.
    pub lag: Option<Spread>,
    /// Reads that brought bytes.
    pub reads: u64,
    /// Of those, reads with a kernel stamp.
    pub stamped: u64,
    /// Of those, reads with a stamp that a run would accept.
    pub accepted: u64,
}

/// How some times are spread, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The least.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    /// That of `times`, by nearest rank; `None` if there is none.
    #[must_use]
    pub fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let at = |percent: usize| {
            times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied()
        };
        Some(Self {
            count: times.len(),
            min: *times.first()?,
            p50: at(50)?,
            p99: at(99)?,
            max: *times.last()?,
        })
    }
}

/// Tries the CPUs at the positions `reactors` of the list of those that this process may use, all at
/// once, while messages come from the CPU at `sender`. Takes about half a second.
///
/// # Errors
/// No loopback connection, thread or driver can be had, or there is no such CPU.
pub fn attempt(reactors: &[usize], sender: Option<usize>) -> io::Result<Trial> {
    let all = core_affinity::get_core_ids().unwrap_or_default();
    let at = |position: usize| {
        all.get(position).copied().ok_or_else(|| io::Error::other("there is no such CPU"))
    };
    // The kernel switches stamping on late: this comes first.
    let _keeper = socket::stamp_keeper();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = Address::Ip(listener.local_addr()?);
    let clock = RunClock::start();
    let (said_ready, ready) = mpsc::channel();
    let mut peers = Vec::new();
    let mut trying = Vec::new();
    for &position in reactors {
        let ours = socket::connect(&address, None, true, true)?;
        let (peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        peers.push(peer);
        trying.push(spawn(at(position)?, ours, clock.clone(), said_ready.clone())?);
    }
    drop(said_ready);
    for _ in reactors {
        // One that does not start says why when it is joined.
        let _ = ready.recv_timeout(PATIENCE);
    }
    let sending = send(peers, sender.map(at).transpose()?, clock)?;
    let _ = sending.join();
    let mut found = Vec::new();
    for one in trying {
        found.push(one.join().map_err(|_| io::Error::other("a trial ended early"))??);
    }
    let first = found.first().ok_or_else(|| io::Error::other("there is no CPU to try"))?;
    let (driver, refused) = (first.driver.clone(), first.refused.clone());
    Ok(Trial { driver, refused, cpus: found.into_iter().map(|one| one.cpu).collect() })
}

/// What one thread brings.
struct Found {
    driver: DriverName,
    refused: Vec<Refused>,
    cpu: CpuTrial,
}

fn spawn(
    cpu: CoreId,
    ours: Socket,
    mut clock: RunClock,
    ready: mpsc::Sender<()>,
) -> io::Result<JoinHandle<io::Result<Found>>> {
    std::thread::Builder::new().name(format!("trial-{}", cpu.id)).spawn(move || {
        core_affinity::set_for_current(cpu);
        let mut refused = Vec::new();
        let (mut runtime, driver) = Driver::build_noting(&mut refused)?;
        let cpu = runtime.block_on(async move {
            let timer = timers(&clock).await?;
            clock.anchor();
            let _ = ready.send(());
            drop(ready);
            messages(cpu.id, timer, ours, &clock).await
        })?;
        Ok(Found { driver, refused, cpu })
    })
}

/// Sends messages to all peers in turn, each with its time, then closes them.
fn send(
    peers: Vec<TcpStream>,
    cpu: Option<CoreId>,
    mut clock: RunClock,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("trial-sender".to_owned()).spawn(move || {
        if let Some(cpu) = cpu {
            core_affinity::set_for_current(cpu);
        }
        clock.anchor();
        for _ in 0..MESSAGES {
            std::thread::sleep(MESSAGE_GAP);
            for mut peer in &peers {
                // A peer that is gone is missed when its thread is joined.
                let _ = peer.write_all(&clock.now().to_ne_bytes());
            }
        }
    })
}

/// How late this CPU wakes by a timer.
async fn timers(clock: &RunClock) -> io::Result<Option<Spread>> {
    let timer = socket::waitable(socket::timerfd(libc::CLOCK_MONOTONIC)?)?;
    let fd = timer.as_raw_fd();
    let began = clock.now();
    let mut late = Vec::new();
    for _ in 0..TIMERS {
        let due = clock.now() + TIMER_GAP_NS;
        socket::arm(fd, clock.monotonic(due));
        timer.readable(false).await?;
        let now = clock.now();
        let _ = socket::drain(fd);
        late.push(now.saturating_sub(due));
        if now.saturating_sub(began) > TIMERS_NS {
            break;
        }
    }
    Ok(Spread::of(late))
}

/// How late this CPU has what a socket brings, and what the kernel's stamps say of it.
async fn messages(
    cpu: usize,
    timer: Option<Spread>,
    ours: Socket,
    clock: &RunClock,
) -> io::Result<CpuTrial> {
    let stream = monoio::net::TcpStream::from_std(ours.into())?;
    let fd = stream.as_raw_fd();
    let mut buffer = [0_u8; 512];
    let (mut waits, mut lags) = (Vec::new(), Vec::new());
    let (mut reads, mut stamped, mut empty_at) = (0, 0, clock.now());
    loop {
        stream.readable(false).await?;
        let before = clock.now();
        let received = socket::receive(fd, &mut buffer);
        let observed = clock.now();
        match received {
            Received::Bytes { len, real_ns } => {
                let stamp = (real_ns != 0).then(|| clock.at_real(real_ns));
                reads += 1;
                stamped += u64::from(stamp.is_some());
                lags.extend(arrived(stamp, empty_at, observed).1);
                waits.extend(last_sent(&buffer[..len]).map(|sent| observed.saturating_sub(sent)));
                empty_at = before;
            }
            Received::Empty => empty_at = before,
            Received::Eof | Received::Broken(_) => break,
        }
    }
    let accepted = lags.len() as u64;
    let (socket, lag) = (Spread::of(waits), Spread::of(lags));
    Ok(CpuTrial { cpu, timer, socket, lag, reads, stamped, accepted })
}

/// When the last of some messages was sent.
fn last_sent(bytes: &[u8]) -> Option<u64> {
    bytes.last_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let spread = Spread::of((1..=200).rev().collect()).unwrap();
        assert_eq!((spread.min, spread.p50, spread.p99, spread.max), (1, 100, 198, 200));
        let one = Spread::of(vec![7]).unwrap();
        assert_eq!((one.count, one.p50, one.p99), (1, 7, 7));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn every_cpu_that_is_tried_has_timers_messages_and_stamps() {
        let trial = attempt(&[0], None).unwrap();
        assert!(["io_uring", "epoll"].contains(&trial.driver.driver));
        let cpu = &trial.cpus[0];
        assert!(
            cpu.timer.is_some_and(|timer| timer.count > 1 && timer.p50 <= timer.max),
            "{cpu:?}"
        );
        // On a busy machine one read may bring several messages.
        assert!(cpu.reads > 0 && cpu.stamped > 0, "{cpu:?}");
        assert!(cpu.accepted <= cpu.stamped && cpu.stamped <= cpu.reads, "{cpu:?}");
        let (Some(socket), Some(lag)) = (cpu.socket, cpu.lag) else { panic!("{cpu:?}") };
        // The stamp is made after the send began.
        assert!(lag.min <= socket.max, "{cpu:?}");
    }

    #[test]
    fn several_reactors_are_tried_at_once() {
        let trial = attempt(&[0, 0, 0], Some(0)).unwrap();
        assert_eq!(trial.cpus.len(), 3);
        assert!(trial.cpus.iter().all(|cpu| cpu.reads > 0));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(attempt(&[1 << 20], None).is_err());
        assert!(attempt(&[], None).is_err());
    }
}
