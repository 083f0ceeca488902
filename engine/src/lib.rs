//! A load point: what to send and when, the pinned cores that send it, the figures that follow.
//!
//! ```text
//! workload -> plan -> feed -> reactor -> record -> merge -> summary
//! ```

pub mod clock;
pub mod disagg;
pub mod measure;
pub mod plan;
pub mod reactor;
pub mod record;
pub mod run;
pub mod shard;
pub mod telemetry;
pub mod workload;
