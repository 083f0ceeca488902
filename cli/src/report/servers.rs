//! What the servers say of the same time: a few lines for each.

use tokclock_engine::measure::{Beside, GaugeReport, ServerSeen, Summary, TransferReport};

use super::text::{Page, count, duration, escape, number, percent, plural};

/// Servers of a page, at most.
const SHOWN_MAX: usize = 8;
const NS_PER_S: f64 = 1e9;

/// Writes it, if any server was asked.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    if summary.servers.is_empty() {
        return;
    }
    page.blank();
    for server in summary.servers.iter().take(SHOWN_MAX) {
        write_one(page, server);
    }
    if summary.servers.len() > SHOWN_MAX {
        let more = summary.servers.len() - SHOWN_MAX;
        page.words("", &format!("{more} more of them are in summary.json"));
    }
}

fn write_one(page: &mut Page, server: &ServerSeen) {
    let url = escape(&server.url);
    let mut notes = server.notes.iter().map(|note| escape(note));
    let Some(kind) = &server.kind else {
        page.words("servers", &format!("{url}: {}", notes.next().unwrap_or_default()));
        return;
    };
    let over = server.window.map_or_else(String::new, |here| {
        let [from, to] = [here.from_ns, here.to_ns].map(|ns| number(Some(ns as f64 / NS_PER_S)));
        format!(", from {from} s to {to} s")
    });
    let took = server.scrape_ns.map_or_else(String::new, |took| {
        format!(", {} each at the median", duration(Some(took.p50)))
    });
    let looks = plural(server.samples, "look", "looks");
    let samples = count(server.samples);
    page.words("servers", &format!("{url} ({}){over}: {samples} {looks}{took}", escape(kind)));
    for said in [state(server), counted(server), transfers(server), times(server)] {
        if !said.is_empty() {
            page.words("", &said.join(", "));
        }
    }
    for (name, label) in [("ttft", "TTFT"), ("itl", "ITL"), ("e2e", "E2E")] {
        let beside = server.beside.get(name).filter(|beside| beside.server_mean_ns.is_some());
        if let Some(beside) = beside {
            page.words("", &held_beside(label, beside));
        }
    }
    notes.for_each(|note| page.words("", &note));
}

