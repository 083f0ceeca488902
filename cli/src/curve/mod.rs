//! `tokclock sweep` and `tokclock search`: several load points, one after another in one process.
//!
//! ```text
//! options ─► Campaign ─► point ─► point ─► ... ─► curve.json, search.json
//!              ▲            │
//!              └── what was seen decides what comes next (engine: run/ladder, run/search)
//! ```

mod campaign;
mod planned;
mod recovery;
mod resume;
mod search;
mod spot;
mod sweep;

pub(crate) use planned::{planned_search, planned_sweep};
pub(crate) use search::search;
pub(crate) use sweep::sweep;
