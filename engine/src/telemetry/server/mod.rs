//! What the servers count of the same seconds: their Prometheus metrics, read again and again while
//! the load goes on.
//!
//! ```text
//! find ─► Scraped ─► sampler (a thread each) ─► text ─► kinds ─► Reading ─► servers.csv
//! ```
//! What a server says under its own names is brought under common ones, by one table. Nothing here
//! may cost the run anything: a server that hangs or sends garbage is a reading that failed.

mod figures;
mod find;
mod kinds;
mod log;
mod reading;
mod sampler;
#[cfg(test)]
mod tests;
mod text;

pub use figures::{Counter, Gauge, Pair};
pub use find::{SCRAPED_MAX, Scraped, beside, named};
pub use kinds::Kind;
pub use log::{SERVERS_FILE, read_log};
pub use reading::{By, Counted, KNOWS_NOTHING, Reading, Share};
pub use sampler::{Sampler, Scrape};
pub use text::counted;
