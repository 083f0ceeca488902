//! What workers have left, fetched from all of them at once.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tokclock_engine::shard::SHARD_FILE;
use tokclock_engine::shard::message::{Reply, Request};

use super::link::{Link, Said};
use crate::worker::Receiving;

/// How long the next piece may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fetches the result of each worker into `below/NUMBER`; gives where it lies, or why there is none.
pub(super) fn all(links: &mut [Link], below: &Path) -> Vec<Result<PathBuf, String>> {
    thread::scope(|scope| {
        let fetching: Vec<_> = links
            .iter_mut()
            .map(|link| {
                let dir = below.join(link.number.to_string());
                scope.spawn(move || fetch(link, &dir).map(|()| dir))
            })
            .collect();
        let lost = || Err("the thread that fetched it has ended".to_owned());
        fetching.into_iter().map(|one| one.join().unwrap_or_else(|_| lost())).collect()
    })
}

fn fetch(link: &mut Link, dir: &Path) -> Result<(), String> {
    if link.is_gone {
        return Err("it has ended".to_owned());
    }
    let mut receiving = Receiving::begin(dir).map_err(|error| unwritten(dir, &error))?;
    link.ask(&Request::Fetch);
    loop {
        match link.hear(PATIENCE) {
            Some(Said::Reply(Reply::File { name, data, last })) => {
                receiving.take(&name, &data, last).map_err(|error| unwritten(dir, &error))?;
            }
            Some(Said::Reply(Reply::Fetched)) => break,
            Some(Said::Reply(Reply::Error { message })) => return Err(message),
            Some(Said::Reply(_)) => {}
            Some(Said::Gone) => return Err("it has ended meanwhile".to_owned()),
            None => {
                link.give_up();
                return Err(format!("nothing came for {} s", PATIENCE.as_secs()));
            }
        }
    }
    match dir.join(SHARD_FILE).is_file() {
        true => Ok(()),
        false => Err("it has not begun".to_owned()),
    }
}

fn unwritten(dir: &Path, error: &std::io::Error) -> String {
    format!("cannot write into {}: {error}", dir.display())
}
