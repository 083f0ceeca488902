//! The help of the tool as a whole: its commands by what they are for.

use clap::CommandFactory;

use super::Cli;

/// Commands by what they are for, in the order in which they are shown.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "sweep", "search", "trace"]),
    ("Look again", &["merge", "report", "compare"]),
    ("This host", &["doctor", "baseline"]),
    ("Many hosts", &["worker"]),
    ("Around it", &["data", "sim", "config", "completions", "man"]),
];

const EXAMPLES: &str = "\
Examples:
  tokclock run                                     a first run, no server needed
  tokclock run http://127.0.0.1:8000 -c 32 -n 500  32 users, 500 requests
  tokclock sweep http://127.0.0.1:8000 --slo 'p95(ttft)<500ms'
                                                   more and more load, to past the knee
  tokclock run --help                              all options, by group

Exit codes, the first that applies: 130 interrupted (results are written), 1 could not run,
2 usage, 4 result invalid, 5 too many failures or no success, 3 an objective missed, 0.";

/// Columns of the names of commands.
const NAMES: usize = 12;

/// The definition of the whole command line.
#[must_use]
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        commands(&command)
    );
    command.help_template(template).after_help(EXAMPLES)
}

/// The list of commands, group by group; what is in no group comes last.
fn commands(command: &clap::Command) -> String {
    let line = |one: &clap::Command| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:NAMES$}{about}\n", one.get_name())
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let own = names.iter().filter_map(|name| command.find_subcommand(name));
        text.push_str(&format!("{title}:\n{}\n", own.map(line).collect::<String>()));
    }
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others = command.get_subcommands().filter(|one| !is_grouped(one.get_name()));
    let others: String = others.map(line).collect();
    if !others.is_empty() {
        text.push_str(&format!("Others:\n{others}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that can be carried out, with the names before them.
    fn leaves(command: &clap::Command, before: &str, into: &mut Vec<(String, clap::Command)>) {
        for one in command.get_subcommands() {
            let name = format!("{before} {}", one.get_name());
            into.push((name.clone(), one.clone()));
            leaves(one, &name, into);
        }
    }

    #[test]
    fn the_help_lists_every_command_in_one_group() {
        let help = command().render_help().to_string();
        for one in Cli::command().get_subcommands() {
            let lines = help.lines().filter(|line| {
                line.starts_with("  ") && line.split_whitespace().next() == Some(one.get_name())
            });
            assert_eq!(lines.count(), 1, "{} in {help}", one.get_name());
        }
        assert!(!help.contains("Others:"), "{help}");
        for (title, names) in GROUPS {
            assert!(help.contains(&format!("{title}:\n")), "{help}");
            assert!(names.iter().all(|name| Cli::command().find_subcommand(name).is_some()));
        }
        assert!(help.contains("Exit codes") && help.contains("--version"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }

    #[test]
    fn every_command_shows_examples() {
        let mut all = Vec::new();
        leaves(&Cli::command(), "tokclock", &mut all);
        for (name, one) in all {
            let after = one.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:"), "{name}");
        }
    }

    #[test]
    fn every_option_of_a_load_is_in_a_group() {
        for name in ["run", "sweep", "search", "trace"] {
            let command = Cli::command();
            let load = command.find_subcommand(name).unwrap();
            for option in load.get_arguments().filter(|one| one.get_long().is_some()) {
                assert!(option.get_help_heading().is_some(), "{name} {}", option.get_id());
                assert!(option.get_help().is_some(), "{name} {}", option.get_id());
            }
        }
    }
}
