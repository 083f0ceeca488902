//! The router's role where prefill and decode are apart: who gets a request, what each is told, and
//! what their two answers make of it. No socket, no clock; the reactor carries it out.
//!
//! ```text
//! body ─► Planner ─► Planned ─┬─ to the prefill server ─► its answer ─► hand-off object ─┐
//!                             └─ to the decode server  ◄─────────── spliced in ◄─────────┘
//! ```

mod bodies;
mod handoff;
mod joined;
mod planner;

pub(crate) use bodies::{decode_request, is_object};
pub(crate) use handoff::handed_over;
pub use handoff::names_flow_member;
pub(crate) use joined::{Legged, had_it, join};
pub(crate) use planner::{Planned, Planner, Route};
