//! `tokclock config check`: what a file of options means, or all that is wrong with it.

use std::cell::Cell;

use tokclock_engine::measure::WorkloadReport;
use tokclock_engine::run::{Way, locate};
use tokclock_engine::workload::{Source, Tokenizer};

use crate::args::{ConfigCheckArgs, LoadCommand};
use crate::config::{self, CurveOptions, Options, Problem, SearchOptions};
use crate::exit::{Code, Failure};
use crate::resolve::Draft;
use crate::resolve::gather::{self, Gathered, Needed};
use crate::{curve, output, report};

/// Checks a file and gives the exit code. `allowed` are the CPUs that this process may use.
///
/// # Errors
/// A usage error if the file cannot be read or has mistakes, which go to stdout.
pub(crate) fn check(args: &ConfigCheckArgs, allowed: &[usize]) -> Result<Code, Failure> {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let command = args.command.unwrap_or_else(|| command_of(&text));
    match meaning(&text, command, allowed) {
        Ok(meaning) => {
            output::result(format_args!("{shown}: good, for {}", meaning.words.join("\n  ")));
            meaning.notes.iter().for_each(output::note);
            Ok(Code::Ok)
        }
        Err(problems) => {
            for Problem { line, text } in &problems {
                let line = line.map_or_else(String::new, |line| format!(":{line}"));
                output::result(format_args!("{shown}{line}: {text}"));
            }
            let count = match problems.len() {
                1 => "1 problem".to_owned(),
                count => format!("{count} problems"),
            };
            Err(Failure::usage(format!("{shown}: {count}")))
        }
    }
}

/// What a good file means.
struct Meaning {
    /// The command, the load and its content, the objectives.
    words: Vec<String>,
    /// Remarks of the run that it would be.
    notes: Vec<String>,
}

/// The command that a saved file names in its first line; `run` where none is named.
fn command_of(text: &str) -> LoadCommand {
    let first = text.lines().next().unwrap_or_default();
    let names = |command: &str| first.starts_with('#') && first.contains(command);
    if names("tokclock sweep ") {
        LoadCommand::Sweep
    } else if names("tokclock search ") {
        LoadCommand::Search
    } else {
        LoadCommand::Run
    }
}

fn meaning(text: &str, command: LoadCommand, allowed: &[usize]) -> Result<Meaning, Vec<Problem>> {
    match command {
        LoadCommand::Run => {
            let read = config::check::<config::Nothing>(text)?;
            planned("tokclock run", read, |options, _, gather| {
                Draft::new(options, allowed, gather).map(|draft| (String::new(), draft))
            })
        }
        LoadCommand::Sweep => {
            let read = config::check::<CurveOptions>(text)?;
            planned("tokclock sweep", read, |options, more, gather| {
                curve::planned_sweep(options, more, allowed, gather)
            })
        }
        LoadCommand::Search => {
            let read = config::check::<SearchOptions>(text)?;
            planned("tokclock search", read, |options, more, gather| {
                curve::planned_search(options, more, allowed, gather)
            })
        }
    }
}

