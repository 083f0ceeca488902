//! What the service promised.

use tokclock_engine::workload::{Aim, Objective, Objectives};

use crate::config::Options;
use crate::exit::Failure;

/// The objectives of all requests, written down in `options`.
pub(super) fn objectives(options: &mut Options) -> Result<Objectives, Failure> {
    let capped = options.capped.get_or_insert_with(|| "ok".to_owned());
    let capped_is_miss = match capped.as_str() {
        "ok" => false,
        "miss" => true,
        other => return Err(Failure::usage(format!("--capped `{other}`: expected ok or miss"))),
    };
    let said = objectives_of(&options.slo, options.goodput.as_deref())?;
    Ok(Objectives { capped_is_miss, ..said })
}

/// Objectives and limits, of all requests or of a class.
pub(super) fn objectives_of(slo: &[String], goodput: Option<&str>) -> Result<Objectives, Failure> {
    let slo = slo.iter().map(|rule| {
        rule.parse().map_err(|error| Failure::usage(format!("--slo '{rule}': {error}")))
    });
    let goodput = goodput.map(|limits| {
        limits.parse().map_err(|error| Failure::usage(format!("--goodput '{limits}': {error}")))
    });
    let objectives = Objectives {
        slo: slo.collect::<Result<_, _>>()?,
        goodput: goodput.transpose()?,
        capped_is_miss: false,
    };
    let is_share = |objective: &&Objective| matches!(objective.aim, Aim::GoodputShare(_));
    match objectives.slo.iter().find(is_share) {
        Some(share) if objectives.request_limits().is_none() => Err(Failure::usage(format!(
            "--slo '{share}': a good request keeps limits, and there are none: give --goodput, such as \
             'ttft:500 tpot:50', or an objective on ttft, itl, tpot or e2e"
        ))),
        _ => Ok(objectives),
    }
}
