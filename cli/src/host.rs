//! What a result says of the machine that it was measured on.

use std::net::IpAddr;

use serde_json::{Value, json};
use tokclock_engine::telemetry::host::{self, ClockSource, Cpus, Files, Group, Interface};
use tokclock_engine::workload::{Address, Endpoint};

/// Describes this host: kernel, CPUs, memory, clocks, limits, and the CPUs that this process may use,
/// by the numbers of the kernel. What cannot be found out is null.
#[must_use]
pub(crate) fn describe(allowed: &[usize]) -> Value {
    describe_from(&Files::here(), allowed)
}

fn describe_from(files: &Files, allowed: &[usize]) -> Value {
    let cpus = Cpus::read(files, allowed);
    let group = Group::read(files);
    let quota = group.as_ref().and_then(|group| group.quota);
    let clock = ClockSource::read(files);
    let mut governors: Vec<&str> =
        cpus.cpus.iter().filter_map(|cpu| cpu.governor.as_deref()).collect();
    governors.sort_unstable();
    governors.dedup();
    json!({
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "kernel": files.text("proc/sys/kernel/osrelease"),
        "cpu_model": cpus.model,
        "cpus": allowed,
        "cpus_online": cpus.online,
        "numa_nodes": cpus.nodes,
        "memory_bytes": host::host_memory(files),
        "virtual_machine": cpus.virtual_machine,
        "governors": (!governors.is_empty()).then_some(governors),
        "frequency_driver": cpus.cpus.first().and_then(|cpu| cpu.frequency_driver.as_deref()),
        "boost": cpus.boost,
        "clock_source": clock.as_ref().map(|clock| &clock.current),
        "clock_sources": clock.as_ref().map(|clock| &clock.available),
        "tsc_flags": cpus.tsc_flags,
        "cpu_limit": quota.map(|quota| quota.cpus()),
        "memory_limit_bytes": group.and_then(|group| group.memory_max),
    })
}

/// The same with the `interface` on the way to a server.
#[must_use]
pub(crate) fn describe_towards(allowed: &[usize], server: Option<&Endpoint>) -> Value {
    let mut host = describe(allowed);
    host["interface"] = server.map_or(Value::Null, interface);
    host
}

/// The interface that carries what is sent to a server; null where nobody says.
fn interface(server: &Endpoint) -> Value {
    let address: IpAddr = match server.addresses.first() {
        Some(Address::Ip(address)) => address.ip(),
        Some(Address::Unix(_)) => return json!({ "name": "unix" }),
        None => return Value::Null,
    };
    let name = host::route(address).ok().and_then(|route| route.interface);
    name.map_or(Value::Null, |name| card(&Files::here(), &name))
}

/// An interface: its own name where it is stacked on another, and what carries it.
fn card(files: &Files, name: &str) -> Value {
    let card = Interface::carrying(files, name);
    json!({
        "name": name,
        "loopback": name == "lo",
        "device": (card.name != name).then_some(&card.name),
        "driver": card.driver,
        "speed_mbit": card.speed_mbit,
        "mtu": card.mtu,
        "receive_queues": card.queues.len(),
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
    let name = name();
    host["key"] = key(&name, &line("etc/machine-id"), &host).into();
    host["name"] = name.into();
    host
}

/// What this host calls itself; empty where it does not say.
#[must_use]
pub(crate) fn name() -> String {
    Files::here().text("proc/sys/kernel/hostname").unwrap_or_default()
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
#[must_use]
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
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

    #[test]
    fn what_a_host_does_not_tell_is_null() {
        let dir = tempfile::tempdir().unwrap();
        let told = describe_from(&Files::below(dir.path()), &[0]);
        for (name, value) in told.as_object().unwrap() {
            assert!(value.is_null() || ["os", "arch", "cpus"].contains(&name.as_str()), "{name}");
        }
        assert!(told.as_object().unwrap().len() > 15);
    }

    #[test]
    fn a_host_tells_of_its_clocks_and_limits() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet\n"),
            ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu5/cpufreq/scaling_governor", "performance\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files = Files::below(dir.path());
        let told = describe_from(&files, &[3, 5]);
        assert_eq!(told["governors"], json!(["performance"]));
        assert_eq!((&told["clock_source"], &told["boost"]), (&json!("tsc"), &Value::Null));
        let card = card(&files, "eth0");
        assert_eq!((&card["mtu"], &card["receive_queues"]), (&json!(1500), &json!(1)));
        assert_eq!((&card["loopback"], &card["driver"]), (&json!(false), &Value::Null));
    }
}
