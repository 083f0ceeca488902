//! Where the baselines of this user lie, one for each host, and which one a run uses.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokclock_engine::measure::Ceiling;

use super::result::{Baseline, Build, SCHEMA};

/// What a run needs to know of a baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// What one reactor sustains.
    pub(crate) ceiling: Ceiling,
    /// The driver that it was taken on.
    pub(crate) driver: String,
    /// The key of its host.
    pub(crate) host_key: String,
}

/// A baseline that cannot be used: which, why, what to do.
pub(crate) type Note = String;

/// The fields that matter here.
#[derive(Deserialize)]
struct Stored {
    complete: bool,
    host: Host,
    tokclock: Build,
    taken_realtime_ns: u64,
    driver: String,
    ceiling: Figures,
}

#[derive(Deserialize)]
struct Host {
    key: String,
}

#[derive(Deserialize)]
struct Figures {
    reads_per_s: Option<f64>,
    chunks_per_s: Option<f64>,
    requests_per_s: Option<f64>,
}

/// The user's directory of baselines; `None` without a home. As the XDG base directories say, a
/// relative path in the variable does not count.
#[must_use]
pub(crate) fn directory() -> Option<PathBuf> {
    directory_of(std::env::var_os("XDG_STATE_HOME").as_deref(), std::env::var_os("HOME").as_deref())
}

fn directory_of(state: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |path: Option<&OsStr>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(state)
        .or_else(|| absolute(home).map(|home| home.join(".local/state")))
        .map(|state| state.join("tokclock/baseline"))
}

/// The newest baseline of the host with this key in `directory`, if there is one. A file that cannot
/// be used counts as none, and the note says why.
///
/// # Errors
/// The note.
pub(crate) fn newest(directory: &Path, host_key: &str) -> Result<Option<Known>, Note> {
    let path = file(directory, host_key);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let known = parse(&text).map_err(|why| unusable(&path, &why))?;
            if known.host_key == host_key {
                Ok(Some(known))
            } else {
                Err(unusable(&path, "it was taken on another host"))
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(&path, &error.to_string())),
    }
}

/// The baseline in a file that the user named.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn read(path: &Path) -> Result<Known, String> {
    parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

fn unusable(path: &Path, why: &str) -> Note {
    format!(
        "the baseline {} counts as none: {why}; take it anew with `tokclock baseline`",
        path.display()
    )
}

fn parse(text: &str) -> Result<Known, String> {
    /// Only this, for a form that may be another one altogether.
    #[derive(Deserialize)]
    struct Form {
        schema: String,
    }
    let form: Form = serde_json::from_str(text).map_err(|_| "it is no baseline".to_owned())?;
    if form.schema != SCHEMA {
        return Err(format!("its schema is `{}` and not `{SCHEMA}`", form.schema));
    }
    let stored: Stored =
        serde_json::from_str(text).map_err(|error| format!("it is damaged ({error})"))?;
    let this = Build::this();
    if !stored.complete {
        return Err("it was interrupted".to_owned());
    }
    if stored.tokclock.profile != this.profile {
        return Err(format!(
            "a {} build took it, and this is a {} build",
            stored.tokclock.profile, this.profile
        ));
    }
    let positive = |figure: Option<f64>| figure.filter(|figure| *figure > 0.0);
    Ok(Known {
        ceiling: Ceiling {
            reads_per_s: positive(stored.ceiling.reads_per_s),
            chunks_per_s: positive(stored.ceiling.chunks_per_s),
            requests_per_s: positive(stored.ceiling.requests_per_s),
            taken_realtime_ns: stored.taken_realtime_ns,
        },
        driver: stored.driver,
        host_key: stored.host.key,
    })
}

/// Saves `baseline` as that of the host with this key, in place of an earlier one. Whoever reads
/// meanwhile sees the earlier one or this one, whole.
///
/// # Errors
/// If it cannot be written; an earlier one is then still there.
pub(crate) fn save(directory: &Path, host_key: &str, baseline: &Baseline) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let path = file(directory, host_key);
    write_whole(&path, baseline)?;
    Ok(path)
}

/// Writes `baseline` to `path` by way of another file beside it.
///
/// # Errors
/// If it cannot be written; what was at `path` is then still there.
pub(crate) fn write_whole(path: &Path, baseline: &Baseline) -> io::Result<()> {
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    let write = || {
        let mut out = io::BufWriter::new(File::create(&beside)?);
        serde_json::to_writer_pretty(&mut out, baseline)?;
        out.write_all(b"\n")?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        // Whatever came of it is of no use; the error that counts is the first.
        let _ = fs::remove_file(&beside);
    })
}

fn file(directory: &Path, host_key: &str) -> PathBuf {
    directory.join(format!("{host_key}.json"))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
