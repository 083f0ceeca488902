//! The hosts that sent a load together: what is missing of them, and a table.

use tokclock_engine::measure::{Health, HostReport, HostState, MergeReport, MergedFrom, Summary};

use super::grid;
use super::text::{NONE, Page, Tone, count, duration, escape, number};

/// Hosts of a page, at most.
const SHOWN: usize = 32;
/// Shards that are named in a sentence, at most.
const NAMED: usize = 12;

/// What must not be missed of a merged result.
pub(super) fn verdict(page: &mut Page, summary: &Summary) {
    let Some(merge) = &summary.merge else { return };
    if merge.partial {
        page.verdict("", ("PARTIAL", Tone::Bad), &format!("a part of the load: {}", why(merge)));
    }
    let how = match merge.records {
        MergedFrom::Pooled => "all records pooled".to_owned(),
        MergedFrom::Histograms => {
            "histograms added up: latencies with a resolution of 0.1 %".to_owned()
        }
    };
    let clocks = merge.clock_error_ns.map_or_else(
        || "clocks not compared".to_owned(),
        |error| format!("clocks known to {}", duration(Some(error))),
    );
    page.words(
        "merged",
        &format!(
            "{} of {} hosts, {how}; starts within {}, {clocks}",
            count(merge.present.into()),
            count(merge.shards.into()),
            duration(Some(merge.start_skew_ns)),
        ),
    );
}

/// Why a result is one of a part of the load.
pub(super) fn why(merge: &MergeReport) -> String {
    let mut parts = Vec::new();
    if !merge.missing.is_empty() {
        parts.push(format!("missing {}", shards(&merge.missing)));
    }
    if !merge.cut_off.is_empty() {
        parts.push(format!("cut off {}", shards(&merge.cut_off)));
    }
    if !merge.late.is_empty() {
        let late = merge.late.iter().take(NAMED);
        let late: Vec<String> =
            late.map(|one| format!("{} by {}", one.shard, duration(Some(one.by_ns)))).collect();
        parts.push(format!("late {}", late.join(", ")));
    }
    format!("shards {}", parts.join("; "))
}

fn shards(all: &[u32]) -> String {
    let mut words: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    if all.len() > NAMED {
        words.push(format!("and {} more", all.len() - NAMED));
    }
    words.join(", ")
}

/// The hosts one by one, where there are any.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(merge) = &summary.merge else { return };
    page.blank();
    let head = [
        "host",
        "name",
        "ok",
        "failed",
        "requests/s",
        "tokens/s",
        "lag p50",
        "lag p99",
        "client",
        "began",
        "clock",
        "error",
        "drift",
    ];
    let first = summary.hosts.iter().map(|host| host.start_ns).min().unwrap_or(0);
    grid::write(page, &head, summary.hosts.iter().take(SHOWN).map(|host| row(host, first)));
    if summary.hosts.len() > SHOWN {
        let more = summary.hosts.len() - SHOWN;
        page.words("", &format!("{more} more of them are in summary.json"));
    }
    if !merge.late.is_empty() && !merge.partial {
        page.words("", &why(merge));
    }
    for note in merge.notes.iter().take(SHOWN) {
        page.words("", &escape(note));
    }
}

/// A host whose load began so long after `first`, when that of the first did, ns.
fn row(host: &HostReport, first: u64) -> Vec<String> {
    let state = match host.state {
        HostState::Whole => "",
        HostState::CutOff => " (cut off)",
    };
    let verdict = match host.verdict {
        Health::Valid => "valid",
        Health::Suspect => "SUSPECT",
        Health::Invalid => "INVALID",
    };
    let clock = &host.clock;
    let known = |value: String| if clock.measured { value } else { NONE.to_owned() };
    vec![
        format!("{}{state}", host.shard),
        host.name.as_deref().map_or_else(|| NONE.to_owned(), escape),
        count(host.ok),
        count(host.failed),
        number(host.rps),
        number(host.output_tps),
        duration(host.lag_p50),
        duration(host.lag_p99),
        verdict.to_owned(),
        format!("+{}", duration(Some(host.start_ns.saturating_sub(first)))),
        known(signed(clock.offset_ns)),
        known(duration(clock.error_ns)),
        clock.drift_ppb.map_or_else(|| NONE.to_owned(), |ppb| format!("{ppb:.0} ppb")),
    ]
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{}", duration(Some(ns.unsigned_abs())))
}
