//! The figures of `data stats` for a terminal.

use tokclock_engine::measure::{ArrivalReport, ArrivalVerdict, GapTest};

use super::figures::{Blocks, Document, Input, Lengths, Recording};
use super::histogram;
use crate::report;
use crate::report::text::{Page, count, duration, escape, number, percent, plural};

/// The page, in at most `width` columns.
pub(super) fn write(document: &Document, width: usize) -> String {
    let mut page = report::page(width, false);
    let (items, requests) = (document.items, document.requests);
    let what = if document.turns.is_some() {
        format!(
            "{} in {} {}",
            requests_of(requests),
            count(items),
            plural(items, "conversation", "conversations")
        )
    } else {
        requests_of(requests)
    };
    page.words("looked at", &what);
    for note in &document.notes {
        page.words("note", &escape(note));
    }
    document.recordings.iter().for_each(|recording| of_recording(&mut page, recording));
    page.blank();
    input(&mut page, &document.input);
    if let Some(output) = &document.output {
        lengths(&mut page, "output", "tokens asked for", output);
    }
    if let Some(turns) = &document.turns {
        lengths(&mut page, "turns", "of a conversation", turns);
    }
    sharing(&mut page, document);
    if let Some(report) = &document.arrivals {
        page.blank();
        arrivals(&mut page, report);
    }
    page.finish()
}

fn requests_of(number: u64) -> String {
    format!("{} {}", count(number), plural(number, "request", "requests"))
}

/// What the remarks on a recording do not say; nothing if there is no more.
fn of_recording(page: &mut Page, recording: &Recording) {
    let Recording { source, requests, output_known, answers, .. } = recording;
    let mut parts = Vec::new();
    if output_known < requests {
        parts.push(format!(
            "{} of {} requests say nothing of their output, for which --osl is asked",
            count(requests - output_known),
            count(*requests)
        ));
    }
    if *answers > 0 {
        parts.push(format!("{} with a recorded answer", count(*answers)));
    }
    if !parts.is_empty() {
        page.words("recording", &escape(&format!("{source}: {}", parts.join("; "))));
    }
}

fn input(page: &mut Page, input: &Input) {
    if let Some(tokens) = &input.tokens {
        lengths(page, "input", "tokens", tokens);
    }
    if let Some(characters) = &input.characters {
        let text = format!(
            "{} without a count of tokens, neither declared nor counted (--tokenizer counts them); \
             in characters, without the answers of a server:",
            requests_of(input.unknown)
        );
        page.words("input", &text);
        lengths(page, "", "characters", characters);
    }
}

/// Figures in a line, a histogram below.
fn lengths(page: &mut Page, label: &str, what: &str, lengths: &Lengths) {
    let Lengths { min, p50, p90, p95, p99, max, mean, stdev, .. } = lengths;
    if min == max {
        page.words(label, &format!("{} {what}, all of them", count(*min)));
        return;
    }
    let text = format!(
        "{what}: min {}, p50 {}, p90 {}, p95 {}, p99 {}, max {}; mean {}, sd {}",
        count(*min),
        count(*p50),
        count(*p90),
        count(*p95),
        count(*p99),
        count(*max),
        number(Some(*mean)),
        number(Some(*stdev)),
    );
    page.words(label, &text);
    for line in histogram::lines(&lengths.histogram) {
        page.line(&line);
    }
}

fn sharing(page: &mut Page, document: &Document) {
    let prefixes = &document.prefixes;
    page.blank();
    page.words(
        "prefixes",
        &format!(
            "{} different beginnings of {} {} among {} {}",
            count(prefixes.distinct),
            prefixes.length,
            prefixes.unit,
            count(prefixes.prompts),
            plural(prefixes.prompts, "prompt", "prompts")
        ),
    );
    for blocks in document.recordings.iter().filter_map(|recording| recording.blocks.as_ref()) {
        page.words("", &of_blocks(blocks));
    }
    let system = &document.system;
    if system.prompts > 0 {
        page.words(
            "system",
            &format!(
                "{} of {} prompts have a system prompt, {} different; the commonest is that of {}",
                count(system.prompts),
                count(prefixes.prompts),
                count(system.distinct),
                count(system.commonest)
            ),
        );
    }
    let cache = &document.cache;
    let text = match cache.ideal_share {
        Some(share) => {
            let among = if cache.requests < document.requests {
                format!(", over the {} whose tokens are known", requests_of(cache.requests))
            } else {
                String::new()
            };
            format!(
                "a prefix cache without limits would know {} of {} input tokens, {}{among}",
                count(cache.ideal_cached_tokens),
                count(cache.input_tokens),
                percent(Some(share))
            )
        }
        None => "not known, since no tokens are".to_owned(),
    };
    page.words("ideal cache", &text);
}

fn of_blocks(blocks: &Blocks) -> String {
    format!(
        "hash ids: {} blocks of {} tokens, {} different, {} different first ones; {} different \
         beginnings, counted block by block",
        count(blocks.blocks),
        blocks.tokens_per_block,
        count(blocks.distinct),
        count(blocks.distinct_first),
        count(blocks.distinct_prefixes)
    )
}

fn arrivals(page: &mut Page, report: &ArrivalReport) {
    let peak = report
        .peak_rate
        .map_or_else(String::new, |peak| format!(", at most {} in any second", count(peak)));
    page.words(
        "arrivals",
        &format!(
            "{} in {}, {} per second on average{peak}",
            count(report.count),
            duration(Some(report.duration_ns)),
            number(report.mean_rate)
        ),
    );
    let mut parts = vec![format!("coefficient of variation {}", number(report.gap_cv))];
    if let (Some(lag1), Some(bound)) = (report.lag1, report.lag1_bound) {
        let verdict = if lag1.abs() > bound { "they depend on each other" } else { "as by chance" };
        parts.push(format!("autocorrelation at lag 1 {lag1:.3} ({verdict}, ±{bound:.3})"));
    }
    page.words("gaps", &parts.join(", "));
    if let Some(dispersion) = report.dispersion {
        page.words(
            "counts",
            &format!(
                "index of dispersion {} over whole seconds (Poisson: 1)",
                number(Some(dispersion))
            ),
        );
    }
    page.words("law", &verdict(report));
}

/// What follows of the test, in words.
fn verdict(report: &ArrivalReport) -> String {
    let cv = number(report.gap_cv);
    let words = match report.verdict {
        ArrivalVerdict::TooFew => "too few gaps to test".to_owned(),
        ArrivalVerdict::TooCoarse => format!(
            "times in steps of {} are too coarse to test the gaps: see the counts",
            duration(Some(report.resolution_ns))
        ),
        ArrivalVerdict::Exponential => "gaps look exponential, as Poisson's do".to_owned(),
        ArrivalVerdict::Burstier => format!("burstier than Poisson (CV {cv})"),
        ArrivalVerdict::Smoother => format!("smoother than Poisson (CV {cv})"),
        ArrivalVerdict::Otherwise => {
            format!("not Poisson, though gaps vary as much (CV {cv})")
        }
    };
    match report.test {
        Some(GapTest { distance, critical, .. }) => format!(
            "{words}: distance {distance:.4}, critical from {critical:.4} on (Kolmogorov-Smirnov \
             against the exponential law of the same mean, Lilliefors, 5 %)"
        ),
        None => words,
    }
}
