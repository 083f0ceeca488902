//! `tokclock compare`: what changed between results, beyond noise.

mod drift;
mod files;
mod foreign;
mod pair;
mod result;
mod side;
mod words;

use tokclock_engine::measure::compare::{Gate, METRICS, Plan, Quantity, Tripped};

use crate::args::CompareArgs;
use crate::exit::{Code, Failure};
use crate::output::{self, Screen};
use crate::report::comparison_page;
use crate::results::ResultDir;
pub(crate) use files::outcome;
use pair::{Asked, pair};
pub(crate) use result::{Comparison, GateReport, Group, Pair};
use result::{SCHEMA, SideReport};
use side::Side;
pub(crate) use words::{change, interval, level_of, number_of, value, verdict};

/// Sides, at most: each has a letter.
const SIDES_MAX: usize = 26;

/// Compares results and gives the exit code.
///
/// # Errors
/// A result that cannot be read, or a gate on what is not there.
pub(crate) fn compare(args: &CompareArgs) -> Result<Code, Failure> {
    if args.sides.len() > SIDES_MAX {
        return Err(Failure::usage(format!("at most {SIDES_MAX} sides can be compared at once")));
    }
    let dir = args.out.as_deref().map(|out| ResultDir::create(Some(out), "")).transpose()?;
    let comparison = made(args);
    if let (Some(dir), Err(_)) = (&dir, &comparison) {
        dir.abandon();
    }
    let comparison = comparison?;
    if let Some(dir) = dir {
        dir.write_json("compare.json", &comparison)?;
        dir.write_page("compare.md", &files::markdown(&comparison))?;
        dir.write_page("compare.xml", &files::junit(&comparison)?)?;
    }
    let screen = Screen { quiet: false, json: false };
    if args.json || args.md {
        let unsure = comparison.gates.iter().filter(|gate| gate.tripped == Tripped::Maybe);
        unsure.for_each(|one| {
            let beyond = outcome(one.tripped);
            output::note(format_args!("note: --fail-on '{}': {beyond}: {}", one.gate, one.seen));
        });
    }
    if args.json {
        output::json(&comparison)?;
    } else if args.md {
        screen.report(&files::markdown(&comparison));
    } else {
        screen.report(&comparison_page(&comparison, screen.width(), screen.colour()));
    }
    Ok(if comparison.tripped { Code::ObjectiveMissed } else { Code::Ok })
}

fn made(args: &CompareArgs) -> Result<Comparison, Failure> {
    let named = ('A'..='Z').zip(&args.sides);
    let sides =
        named.map(|(letter, side)| Side::open(letter, side)).collect::<Result<Vec<_>, _>>()?;
    let metrics = if args.metric.is_empty() { METRICS.to_vec() } else { args.metric.clone() };
    let mut quantities = Quantity::all(&metrics);
    for gate in &args.fail_on {
        if !quantities.contains(&gate.quantity) {
            quantities.push(gate.quantity);
        }
    }
    let names_icl =
        |gate: &Gate| gate.quantity.metric() == Some(tokclock_engine::workload::Metric::Icl);
    let asked = Asked {
        quantities,
        may_drop_icl: args.metric.is_empty() && !args.fail_on.iter().any(names_icl),
        plan: Plan { level: args.level, seed: args.seed },
    };
    let Some((base, others)) = sides.split_first() else {
        return Err(Failure::usage("name two results at least"));
    };
    let pairs =
        others.iter().map(|other| pair(base, other, &asked)).collect::<Result<Vec<_>, _>>()?;
    let gates = gates(&args.fail_on, &pairs)?;
    Ok(Comparison {
        schema: SCHEMA,
        level: args.level,
        seed: args.seed,
        tripped: gates.iter().any(|gate| gate.tripped.is_failure()),
        sides: sides.iter().map(report).collect(),
        pairs,
        gates,
    })
}

/// What every gate says in every pair, at every load.
fn gates(gates: &[Gate], pairs: &[Pair]) -> Result<Vec<GateReport>, Failure> {
    let mut reports = Vec::new();
    for gate in gates {
        for pair in pairs {
            let before = reports.len();
            for group in &pair.groups {
                let found = group.figures.iter().find(|one| one.figure == gate.quantity);
                let judged = found.and_then(|one| Some((one, gate.judge(one)?)));
                let Some((difference, tripped)) = judged else { continue };
                let mut seen = words::phrase(&(None, difference));
                if tripped == Tripped::Estimate {
                    seen += ", so the estimate decides";
                }
                let (gate, other, value) = (gate.clone(), pair.other, group.value);
                reports.push(GateReport { gate, other, value, tripped, seen });
            }
            if reports.len() == before {
                return Err(Failure::could_not_run(format!(
                    "--fail-on '{gate}': A and {} do not both have {}, so it cannot be compared",
                    pair.other, gate.quantity
                )));
            }
        }
    }
    Ok(reports)
}

/// What is told of a side; what is said of several of its runs is said once.
fn report(side: &Side) -> SideReport {
    let mut report = SideReport {
        letter: side.letter,
        kind: side.word(),
        paths: Vec::new(),
        tool: "tokclock".to_owned(),
        definitions: Vec::new(),
        left_out: Vec::new(),
        warnings: Vec::new(),
    };
    let several = side.parts.len() > 1;
    if side.word() != "run" {
        report.paths.push(side.named.clone());
    }
    for part in &side.parts {
        let path = part.path.display().to_string();
        report.tool.clone_from(&part.tool);
        let named = |line: &String| if several { format!("{path}: {line}") } else { line.clone() };
        report.warnings.extend(part.warnings.iter().map(named));
        if side.word() == "run" {
            report.paths.push(path);
        }
        for (all, its) in
            [(&mut report.definitions, &part.definitions), (&mut report.left_out, &part.left_out)]
        {
            for line in its {
                if !all.contains(line) {
                    all.push(line.clone());
                }
            }
        }
    }
    report
}
