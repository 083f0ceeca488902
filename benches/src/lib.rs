//! Speed and accuracy as ratios: what the benches share.
//!
//! | module | what |
//! | --- | --- |
//! | [`nothing`] | a client that parses nothing: the floor that the engine is held against |
//! | [`simulator`] | the simulated server as a process of its own, on a core of its own |
//! | [`load`] | load points, carried out by the engine |
//! | [`feeding`] | loads whose requests are written, by where their prompts come from |
//! | [`answers`] | answers as servers write them, for the parser |
//! | [`shards`] | shards of many hosts, made of one |
//! | [`figures`] | medians, and the fastest of many passes |

pub mod answers;
pub mod feeding;
pub mod figures;
pub mod load;
pub mod nothing;
pub mod shards;
pub mod simulator;

use std::io;

/// Pins the calling thread, and the threads that it starts from then on, to one CPU by the
/// kernel's number.
///
/// # Errors
/// If this process may not run there.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: all-zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid; the macro checks the number.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set and its size are valid, 0 is the calling thread.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
