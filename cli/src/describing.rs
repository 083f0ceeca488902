//! What describes the tool itself, from the same definitions that read its command line: the schema of
//! files of options, completions of shells, manual pages.

use std::fs;
use std::path::Path;

use clap_mangen::Man;

use crate::args::{self, CompletionsArgs, LoadCommand, ManArgs, SchemaArgs};
use crate::config;
use crate::exit::{Code, Failure};
use crate::output;

/// The name of the tool.
const NAME: &str = "tokclock";

/// Prints the schema of files of options.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn schema(args: &SchemaArgs) -> Result<Code, Failure> {
    let is_for = |command| args.command.is_none_or(|asked| asked == command);
    let schema = config::schema(is_for(LoadCommand::Sweep), is_for(LoadCommand::Search))?;
    output::json(&schema)?;
    Ok(Code::Ok)
}

/// Prints what makes a shell complete.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), NAME, &mut script);
    output::result(String::from_utf8_lossy(&script).trim_end());
    Ok(Code::Ok)
}

/// Prints the main manual page, or writes one for each command.
///
/// # Errors
/// If they cannot be made or written.
pub(crate) fn man(args: &ManArgs) -> Result<Code, Failure> {
    let Some(dir) = &args.out else {
        output::result(String::from_utf8_lossy(&page(args::command())?).trim_end());
        return Ok(Code::Ok);
    };
    fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
    let mut whole = args::command();
    // So that each page knows the whole name of its command.
    whole.build();
    let written = write_pages(&whole, NAME, dir)?;
    output::note(format_args!("{written} pages in {}", dir.display()));
    Ok(Code::Ok)
}

/// Writes the page of a command and those of the commands below it; how many.
fn write_pages(command: &clap::Command, name: &str, dir: &Path) -> Result<usize, Failure> {
    let path = dir.join(format!("{name}.1"));
    let named = command.clone().display_name(name.to_owned());
    fs::write(&path, page(named)?).map_err(|error| cannot(&path, &error))?;
    let below = command.get_subcommands().filter(|one| one.get_name() != "help");
    below
        .map(|one| write_pages(one, &format!("{name}-{}", one.get_name()), dir))
        .sum::<Result<usize, Failure>>()
        .map(|more| more + 1)
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::could_not_run(format!("the manual page: {error}")))?;
    Ok(page)
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::could_not_run(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs { out: Some(dir.path().join("man1")) }).unwrap();
        for name in ["tokclock", "tokclock-run", "tokclock-config-check", "tokclock-data-preview"] {
            let page = fs::read_to_string(dir.path().join(format!("man1/{name}.1"))).unwrap();
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
        }
        let run = fs::read_to_string(dir.path().join("man1/tokclock-run.1")).unwrap();
        assert!(run.contains("max\\-in\\-flight") && run.contains("Examples"), "{run}");
    }
}
