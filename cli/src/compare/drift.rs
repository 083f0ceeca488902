//! What was pinned and yet changed: host, target, versions, workload, leaf by leaf.

use serde::Serialize;
use serde_json::{Map, Value};

use super::side::Part;

/// Places of `summary.json` that should be the same in results that are compared.
const PINNED: [&str; 9] = [
    "/run/version",
    "/run/build",
    "/host",
    "/target",
    "/labels",
    "/client/driver",
    "/client/ring",
    "/client/stamps",
    "/client/spin",
];
/// Settings that are each run's own, or stand elsewhere.
const OF_EACH: [&str; 4] = ["run.toml.seed", "run.toml.name", "run.toml.cpus", "run.toml.config"];
/// Labels, which the summary has too.
const LABELS: &str = "run.toml.label";
/// Leaves that are another thing each time.
const PASSING: [&str; 12] = [
    "url",
    "address",
    "addresses",
    "port",
    "id",
    "uuid",
    "pid",
    "time",
    "date",
    "handshakes",
    "resumed",
    "hash",
];
/// Ends of the names of such leaves.
const PASSING_ENDS: [&str; 6] = ["_id", "_at", "_time", "_uuid", "_port", "_unix_ns"];
/// Differences that are named, at most.
const NAMED_MAX: usize = 200;

/// One leaf that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Drift {
    /// Where it stands, with dots.
    pub(crate) path: String,
    /// What the base has; null if nothing.
    pub(crate) base: Value,
    /// What the other side has.
    pub(crate) other: Value,
}

/// What drifted between two runs of ours.
pub(super) fn pinned(base: &Part, other: &Part) -> Vec<Drift> {
    let mut found = Vec::new();
    for place in PINNED {
        let path = place.trim_start_matches('/').replace('/', ".");
        let of = |part: &Part| part.summary.pointer(place).cloned().unwrap_or_default();
        differ(&path, &of(base), &of(other), &mut found);
    }
    differ("run.toml", &base.settings, &other.settings, &mut found);
    let is_own = |path: &str| OF_EACH.contains(&path) || path.starts_with(LABELS);
    found.retain(|one| !is_own(&one.path));
    found
}

/// Whether both were asked for the same, and what not: by the hash of what was asked for where both
/// have one, else leaf by leaf. `None` if it is not known.
pub(super) fn workload(base: &Part, other: &Part) -> (Option<bool>, Vec<Drift>) {
    let mut found = Vec::new();
    if base.tool != other.tool {
        return (None, found);
    }
    let of = |part: &Part| match part.summary.get("workload") {
        Some(workload) => workload.clone(),
        None => part.workload.clone(),
    };
    let (near, far) = (of(base), of(other));
    if near.is_null() || far.is_null() {
        return (None, found);
    }
    differ("workload", &near, &far, &mut found);
    let hash = |value: &Value| value.get("hash").and_then(Value::as_str).map(str::to_owned);
    let same = match (hash(&near), hash(&far)) {
        (Some(near), Some(far)) => near == far,
        _ => found.is_empty(),
    };
    (Some(same), if same { Vec::new() } else { found })
}

/// The seed of a run.
pub(super) fn seed(part: &Part) -> Option<u64> {
    part.summary.pointer("/run/seed").and_then(Value::as_u64)
}

fn differ(path: &str, base: &Value, other: &Value, found: &mut Vec<Drift>) {
    if base == other || found.len() >= NAMED_MAX {
        return;
    }
    let empty = Map::new();
    let both_or_one = |a: &Value, b: &Value| a.is_object() && (b.is_object() || b.is_null());
    if both_or_one(base, other) || both_or_one(other, base) {
        let (near, far) = (base.as_object().unwrap_or(&empty), other.as_object().unwrap_or(&empty));
        let names = near.keys().chain(far.keys().filter(|name| !near.contains_key(*name)));
        for name in names.filter(|name| !is_passing(name)) {
            let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
            differ(&format!("{path}.{name}"), &of(near), &of(far), found);
        }
        return;
    }
    if let (Some(near), Some(far)) = (base.as_array(), other.as_array())
        && near.len() == far.len()
        && near.iter().chain(far).all(Value::is_object)
    {
        for (at, (near, far)) in near.iter().zip(far).enumerate() {
            differ(&format!("{path}[{at}]"), near, far, found);
        }
        return;
    }
    found.push(Drift { path: path.to_owned(), base: base.clone(), other: other.clone() });
}

fn is_passing(name: &str) -> bool {
    PASSING.contains(&name) || PASSING_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_that_differ_are_named_and_passing_ones_are_not() {
        let mut found = Vec::new();
        let base = json!({"kernel": "6.1", "port": 1, "cpus": [0, 1], "a": {"b": 1}, "gone": 1});
        let other =
            json!({"kernel": "6.2", "port": 2, "cpus": [0], "a": {"b": 2}, "new": {"x": 3}});
        differ("host", &base, &other, &mut found);
        let mut paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["host.a.b", "host.cpus", "host.gone", "host.kernel", "host.new.x"]);
        assert_eq!(found.iter().find(|one| one.path == "host.gone").unwrap().other, Value::Null);
    }
}