/// How it was.
fn state(server: &ServerSeen) -> Vec<String> {
    let plain = |one: &GaugeReport| {
        format!("{} (at most {})", number(Some(one.mean)), number(Some(one.max)))
    };
    let share = |one: &GaugeReport| {
        format!("{} (at most {})", percent(Some(one.mean)), percent(Some(one.max)))
    };
    let gauge = |name: &str| server.gauges.get(name);
    [
        gauge("running").map(|one| format!("running {}", plain(one))),
        gauge("waiting").map(|one| format!("waiting {}", plain(one))),
        gauge("transferring").map(|one| format!("KV on its way {}", plain(one))),
        gauge("kv_use").map(|one| format!("KV cache used {}", share(one))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What it counted.
fn counted(server: &ServerSeen) -> Vec<String> {
    let names = [
        ("preemptions", "preemptions"),
        ("rejected", "rejected"),
        ("prompt_tokens", "prompt tokens"),
        ("prompt_transferred", "of them transferred"),
        ("generation_tokens", "generated tokens"),
    ];
    let one = |(name, word): (&str, &str)| {
        let value = (*server.counters.get(name)?)?;
        Some(format!("{} {word}", count(value)))
    };
    let mut said: Vec<String> = names.into_iter().filter_map(one).collect();
    let caches = [("prefix cache", server.prefix), ("external cache", server.external_prefix)];
    if let Some(handed) = server.handed_tokens {
        said.push(format!("prompts of {} tokens were handed to it", count(handed)));
    }
    said.extend(caches.into_iter().filter_map(|(name, cache)| {
        let share = cache?.share?;
        Some(format!("{name} hit {}", percent(Some(share))))
    }));
    said
}

/// How KV came and went.
fn transfers(server: &ServerSeen) -> Vec<String> {
    let Some(transfer) = &server.transfer else { return Vec::new() };
    let TransferReport { count: transfers, mean_ns, mean_bytes, failed, expired, .. } = transfer;
    let Some(transfers) = transfers else { return Vec::new() };
    let mut said = vec![format!("{} KV transfers", count(*transfers))];
    said.extend(mean_ns.map(|mean| format!("{} each", duration(Some(mean.round() as u64)))));
    said.extend(mean_bytes.map(|bytes| format!("{} MB each", number(Some(bytes / 1e6)))));
    let bad = [(failed, "failed"), (expired, "expired")];
    said.extend(bad.into_iter().filter_map(|(n, word)| Some(format!("{} {word}", count((*n)?)))));
    said
}

/// Where its time went, by its own means.
fn times(server: &ServerSeen) -> Vec<String> {
    let one = |name: &str| {
        let mean = server.latency.get(name)?.mean_ns?;
        Some(format!("{name} {}", duration(Some(mean.round() as u64))))
    };
    let parts: Vec<String> = ["queue", "prefill", "decode"].into_iter().filter_map(one).collect();
    if parts.is_empty() { parts } else { vec![format!("mean {}", parts.join(", "))] }
}

/// The client's mean, and the server's.
fn held_beside(label: &str, beside: &Beside) -> String {
    let time = |ns: Option<f64>| duration(ns.map(|ns| ns.round().max(0.0) as u64));
    let apart = beside.difference_ns.map_or_else(String::new, |apart| {
        let less = if apart < 0.0 { " less" } else { " between them" };
        format!(", {}{less}", duration(Some(apart.abs().round() as u64)))
    });
    format!(
        "mean {label} {} here, {} there{apart} ({} and {} samples)",
        time(beside.client_mean_ns),
        time(beside.server_mean_ns),
        count(beside.client_count),
        beside.server_count.map_or_else(|| "-".to_owned(), count)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_takes_a_few_lines_and_one_without_figures_takes_one() {
        let server = json!({
            "url": "http://a\u{1b}[2J/metrics", "kind": "vllm", "by": "named", "samples": 61,
            "failed": 0, "window": {"from_ns": 0, "to_ns": 30_100_000_000_u64},
            "scrape_ns": {"p50": 1_200_000, "max": 5_000_000},
            "gauges": {"running": {"min": 0.0, "mean": 7.5, "max": 8.0},
                "kv_use": {"min": 0.0, "mean": 0.25, "max": 0.5}},
            "counters": {"preemptions": 0, "prompt_tokens": null, "generation_tokens": 12_000},
            "prefix": {"hits": 1, "queries": 4, "share": 0.25},
            "latency": {"queue": {"mean_ns": 2e6, "count": 200}},
            "transfer": {"count": 20, "mean_ns": 3e7, "bytes": null, "mean_bytes": null,
                "failed": 1, "expired": null, "after_expiry": null},
            "beside": {"ttft": {"client_mean_ns": 11e7, "client_count": 200,
                "server_mean_ns": 12e7, "server_count": 199, "difference_ns": -1e7}},
            "notes": ["1 of 62 looks failed"],
        });
        let mut page = Page::new(100, false);
        write_one(&mut page, &serde_json::from_value(server).unwrap());
        let said = page.finish();
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "servers     http://a\\u{1b}[2J/metrics (vllm), from 0 s to 30.10 s: 61 looks, 1.200 ms \
                 each at the",
                "median",
                "running 7.500 (at most 8.000), KV cache used 25.00 % (at most 50.00 %)",
                "0 preemptions, 12,000 generated tokens, prefix cache hit 25.00 %",
                "20 KV transfers, 30.00 ms each, 1 failed",
                "mean queue 2.000 ms",
                "mean TTFT 110.0 ms here, 120.0 ms there, 10.00 ms less (200 and 199 samples)",
                "1 of 62 looks failed",
            ]
        );
        let silent = json!({
            "url": "http://b", "kind": null, "by": "named", "samples": 0, "failed": 2,
            "window": null, "scrape_ns": null, "gauges": {}, "counters": {}, "latency": {},
            "notes": ["status 404 (0 of 2 looks succeeded)"],
        });
        let mut page = Page::new(100, false);
        write_one(&mut page, &serde_json::from_value(silent).unwrap());
        let expected = "servers     http://b: status 404 (0 of 2 looks succeeded)\n";
        assert_eq!(page.finish(), expected);
    }
}
