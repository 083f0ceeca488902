//! The frontier of throughput against TTFT: which points no other one beats.

use tokclock_engine::measure::curve::{Curve, ParetoPoint};

use super::super::grid;
use super::super::plot::{Plot, Scale};
use super::super::text::{NONE, Page, duration, escape};
use super::plots::{plain, time};
use super::words::{bare, rate};

/// Points in the table, at most.
const POINTS_SHOWN: usize = 24;
/// The mark of a point that none beats, and of one that another beats, where all are of one result.
const MARKS: (char, char) = ('*', '+');
/// The mark of results that no letter is left for.
const OTHERS: char = '#';

/// Writes it, if there are points to compare; with those of several results as a table too.
pub(super) fn write(page: &mut Page, curve: &Curve) {
    let mut sources: Vec<&str> = Vec::new();
    for point in &curve.pareto {
        if !sources.contains(&point.source.as_str()) {
            sources.push(&point.source);
        }
    }
    draw(page, &curve.pareto, &sources);
    if sources.len() > 1 {
        table(page, &curve.pareto, &sources);
    }
}

fn is_per_gpu(points: &[ParetoPoint]) -> bool {
    points.iter().all(|point| point.output_tps_per_gpu.is_some())
}

fn draw(page: &mut Page, points: &[ParetoPoint], sources: &[&str]) {
    let per_gpu = is_per_gpu(points);
    let place = |point: &ParetoPoint| {
        let tps = if per_gpu { point.output_tps_per_gpu } else { point.output_tps };
        let tps = tps.filter(|tps| tps.is_finite() && *tps >= 0.0)?;
        Some([point.ttft_p50? as f64, tps])
    };
    let known: Vec<([f64; 2], &ParetoPoint)> =
        points.iter().filter_map(|point| Some((place(point)?, point))).collect();
    let scale = |axis: usize| Scale::of(known.iter().map(move |(place, _)| place[axis]));
    let (Some(x), Some(y)) = (scale(0), scale(1)) else { return };
    if known.len() < 2 {
        return;
    }
    let (x, y) = (x.rounded(), y.linear().rounded());
    let mut joined: Vec<[f64; 2]> =
        known.iter().filter(|(_, one)| !one.dominated_by_ttft).map(|(place, _)| *place).collect();
    joined.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let beaten_first = known.iter().filter(|(_, one)| one.dominated_by_ttft);
    let all = beaten_first.chain(known.iter().filter(|(_, one)| !one.dominated_by_ttft));
    let marks = all.map(|([x, y], one)| (*x, Some(*y), mark(one, sources))).collect();
    let title = format!(
        "output tokens/s{} against TTFT p50{}: up and left is better",
        if per_gpu { " per GPU" } else { "" },
        x.said()
    );
    let x_ticks = x.ticks();
    let plot = Plot { x, y, labels: [time, plain], x_ticks, marks, joined, uprights: Vec::new() };
    let mut legend = vec![match sources.len() {
        0 | 1 => "* no other level beats it, + another is better in one and no worse in the other",
        _ => "a capital: no other point beats it, a small letter: another is better in one and no \
              worse in the other",
    }
    .to_owned()];
    if known.len() < points.len() {
        let missing = points.len() - known.len();
        legend.push(format!("not drawn, since they lack one of the two: {missing}"));
    }
    plot.write(page, &title, &legend.join("; "));
}

/// Which mark a point has: with several results a letter, small if it is beaten.
fn mark(point: &ParetoPoint, sources: &[&str]) -> char {
    if sources.len() < 2 {
        return if point.dominated_by_ttft { MARKS.1 } else { MARKS.0 };
    }
    let letter = letter(&point.source, sources);
    if point.dominated_by_ttft { letter.to_ascii_lowercase() } else { letter }
}

fn letter(source: &str, sources: &[&str]) -> char {
    let at = sources.iter().position(|one| *one == source);
    at.and_then(|at| ('A'..='Z').nth(at)).unwrap_or(OTHERS)
}

fn table(page: &mut Page, points: &[ParetoPoint], sources: &[&str]) {
    let per_gpu = is_per_gpu(points);
    let tps = if per_gpu { "tokens/s/GPU" } else { "tokens/s" };
    let head =
        ["result", "load", tps, "TTFT p50", "best by\nTTFT", "user tok/s", "best by\nuser rate"];
    let on = |is_beaten: bool| if is_beaten { NONE } else { "yes" }.to_owned();
    let row = |point: &ParetoPoint| {
        vec![
            format!("{} {}", letter(&point.source, sources), escape(&point.source)),
            bare(point.value),
            rate(if per_gpu { point.output_tps_per_gpu } else { point.output_tps }),
            duration(point.ttft_p50),
            on(point.dominated_by_ttft),
            rate(point.per_user_tps),
            on(point.dominated_by_user),
        ]
    };
    // Those on a frontier first, so that they are not left out.
    let mut ordered: Vec<&ParetoPoint> = points.iter().collect();
    ordered.sort_by_key(|point| point.dominated_by_ttft && point.dominated_by_user);
    grid::write(page, &head, ordered.into_iter().take(POINTS_SHOWN).map(row));
    if points.len() > POINTS_SHOWN {
        page.words("", &format!("{} more are in curve.json", points.len() - POINTS_SHOWN));
    }
}
