//! What a result says of the machine that it was measured on.

use std::fs;

use serde_json::{Value, json};

/// Describes this host: kernel, architecture, CPU model, the CPUs that this process may use, by the
/// numbers of the kernel. What cannot be found out is null.
#[must_use]
pub(crate) fn describe(allowed: &[usize]) -> Value {
    let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "kernel": line("/proc/sys/kernel/osrelease"),
        "cpu_model": line("/proc/cpuinfo").as_deref().and_then(cpu_model),
        "cpus": allowed,
    })
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let (_, model) =
        cpuinfo.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_where_there_is_one() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nprocessor\t: 1\n";
        assert_eq!(cpu_model(cpuinfo), Some("Fast CPU @ 3 GHz"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }

    #[test]
    fn a_host_says_which_cpus_were_allowed() {
        assert_eq!(describe(&[3, 5])["cpus"], json!([3, 5]));
    }
}
