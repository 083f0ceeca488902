//! Files of the Hugging Face hub: from its cache on this disk, else fetched into it.
//!
//! `HF_HOME` (the cache), `HF_ENDPOINT` and `HF_TOKEN` mean what they mean to the hub's own
//! tools.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::RepoInfo;
use hf_hub::api::sync::{Api, ApiBuilder};
use hf_hub::{Cache, Repo, RepoType};

use crate::workload::tokenizer::{is_repo, is_revision};

/// The `tokenizer.json` of the model `repo`, at `revision` (`main` if none).
///
/// # Errors
///
/// It is not in the cache and cannot be fetched.
pub fn tokenizer_file(repo: &str, revision: Option<&str>) -> Result<PathBuf, HubError> {
    let place = Place::new(RepoType::Model, repo, revision)?;
    Hub::from_env()?.file(&place, TOKENIZER)
}

/// A file of the data set `repo`, at `revision` (`main` if none): the one named, else the only
/// one with rows.
///
/// # Errors
///
/// It is not in the cache and cannot be fetched, or the data set has several files and none is
/// named.
pub fn dataset_file(
    repo: &str,
    file: Option<&str>,
    revision: Option<&str>,
) -> Result<PathBuf, HubError> {
    let place = Place::new(RepoType::Dataset, repo, revision)?;
    let hub = Hub::from_env()?;
    match file {
        Some(file) => hub.file(&place, file),
        None => hub.only_file(&place),
    }
}

const TOKENIZER: &str = "tokenizer.json";
const ENDPOINT: &str = "https://huggingface.co";
/// Endings of files with rows.
const ROWS: [&str; 4] = ["jsonl", "json", "csv", "parquet"];
/// How long the hub may take to answer at all.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(8);
const RETRIES: usize = 2;
/// Most file names in an error.
const NAMES_MAX: usize = 8;
/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 4;

/// A repository at a revision.
struct Place {
    kind: RepoType,
    repo: String,
    revision: String,
}

impl Place {
    fn new(kind: RepoType, repo: &str, revision: Option<&str>) -> Result<Self, HubError> {
        let revision = revision.unwrap_or("main");
        if !is_repo(repo) || !is_revision(revision) {
            return Err(HubError::Name { name: format!("{repo}@{revision}") });
        }
        Ok(Self { kind, repo: repo.to_owned(), revision: revision.to_owned() })
    }

    fn repo(&self) -> Repo {
        Repo::with_revision(self.repo.clone(), self.kind, self.revision.clone())
    }

    /// What works without the hub.
    const fn offline(&self) -> &'static str {
        match self.kind {
            RepoType::Model => {
                "o200k_base, cl100k_base, qwen2, the path of a tokenizer.json, or `server`"
            }
            _ => "the path of a file with the data, or what was fetched before",
        }
    }
}

/// The hub and its cache.
struct Hub {
    cache: Cache,
    endpoint: String,
    token: Option<String>,
}

impl Hub {
    fn from_env() -> Result<Self, HubError> {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        if set("HF_HOME").is_none() && env::home_dir().is_none() {
            return Err(HubError::NoHome);
        }
        let cache = set("HF_HOME")
            .map_or_else(Cache::default, |home| Cache::new(Path::new(&home).join("hub")));
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let token = set("HF_TOKEN").or_else(|| cache.token());
        Ok(Self { cache, endpoint: endpoint.trim_end_matches('/').to_owned(), token })
    }

