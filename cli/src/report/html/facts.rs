//! JSON of which nobody here knows the members, as nested tables.

use std::time::{Duration, UNIX_EPOCH};

use maud::{Markup, html};
use serde_json::Value;

use super::super::text;
use super::words::{self, ABSENT};

/// How deep tables lie in each other, at most.
const DEPTH_MAX: usize = 8;
/// Items of a list, at most.
const ITEMS_MAX: usize = 64;

/// A table of an object's members; nothing of null or an empty one.
pub(super) fn table(value: &Value) -> Markup {
    match value {
        Value::Object(members) if !members.is_empty() => html! {
            div.scroll tabindex="0" role="group" aria-label="Table" { div.facts { (shown("", value, 0)) } }
        },
        _ => html! {},
    }
}

fn shown(key: &str, value: &Value, depth: usize) -> Markup {
    match value {
        Value::Object(members) if depth < DEPTH_MAX && !members.is_empty() => html! {
            table { tbody {
                @for (name, member) in members {
                    tr {
                        th scope="row" { (named(name)) }
                        td { (shown(name, member, depth + 1)) }
                    }
                }
            } }
        },
        Value::Array(items) if depth < DEPTH_MAX && !items.is_empty() => several(key, items, depth),
        plain => html! { (said(key, plain)) },
    }
}

fn several(key: &str, items: &[Value], depth: usize) -> Markup {
    let is_nested = items.iter().any(|item| item.is_object() || item.is_array());
    let more = items.len().saturating_sub(ITEMS_MAX);
    html! {
        @if is_nested {
            @for item in items.iter().take(ITEMS_MAX) { div { (shown(key, item, depth + 1)) } }
        } @else {
            @for (at, item) in items.iter().take(ITEMS_MAX).enumerate() {
                @if at > 0 { ", " }
                (said(key, item))
            }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// The name of a member without the unit at its end, which stands beside the value.
fn named(key: &str) -> String {
    let bare = key.strip_suffix("_ns").or_else(|| key.strip_suffix("_bytes")).unwrap_or(key);
    words::safe(&bare.replace('_', " "))
}

fn said(key: &str, value: &Value) -> String {
    match value {
        Value::Null => ABSENT.to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) if text.is_empty() => ABSENT.to_owned(),
        Value::String(text) => words::safe(text),
        Value::Number(number) => counted(key, number),
        Value::Array(_) | Value::Object(_) if depth_is_empty(value) => ABSENT.to_owned(),
        other => words::safe(&other.to_string()),
    }
}

fn depth_is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn counted(key: &str, number: &serde_json::Number) -> String {
    match number.as_u64() {
        Some(ns) if key.ends_with("realtime_ns") => return instant(ns),
        Some(ns) if key.ends_with("monotonic_ns") => return format!("{ns} ns"),
        ns if key.ends_with("_ns") => return words::time(ns),
        _ => {}
    }
    if key.ends_with("share") {
        return words::percent(number.as_f64());
    }
    match number.as_u64() {
        Some(bytes) if key.ends_with("_bytes") => sized(bytes),
        Some(whole) if !key.contains("seed") => text::count(whole),
        Some(whole) => whole.to_string(),
        None => words::number(number.as_f64()),
    }
}

/// An instant of the wall clock, in UTC.
fn instant(ns: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_nanos(ns));
    at.map_or_else(|| ABSENT.to_owned(), |at| humantime::format_rfc3339_millis(at).to_string())
}

fn sized(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(size, name)| format!("{} {name}", text::number(Some(bytes as f64 / *size as f64))),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_nobody_knows_are_shown_with_their_units_and_escaped() {
        let page = table(&json!({
            "memory_bytes": 3_221_225_472_u64, "wait_ns": 1_500_000, "busy_share": 0.25,
            "start_realtime_ns": 1_700_000_000_500_000_000_u64, "gone": null, "turbo": true, "cpus": [0, 1], "more": [{ "<i>": "<script>" }],
        }))
        .into_string();
        for said in [
            "3.000 GiB",
            "1.500 ms",
            "2023-11-14T22:13:20.500Z",
            "25.00",
            "–",
            "yes",
            "0, 1",
            "&lt;i&gt;",
            "&lt;script&gt;",
        ] {
            assert!(page.contains(said), "no {said:?} in {page}");
        }
        assert!(!page.contains("<script"), "{page}");
        assert!(table(&Value::Null).0.is_empty());
    }

    #[test]
    fn depth_has_an_end() {
        let mut deep = json!("x");
        for _ in 0..100 {
            deep = json!({ "in": deep });
        }
        assert!(table(&deep).into_string().len() < 4000);
    }
}
