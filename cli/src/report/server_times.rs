//! What servers said of their own work on each request, beside what the client saw.

use tokclock_engine::measure::{
    ClockReport, Difference, Distribution, ServerTimesReport, SignedDistribution, Summary,
};

use super::grid;
use super::text::{Page, count, duration, escape, plural};

/// Writes it, where they said anything.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(told) = &summary.server_times else { return };
    page.blank();
    page.words("server says", &said(told));
    let all: Vec<(&str, &Difference)> = differences(told).collect();
    if let (false, Some(source)) = (all.is_empty(), told.source) {
        let made = |(_, of): &(&str, &Difference)| match of.server.contains('+') {
            true => format!("{} - server's ({})", of.client, of.server),
            false => format!("{} - server's {}", of.client, of.server),
        };
        let made: Vec<String> = all.iter().map(made).collect();
        let source = source.as_str();
        page.words("difference", &format!("of each request, by {source}: {}", made.join("; ")));
        for (name, of) in &all {
            if let Some(note) = &of.note {
                page.words("", &format!("{name}: {}", escape(note)));
            }
        }
    }
    told.clocks.iter().for_each(|one| clock(page, one, told.clocks.len() > 1));
    if !all.is_empty() {
        let head = ["client - server", "count", "mean", "p50", "p90", "p95", "p99", "min", "max"];
        grid::write(page, &head, all.iter().map(|(name, of)| row(name, &of.figures)));
    }
}

fn differences(told: &ServerTimesReport) -> impl Iterator<Item = (&'static str, &Difference)> {
    let of = &told.client_minus_server;
    let all = [("TTFT", &of.ttft), ("E2E", &of.e2e), ("decode", &of.decode)];
    all.into_iter().filter_map(|(name, of)| Some((name, of.as_ref()?)))
}

/// The server's own figures.
fn said(told: &ServerTimesReport) -> String {
    let own = [
        ("queue", &told.queue),
        ("prefill", &told.prefill),
        ("ttft", &told.ttft),
        ("decode", &told.decode),
        ("e2e", &told.e2e),
        ("kv transfer", &told.kv_transfer),
        ("mean itl", &told.mean_itl),
    ];
    let figure = |name: &str, of: &Distribution| {
        let p = &of.percentiles;
        format!("{name} p50 {}, p99 {}", duration(p.p50), duration(p.p99))
    };
    let known = own.iter().filter(|(_, of)| of.count > 0);
    let mut figures: Vec<String> = known.map(|(name, of)| figure(name, of)).collect();
    let has_own = !figures.is_empty();
    if !has_own {
        figures.extend(told.named.iter().map(|(name, of)| figure(&escape(name), of)));
    }
    let mut said = figures.join("; ");
    if has_own || told.count > 0 {
        let answers = plural(told.count, "answer", "answers");
        said = format!("of {} {answers}: {said}", count(told.count));
    }
    if told.others > 0 {
        said.push_str(&format!("; {} told by another source are left out", count(told.others)));
    }
    said
}

fn clock(page: &mut Page, clock: &ClockReport, is_one_of_several: bool) {
    let of = match &clock.url {
        Some(url) if is_one_of_several => format!("that of {} is ", escape(url)),
        _ => "the server's is ".to_owned(),
    };
    let side = if clock.offset_ns < 0 { "behind" } else { "ahead of" };
    page.words(
        "clock",
        &format!(
            "{of}{} {side} ours, ± {}, from the moments of {} {}",
            duration(Some(clock.offset_ns.unsigned_abs())),
            duration(Some(clock.error_ns)),
            count(clock.samples),
            plural(clock.samples, "answer", "answers"),
        ),
    );
}

fn row(name: &str, of: &SignedDistribution) -> Vec<String> {
    let p = &of.percentiles;
    let mean = of.mean.map(|mean| mean.round() as i64);
    let figures = [mean, p.p50, p.p90, p.p95, p.p99, Some(of.min), Some(of.max)];
    [name.to_owned(), count(of.count)].into_iter().chain(figures.map(signed)).collect()
}

/// A duration that may be negative.
fn signed(ns: Option<i64>) -> String {
    let shown = duration(ns.map(i64::unsigned_abs));
    if ns.is_some_and(|ns| ns < 0) { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use tokclock_engine::measure::summarize;
    use tokclock_engine::record::{Row, ServerTimings};
    use tokclock_engine::workload::Load;

    use super::super::tests::{facts, row, workload};
    use super::super::{console, markdown_of};
    use super::*;

    /// Requests with a TTFT of 100 ms; the server says 7 ms of queue and 90 or 110 ms after it.
    fn summary() -> Summary {
        let times = |ttft: u64| {
            serde_json::json!({
                "source": "vllm.metrics", "queue_ns": 7_000_000, "ttft_ns": ttft * 1_000_000,
                "received_realtime_ns": 1_000, "sent_realtime_ns": 2_000,
                "named": [["db", 1_000_000]]
            })
        };
        let rows = (0..20).map(|index| {
            let told: ServerTimings = serde_json::from_value(times(90 + index % 2 * 20)).unwrap();
            Row { server: Some(Box::new(told)), ..row(index, 0) }
        });
        summarize(&workload(Load::Closed { users: 4, ramp_ns: 0 }), &facts(), rows)
    }

    #[test]
    fn the_console_shows_both_sides_and_says_what_was_subtracted() {
        let page = console(&summary(), 100, false);
        for words in [
            "server says of 20 answers: queue p50 7.000 ms",
            "by vllm.metrics: service TTFT - server's (queue + ttft)",
            "client - server",
            "-17.0",
            "clock       the server's is",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        let silent = Summary { server_times: None, ..summary() };
        assert!(!console(&silent, 100, false).contains("server says"));
    }

    #[test]
    fn markdown_has_the_table() {
        let page = markdown_of(&summary());
        assert!(page.contains("| client - server | count |"), "{page}");
        assert!(page.contains("**server says** of 20 answers"), "{page}");
    }

    #[test]
    fn names_alone_are_shown_and_are_no_markup() {
        let mut summary = summary();
        let told = summary.server_times.as_mut().unwrap();
        let empty = Distribution::default();
        (told.queue, told.ttft, told.count) = (empty.clone(), empty, 0);
        (told.source, told.client_minus_server) = (None, Default::default());
        told.named = [("\u{1b}[31m".to_owned(), Distribution::from_values(&[5]))].into();
        let page = console(&summary, 100, false);
        assert!(page.contains("server says \\u{1b}[31m p50 5.000 ns"), "{page}");
    }
}
