//! Where metrics are read: where the user says, or beside the API of the load's own servers.

use std::fmt;
use std::time::Duration;

use super::reading::{By, Share};
use super::text::counted;
use crate::reactor::probe::{Asked, Way, locate, path_beside, text_at};
use crate::workload::{Dialect, Endpoint, Target, Tls};

/// Servers that are read, at most: each has a thread.
pub const SCRAPED_MAX: usize = 64;
/// How long a server may take that was not named.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where servers have their metrics: nearly all of them, then TensorRT-LLM, whose `/metrics` is
/// something else.
const PATHS: [&str; 2] = ["/metrics", "/prometheus/metrics"];

/// A server whose metrics are read, and what it takes to ask it.
#[derive(Clone)]
pub struct Scraped {
    /// Where, without secrets.
    pub url: String,
    pub(super) by: By,
    pub(super) share: Share,
    /// How it is reached, or why it cannot be.
    pub(super) endpoint: Result<Endpoint, String>,
    path: String,
    /// Only for the host of the target itself. Values may be secret.
    headers: Vec<(String, String)>,
    tls: Tls,
}

impl fmt::Debug for Scraped {
    /// Leaves out the headers, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraped")
            .field("url", &self.url)
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl Scraped {
    /// Its metrics as text.
    ///
    /// # Errors
    /// It cannot be reached or has none; or took longer than `most`: why, in a few words.
    pub(super) fn read(&self, most: Duration) -> Result<String, String> {
        let endpoint = self.endpoint.as_ref().map_err(Clone::clone)?;
        // No dialect speaks in a question for metrics.
        let dialect = Dialect::OpenaiChat;
        let asked = Asked { endpoint, dialect, headers: &self.headers, tls: &self.tls };
        text_at(&asked, &self.path, most)
    }

    /// One beside the API of a server of the load.
    fn own(target: &Target, place: usize, path: &str) -> Option<Self> {
        let endpoint = target.servers().nth(place)?;
        let path = path_beside(endpoint, path);
        let scheme = if endpoint.tls { "https" } else { "http" };
        Some(Self {
            url: format!("{scheme}://{}{path}", endpoint.host),
            by: By::Target,
            share: Share { place: Some(place as u64), of: target.servers().count() as u64 },
            endpoint: Ok(endpoint.clone()),
            path,
            headers: target.headers.clone(),
            tls: target.tls.clone(),
        })
    }
}

/// The servers of a load, prefill servers and routers included, that have metrics, as far as they are found at once. Those without are
/// passed over.
#[must_use]
pub fn beside(target: &Target) -> Vec<Scraped> {
    std::thread::scope(|scope| {
        let mut asking = Vec::new();
        for place in 0..target.servers().count().min(SCRAPED_MAX) {
            asking.push(scope.spawn(move || beside_one(target, place)));
        }
        let found = asking.into_iter().filter_map(|one| one.join().ok().flatten());
        let mut all: Vec<Scraped> = found.collect();
        all.dedup_by(|one, other| one.url == other.url);
        all
    })
}

/// That of one server. One that is silent now is not asked again.
fn beside_one(target: &Target, place: usize) -> Option<Scraped> {
    for path in PATHS {
        let one = Scraped::own(target, place, path)?;
        match one.read(PATIENCE) {
            Ok(page) if counted(&page).is_some() => return Some(one),
            Err(reason) if !reason.starts_with("status") => return None,
            _ => {}
        }
    }
    None
}

/// The server that is named by `url`, whose form was checked. What is secret of the load's target goes
/// there only if it is the same host.
#[must_use]
pub fn named(url: &str, target: &Target, way: &Way) -> Scraped {
    let (path, query) = url::Url::parse(url).map_or_else(
        |_| (String::new(), None),
        |url| (url.path().to_owned(), url.query().map(str::to_owned)),
    );
    let path = if matches!(path.as_str(), "" | "/") { PATHS[0].to_owned() } else { path };
    let path = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let place = |endpoint: &Endpoint| {
        let is_it = |one: &Endpoint| one.host == endpoint.host && one.tls == endpoint.tls;
        target.servers().position(is_it)
    };
    let mut located = located_at(url, way);
    if way.unix_socket.is_some() && located.as_ref().is_ok_and(|one| place(one).is_none()) {
        // The socket of the target is that of no other server.
        located = located_at(url, &Way { unix_socket: None, ..way.clone() });
    }
    let place = located.as_ref().ok().and_then(place);
    let is_own = place.is_some();
    let shown = match &located {
        Ok(one) => {
            format!("{}://{}{path}", if one.tls { "https" } else { "http" }, one.host)
        }
        Err(_) => url.to_owned(),
    };
    Scraped {
        url: shown,
        by: By::Named,
        share: Share {
            place: place.map(|place| place as u64),
            of: target.servers().count() as u64,
        },
        endpoint: located,
        path,
        headers: if is_own { target.headers.clone() } else { Vec::new() },
        tls: if is_own {
            target.tls.clone()
        } else {
            Tls { identity: None, server_name: None, ..target.tls.clone() }
        },
    }
}

fn located_at(url: &str, way: &Way) -> Result<Endpoint, String> {
    let found = locate(url, Dialect::OpenaiChat, way).map_err(|error| error.to_string())?;
    Ok(found.endpoint)
}
