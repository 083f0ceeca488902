//! What a load over several hosts asks for, before any of them is reached.

use tokclock_engine::workload::{Load, is_secret};

use super::command::{WorkerCommand, commands};
use crate::args::FleetArgs;
use crate::config::Options;
use crate::exit::Failure;
use crate::output::Screen;
use crate::resolve::Draft;
use crate::values::{CpuList, Span, WarmUp};

/// The warm-up of a level of several hosts, unless `--warmup` says otherwise: none of them can tell alone
/// when the service is steady.
const WARMUP: Span = Span::from_ns(5_000_000_000);

/// The workers that were named, and what of this host's options is for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(super) commands: Vec<WorkerCommand>,
    reactors: Option<usize>,
    cpus: Option<CpuList>,
}

impl Wanted {
    /// The workers that are to send this load; `None` where this process does.
    ///
    /// # Errors
    /// A usage error: a command that is none, or options that do not go with several hosts.
    pub(crate) fn of(args: &FleetArgs, options: &Options) -> Result<Option<Self>, Failure> {
        if !args.has_workers() {
            return Ok(None);
        }
        let commands = commands(args)?;
        check(options)?;
        Ok(Some(Self { commands, reactors: options.reactors, cpus: options.cpus.clone() }))
    }

    /// What a draft says to workers is for their hosts.
    pub(crate) fn mark(&self, draft: &mut Draft) {
        draft.sent_by_workers(self.reactors, self.cpus.clone());
    }
}

/// Fills in what a level of several hosts means by default.
pub(crate) fn fill(options: &mut Options, screen: Screen) {
    if options.warmup.is_none() && options.ramp.is_none() {
        options.warmup = Some(WarmUp::Time(WARMUP));
        screen.note(format_args!(
            "warm-up: {WARMUP} before each level (with workers there is no --warmup auto)"
        ));
    }
}

/// Workers that a load can be shared by: none is left without a user or a place in flight.
#[must_use]
pub(super) fn hosts_of(load: &Load, workers: usize) -> usize {
    let most = match load {
        Load::Closed { users, .. } => Some(*users),
        Load::Open { max_in_flight, .. } => *max_in_flight,
    };
    let most = most.map_or(workers, |most| usize::try_from(most).unwrap_or(workers));
    workers.min(most).max(1)
}

fn check(options: &Options) -> Result<(), Failure> {
    let usage = |text: &str| Err(Failure::usage(text));
    if options.servers().is_empty() {
        return usage(
            "--worker needs the URL of a server: each host would have a simulator of its own",
        );
    }
    if options.hosts.shard.is_some() || options.hosts.start_at.is_some() {
        return usage(
            "--worker deals the parts and says when they begin: drop --shard and --start-at",
        );
    }
    if options.warmup == Some(WarmUp::Auto) {
        return usage(
            "--warmup auto and --worker exclude each other: no host can tell alone when the service is \
             steady; give a time such as 10s",
        );
    }
    if options.until.is_some() {
        return usage(
            "--until and --worker exclude each other: no host can tell alone what is known well enough; \
             give --duration or --requests",
        );
    }
    if options.content.data.as_deref() == Some("-") || options.trace.as_deref() == Some("-") {
        return usage(
            "--worker: each host reads recordings itself, and standard input is not theirs",
        );
    }
    for header in &options.header {
        let name = header.split(':').next().unwrap_or_default().trim();
        if is_secret(name) {
            return Err(Failure::usage(format!(
                "--header `{name}` may be secret, and secrets do not travel to workers: give \
                 --api-key-env or --api-key-file, which each reads on its own host"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse_options;

    fn wanted(options: &[&str]) -> Result<Option<Wanted>, Failure> {
        let worker = vec!["ssh a tokclock worker".to_owned()];
        Wanted::of(&FleetArgs { worker, workers: None }, &parse_options(options))
    }

    #[test]
    fn without_workers_nothing_is_asked() {
        assert!(Wanted::of(&FleetArgs::default(), &parse_options(&[])).unwrap().is_none());
    }

    #[test]
    fn what_no_host_can_do_alone_is_refused() {
        for (options, word) in [
            (&[][..], "URL"),
            (&["http://a", "--warmup", "auto"], "--warmup auto"),
            (&["http://a", "--shard", "0/2"], "--shard"),
            (&["http://a", "--until", "ci(p95(ttft))<3%"], "--until"),
            (&["http://a", "--data", "-"], "standard input"),
            (&["http://a", "--header", "Authorization: Bearer s3cret"], "--api-key-env"),
        ] {
            let said = wanted(options).unwrap_err();
            assert!(said.code as u8 == 2 && said.message.contains(word), "{said}");
            assert!(!said.message.contains("s3cret"));
        }
        let fine = ["http://a", "--header", "X-Route: blue", "--reactors", "2"];
        assert_eq!(wanted(&fine).unwrap().unwrap().reactors, Some(2));
    }

    #[test]
    fn no_host_is_left_without_a_user() {
        let closed = |users| Load::Closed { users, ramp_ns: 0 };
        assert_eq!([1, 2, 3, 64].map(|users| hosts_of(&closed(users), 3)), [1, 2, 3, 3]);
    }
}
