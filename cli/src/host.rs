//! What a result says of the machine that it was measured on.

use serde_json::{Value, json};
use tokclock_engine::telemetry::host::{Cpus, Files};

/// Describes this host: kernel, architecture, CPU model, the CPUs that this process may use, by the
/// numbers of the kernel. What cannot be found out is null.
#[must_use]
pub(crate) fn describe(allowed: &[usize]) -> Value {
    let files = Files::here();
    json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "kernel": files.text("proc/sys/kernel/osrelease"),
        "cpu_model": Cpus::read(&files, &[]).model,
        "cpus": allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_says_which_cpus_were_allowed() {
        assert_eq!(describe(&[3, 5])["cpus"], json!([3, 5]));
    }
}
