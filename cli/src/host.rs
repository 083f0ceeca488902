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

/// The same with a `key` that this host keeps and others do not have: its name and a hash of what it
/// is. Another kernel, another CPU or another number of CPUs is another host, since it is another
/// machine to measure on.
#[must_use]
pub(crate) fn describe_with_key(allowed: &[usize]) -> Value {
    let files = Files::here();
    let line = |path: &str| files.text(path).unwrap_or_default();
    let mut host = describe(allowed);
    let name = line("proc/sys/kernel/hostname");
    host["key"] = key(&name, &line("etc/machine-id"), &host).into();
    host["name"] = name.into();
    host
}

/// The key of a host that was [described](describe_with_key).
#[must_use]
pub(crate) fn key_of(host: &Value) -> &str {
    host.get("key").and_then(Value::as_str).unwrap_or_default()
}

fn key(name: &str, machine_id: &str, host: &Value) -> String {
    let cpus = host["cpus"].as_array().map_or(0, Vec::len);
    let what = format!("{machine_id}\n{}\n{}\n{cpus}", host["kernel"], host["cpu_model"]);
    // The key names a file.
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    format!("{name}-{:016x}", fnv1a(what.as_bytes()))
}

/// FNV-1a of 64 bits. It stays the same in every build, which the standard library's hash need not.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_names_a_file_and_tells_hosts_apart() {
        let host = json!({"kernel": "6.1", "cpu_model": "Fast CPU", "cpus": [3, 5]});
        let plain = key("a/../b c", "id", &host);
        assert!(plain.starts_with("a____b_c-") && !plain.contains('/'), "{plain}");
        assert_eq!(
            plain,
            key(
                "a/../b c",
                "id",
                &json!({
                    "kernel": "6.1", "cpu_model": "Fast CPU", "cpus": [0, 1],
                })
            ),
            "which CPUs they are does not matter"
        );
        for (id, field, value) in [
            ("other", "kernel", json!("6.1")),
            ("id", "kernel", json!("6.2")),
            ("id", "cpu_model", json!(null)),
            ("id", "cpus", json!([3])),
        ] {
            let mut other = host.clone();
            other[field] = value;
            assert_ne!(key("a/../b c", id, &other), plain, "{id} {field}");
        }
        let described = describe_with_key(&[0]);
        assert!(key_of(&described).len() > 16);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8, "as published");
    }

    #[test]
    fn a_host_says_which_cpus_were_allowed() {
        assert_eq!(describe(&[3, 5])["cpus"], json!([3, 5]));
    }
}
