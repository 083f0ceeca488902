//! How servers are reached and connections kept: addresses, TLS, retries, limits of size.

use std::net::IpAddr;

use tokclock_engine::run::{Pinned, Way};
use tokclock_engine::workload::{Cancel, CancelAfter, Connections, Retries, Sizes, Tls};

use super::word;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::{Span, TimeOrCount};

/// Pause before the first retry unless `--retry-backoff` says otherwise.
const RETRY_BACKOFF: Span = Span::from_ns(100_000_000);
/// When requests are cancelled unless `--cancel-after` says otherwise: in the middle of a stream.
const CANCEL_AFTER: TimeOrCount = TimeOrCount::Count(4);
/// Largest sizes that may be asked for, bytes.
const SIZE_MAX: u64 = 1 << 30;

/// How servers are reached.
pub(super) fn way(options: &Options) -> Result<Way, Failure> {
    let pinned = options.resolve.iter().map(|text| pinned(text)).collect::<Result<_, _>>()?;
    if let Some(proxy) = &options.proxy {
        check_proxy(proxy)?;
        if options.unix_socket.is_some() {
            return Err(Failure::usage(
                "--proxy and --unix-socket exclude each other: keep the one to connect to",
            ));
        }
    }
    let elsewhere =
        [("--unix-socket", options.unix_socket.is_some()), ("--proxy", options.proxy.is_some())];
    if let (true, Some((name, _))) =
        (options.servers().is_empty(), elsewhere.iter().find(|(_, is_given)| *is_given))
    {
        return Err(Failure::usage(format!(
            "{name} leads to a server of yours: give its URL too, such as http://localhost"
        )));
    }
    if options.unix_socket.is_some() && !options.source_ip.is_empty() {
        return Err(Failure::usage("--source-ip has no meaning with --unix-socket: drop it"));
    }
    Ok(Way { pinned, unix_socket: options.unix_socket.clone(), proxy: options.proxy.clone() })
}

/// Remarks on options that change nothing in this run.
pub(super) fn unused(options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    let is_tls = options.servers().iter().any(|url| url.starts_with("https://"));
    let of_tls = [
        ("--cacert", options.cacert.is_some()),
        ("--cert", options.cert.is_some()),
        ("--sni", options.sni.is_some()),
        ("--insecure", options.insecure == Some(true)),
    ];
    if let (false, Some((name, _))) = (is_tls, of_tls.iter().find(|(_, is_given)| *is_given)) {
        notes.push(format!("{name} changes nothing: no URL is https://"));
    }
    for text in &options.resolve {
        let host = text.split(':').next().unwrap_or_default();
        let is_named = |url: &String| {
            let url = url::Url::parse(url).ok();
            url.as_ref()
                .and_then(url::Url::host_str)
                .is_some_and(|is| is.eq_ignore_ascii_case(host))
        };
        if !options.servers().iter().any(is_named) {
            notes.push(format!("--resolve {text} changes nothing: no URL names {host}"));
        }
    }
    notes
}

fn pinned(text: &str) -> Result<Pinned, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "--resolve `{text}`: write it as HOST:PORT:IP, such as llm.example:443:127.0.0.1"
        ))
    };
    let (host, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (port, list) = rest.split_once(':').ok_or_else(wrong)?;
    let ip = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().map_err(|_| wrong());
    let addresses = list.split(',').map(ip).collect::<Result<Vec<_>, _>>()?;
    if host.is_empty() {
        return Err(wrong());
    }
    Ok(Pinned { host: host.to_owned(), port: port.parse().map_err(|_| wrong())?, addresses })
}

fn check_proxy(text: &str) -> Result<(), Failure> {
    // The text is not shown before it is known to hold no password.
    let url = url::Url::parse(text).map_err(|error| {
        Failure::usage(format!("--proxy is not valid ({error}): give one such as http://host:3128"))
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage(
            "--proxy holds a user name or password, which tokclock does not send: for an http:// \
             target use --header 'Proxy-Authorization: ...'",
        ));
    }
    if url.scheme() != "http" || !matches!(url.path(), "" | "/") {
        return Err(Failure::usage(
            "--proxy must be the address of an HTTP proxy, such as http://host:3128",
        ));
    }
    Ok(())
}

