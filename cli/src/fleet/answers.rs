//! What workers answer, and what is said of those that do not.

use tokclock_engine::clock::monotonic_ns;
use tokclock_engine::shard::message::{PROTOCOL, Reply};

use super::link::{Link, Said};
use super::{HELLO_MAX_NS, TICK};
use crate::exit::{Code, Failure};

/// Gives what was waited for, once an answer is it.
type Taking<'a, T> = dyn FnMut(&mut Link, Reply) -> Result<Option<T>, Failure> + 'a;

/// Waits for the answer that `take` gives.
pub(super) fn answer<T>(
    link: &mut Link,
    until_ns: Option<u64>,
    is_over: &dyn Fn() -> bool,
    take: &mut Taking<'_, T>,
) -> Result<T, Failure> {
    loop {
        match link.hear(TICK) {
            Some(Said::Reply(reply)) => {
                if let Some(taken) = take(link, reply)? {
                    return Ok(taken);
                }
            }
            Some(Said::Gone) => return Err(gone(link)),
            None if is_over() => {
                let message = "interrupted before the load began".to_owned();
                return Err(Failure { code: Code::Interrupted, message });
            }
            None if until_ns.is_some_and(|until| monotonic_ns() > until) => {
                return Err(Failure::could_not_run(format!(
                    "{} has not said who it is within {} s{}",
                    link.name(),
                    HELLO_MAX_NS / 1_000_000_000,
                    remark(link)
                )));
            }
            None => {}
        }
    }
}

/// The host of a worker that we can speak with.
pub(super) fn greeted(link: &mut Link, reply: Reply) -> Result<Option<String>, Failure> {
    let Reply::Hello { protocol, version, host, .. } = reply else { return Ok(None) };
    let own = env!("CARGO_PKG_VERSION");
    if (protocol, version.as_str()) == (PROTOCOL, own) {
        return Ok(Some(host));
    }
    Err(Failure::could_not_run(format!(
        "{} on {host} is tokclock {version} (protocol {protocol}), and this is {own} (protocol \
         {PROTOCOL}): the same version is needed on all hosts",
        link.name()
    )))
}

/// Plan and seed of a worker that stands ready.
pub(super) fn readied(link: &mut Link, reply: Reply) -> Result<Option<(String, u64)>, Failure> {
    match reply {
        Reply::Ready { plan, seed } => Ok(Some((plan, seed))),
        Reply::Failed { code, message } => {
            let code = if code == Code::Usage as u8 { Code::Usage } else { Code::CouldNotRun };
            Err(Failure { code, message: format!("{}: {message}", link.name()) })
        }
        Reply::Error { message } => {
            Err(Failure::could_not_run(format!("{}: {message}", link.name())))
        }
        Reply::Died { signal } => {
            link.has_died = true;
            Err(Failure::could_not_run(died(link, signal)))
        }
        _ => Ok(None),
    }
}

/// That the process for loads of a worker was ended.
pub(super) fn died(link: &Link, signal: Option<i32>) -> String {
    let how = signal.map_or_else(String::new, |signal| format!(" by signal {signal}"));
    format!("{}: its process for loads was ended{how}", link.name())
}

/// That a worker has ended.
pub(super) fn gone(link: &Link) -> Failure {
    Failure::could_not_run(format!("{} has ended{}", link.name(), remark(link)))
}

/// What a worker said last, to follow what became of it.
pub(super) fn remark(link: &Link) -> String {
    match link.seen.remark().as_str() {
        "" => String::new(),
        said => format!(": {said}"),
    }
}