/// How what a workload needs is read.
type Gather<'a> = &'a dyn Fn(&Needed<'_>) -> Result<Gathered, Failure>;

/// Thinks a load through without any server. `plan` gives its loads in words, where it is several, and
/// its draft.
fn planned<T>(
    command: &str,
    read: config::Read<T>,
    plan: impl FnOnce(Options, &T, Gather<'_>) -> Result<(String, Draft), Failure>,
) -> Result<Meaning, Vec<Problem>> {
    let config::Read { options, more, places } = read;
    let objectives = objectives(&options);
    let is_out_of_reach = Cell::new(false);
    let gather = |needed: &Needed<'_>| {
        if needs_others(needed) {
            is_out_of_reach.set(true);
            return Err(Failure::usage("out of reach"));
        }
        gather::gather(needed, None, None)
    };
    match plan(options, &more, &gather) {
        _ if is_out_of_reach.get() => Ok(Meaning {
            words: vec![command.to_owned()],
            notes: vec![
                "what it sends comes from standard input, the hub or the server, and is not looked at \
                 here: the load was not thought through"
                    .to_owned(),
            ],
        }),
        Ok((loads, draft)) => {
            let asked = asked(&draft);
            let load = match (loads.as_str(), &asked) {
                ("", Some(asked)) => report::asked(asked),
                (loads, Some(asked)) => format!("{loads}; {}", report::asked_content(asked)),
                (loads, None) => loads.to_owned(),
            };
            let words = [vec![command.to_owned(), load], objectives].concat();
            Ok(Meaning { words, notes: draft.notes })
        }
        Err(failure) => {
            let line = places.named_in(&failure.message);
            Err(vec![Problem { line, text: failure.message }])
        }
    }
}

/// Whether something is read that is not in files of this host.
fn needs_others(needed: &Needed<'_>) -> bool {
    let is_remote = |source: &Source| matches!(source, Source::Stdin | Source::Hub { .. });
    let mut data = needed.mix().iter().filter_map(|class| class.content.data.as_ref());
    matches!(needed.text().tokenizer, Tokenizer::Server | Tokenizer::Hub { .. })
        || data.any(|data| is_remote(&data.source))
}

/// What is sent and when, as a result would say it.
fn asked(draft: &Draft) -> Option<WorkloadReport> {
    // Any address will do: nothing goes there.
    let nowhere = locate("http://127.0.0.1:9", draft.api.dialect, &Way::default()).ok()?;
    Some(WorkloadReport::new(&draft.workload(&[nowhere], "model"), 0))
}

/// The objectives in words.
fn objectives(options: &Options) -> Vec<String> {
    let mut rules = options.slo.clone();
    rules.extend(options.goodput.iter().map(|limits| format!("goodput {limits}")));
    if rules.is_empty() { Vec::new() } else { vec![format!("objectives {}", rules.join(", "))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, command: LoadCommand) -> Result<Meaning, Vec<Problem>> {
        meaning(text, command, &[0, 1])
    }

    #[test]
    fn a_good_file_is_told_in_words() {
        let good =
            check("rate = 5\nduration = \"10s\"\nslo = [\"p95(ttft)<1s\"]\n", LoadCommand::Run);
        let words = good.ok().unwrap().words.join("|");
        assert!(words.starts_with("tokclock run|") && words.contains("5"), "{words}");
        assert!(words.ends_with("|objectives p95(ttft)<1s"), "{words}");
        let good = check("concurrency = \"1..8\"\nrepeat = 2\n", LoadCommand::Sweep).ok().unwrap();
        let words = good.words.join("|");
        assert!(words.contains("a sweep over 1..8 users (4 loads), each 2 times; "), "{words}");
        let good = check("slo = [\"p95(ttft)<1s\"]\n", LoadCommand::Search).ok().unwrap();
        assert!(good.words[1].starts_with("a search over requests/s, chosen"), "{:?}", good.words);
    }

    #[test]
    fn what_contradicts_itself_is_told_with_the_line_of_an_option() {
        let wrong = |text, command| check(text, command).err().unwrap().remove(0);
        let problem = wrong("seed = 1\nrate = 5\nconcurrency = 3\n", LoadCommand::Run);
        assert_eq!(problem.line, Some(2), "{problem:?}");
        assert!(problem.text.contains("exclude each other"));
        let problem = wrong("repeat = 0\n", LoadCommand::Sweep);
        assert_eq!((problem.line, problem.text.contains("--repeat")), (Some(1), true));
        let problem = wrong("seed = 1\n", LoadCommand::Search);
        assert_eq!((problem.line, problem.text.contains("objective")), (None, true));
    }

    #[test]
    fn what_lies_elsewhere_is_not_fetched() {
        let good = check("tokenizer = \"server\"\n", LoadCommand::Run).ok().unwrap();
        assert!(good.notes[0].contains("not looked at"), "{:?}", good.notes);
        let good = check("data = \"hf:a/b\"\n", LoadCommand::Run).ok().unwrap();
        assert!(good.notes[0].contains("not looked at"));
    }

    #[test]
    fn a_saved_file_names_its_command() {
        let first = "# Reproduces this: tokclock search --config run.toml\nseed = 1\n";
        assert_eq!(command_of(first), LoadCommand::Search);
        assert_eq!(command_of("seed = 1\n"), LoadCommand::Run);
    }
}
