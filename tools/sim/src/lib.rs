//! A simulated LLM server whose every token leaves at a known, logged time.
//!
//! It speaks the OpenAI chat and completions APIs over HTTP/1.1 on loopback, draws every delay
//! from stated laws, sends each token at an absolute deadline, and logs when each send really
//! happened, so that a load generator can be held against it. A judge shares no code with the
//! judged: nothing here comes from the project's other crates.
//!
//! In place of laws it can follow a model of what a server can do, with limits that are known in
//! closed form: [`serving`]. `GET /metrics` tells who is served and who waits.
//!
//! It can be one of the servers of a deployment where prefill and decode are apart, or the router
//! between them: [`RoleSettings`].
//!
//! It can also be told to fail: [`Faults`] name what goes wrong, and how often.
//!
//! ```no_run
//! use tokclock_sim::{Server, Settings};
//!
//! let settings = Settings { ttft: "lognormal:50ms,80ms".parse()?, ..Settings::default() };
//! let server = Server::start(&settings)?;
//! println!("http://{}", server.address());
//! let report = server.stop();
//! println!("{} requests", report.requests);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
mod ask;
mod chunked;
mod clock;
mod connection;
mod course;
mod dcgm;
mod delivery;
mod document;
mod driver;
mod fault;
mod faults;
mod hall;
mod histogram;
mod http;
mod intake;
mod law;
mod legs;
mod metrics;
mod model;
mod reactor;
mod report;
mod server;
pub mod serving;
mod settings;
mod shared;
mod socket;
mod strike;
mod tasks;
mod truth;
mod wire;

pub use dcgm::DcgmSettings;
pub use fault::{Fault, FaultError};
pub use faults::{Faults, Rate};
pub use law::{Law, LawError, Spread};
pub use legs::{Fallback, Flow, Role, RoleSettings};
pub use model::{Admission, Event, Queue, Schedule, Timing};
pub use report::{Lateness, Report};
pub use server::{Server, SimError};
pub use settings::{Settings, UsageMode};
pub use truth::Record;
