//! This host as its kernel describes it: CPUs, clocks, limits, interfaces.
//!
//! Everything is read from text files of /proc and /sys, or asked by a system call that needs no
//! privilege. What a kernel or a container does not tell is `None`, never a zero.

mod calls;
mod clocks;
mod cpus;
mod files;
mod group;
mod interface;
mod memory;
mod network;
mod softnet;
mod steal;
mod tcp;
mod watch;

pub use calls::{Coalescing, Discipline, Limit, Route, coalescing, discipline, gro, open_files};
pub use calls::{route, timer_resolution_ns};
pub use clocks::ClockSource;
pub use cpus::{Cpu, Cpus, IdleState, load_average};
pub use files::{Files, cpu_list};
pub use group::{Group, Quota, seccomp};
pub use interface::{Interface, Irq, Queue};
pub use memory::{anonymous_memory, host_memory};
pub use network::{Network, Ports};
pub use softnet::Softnet;
pub use steal::Steal;
pub use tcp::TcpLosses;
pub use watch::{Watch, Watched};
