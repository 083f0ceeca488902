//! One request on a time axis: a line for each phase.

use tokclock_engine::measure::trace::{Phase, Step, Traced};

use super::super::text::{Page, duration};

/// Columns of a phase's name, and of its length.
const NAME: usize = 12;
const LENGTH: usize = 9;
/// Columns before the bars: the two with their spaces, and the edge.
const BEFORE: usize = 2 + NAME + 1 + LENGTH + 2;
/// Columns of the bars, at least.
const BARS_MIN: usize = 8;
/// A gap of more than so many times the median of its request is drawn as one.
const STANDS_OUT: u64 = 2;

/// A line: its name, from and to in ns from the origin, and the moments that are marked in it.
struct Bar<'a> {
    name: &'static str,
    step: Step,
    events: Option<&'a [u64]>,
}

/// Writes the lines of a request, and the axis below them.
pub(super) fn write(page: &mut Page, traced: &Traced) {
    let path = &traced.path;
    let ends = path.steps.iter().chain(&path.beside).map(|step| step.to_ns);
    let Some(whole) = ends.max().filter(|whole| *whole > 0) else {
        page.words("", "no time passed between its origin and its end");
        return;
    };
    let chunks = traced.row.chunks.as_deref().unwrap_or_default();
    let events: Vec<u64> =
        chunks.iter().map(|(at, _)| at.saturating_sub(traced.origin_ns)).collect();
    let cells = page.width.saturating_sub(BEFORE + 1).max(BARS_MIN);
    for bar in bars(traced, &events) {
        let drawn = drawn(&bar, whole, cells);
        let length = duration(Some(bar.step.length()));
        page.line(&format!("  {:NAME$} {length:>LENGTH$} |{drawn}|", bar.name));
    }
    let (begin, end) = ("0", duration(Some(whole)));
    let between = cells.saturating_sub(begin.len());
    page.line(&format!("{:1$}{begin}{end:>between$}", "", BEFORE));
}

/// The lines in their order: both legs first, where they lie beside each other.
fn bars<'a>(traced: &Traced, events: &'a [u64]) -> Vec<Bar<'a>> {
    let plain = |step: &Step| Bar { name: step.phase.name(), step: *step, events: None };
    let mut bars: Vec<Bar<'_>> = traced.path.beside.iter().map(plain).collect();
    if traced.path.beside.is_some() {
        bars.extend(decode_leg(traced));
    }
    for step in traced.path.steps.iter().filter(|step| step.length() > 0) {
        let is_decode = step.phase == Phase::Decode && !events.is_empty();
        bars.push(Bar { events: is_decode.then_some(events), ..plain(step) });
    }
    bars
}

/// The whole of the decode leg.
fn decode_leg(traced: &Traced) -> Option<Bar<'static>> {
    let leg = traced.row.legs.as_ref()?.decode.as_ref()?;
    let since = |at: u64| at.saturating_sub(traced.origin_ns);
    let from_ns = since(leg.write_start?);
    let to_ns = since(leg.done.or(traced.row.done)?);
    let step = Step { phase: Phase::Decode, from_ns, to_ns };
    Some(Bar { name: "decode leg", step, events: None })
}

/// The cells of a line: every phase has at least one.
fn drawn(bar: &Bar<'_>, whole: u64, cells: usize) -> String {
    let place = |at: u64| (u128::from(at) * cells as u128 / u128::from(whole)) as usize;
    let start = place(bar.step.from_ns).min(cells - 1);
    let end = (u128::from(bar.step.to_ns) * cells as u128).div_ceil(u128::from(whole)) as usize;
    let end = end.clamp(start + 1, cells);
    let mut line = vec![' '; cells];
    line[start..end].fill('#');
    for [from, to] in long_gaps(bar) {
        // The cells that lie in it whole.
        let first = (u128::from(from) * cells as u128).div_ceil(u128::from(whole)) as usize;
        line[first.min(end)..place(to).clamp(first.min(end), end)].fill('.');
    }
    String::from_iter(line)
}

/// Gaps between events that stand out, by their begin and end.
fn long_gaps(bar: &Bar<'_>) -> Vec<[u64; 2]> {
    let inside = |at: &&u64| (bar.step.from_ns..=bar.step.to_ns).contains(*at);
    let events: Vec<u64> = bar.events.unwrap_or_default().iter().filter(inside).copied().collect();
    let gap = |pair: &[u64]| pair[1].saturating_sub(pair[0]);
    let mut gaps: Vec<u64> = events.windows(2).map(gap).collect();
    gaps.sort_unstable();
    let Some(median) = gaps.get(gaps.len().saturating_sub(1) / 2) else { return Vec::new() };
    let is_long = |pair: &&[u64]| gap(pair) > STANDS_OUT * median;
    events.windows(2).filter(is_long).map(|pair| [pair[0], pair[1]]).collect()
}
