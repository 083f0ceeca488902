//! Which GPUs are looked at during a load.

use tokclock_engine::workload::{Dialect, Endpoint};

use super::target::check_url;
use crate::config::Options;
use crate::exit::Failure;
use crate::values::Span;

/// How often GPUs are looked at unless `--gpu-interval` says otherwise.
const INTERVAL: Span = Span::from_ns(200_000_000);
/// More often than this tells no more: drivers refresh their figures less often.
const INTERVAL_MIN_NS: u64 = 10_000_000;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpusAsked {
    /// GPUs of this host.
    pub(crate) local: LocalGpus,
    /// URLs of exporters.
    pub(crate) dcgm: Vec<String>,
    /// How often, ns.
    pub(crate) interval_ns: u64,
}

/// GPUs of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LocalGpus {
    /// All, where they may be those that serve.
    Auto,
    /// None.
    None,
    /// These.
    These(Vec<u32>),
}

impl GpusAsked {
    /// Reads the options.
    ///
    /// # Errors
    /// A usage error that names the option and says what to do.
    pub(crate) fn of(options: &Options) -> Result<Self, Failure> {
        for url in &options.dcgm {
            let checked = check_url(url, Dialect::Template);
            checked.map_err(|error| Failure::usage(format!("--dcgm: {}", error.message)))?;
        }
        let interval_ns = options.gpu_interval.unwrap_or(INTERVAL).ns();
        if interval_ns < INTERVAL_MIN_NS {
            return Err(Failure::usage(
                "--gpu-interval is below 10ms, and no GPU tells anything new so soon: give one such as \
                 100ms",
            ));
        }
        let local = local(options.gpu.as_deref().unwrap_or("auto"))?;
        Ok(Self { local, dcgm: options.dcgm.clone(), interval_ns })
    }

    /// The GPUs of this host that are looked at for a load on these servers; all of them if there is no
    /// list. Of a remote server they say nothing, and of our own simulator neither.
    pub(crate) fn on_host(
        &self,
        servers: &[Endpoint],
        is_embedded: bool,
    ) -> Option<Option<&[u32]>> {
        match &self.local {
            LocalGpus::None => None,
            LocalGpus::These(numbers) => Some(Some(numbers)),
            LocalGpus::Auto => {
                let is_direct = |one: &Endpoint| one.via.is_none() && one.tunnel.is_none();
                let is_here = |one: &Endpoint| one.is_local() && is_direct(one);
                (!is_embedded && servers.iter().all(is_here)).then_some(None)
            }
        }
    }
}

fn local(text: &str) -> Result<LocalGpus, Failure> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    match text.trim() {
        "auto" => Ok(LocalGpus::Auto),
        "none" => Ok(LocalGpus::None),
        list => {
            let numbers: Option<Vec<u32>> = list.split(',').map(number).collect();
            let mut numbers = numbers.ok_or_else(|| {
                Failure::usage(format!(
                    "--gpu `{text}`: give auto, none, or numbers of GPUs of this host such as 0,1"
                ))
            })?;
            numbers.sort_unstable();
            numbers.dedup();
            Ok(LocalGpus::These(numbers))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut Options)) -> Result<GpusAsked, String> {
        let mut options = Options::default();
        change(&mut options);
        GpusAsked::of(&options).map_err(|failure| failure.message)
    }

    #[test]
    fn gpus_are_named_by_numbers_or_words() {
        let usual = asked(|_| {}).unwrap();
        assert_eq!((usual.local, usual.interval_ns), (LocalGpus::Auto, 200_000_000));
        let local = |text: &str| asked(|options| options.gpu = Some(text.to_owned()));
        assert_eq!(local("none").unwrap().local, LocalGpus::None);
        assert_eq!(local("1, 0,1").unwrap().local, LocalGpus::These(vec![0, 1]));
        for bad in ["", "all", "0,", "-1", "0-3"] {
            assert!(local(bad).unwrap_err().starts_with("--gpu `"), "{bad}");
        }
    }

    #[test]
    fn urls_and_intervals_that_make_no_sense_are_refused_without_secrets() {
        let dcgm = |url: &str| asked(|options| options.dcgm = vec![url.to_owned()]);
        assert!(dcgm("http://node:9400/metrics").is_ok());
        for bad in ["http://me:s3cret@node:9400", "http://node/?api_key=s3cret", "ftp://node", "::"]
        {
            let error = dcgm(bad).unwrap_err();
            assert!(error.starts_with("--dcgm: ") && !error.contains("s3cret"), "{error}");
        }
        let soon = asked(|options| options.gpu_interval = Some(Span::from_ns(9_000_000)));
        assert!(soon.unwrap_err().starts_with("--gpu-interval"));
    }

    #[test]
    fn gpus_of_this_host_are_of_no_interest_to_a_remote_server() {
        let auto = asked(|_| {}).unwrap();
        assert_eq!(auto.on_host(&[], true), None);
        assert_eq!(auto.on_host(&[], false), Some(None));
        let named = asked(|options| options.gpu = Some("1".to_owned())).unwrap();
        assert_eq!(named.on_host(&[], true), Some(Some(&[1][..])));
    }
}
