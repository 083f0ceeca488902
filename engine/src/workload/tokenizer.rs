//! Which tokenizer makes the prompts and counts: one of ours, a file, one of the hub, or the
//! server's own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::UnknownName;

/// A tokenizer that needs no network and no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Embedded {
    /// `o200k_base`.
    O200kBase,
    /// `cl100k_base`.
    Cl100kBase,
    /// `qwen2`.
    Qwen2,
}

/// Where a tokenizer comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// One that this program holds.
    Embedded(Embedded),
    /// A `tokenizer.json`.
    File(PathBuf),
    /// The `tokenizer.json` of a model on the Hugging Face hub.
    Hub {
        /// `owner/name`.
        repo: String,
        /// Branch, tag or commit; `main` where none is named.
        revision: Option<String>,
    },
    /// The server's own, asked over HTTP.
    Server,
}

impl Tokenizer {
    /// The embedded `o200k_base`, which is the default.
    pub const O200K: Self = Self::Embedded(Embedded::O200kBase);
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(embedded) => embedded.fmt(formatter),
            Self::File(path) => path.display().fmt(formatter),
            Self::Hub { repo, revision: None } => formatter.pad(repo),
            Self::Hub { repo, revision: Some(revision) } => {
                formatter.pad(&format!("{repo}@{revision}"))
            }
            Self::Server => formatter.pad(SERVER),
        }
    }
}

impl FromStr for Tokenizer {
    type Err = UnknownName;

    /// Looks whether a file or folder of that name exists.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let text = text.trim();
        if let Ok(embedded) = text.parse() {
            return Ok(Self::Embedded(embedded));
        }
        if text == SERVER {
            return Ok(Self::Server);
        }
        let found = file(Path::new(text)).map(Self::File).or_else(|| hub(text));
        found.ok_or_else(|| UnknownName {
            what: "tokenizer",
            name: text.to_owned(),
            choices: format!(
                "{}, {SERVER} (its own), a tokenizer.json or the folder of one, or \
                 OWNER/NAME[@REVISION] of the Hugging Face hub",
                Embedded::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
            ),
        })
    }
}

const SERVER: &str = "server";

/// The file that `path` means, if it can mean one.
fn file(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.join("tokenizer.json"));
    }
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    (is_json || path.exists()).then(|| path.to_owned())
}

fn hub(text: &str) -> Option<Tokenizer> {
    let (repo, revision) = match text.split_once('@') {
        Some((repo, revision)) => (repo, Some(revision)),
        None => (text, None),
    };
    let fits = is_repo(repo) && revision.is_none_or(is_revision);
    fits.then(|| Tokenizer::Hub { repo: repo.to_owned(), revision: revision.map(str::to_owned) })
}

/// Whether `text` has the form `owner/name` of the hub's repositories.
pub(crate) fn is_repo(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| is_word(owner) && is_word(name))
}

/// Whether `text` can name a branch, tag or commit, and nothing outside its folder in the cache.
pub(crate) fn is_revision(text: &str) -> bool {
    text.split('/').all(is_word)
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.bytes().next().is_some_and(|first| first != b'.') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tokenizer {
        text.parse().unwrap()
    }

    #[test]
    fn every_kind_is_read_and_written_back() {
        let repo = "Qwen/Qwen2.5-7B".to_owned();
        for (text, tokenizer) in [
            ("o200k_base", Tokenizer::O200K),
            ("qwen2", Tokenizer::Embedded(Embedded::Qwen2)),
            ("server", Tokenizer::Server),
            ("models/mine.json", Tokenizer::File("models/mine.json".into())),
            ("Qwen/Qwen2.5-7B", Tokenizer::Hub { repo: repo.clone(), revision: None }),
            (
                "Qwen/Qwen2.5-7B@refs/pr/3",
                Tokenizer::Hub { repo, revision: Some("refs/pr/3".into()) },
            ),
        ] {
            assert_eq!(read(text), tokenizer);
            assert_eq!(tokenizer.to_string(), text);
        }
    }

    #[test]
    fn a_folder_means_the_file_in_it_and_a_file_may_have_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("tokenizer.json");
        assert_eq!(read(folder.path().to_str().unwrap()), Tokenizer::File(inside));
        let odd = folder.path().join("tokens.bin");
        std::fs::write(&odd, "{}").unwrap();
        assert_eq!(read(odd.to_str().unwrap()), Tokenizer::File(odd));
    }

    #[test]
    fn anything_else_is_answered_with_what_works() {
        for text in ["gpt2", "", "a/b/c", "/no/such/folder", "../x", "a/b@", "a/b@../c", "a /b"] {
            let error = text.parse::<Tokenizer>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("tokenizer `{text}`: ")), "{error}");
            for works in ["o200k_base, cl100k_base, qwen2", "server", "tokenizer.json", "OWNER/"] {
                assert!(error.contains(works), "{error}");
            }
            assert!(!error.contains('\n'));
        }
    }
}
