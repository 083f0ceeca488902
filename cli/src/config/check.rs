//! All that is wrong with a file of options, each with its line.

use toml::de::{DeTable, DeValue};

use super::content::ClassOptions;
use super::{More, Options, check_class_key, line_of};

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where, from 1; nothing where it is about the whole.
    pub(crate) line: Option<usize>,
    /// What is wrong, in one line.
    pub(crate) text: String,
}

/// A file without mistakes: its options, those of its command, and where its keys stand.
pub(crate) struct Read<T> {
    pub(crate) options: Options,
    pub(crate) more: T,
    pub(crate) places: Places,
}

/// The lines of the keys at the top of a file.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<(String, usize)>);

impl Places {
    /// The line of the first option that a message names as `--option`, if it stands in the file.
    #[must_use]
    pub(crate) fn named_in(&self, message: &str) -> Option<usize> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        message.split("--").skip(1).find_map(|rest| {
            let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            self.0.iter().find(|(key, _)| key == name).map(|(_, line)| *line)
        })
    }
}

/// Reads the text of a file as `--config` does.
///
/// # Errors
/// Every mistake that can be seen in it.
pub(crate) fn check<T: More>(text: &str) -> Result<Read<T>, Vec<Problem>> {
    let broken = |error: &toml::de::Error| {
        let line = Some(line_of(text, error));
        vec![Problem { line, text: said(error.message(), "") }]
    };
    let spanned = DeTable::parse(text).map_err(|error| broken(&error))?;
    let values: toml::Table = toml::from_str(text).map_err(|error| broken(&error))?;
    let line_at = |at: usize| text.as_bytes().iter().take(at).filter(|&&b| b == b'\n').count() + 1;
    let mut places = Places::default();
    let mut problems = Vec::new();
    for (key, value) in spanned.get_ref() {
        let (name, line) = (&**key.get_ref(), line_at(key.span().start));
        places.0.push((name.to_owned(), line));
        let Some(plain) = values.get(name) else { continue };
        if name == "class" {
            classes(plain, value.get_ref(), &line_at, &mut problems);
        } else if let Some(text) = mistake::<T>(name, plain) {
            problems.push(Problem { line: Some(line), text });
        }
    }
    if problems.is_empty() {
        match Options::parse_with::<T>(text) {
            Ok((options, more)) => return Ok(Read { options, more, places }),
            // It is told as `:LINE: what`.
            Err(error) => {
                let (line, text) = error[1..].split_once(": ").unwrap_or(("", &error));
                problems.push(Problem { line: line.parse().ok(), text: text.to_owned() });
            }
        }
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

/// What is wrong with one key and its value.
fn mistake<T: More>(name: &str, value: &toml::Value) -> Option<String> {
    let run = T::augment_args(<Options as clap::Args>::augment_args(clap::Command::new("run")));
    if name != "url" && !run.get_arguments().any(|one| one.get_long() == Some(name)) {
        return Some(format!("unknown key `{name}`; the keys are the names of the options"));
    }
    let table = || toml::Table::from_iter([(name.to_owned(), value.clone())]);
    let options = table().try_into::<Options>().map(|_| ());
    let wrong = options.and_then(|()| table().try_into::<T>().map(|_| ())).err()?;
    Some(said(wrong.message(), name))
}

/// What is wrong with classes.
fn classes(
    values: &toml::Value,
    spanned: &DeValue<'_>,
    line_at: &dyn Fn(usize) -> usize,
    problems: &mut Vec<Problem>,
) {
    let (Some(values), Some(spanned)) = (values.as_array(), spanned.as_array()) else {
        let text = "classes are tables: write each as [[class]]".to_owned();
        problems.push(Problem { line: None, text });
        return;
    };
    for (class, place) in values.iter().zip(spanned.iter()) {
        let (Some(class), Some(keys)) = (class.as_table(), place.get_ref().as_table()) else {
            let text = "a class is a table: write it as [[class]]".to_owned();
            problems.push(Problem { line: Some(line_at(place.span().start)), text });
            continue;
        };
        for (key, _) in keys {
            let name = &**key.get_ref();
            let wrong = check_class_key(name).err().or_else(|| {
                let table = toml::Table::from_iter([(name.to_owned(), class.get(name)?.clone())]);
                table.try_into::<ClassOptions>().err().map(|error| said(error.message(), name))
            });
            if let Some(text) = wrong {
                problems.push(Problem { line: Some(line_at(key.span().start)), text });
            }
        }
    }
}

/// A message of the reader in one line, about a key where there is one. Values that may be secret are
/// not shown.
fn said(message: &str, key: &str) -> String {
    if matches!(key, "header" | "api-key-env" | "api-key-file" | "label") {
        return format!("`{key}`: the value has the wrong type");
    }
    let message = message.replace('\n', " ");
    if key.is_empty() { message } else { format!("`{key}`: {message}") }
}

#[cfg(test)]
mod tests {
    use super::super::{CurveOptions, SearchOptions};
    use super::*;

    fn problems<T: More>(text: &str) -> Vec<(Option<usize>, String)> {
        let problems = check::<T>(text).err().unwrap_or_default();
        problems.into_iter().map(|problem| (problem.line, problem.text)).collect()
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let text = "concurency = 8\n\ndrain = \"soon\"\nseed = -1\nisl = [1]\n\
                    header = \"s3cret\"\n\n[[class]]\nname = \"a\"\nrate = 5\n[[class]]\nosl = 3\nweight = \"x\"\n";
        let found = problems::<CurveOptions>(text);
        let lines: Vec<Option<usize>> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 6, 10, 13].map(Some), "{found:?}");
        let all = format!("{found:?}");
        assert!(all.contains("unknown key `concurency`") && all.contains("such as 30s"), "{all}");
        assert!(!all.contains("s3cret") && all.contains("a class has no `rate`"), "{all}");
        assert!(found.iter().all(|(_, text)| !text.contains('\n')));
    }

    #[test]
    fn a_key_of_another_command_is_unknown() {
        assert_eq!(problems::<CurveOptions>("repeat = 3\n"), []);
        let found = problems::<SearchOptions>("seed = 1\nrepeat = 3\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, Some(2));
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        let found = problems::<CurveOptions>("seed = 1\nrate =\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Some(2));
        assert_eq!(problems::<CurveOptions>("seed = 1\nseed = 2\n")[0].0, Some(2));
    }

    #[test]
    fn a_message_leads_to_the_line_of_its_option() {
        let read = check::<CurveOptions>("seed = 1\n\nisl = \"fast\"\n").ok().unwrap();
        assert_eq!(read.places.named_in("--isl: `fast` is no law"), Some(3));
        assert_eq!(read.places.named_in("--osl and --isl do not go together"), Some(3));
        assert_eq!(read.places.named_in("nothing is named"), None);
    }
}
