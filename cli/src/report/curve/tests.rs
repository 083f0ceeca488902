//! Pages of planted curves: what a reader must find on them, and that no line is too long.

use tokclock_engine::measure::curve::{
    Curve, Envelope, Figures, Knee, Level, Outside, PastKnee, Point, Recovery, Repetition,
    Variable, pareto,
};
use tokclock_engine::measure::{Health, Held, Severity};

use super::super::text::columns;
use super::curve_page;
use super::planted::{MS, closed, open, reason, run, served};

/// The page at 80 columns, of which no line is longer.
fn page(curve: &Curve) -> String {
    let page = curve_page(curve, 80, false);
    assert!(page.lines().all(|line| columns(line) <= 80), "{page}");
    page
}

/// Its words with one space between them, as if the page had no end.
fn said(curve: &Curve) -> String {
    page(curve).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The row of the table that begins with this load.
fn row(page: &str, load: &str) -> String {
    let first = |line: &&str, word: &str| line.split_whitespace().next() == Some(word);
    let mut rows = page.lines().skip_while(|line| !first(line, "users") && !first(line, "load"));
    let row = rows.find(|line| first(line, load));
    row.unwrap_or_else(|| panic!("no row of {load}: {page}")).to_owned()
}

#[test]
fn the_first_lines_say_where_the_objectives_held_and_what_comes_after() {
    let said = said(&closed());
    for words in [
        "8 levels of a closed loop, from 1 to 128 users, run 2 times each",
        "SUSPECT at 64 users",
        "held from 1 to 32 users; at 64 users p95(ttft)<500ms broke",
        "operate at 32 users: 41.13 requests/s served, 5161 output tokens/s",
        "knee at 16 users, by curvature",
        "past knee queues: throughput holds and latency grows",
        "held again 3.200 s after the end of an overload of 128 users",
        "note level 9 was left out: the server went away",
        "suspect: at 64 users: the client handled bytes 2.000 ms late. To do: give it more cores.",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

#[test]
fn each_level_has_a_row_with_its_marks_and_its_spread() {
    let page = page(&closed());
    assert!(row(&page, "16").ends_with("pass, knee"), "{page}");
    assert!(row(&page, "32").contains("pass, saturated, <-"), "{page}");
    assert!(row(&page, "128").contains("FAIL, saturated,"), "{page}");
    assert_eq!(page.lines().filter(|line| line.contains("±2.0%")).count(), 8, "{page}");
    for marks in ["suspect client", "unsteady", "operating point", "TTFT    ITL"] {
        assert!(page.contains(marks), "no {marks:?} in {page}");
    }
}

#[test]
fn a_percentile_among_the_failed_is_longer_than_anything() {
    let page = page(&open());
    assert_eq!(row(&page, "80").matches(">>").count(), 2, "{page}");
    assert!(page.contains(">> longer than anything"), "{page}");
    assert!(page.contains("^ longer than anything"), "{page}");
    assert!(page.contains("sheds: it refuses what it cannot serve (50.00 %"), "{page}");
    assert!(row(&page, "40").contains("40.40"), "what was offered: {page}");
}

#[test]
fn a_repetition_without_the_percentile_is_told() {
    let mut lost = served(8.0);
    lost.ttft_p95 = None;
    let runs = [served(8.0), served(8.0), lost];
    let runs = runs.map(|figures| run(figures, "p95(ttft)<500ms", Held::Pass)).to_vec();
    let curve = Curve::new(Variable::Concurrency, vec![Level::of(8.0, runs)], "a", None);
    let said = said(&curve);
    assert!(said.contains("±? of some repetitions, not of all"), "{said}");
    assert!(said.contains("1 level of a closed loop, at 8 users, run 3 times each"), "{said}");
}

#[test]
fn plots_say_their_scales_and_show_the_knee() {
    let page = page(&closed());
    assert!(page.contains("output tokens/s against users (log scale)"), "{page}");
    assert!(page.contains("TTFT p95 against users, both on log scales"), "{page}");
    assert!(page.contains("output tokens/s against TTFT p50 (log scale)"), "{page}");
    assert!(page.contains("* a level, x objectives not held, O operating point, : knee"), "{page}");
    let drawn = |mark: char| {
        let lines = page.lines().filter(|line| line.contains('|') || line.contains(" +"));
        lines.filter(|line| line.contains(mark)).count()
    };
    assert_eq!(drawn('O'), 2, "{page}");
    assert!(drawn(':') >= 16, "{page}");
    let narrow = page_of_range(&[10.0, 20.0, 30.0]);
    assert!(narrow.contains("TTFT p95 against users\n"), "{narrow}");
    assert!(!narrow.contains("log scale"), "{narrow}");
}

fn page_of_range(loads: &[f64]) -> String {
    let level = |load: &f64| Level::of(*load, vec![plain(served(12.0))]);
    page(&Curve::new(Variable::Concurrency, loads.iter().map(level).collect(), "a", None))
}

fn plain(figures: Figures) -> Repetition {
    Repetition::of_figures(figures, Health::Valid)
}

#[test]
fn without_objectives_or_load_enough_the_page_says_less() {
    let page = page_of_range(&[1.0, 2.0]);
    for word in ["objectives", "operate at", "knee", "recovery", "pass", "FAIL", "±", "note"] {
        assert!(!page.contains(word), "{word} in {page}");
    }
    let none = Curve::new(Variable::Rate, Vec::new(), "a", None);
    assert_eq!(curve_page(&none, 80, false), "curve       no level was run\n");
}

#[test]
fn what_an_envelope_may_say_is_said() {
    let outside = |value, slo| Outside { value, slo, broke: vec!["p95(ttft)<500ms".into()] };
    let envelope = Envelope {
        operating_point: None,
        holds_from: None,
        holds_to: None,
        objectives: vec!["p95(ttft)<500ms".into()],
        above: Some(outside(1.0, Held::Fail)),
        below: None,
        holds_again: Vec::new(),
    };
    let mut curve = closed();
    curve.envelope = Some(envelope.clone());
    let none = said(&curve);
    assert!(
        none.contains("not held at any level: at 1 user p95(ttft)<500ms broke already"),
        "{none}"
    );
    curve.envelope = Some(Envelope {
        holds_from: Some(4.0),
        holds_to: Some(16.0),
        above: Some(outside(32.0, Held::Unknown)),
        below: Some(outside(2.0, Held::Fail)),
        holds_again: vec![64.0, 128.0],
        ..envelope.clone()
    });
    let some = said(&curve);
    for words in [
        "held from 4 to 16 users; at 2 users p95(ttft)<500ms broke; at 32 users it is not known \
         whether p95(ttft)<500ms held",
        "held again at 64 and 128 users, which is no part of the range",
    ] {
        assert!(some.contains(words), "no {words:?} in {some}");
    }
    let all = Envelope { holds_from: Some(1.0), holds_to: Some(128.0), above: None, ..envelope };
    curve.envelope = Some(all);
    let open = said(&curve);
    assert!(open.contains("that is the highest level, so they may hold beyond it"), "{open}");
}

#[test]
fn both_knees_are_said_where_they_differ() {
    let mut curve = closed();
    let knee = |good, holds, bend| Knee {
        by_goodput: good,
        goodput_still_holds: holds,
        by_curvature: bend,
    };
    curve.knee = knee(Some(32.0), Some(false), Some(16.0));
    let differ = page(&curve);
    assert!(differ.contains("the two rules differ: by goodput at 32 users"), "{differ}");
    let wide = curve_page(&curve, 100, false);
    assert!(row(&wide, "16").contains("pass, knee (curvature)"), "{wide}");
    assert!(row(&wide, "32").contains("knee (goodput)"), "{wide}");
    curve.knee = knee(Some(16.0), Some(false), Some(16.0));
    assert!(said(&curve).contains("knee at 16 users, by goodput and by curvature"));
    curve.knee = knee(Some(128.0), Some(true), Some(16.0));
    let beyond = said(&curve);
    assert!(beyond.contains("knee none by goodput: up to 128 users, the highest"), "{beyond}");
    assert!(!row(&page(&curve), "128").contains("knee"), "it was not reached");
    curve.knee = knee(Some(64.0), Some(false), None);
    assert!(said(&curve).contains("knee at 64 users, by goodput: the last level"));
}

#[test]
fn a_collapse_and_a_server_that_does_not_come_back_are_said() {
    let mut curve = closed();
    curve.past_knee = Some(PastKnee::Collapses);
    curve.levels[7].figures.rps = Some(4.0);
    let waited_ns = 30_000 * MS;
    let recovery = curve.recovery.clone().unwrap();
    curve.recovery = Some(Recovery { objectives_held_after_ns: None, waited_ns, ..recovery });
    let said = said(&curve);
    let falls = "collapses: throughput falls, from 41.45 requests/s at best to 4.000 at 128 users";
    assert!(said.contains(falls), "{said}");
    assert!(
        said.contains("not within 30.00 s after the end of an overload of 128 users"),
        "{said}"
    );
}

#[test]
fn points_of_several_results_have_letters_and_a_table() {
    let mut curve = closed();
    let point = |source: &str, value: f64, tps: f64, ttft_ms: u64| Point {
        source: source.into(),
        value,
        output_tps: Some(tps),
        gpus: Some(2),
        ttft_p50: Some(ttft_ms * MS),
        per_user_tps: Some(50.0),
    };
    curve.pareto = pareto(&[
        point("vllm\x1b[2J", 1.0, 1000.0, 50),
        point("vllm\x1b[2J", 8.0, 4000.0, 200),
        point("sglang", 8.0, 4400.0, 180),
    ]);
    let page = page(&curve);
    assert!(page.contains("output tokens/s per GPU against TTFT p50"), "{page}");
    assert!(page.contains("A vllm\\u{1b}[2J") && page.contains("B sglang"), "{page}");
    let rows: Vec<Vec<&str>> = page.lines().map(|l| l.split_whitespace().collect()).collect();
    let of = |letter: &str, load: &str| {
        let row = rows.iter().find(|row| row.first() == Some(&letter) && row[2] == load).unwrap();
        row[3..].join(" ")
    };
    assert_eq!(of("A", "8"), "2000 200.0 ms - 50.00 -", "{page}");
    assert_eq!(of("B", "8"), "2200 180.0 ms yes 50.00 yes", "{page}");
    let plot: Vec<&str> = page.lines().skip_while(|line| !line.contains("per GPU")).collect();
    for mark in ['A', 'a', 'B'] {
        assert!(plot[1..12].iter().any(|line| line.contains(mark)), "no {mark}: {page}");
    }
}

#[test]
fn what_comes_from_outside_cannot_act_on_the_terminal() {
    let mut curve = closed();
    let text = "p95(ttft)<500ms\x1b]0;owned\x07";
    let level = |users: f64| Level::of(users, vec![run(served(users), text, Held::Fail)]);
    let levels = [1.0, 2.0].map(level).to_vec();
    curve.envelope = Curve::new(Variable::Concurrency, levels, "a", None).envelope;
    curve.notes.push("a\u{202e}b".into());
    curve.levels[0].notes.push(reason(Severity::Note, "\x1b[31mred"));
    let page = page(&curve);
    assert!(!page.contains(['\x1b', '\x07', '\u{202e}']), "{page}");
    let coloured = curve_page(&curve, 80, true);
    assert!(coloured.contains("\x1b[1;31mnot held\x1b[0m"), "{coloured}");
}

/// Twelve levels whose figures and texts are longer than any that a server gives.
fn extreme() -> Curve {
    let long = "p99.9(a_metric_with_a_very_long_name_indeed_and_without_any_space)<1234567.891ms";
    let level = |number: i32| {
        let mut figures = served(64.0);
        let huge = 10_f64.powi(number * 25);
        figures.offered_rps = Some(huge);
        figures.rps = Some(if number == 3 { f64::NAN } else { 1.0 / huge });
        figures.output_tps = Some(if number == 4 { f64::INFINITY } else { huge });
        figures.goodput_rps = Some(huge);
        figures.per_user_tps = Some(f64::NEG_INFINITY);
        figures.error_rate = Some(0.123_456);
        figures.ttft_p50 = Some(1 + number as u64);
        figures.ttft_p95 = Some(u64::MAX >> number);
        let mut second = figures.clone();
        (second.rps, second.ttft_p95) = (Some(1e300), None);
        let runs = [run(figures, long, Held::Fail), run(second, long, Held::Unknown)].to_vec();
        let mut level = Level::of(10_f64.powi(number - 4), runs);
        level.client = Health::Invalid;
        level.steady = Some(false);
        level
    };
    let mut curve = Curve::new(Variable::Rate, (0..12).map(level).collect(), long, None);
    curve.knee.by_curvature = Some(1e-4);
    curve.past_knee = Some(PastKnee::Queues);
    curve.notes = vec![long.repeat(3)];
    curve
}

#[test]
fn no_line_is_too_long_and_no_figure_is_absurd_whatever_the_levels_hold() {
    for curve in [extreme(), closed(), open()] {
        for width in [1, 40, 60, 80, 100, 300] {
            let page = curve_page(&curve, width, false);
            let most = width.clamp(40, 100);
            assert!(page.lines().all(|line| columns(line) <= most), "{width}: {page}");
            assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
            for level in &curve.levels {
                let load = super::words::bare(level.value);
                assert!(row(&page, &load).contains(['p', 'F']), "{load} has its verdict: {page}");
            }
        }
    }
}

#[test]
fn levels_are_shown_in_order_of_load() {
    let mut curve = closed();
    curve.levels.reverse();
    assert_eq!(page(&curve), page(&closed()));
}

#[test]
fn levels_without_a_valid_client_stand_out() {
    let mut curve = closed();
    curve.levels[1].client = Health::Invalid;
    curve.levels[7].client = Health::Invalid;
    let page = page(&curve);
    assert!(page.contains("INVALID at 2 and 128 users: what ran there is not what was"), "{page}");
    assert!(row(&page, "2").ends_with("pass, INVALID client"), "{page}");
    assert!(page.contains("? invalid client"), "{page}");
}