/// How TLS is spoken.
pub(super) fn tls(options: &mut Options) -> Result<Tls, Failure> {
    let identity = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
        (None, None) => None,
        _ => {
            return Err(Failure::usage(
                "--cert and --key go together: give the certificate and its key",
            ));
        }
    };
    let insecure = *options.insecure.get_or_insert(false);
    if insecure && options.cacert.is_some() {
        return Err(Failure::usage(
            "--insecure and --cacert exclude each other: certificates are checked or not",
        ));
    }
    let resumption = options.tls_resumption.get_or_insert_with(|| "on".to_owned());
    let resume = match resumption.as_str() {
        "on" => true,
        "off" => false,
        other => {
            return Err(Failure::usage(format!("--tls-resumption `{other}`: expected on or off")));
        }
    };
    Ok(Tls {
        roots: options.cacert.clone(),
        identity,
        verify: !insecure,
        server_name: options.sni.clone(),
        resume,
    })
}

/// How long a connection serves.
pub(super) fn connections(
    options: &mut Options,
    has_sessions: bool,
) -> Result<Connections, Failure> {
    let way = word::<Connections>(&mut options.connections, "pooled")?;
    // A closed loop has its users written down by now.
    if way == Connections::PerUser && options.concurrency.is_none() {
        return Err(Failure::usage(
            "--connections per-user is for the users of a closed loop: with --rate, --rates or \
             --trace take pooled or per-request",
        ));
    }
    if way == Connections::PerSession && !has_sessions {
        return Err(Failure::usage(
            "--connections per-session is for conversations, and requests here stand alone: add \
             --turns, or take pooled",
        ));
    }
    Ok(way)
}

/// Requests that a connection carries at most.
pub(super) fn requests_per_connection(options: &Options) -> Result<Option<u64>, Failure> {
    if options.requests_per_connection == Some(0) {
        return Err(Failure::usage(
            "--requests-per-connection 0: give at least 1, or leave it out",
        ));
    }
    Ok(options.requests_per_connection)
}

/// What becomes of requests that fail.
pub(super) fn retries(options: &mut Options) -> Result<Retries, Failure> {
    let max = *options.retries.get_or_insert(0);
    if max == 0 {
        return match options.retry_backoff {
            None => Ok(Retries::default()),
            Some(_) => Err(Failure::usage(
                "--retry-backoff says when, --retries how often: give both, such as --retries 3",
            )),
        };
    }
    let backoff = *options.retry_backoff.get_or_insert(RETRY_BACKOFF);
    Ok(Retries { max, backoff_ns: backoff.ns() })
}

/// Requests that are cancelled on purpose.
pub(super) fn cancel(options: &mut Options) -> Result<Option<Cancel>, Failure> {
    let Some(rate) = options.cancel_rate else {
        return match options.cancel_after {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--cancel-after says when, --cancel-rate how many: give both, such as \
                 --cancel-rate 10%",
            )),
        };
    };
    let after = match *options.cancel_after.get_or_insert(CANCEL_AFTER) {
        TimeOrCount::Count(0) => {
            return Err(Failure::usage("--cancel-after 0: give a time or a number from 1 up"));
        }
        TimeOrCount::Count(events) => {
            CancelAfter::Events(u32::try_from(events).unwrap_or(u32::MAX))
        }
        TimeOrCount::Time(time) => CancelAfter::Time(time.ns()),
    };
    if matches!(after, CancelAfter::Events(_)) && options.no_stream == Some(true) {
        return Err(Failure::usage(
            "--cancel-after counts output events, and --no-stream has none: give a time",
        ));
    }
    Ok(Some(Cancel { rate: rate.value(), after }))
}

