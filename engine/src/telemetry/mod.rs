//! What is read beside the load, of the machines that take part in it.

pub mod gpu;
pub mod host;
pub mod server;
