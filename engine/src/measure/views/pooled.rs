//! The distributions that a run keeps as histograms: gaps of all requests, and the client's lag.

use std::io;

use super::Cdf;
use crate::record::read_interval_log;

/// What a `histograms.hlog` holds. What has no sample is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pools {
    /// Gaps between output events.
    pub icl: Option<Cdf>,
    /// The same for each token.
    pub itl: Option<Cdf>,
    /// Client lag of every stamped read.
    pub lag: Option<Cdf>,
}

/// Those of an interval log; tags that are not known are left out.
///
/// # Errors
/// If it is none.
pub fn pools(log: &[u8]) -> io::Result<Pools> {
    let mut pools = Pools::default();
    for (tag, values) in read_interval_log(log)? {
        let cdf = Cdf::from_histogram(&values);
        match tag.as_str() {
            "icl" => pools.icl = cdf,
            "itl" => pools.itl = cdf,
            "lag" => pools.lag = cdf,
            _ => {}
        }
    }
    Ok(pools)
}