/// How large an answer may be.
pub(super) fn sizes(options: &Options) -> Result<Sizes, Failure> {
    let usual = Sizes::default();
    let size = |name: &str, given: Option<u64>, usual: usize| match given {
        None => Ok(usual),
        Some(bytes @ 1..=SIZE_MAX) => Ok(bytes as usize),
        Some(bytes) => {
            Err(Failure::usage(format!("--{name} {bytes}: give a number from 1 to {SIZE_MAX}")))
        }
    };
    Ok(Sizes {
        head: size("max-head-bytes", options.max_head_bytes, usual.head)?,
        event: size("max-event-bytes", options.max_event_bytes, usual.event)?,
        body: size("max-body-bytes", options.max_body_bytes, usual.body)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse_options;

    fn refused<T>(result: Result<T, Failure>, word: &str) {
        let message = result.err().unwrap().message;
        assert!(message.contains(word) && message.lines().count() == 1, "{message}");
    }

    #[test]
    fn a_name_may_be_given_addresses() {
        let options = parse_options(&["--resolve", "llm.example:443:127.0.0.1,[::1]"]);
        let way = way(&options).unwrap();
        assert_eq!((way.pinned[0].host.as_str(), way.pinned[0].port), ("llm.example", 443));
        assert_eq!(way.pinned[0].addresses.len(), 2);
        for bad in ["llm.example", "llm.example:443", "llm.example:x:1.2.3.4", ":1:1.2.3.4"] {
            refused(super::way(&parse_options(&["--resolve", bad])), "--resolve");
        }
    }

    #[test]
    fn a_proxy_with_a_password_is_refused_without_showing_it() {
        let options = parse_options(&["--proxy", "http://me:s3cret@127.0.0.1:3128"]);
        let message = way(&options).unwrap_err().message;
        assert!(!message.contains("s3cret"), "{message}");
        refused(way(&parse_options(&["--proxy", "socks5://127.0.0.1:1"])), "HTTP proxy");
    }

    #[test]
    fn tls_options_that_contradict_each_other_are_refused() {
        refused(tls(&mut parse_options(&["--cert", "a.pem"])), "--key");
        refused(tls(&mut parse_options(&["--insecure", "--cacert", "a.pem"])), "--cacert");
        refused(tls(&mut parse_options(&["--tls-resumption", "maybe"])), "on or off");
        let tls = tls(&mut parse_options(&["--sni", "llm.example", "--tls-resumption", "off"]));
        let tls = tls.unwrap();
        assert_eq!((tls.verify, tls.resume), (true, false));
        assert_eq!(tls.server_name.as_deref(), Some("llm.example"));
    }

    #[test]
    fn users_have_connections_of_their_own_in_a_closed_loop_alone() {
        for load in [["--rate", "5"], ["--rates", "a.csv"], ["--trace", "a.jsonl"]] {
            let options = [&["--connections", "per-user"][..], &load].concat();
            refused(connections(&mut parse_options(&options), false), "closed loop");
        }
        let options = ["--connections", "per-user", "--concurrency", "4"];
        let way = connections(&mut parse_options(&options), false).ok();
        assert_eq!(way, Some(Connections::PerUser));
        assert_eq!(connections(&mut parse_options(&[]), false).ok(), Some(Connections::Pooled));
    }

    #[test]
    fn conversations_alone_have_connections_of_their_own() {
        let options = || parse_options(&["--connections", "per-session"]);
        refused(connections(&mut options(), false), "is for conversations");
        assert_eq!(connections(&mut options(), true).ok(), Some(Connections::PerSession));
    }

    #[test]
    fn cancelling_needs_a_share() {
        refused(cancel(&mut parse_options(&["--cancel-after", "1s"])), "--cancel-rate");
        let some = cancel(&mut parse_options(&["--cancel-rate", "10%", "--cancel-after", "2s"]));
        let after = CancelAfter::Time(2_000_000_000);
        assert_eq!(some.ok().flatten(), Some(Cancel { rate: 0.1, after }));
        let some = cancel(&mut parse_options(&["--cancel-rate", "1"])).ok().flatten();
        assert_eq!(some, Some(Cancel { rate: 1.0, after: CancelAfter::Events(4) }));
    }

    #[test]
    fn a_pause_without_retries_is_refused() {
        refused(retries(&mut parse_options(&["--retry-backoff", "1s"])), "--retries");
        let some = retries(&mut parse_options(&["--retries", "2"])).ok();
        assert_eq!(some, Some(Retries { max: 2, backoff_ns: 100_000_000 }));
    }

    #[test]
    fn what_changes_nothing_is_remarked_on_or_refused() {
        let notes = |options: &[&str]| unused(&parse_options(options)).join("; ");
        assert!(notes(&["http://a", "--cacert", "ca.pem"]).contains("--cacert changes nothing"));
        assert!(notes(&["http://a", "--resolve", "b:1:127.0.0.1"]).contains("names b"));
        let fits = ["https://a", "--cacert", "ca.pem", "--resolve", "A:443:127.0.0.1"];
        assert_eq!(notes(&fits), "");
        refused(way(&parse_options(&["--unix-socket", "s"])), "URL");
    }

    #[test]
    fn sizes_have_bounds() {
        refused(sizes(&parse_options(&["--max-event-bytes", "0"])), "--max-event-bytes");
        let sizes = sizes(&parse_options(&["--max-head-bytes", "100"])).unwrap();
        assert_eq!((sizes.head, sizes.event), (100, 16 << 20));
    }
}
