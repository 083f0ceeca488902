//! Results as JUnit test cases: what a pipeline should turn red for, and why.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use tokclock_engine::measure::curve::Curve;
use tokclock_engine::measure::{Evidence, Health, Held, ObjectiveReport, Reason, Summary};
use tokclock_engine::run::search::SearchReport;

use super::curve::in_words as curve_in_words;
use super::curve::words::share;
use super::front;
use super::search::in_words as search_in_words;
use super::text::{Page, count, escape, percent};
use crate::exit::Failure;
use crate::results::{Kept, What};
use crate::values::{Levels, Share};

/// Failures that a run allows unless its `run.toml` says otherwise.
const MAX_ERROR_RATE: Share = Share::from_percent(5.0);
/// The case of the client's verdict.
const CLIENT: &str = "the client can be believed";

/// A suite for each result. What XML cannot hold is escaped.
///
/// # Errors
/// If it cannot be written as XML.
pub(crate) fn junit(results: &[Kept]) -> Result<String, Failure> {
    let mut report = Report::new("tokclock");
    for kept in results {
        let dir = escape(&kept.path.display().to_string());
        let options = kept.run_toml.as_deref().and_then(|text| text.parse::<toml::Table>().ok());
        let options = options.unwrap_or_default();
        let (suite, cases) = match &kept.what {
            What::Run(summary) => (run_suite(&dir, summary), run(summary, &options)),
            What::Sweep(curve) => (suite(&dir, curve_said(curve)), sweep(curve, &options)),
            What::Search(found) => (suite(&dir, search_said(found)), search(found)),
        };
        let mut suite = suite;
        suite.add_test_cases(cases.into_iter().map(|mut case| {
            case.set_classname(format!("tokclock.{dir}"));
            case
        }));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(|error| Failure::could_not_run(format!("report.xml: {error}")))
}

fn suite(dir: &str, said: String) -> TestSuite {
    let mut suite = TestSuite::new(dir);
    suite.set_system_out(said);
    suite
}

fn run_suite(dir: &str, summary: &Summary) -> TestSuite {
    let mut page = Page::endless();
    front::write(&mut page, summary);
    let mut suite = suite(dir, page.finish());
    suite.set_time(std::time::Duration::from_nanos(summary.run.end_ns));
    suite
}

fn curve_said(curve: &Curve) -> String {
    let mut page = Page::endless();
    curve_in_words(&mut page, curve);
    page.finish()
}

fn search_said(search: &SearchReport) -> String {
    let mut page = Page::endless();
    search_in_words(&mut page, search);
    page.finish()
}

fn run(summary: &Summary, options: &toml::Table) -> Vec<TestCase> {
    let whole = summary.slo.iter().flat_map(|slo| &slo.objectives);
    let mut cases: Vec<TestCase> = whole.map(|one| objective(&escape(&one.text), one)).collect();
    for class in &summary.classes {
        let all = class.slo.iter().flat_map(|slo| &slo.objectives);
        let name = escape(&class.name);
        cases.extend(all.map(|one| objective(&format!("{name}: {}", escape(&one.text)), one)));
    }
    cases.push(client(summary.client.verdict, &summary.client.reasons));
    cases.push(failures(summary, options));
    if summary.run.interrupted {
        let why = "the run was interrupted: what follows from it is incomplete";
        cases.push(failed("the run came to its end", NonSuccessKind::Error, why, ""));
    }
    cases
}

/// A case that passed.
fn passed(name: &str, said: &str) -> TestCase {
    let mut case = TestCase::new(name, TestCaseStatus::success());
    if !said.is_empty() {
        case.set_system_out(said);
    }
    case
}

/// A case that did not.
fn failed(name: &str, kind: NonSuccessKind, why: &str, more: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(why).set_type(match kind {
        NonSuccessKind::Failure => "missed",
        NonSuccessKind::Error => "unusable",
    });
    if !more.is_empty() {
        status.set_description(more);
    }
    TestCase::new(name, status)
}

/// An objective: expected, observed, and the samples behind that.
fn objective(name: &str, one: &ObjectiveReport) -> TestCase {
    let observed = front::standing(one);
    let told = format!(
        "expected: {}\nobserved: {observed}\nevidence: {}",
        escape(&one.text),
        evidence(one.evidence)
    );
    match one.verdict {
        Held::Pass => passed(name, &told),
        Held::Fail => failed(name, NonSuccessKind::Failure, &format!("observed {observed}"), &told),
        Held::Unknown => {
            let why = format!("it is not known whether it held: {observed}");
            failed(name, NonSuccessKind::Failure, &why, &told)
        }
    }
}

fn evidence(of: Option<Evidence>) -> String {
    match of {
        None => "none".into(),
        Some(Evidence::Share { misses, samples, effective, allowed }) => format!(
            "{} of {} samples beyond the limit, {} allowed; they are worth {} independent ones",
            count(misses),
            count(samples),
            percent(Some(allowed)),
            count(effective.round() as u64)
        ),
        Some(Evidence::Mean { mean_ns, error_ns, samples, limit_ns }) => format!(
            "mean {mean_ns} ns, standard error {} ns, {} samples, limit {limit_ns} ns",
            error_ns.map_or_else(|| "unknown".into(), |error| error.to_string()),
            count(samples)
        ),
    }
}

fn client(verdict: Health, reasons: &[Reason]) -> TestCase {
    let told: Vec<String> = reasons
        .iter()
        .map(|one| format!("{}. To do: {}.", escape(&one.message), escape(&one.advice)))
        .collect();
    let told = told.join("\n");
    match verdict {
        Health::Valid => passed(CLIENT, ""),
        Health::Suspect => passed(CLIENT, &format!("SUSPECT: {told}")),
        Health::Invalid => {
            let why = "invalid: this run is not what was asked for";
            failed(CLIENT, NonSuccessKind::Error, why, &told)
        }
    }
}

/// The share of failures against the one that the run allowed.
fn failures(summary: &Summary, options: &toml::Table) -> TestCase {
    let allowed = options.get("max-error-rate").and_then(toml::Value::as_str);
    let allowed = allowed.and_then(|text| text.parse::<Share>().ok()).unwrap_or(MAX_ERROR_RATE);
    let requests = &summary.requests;
    let name = format!("at most {} of the requests fail", share(allowed.value()));
    let mut told = format!(
        "{} of {} failed ({})",
        count(requests.failed),
        count(requests.ok + requests.failed),
        percent(requests.error_rate)
    );
    for (class, number) in &requests.errors {
        let example = requests.error_examples.get(class).map_or("", String::as_str);
        told.push_str(&format!("\n{number} {}: {}", escape(class), escape(example)));
    }
    let first = told.lines().next().unwrap_or_default().to_owned();
    if requests.ok == 0 {
        failed(&name, NonSuccessKind::Failure, &format!("no request succeeded: {first}"), &told)
    } else if requests.error_rate.unwrap_or(0.0) > allowed.value() {
        failed(&name, NonSuccessKind::Failure, &first, &told)
    } else {
        passed(&name, &told)
    }
}

/// Whether the levels that were asked for are there; what they showed is no failure.
fn sweep(curve: &Curve, options: &toml::Table) -> Vec<TestCase> {
    const NAME: &str = "every level was run";
    let levels = options.get(curve.variable.as_str());
    let asked = match levels.and_then(|value| value.clone().try_into::<Levels>().ok()) {
        Some(Levels::List(levels)) => levels,
        Some(Levels::Range { from, to, .. }) => vec![from, to],
        _ => Vec::new(),
    };
    let is_there = |load: &&f64| curve.levels.iter().any(|level| level.value == **load);
    let missing: Vec<String> =
        asked.iter().filter(|load| !is_there(load)).map(f64::to_string).collect();
    let count = format!("{} levels", curve.levels.len());
    // Hopeless levels are left out on purpose, and a note names them.
    let on_purpose = curve.notes.iter().find(|note| note.starts_with("left out:"));
    let complete = match (curve.levels.is_empty(), missing.is_empty(), on_purpose) {
        (true, ..) => failed(NAME, NonSuccessKind::Failure, "no level was run", ""),
        (_, true, _) => passed(NAME, &count),
        (_, _, Some(note)) => passed(NAME, &format!("{count}; {}", escape(note))),
        (_, false, None) => {
            let why = format!("missing: {}", missing.join(", "));
            failed(NAME, NonSuccessKind::Failure, &why, &count)
        }
    };
    let verdict = curve.levels.iter().map(|level| level.client).max().unwrap_or(Health::Valid);
    let reasons: Vec<Reason> =
        curve.levels.iter().flat_map(|level| level.notes.iter().cloned()).collect();
    vec![complete, client(verdict, &reasons)]
}

/// Whether a load that keeps the objectives was found, and the search came to its end.
fn search(found: &SearchReport) -> Vec<TestCase> {
    let (boundary, variable) = (&found.boundary, found.variable.as_str());
    let name = format!("a {variable} keeps {}", escape(&found.objectives.join(", ")));
    let held = match (boundary.low, boundary.high) {
        (Some(low), high) => {
            let high = high.map_or_else(String::new, |high| format!(", not at {high}"));
            passed(&name, &format!("held up to {low}{high}"))
        }
        (None, Some(high)) => {
            let why = format!("broke at {high} already");
            failed(&name, NonSuccessKind::Failure, &why, &escape(&found.breached.join(", ")))
        }
        (None, None) => {
            failed(&name, NonSuccessKind::Failure, "nothing is sure at any load tried", "")
        }
    };
    let complete = if found.is_complete {
        passed("the search came to its end", "")
    } else {
        let why = "it was interrupted, or the server went away";
        failed("the search came to its end", NonSuccessKind::Failure, why, "")
    };
    vec![held, complete, carried(found)]
}

/// Whether this host could carry the loads that were tried.
fn carried(found: &SearchReport) -> TestCase {
    match found.limited_by_client {
        None => client(Health::Valid, &[]),
        Some(load) => {
            let why = format!("invalid at {load} and above: it could not carry that load");
            failed(CLIENT, NonSuccessKind::Error, &why, "")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tests::troubled;
    use super::*;

    fn cases(what: What, run_toml: &str) -> Report {
        let run_toml = Some(run_toml.to_owned());
        let text = junit(&[Kept { path: PathBuf::from("a/b"), run_toml, what }]).unwrap();
        assert!(!text.contains('\u{1b}') && !text.contains('\0'), "{text}");
        Report::deserialize_from_str(&text).unwrap()
    }

    /// The messages of cases that did not pass, by their names.
    fn bad(report: &Report) -> Vec<(String, String)> {
        let cases = report.test_suites.iter().flat_map(|suite| &suite.test_cases);
        let message = |case: &TestCase| match &case.status {
            TestCaseStatus::NonSuccess { message, .. } => {
                let message = message.as_ref().map(|text| text.as_str().to_owned());
                Some((case.name.as_str().to_owned(), message.unwrap_or_default()))
            }
            _ => None,
        };
        cases.filter_map(message).collect()
    }

    #[test]
    fn a_case_fails_for_each_promise_that_was_not_kept() {
        let report = cases(What::Run(Box::new(troubled())), "");
        let bad = bad(&report);
        let names: Vec<&str> = bad.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p95(ttft)<500ms", "at most 5 % of the requests fail"]);
        assert!(bad[0].1.contains("did not end well"), "{bad:?}");
        assert!(bad[1].1.contains("10 of 60 failed"), "{bad:?}");
        let lenient = cases(What::Run(Box::new(troubled())), "max-error-rate = \"50%\"");
        assert_eq!(lenient.failures, 1);
    }

    #[test]
    fn a_client_that_is_at_fault_is_an_error_and_a_doubtful_one_is_told() {
        let mut summary = troubled();
        summary.client.verdict = Health::Invalid;
        assert_eq!(cases(What::Run(Box::new(summary.clone())), "").errors, 1);
        summary.client.verdict = Health::Suspect;
        let report = cases(What::Run(Box::new(summary)), "");
        assert_eq!(report.errors, 0);
        let suite = &report.test_suites[0];
        let case = suite.test_cases.iter().find(|case| case.name.as_str().contains("believed"));
        assert!(case.unwrap().system_out.as_ref().unwrap().as_str().contains("SUSPECT"));
    }

    #[test]
    fn a_sweep_is_whole_or_not_whatever_it_showed() {
        let curve = || What::Sweep(Box::new(super::super::curve::planted::closed()));
        assert!(bad(&cases(curve(), "concurrency = \"1,2,4\"")).is_empty());
        let missing = bad(&cases(curve(), "concurrency = [1, 3, 512]"));
        assert_eq!(missing.len(), 1);
        assert!(missing[0].1.contains("missing: 3, 512"), "{missing:?}");
    }
    #[test]
    fn a_search_fails_without_a_boundary_and_where_the_client_was_the_limit() {
        let mut found = super::super::search::tests::found();
        let search = |found: &SearchReport| What::Search(Box::new(found.clone()));
        assert!(bad(&cases(search(&found), "")).is_empty());
        found.limited_by_client = Some(80.0);
        assert_eq!(cases(search(&found), "").errors, 1);
        (found.boundary.low, found.is_complete) = (None, false);
        assert_eq!(cases(search(&found), "").failures, 2);
    }
}