    fn file(&self, place: &Place, file: &str) -> Result<PathBuf, HubError> {
        if file.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(HubError::Name { name: format!("{}/{file}", place.repo) });
        }
        if let Some(path) = self.cached(place, file) {
            return Ok(path);
        }
        let info = self.info(place, file)?;
        if !info.siblings.iter().any(|sibling| sibling.rfilename == file) {
            let names = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
            return Err(HubError::NoFile {
                repo: place.repo.clone(),
                file: file.to_owned(),
                names: listed(names),
            });
        }
        self.download(place, file)
    }

    fn only_file(&self, place: &Place) -> Result<PathBuf, HubError> {
        match self.info(place, "the data") {
            Ok(info) => {
                let names = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
                self.file(place, &only(place, names)?)
            }
            // What was fetched before works without the hub too.
            Err(error @ HubError::Unreachable { .. }) => {
                let folder = self.snapshot(place).ok_or_else(|| error.clone())?;
                let mut names = Vec::new();
                list(&folder, "", DEPTH_MAX, &mut names);
                only(place, names).map(|name| folder.join(name)).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    fn cached(&self, place: &Place, file: &str) -> Option<PathBuf> {
        let path = self.snapshot(place)?.join(file);
        path.exists().then_some(path)
    }

    /// The folder of the cache that holds the files of `place`. A revision is a name whose
    /// commit is written in a file, or a commit itself.
    fn snapshot(&self, place: &Place) -> Option<PathBuf> {
        let root = self.cache.path().join(place.repo().folder_name());
        let named = fs::read_to_string(root.join("refs").join(&place.revision)).ok();
        let commit = named.unwrap_or_else(|| place.revision.clone());
        let folder = root.join("snapshots").join(commit.trim());
        folder.is_dir().then_some(folder)
    }

    fn api(&self) -> Result<Api, HubError> {
        let builder = ApiBuilder::from_cache(self.cache.clone())
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .with_retries(RETRIES)
            .with_progress(false);
        builder.build().map_err(|error| HubError::Setup { reason: one_line(&error.to_string()) })
    }

    /// What the repository holds. Goes before every download: the library waits without end for
    /// a host that is silent, but lets this one request have limits.
    fn info(&self, place: &Place, wanted: &str) -> Result<RepoInfo, HubError> {
        let unreachable = |reason: String| HubError::Unreachable {
            what: format!("{wanted} of {}", place.repo),
            endpoint: self.endpoint.clone(),
            reason: one_line(&reason),
            offline: place.offline(),
        };
        let request = self.api()?.repo(place.repo()).info_request();
        let limited = request
            .config()
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_global(Some(ANSWER_TIME_MAX))
            .http_status_as_error(false)
            .build();
        let mut answer = limited.call().map_err(|error| unreachable(error.to_string()))?;
        let status = answer.status().as_u16();
        match status {
            200..=299 => {
                let info = answer.body_mut().read_json();
                info.map_err(|error| unreachable(format!("it answered oddly: {error}")))
            }
            401 | 403 | 404 => Err(HubError::Refused {
                repo: place.repo.clone(),
                revision: place.revision.clone(),
                status,
            }),
            _ => Err(unreachable(format!("it answered with status {status}"))),
        }
    }

    fn download(&self, place: &Place, file: &str) -> Result<PathBuf, HubError> {
        let fetched = self.api()?.repo(place.repo()).download(file);
        fetched.map_err(|error| HubError::Download {
            what: format!("{file} of {}", place.repo),
            endpoint: self.endpoint.clone(),
            reason: one_line(&error.to_string()),
        })
    }
}

/// The only name of a file with rows.
fn only(place: &Place, mut names: Vec<String>) -> Result<String, HubError> {
    names.retain(|name| {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ROWS.contains(&ending))
    });
    names.sort();
    match names.len() {
        1 => Ok(names.remove(0)),
        0 => Err(HubError::NoRows { repo: place.repo.clone() }),
        _ => Err(HubError::Several { repo: place.repo.clone(), names: listed(names) }),
    }
}

/// Adds the files under `folder` to `names`, each with the path from the first folder.
fn list(folder: &Path, before: &str, depth: usize, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (path, name) = (entry.path(), format!("{before}{name}"));
        if !path.is_dir() {
            names.push(name);
        } else if depth > 0 {
            list(&path, &format!("{name}/"), depth - 1, names);
        }
    }
}

fn listed(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names.into_iter().take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A file of the hub that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// No name of a repository, a revision or a file.
    #[error("hub `{name}`: a repository is named OWNER/NAME[@REVISION], in letters, digits, . _ -")]
    Name {
        /// What was given.
        name: String,
    },
    /// No place for the cache.
    #[error("hub: there is no home directory for its cache; set HF_HOME to a folder")]
    NoHome,
    /// The client could not be made.
    #[error("hub: its client cannot be set up: {reason}")]
    Setup {
        /// What the library said.
        reason: String,
    },
    /// No network, or no hub there.
    #[error(
        "{what} is not in the cache, and {endpoint} cannot be reached ({reason}); what works \
         without it: {offline}"
    )]
    Unreachable {
        /// What was wanted.
        what: String,
        /// Where it was looked for.
        endpoint: String,
        /// What the library said.
        reason: String,
        /// What works without the hub.
        offline: &'static str,
    },
    /// The hub does not show the repository.
    #[error(
        "hub {repo}@{revision}: status {status}: there is no such repository or revision, or it \
         needs a token: check the name, or set HF_TOKEN"
    )]
    Refused {
        /// The repository.
        repo: String,
        /// Its revision.
        revision: String,
        /// The HTTP status.
        status: u16,
    },
    /// The repository lacks the file.
    #[error("hub {repo}: it has no {file}; it has {names}")]
    NoFile {
        /// The repository.
        repo: String,
        /// What was wanted.
        file: String,
        /// What there is.
        names: String,
    },
    /// No file with rows.
    #[error("hub {repo}: it has no .jsonl, .json, .csv or .parquet file")]
    NoRows {
        /// The repository.
        repo: String,
    },
    /// Several files with rows.
    #[error("hub {repo}: it has several files, name one of them: {names}")]
    Several {
        /// The repository.
        repo: String,
        /// What there is.
        names: String,
    },
    /// The file was not fetched whole.
    #[error("{what} cannot be fetched from {endpoint}: {reason}")]
    Download {
        /// What was wanted.
        what: String,
        /// From where.
        endpoint: String,
        /// What the library said.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
