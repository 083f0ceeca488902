//! How long the service takes to come back, after a load past its knee.

use tokclock_engine::measure::curve::{Curve, Recovery, Variable};
use tokclock_engine::record::read_rows;
use tokclock_engine::run::REQUESTS_FILE;
use tokclock_engine::workload::{Limit, Metric};

use super::campaign::Campaign;
use super::spot;
use crate::config::Options;
use crate::exit::Failure;
use crate::progress::Course;
use crate::results::LEVELS;
use crate::values::{Span, WarmUp};

/// The overload, as times the knee.
const OVERLOAD: f64 = 2.0;
/// The load that follows, where no level kept objectives, as a share of the knee.
const CALM: f64 = 0.8;
/// The time after an overload that it is waited for, as times its own.
const WAIT: u64 = 4;
/// A level without a length of its own counts as this, ns.
const LENGTH: Span = Span::from_ns(10_000_000_000);
/// Without objectives a request shall be no slower than so many times what is usual.
const SLOWER: u64 = 2;

/// Overloads the service, then gives it a load that it is good for. `None` if the curve has no knee, or
/// too few requests came to say something.
///
/// # Errors
/// If it cannot be done or saved.
pub(super) fn recovery(
    campaign: &Campaign,
    curve: &Curve,
    length: Option<Span>,
) -> Result<Option<Recovery>, Failure> {
    let Some(knee) = curve.knee.best() else { return Ok(None) };
    let whole = |value: f64| if campaign.range.is_whole() { value.round().max(1.0) } else { value };
    let operating = curve.envelope.as_ref().and_then(|one| one.operating_point.as_ref());
    let calm = operating.map(|point| point.value).filter(|value| *value <= knee);
    let (over, calm) = (whole(knee * OVERLOAD), whole(calm.unwrap_or(knee * CALM)));
    let length = length.or(campaign.draft.options().duration).unwrap_or(LENGTH);
    let label =
        format!("recovery: {}, then {}", campaign.range.words(over), campaign.range.words(calm));
    let course = Course { label, after_ns: None };
    let tried = Tried { campaign, course, over, calm, length };
    let (name, end_ns) = match campaign.range.variable {
        Variable::Rate => tried.in_one()?,
        Variable::Concurrency => tried.in_two()?,
    };
    if campaign.is_stopped() {
        return Ok(None);
    }
    let limits = limits(campaign, curve, calm);
    let path = campaign.dir.path().join(LEVELS).join(name).join(REQUESTS_FILE);
    let rows = read_rows(&path).map_err(|error| {
        Failure::could_not_run(format!("cannot read back {}: {error}", path.display()))
    })?;
    let workload = &campaign.stage.workload;
    Ok(Recovery::new((over, calm), rows.flatten(), workload, end_ns, &limits))
}

/// What a request has to keep: its limits, else twice the usual TTFT.
fn limits(campaign: &Campaign, curve: &Curve, calm: f64) -> Vec<Limit> {
    if let Some(limits) = campaign.stage.workload.objectives.request_limits() {
        return limits;
    }
    let near = curve
        .levels
        .iter()
        .min_by(|one, other| (one.value - calm).abs().total_cmp(&(other.value - calm).abs()));
    let usual = near.and_then(|level| level.figures.ttft_p95);
    let limit = |ns: u64| Limit { metric: Metric::Ttft, limit_ns: ns.saturating_mul(SLOWER) };
    usual.map(limit).into_iter().collect()
}

struct Tried<'a> {
    campaign: &'a Campaign,
    course: Course,
    over: f64,
    calm: f64,
    length: Span,
}

impl Tried<'_> {
    /// One open loop whose rate falls: what is left of the overload is still there then.
    fn in_one(&self) -> Result<(&'static str, u64), Failure> {
        const NAME: &str = "recovery";
        let wait = Span::from_ns(self.length.ns().saturating_mul(WAIT));
        let seconds = |span: Span| span.ns() as f64 / 1e9;
        let rates =
            format!("{}@{}s,{}@{}s", self.over, seconds(self.length), self.calm, seconds(wait));
        let change = |options: &mut Options| {
            plain(options);
            options.rate = None;
            options.rates = Some(rates.clone());
            options.seed = Some(spot::seed(self.campaign.seed(), self.over, usize::MAX));
        };
        let summary = match self.campaign.had(NAME, change)? {
            Some(summary) => summary,
            None => {
                let summary = self.campaign.point(NAME, &self.course, change)?;
                self.campaign.none_lost(NAME)?;
                summary
            }
        };
        let end = summary.stages.first().map_or(0, |stage| stage.end_ns);
        Ok((NAME, end))
    }

    /// A crowd that goes away from one moment to the next, then a small one.
    fn in_two(&self) -> Result<(&'static str, u64), Failure> {
        const NAME: &str = "recovery";
        const BEFORE: &str = "overload";
        let users = Variable::Concurrency;
        let seed = |value| Some(spot::seed(self.campaign.seed(), value, usize::MAX));
        let crowd = |options: &mut Options| {
            plain(options);
            spot::set_load(options, users, self.over);
            options.duration = Some(self.length);
            options.drain = Some(Span::from_ns(0));
            options.seed = seed(self.over);
        };
        let calm = |options: &mut Options| {
            plain(options);
            spot::set_load(options, users, self.calm);
            options.duration = Some(Span::from_ns(self.length.ns().saturating_mul(WAIT)));
            options.seed = seed(self.calm);
        };
        // The second says something only right after the first.
        let had = (self.campaign.had(BEFORE, crowd)?, self.campaign.had(NAME, calm)?);
        let summary = match had {
            (Some(_), Some(summary)) => summary,
            _ => {
                self.campaign.point(BEFORE, &self.course, crowd)?;
                self.campaign.none_lost(BEFORE)?;
                let summary = self.campaign.point_at_once(NAME, &self.course, calm)?;
                self.campaign.none_lost(NAME)?;
                summary
            }
        };
        let start = summary.run.window.start_ns;
        Ok((NAME, start))
    }
}

/// Nothing goes before, nothing but time ends it.
fn plain(options: &mut Options) {
    (options.duration, options.requests) = (None, None);
    (options.sessions, options.until, options.ramp) = (None, None, None);
    options.warmup = Some(WarmUp::Requests(0));
}
