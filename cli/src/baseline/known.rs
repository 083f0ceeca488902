//! The baseline that a run looks at.

use std::path::Path;

use tokclock_engine::measure::Ceiling;

use super::store;
pub(crate) use super::store::Known;
use crate::exit::Failure;
use crate::host;
use crate::output::Screen;

/// The baseline that was `given` by its file, or the newest of this host; none at all if `none` was
/// given.
///
/// # Errors
/// A usage error if the file that was given cannot be used.
pub(crate) fn choose(
    given: Option<&Path>,
    allowed: &[usize],
    screen: Screen,
) -> Result<Option<Known>, Failure> {
    let host = host::describe_with_key(allowed);
    let host_key = host::key_of(&host);
    match given {
        Some(path) if path == Path::new("none") => Ok(None),
        Some(path) => {
            let known = store::read(path).map_err(|why| {
                Failure::usage(format!(
                    "--baseline {}: {why}; give a baseline.json, or none",
                    path.display()
                ))
            })?;
            if known.host_key != host_key {
                screen.note("the baseline that was given was taken on another host");
            }
            Ok(Some(known))
        }
        None => {
            let found = store::directory().map(|directory| store::newest(&directory, host_key));
            Ok(found
                .transpose()
                .unwrap_or_else(|note| {
                    screen.note(note);
                    None
                })
                .flatten())
        }
    }
}

/// The ceiling of `known`, if it says something about a run on `driver`.
#[must_use]
pub(crate) fn ceiling(known: Option<&Known>, driver: &str, screen: Screen) -> Option<Ceiling> {
    let known = known?;
    if known.driver != driver {
        screen.note(format_args!(
            "the baseline of this host was taken on {} and this run used {driver}: its ceiling is \
             not used",
            known.driver
        ));
        return None;
    }
    Some(known.ceiling)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::exit::Code;

    const SILENT: Screen = Screen { quiet: true, json: false };

    #[test]
    fn a_file_that_was_given_is_used_or_refused_and_none_is_none() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("baseline.json");
        let of = |path: &Path| choose(Some(path), &[0], SILENT);
        let missing = of(&path).unwrap_err();
        assert_eq!(missing.code, Code::Usage);
        assert!(missing.message.contains("baseline.json"), "{missing}");
        std::fs::write(&path, "{\"schema\": \"tokclock.summary/1\"}").unwrap();
        assert!(of(&path).unwrap_err().message.contains("tokclock.summary/1"));
        store::write_whole(&path, &sample("elsewhere")).unwrap();
        let known = of(&path).unwrap();
        assert_eq!(known.map(|known| known.ceiling.reads_per_s), Some(Some(210_000.0)));
        assert_eq!(of(Path::new("none")).unwrap(), None);
    }

    #[test]
    fn a_ceiling_of_another_driver_is_none() {
        let known = Known {
            ceiling: Ceiling::default(),
            driver: "io_uring".into(),
            host_key: String::new(),
        };
        assert!(ceiling(Some(&known), "io_uring", SILENT).is_some());
        assert!(ceiling(Some(&known), "epoll", SILENT).is_none());
        assert!(ceiling(None, "epoll", SILENT).is_none());
    }
}
