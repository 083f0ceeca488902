//! A comparison for other readers: Markdown, JUnit.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use tokclock_engine::measure::compare::Tripped;

use super::result::{Comparison, GateReport, Pair};
use super::words::{change, interval, number_of, value, verdict};
use crate::exit::Failure;

/// The comparison as Markdown.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut out = String::from("# Comparison\n");
    for pair in &comparison.pairs {
        out += &format!("\n**{}**\n", cell(&pair.sentence));
        for group in &pair.groups {
            if let Some(load) = group.value {
                out += &format!("\nAt {}:\n", number_of(load));
            }
            out += &table(pair, &group.figures);
        }
        let drift = pair.workload.iter().chain(&pair.drift);
        let drift: Vec<String> = drift
            .map(|one| {
                format!("- {}: {} -> {}\n", cell(&one.path), json(&one.base), json(&one.other))
            })
            .collect();
        if !drift.is_empty() {
            out += &format!("\nWhat is not the same:\n\n{}", drift.concat());
        }
        let more = pair.not_compared.iter().map(|line| format!("not compared: {line}"));
        let more: Vec<String> =
            more.chain(pair.notes.clone()).map(|line| format!("- {}\n", cell(&line))).collect();
        if !more.is_empty() {
            out += &format!("\n{}", more.concat());
        }
    }
    let gates: Vec<String> = comparison.gates.iter().map(gate).collect();
    if !gates.is_empty() {
        out += &format!(
            "\n| gate | what became of it | seen |\n| --- | --- | --- |\n{}",
            gates.concat()
        );
    }
    out.push('\n');
    for side in &comparison.sides {
        let paths = side.paths.join(", ");
        out += &format!("- {}: {} ({})\n", side.letter, cell(&paths), cell(&side.tool));
        for line in side.warnings.iter().cloned().chain(side.remarks()) {
            out += &format!("  - {}\n", cell(&line));
        }
    }
    out
}

fn table(pair: &Pair, figures: &[tokclock_engine::measure::compare::Difference]) -> String {
    let mut out = format!(
        "\n| figure | {} | {} | change | interval | verdict |\n| --- | --: | --: | --: | --: | --- |\n",
        pair.base, pair.other
    );
    for one in figures {
        let cells = [
            one.figure.to_string(),
            value(one, one.base),
            value(one, one.other),
            change(one),
            interval(one),
            verdict(one),
        ];
        out += &format!("| {} |\n", cells.map(|text| cell(&text)).join(" | "));
    }
    out
}

fn gate(gate: &GateReport) -> String {
    let at = gate.value.map_or_else(String::new, |load| format!(" at {}", number_of(load)));
    format!(
        "| {} for {}{at} | {} | {} |\n",
        cell(&gate.gate.text),
        gate.other,
        outcome(gate.tripped),
        cell(&gate.seen)
    )
}

/// What became of a gate, in words.
pub(crate) fn outcome(tripped: Tripped) -> &'static str {
    match tripped {
        Tripped::Yes => "tripped",
        Tripped::Estimate => "tripped (no interval: the estimate decides)",
        Tripped::Maybe => "beyond, but not surely",
        Tripped::No => "held",
    }
}

/// Text that neither ends a cell nor a line, nor is taken for HTML or formatting.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in crate::report::text::escape(text).chars() {
        match letter {
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            _ => safe.push(letter),
        }
    }
    safe
}

fn json(value: &serde_json::Value) -> String {
    cell(&value.to_string())
}

/// The comparison as JUnit's XML: a case for each gate, else one for each pair that says what it saw.
///
/// # Errors
/// If it cannot be written as XML.
pub(super) fn junit(comparison: &Comparison) -> Result<String, Failure> {
    let mut report = Report::new("tokclock compare");
    let mut suite = TestSuite::new("compare");
    for gate in &comparison.gates {
        let at = gate.value.map_or_else(String::new, |load| format!(" at {}", number_of(load)));
        let mut status = match gate.tripped.is_failure() {
            true => TestCaseStatus::non_success(NonSuccessKind::Failure),
            false => TestCaseStatus::success(),
        };
        if gate.tripped.is_failure() {
            status.set_message(format!("{}: {}", outcome(gate.tripped), gate.seen));
        }
        let mut case = TestCase::new(format!("{} for {}{at}", gate.gate.text, gate.other), status);
        case.set_system_out(format!("{}: {}", outcome(gate.tripped), gate.seen));
        suite.add_test_case(case);
    }
    if comparison.gates.is_empty() {
        for pair in &comparison.pairs {
            let name = format!("A against {}", pair.other);
            let mut case = TestCase::new(name, TestCaseStatus::success());
            case.set_system_out(pair.sentence.as_str());
            suite.add_test_case(case);
        }
    }
    report.add_test_suite(suite);
    report
        .to_string()
        .map_err(|error| Failure::could_not_run(format!("the comparison is no XML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_cell_or_becomes_html() {
        assert_eq!(cell("a|b\n<script>`x`"), "a\\|b\\\\n&lt;script&gt;\\`x\\`");
    }
}
