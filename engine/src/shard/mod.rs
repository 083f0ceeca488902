//! One host's share of a load: what it leaves in its result directory beside what every run leaves,
//! how far the clocks of hosts are apart, and how shards become one result.
//!
//! ```text
//! shard 0 ─┐  shard.json: which part of which plan, clocks, facts      ┌─► facts of the whole
//! shard 1 ─┼► requests.jsonl: its records                          ─►──┼─► records on one time axis
//! shard n ─┘  seconds.hlog: its histograms, second by second          └─► measure::summarize
//! ```
//! Latencies are differences of one host's clock and never cross from one host to another: the offset
//! between clocks moves a whole shard along the common time axis.

mod axis;
mod check;
mod clocks;
pub mod exchange;
mod file;
mod late;
pub mod lines;
mod logs;
pub mod message;
mod read;
#[cfg(test)]
mod read_tests;
mod rows;
#[cfg(test)]
mod split_tests;
mod thin;
mod whole;

use axis::steps;
pub use axis::{Standing, Step, on_axis, standing};
pub use check::{Fellows, Refused, once};
pub use clocks::{Clocks, HostClock};
pub use file::{ClockMoment, Ended, Header, KernelClock, ShardFile};
pub use late::{is_missed, late, skew};
pub use logs::shift_table;
pub use read::{Left, Sums, add_seconds, read_seconds, read_seconds_of};
pub use rows::{Records, merge_rows};
pub(crate) use thin::thin_gaps;
pub use whole::{Piece, Place, Whole};

/// Name of the file that says which part of which load a result directory holds.
pub const SHARD_FILE: &str = "shard.json";
/// Name of the file of its histograms, second by second.
pub const SECONDS_FILE: &str = "seconds.hlog";
/// Name of the file in which a coordinator leaves what it found out of the hosts' clocks.
pub const CLOCKS_FILE: &str = "clocks.json";
