//! The commands that start workers.

use std::path::Path;

use crate::args::FleetArgs;
use crate::exit::Failure;

/// A command, as it was given and as it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkerCommand {
    /// As it was given.
    pub(super) text: String,
    /// Program and arguments.
    pub(super) words: Vec<String>,
}

/// The commands that were typed, then those of the file.
///
/// # Errors
/// A usage error that names the one that is none.
pub(super) fn commands(args: &FleetArgs) -> Result<Vec<WorkerCommand>, Failure> {
    let typed = args.worker.iter().map(|text| ("--worker".to_owned(), text.clone()));
    let of_file = args.workers.as_deref().map(of_file).transpose()?.unwrap_or_default();
    let read = |(place, text): (String, String)| {
        let words = shlex::split(&text).filter(|words| !words.is_empty()).ok_or_else(|| {
            Failure::usage(format!(
                "{place} '{text}' is no command: it is split as a shell does it, and a quote does not \
                 end or nothing is in it"
            ))
        })?;
        Ok(WorkerCommand { text, words })
    };
    typed.chain(of_file).map(read).collect()
}

/// The commands of a file, each with its place. Empty lines and those that begin with # are none.
fn of_file(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--workers {shown}: {error}")))?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let kept = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let found: Vec<(String, String)> = kept
        .map(|(number, line)| (format!("--workers {shown}:{number}:"), line.to_owned()))
        .collect();
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "--workers {shown}: there is no command in it: write one a line, such as ssh a tokclock \
             worker"
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(worker: &[&str], workers: Option<&Path>) -> FleetArgs {
        FleetArgs {
            worker: worker.iter().map(|&text| text.to_owned()).collect(),
            workers: workers.map(Path::to_owned),
        }
    }

    #[test]
    fn commands_are_split_as_a_shell_does_it() {
        let typed = ["ssh a tokclock worker", "sh -c 'cd \"/my data\" && exec tokclock worker' x"];
        let read = commands(&args(&typed, None)).unwrap();
        assert_eq!(read[0].words, ["ssh", "a", "tokclock", "worker"]);
        assert_eq!(read[1].words[2], "cd \"/my data\" && exec tokclock worker");
        assert_eq!((read[1].words.len(), read[1].text.as_str()), (4, typed[1]));
        for wrong in ["ssh 'a", "", "   "] {
            let said = commands(&args(&[wrong], None)).unwrap_err();
            assert!(said.code as u8 == 2 && said.message.contains("--worker"), "{said}");
        }
    }

    #[test]
    fn a_file_holds_one_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("workers");
        std::fs::write(&path, "# the rack\n\n ssh b tokclock worker\nssh c 'x\n").unwrap();
        let said = commands(&args(&[], Some(&path))).unwrap_err();
        assert!(said.message.contains("workers:4:"), "{said}");
        std::fs::write(&path, "# the rack\n\n ssh b tokclock worker\n").unwrap();
        let read = commands(&args(&["ssh a tokclock worker"], Some(&path))).unwrap();
        assert_eq!(read.iter().map(|one| one.words[1].as_str()).collect::<Vec<_>>(), ["a", "b"]);
        std::fs::write(&path, "#\n").unwrap();
        assert!(commands(&args(&[], Some(&path))).is_err());
        assert!(commands(&args(&[], Some(dir.path()))).is_err());
    }
}
