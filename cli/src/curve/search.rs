//! `tokclock search`.

use tokclock_engine::measure::curve::{Curve, Variable};
use tokclock_engine::measure::{Evidence, Health, Summary};
use tokclock_engine::run::search::{Look, Search, SearchReport, SearchSpec, Tier};
use tokclock_engine::workload::{Goodput, Objective, Objectives};

use super::campaign::{Campaign, Ran, levels};
use super::resume;
use crate::args::SearchArgs;
use crate::config::{Options, SearchOptions};
use crate::exit::{Code, Failure};
use crate::output;
use crate::progress::Course;
use crate::report;
use crate::values::{Levels, Share, Span};

/// The precision unless `--precision` says otherwise.
const PRECISION: Share = Share::from_percent(5.0);
const PRECISION_MIN: f64 = 0.001;
/// A load is looked at in all so many times as long as at first, at most.
const LOOKS: u64 = 16;
/// Loads that are tried for each tier, unless `--max-probes` says otherwise.
const PROBES: u32 = 12;
/// From the first load down a search by rate goes no further than this share of it.
const DOWN_TO: f64 = 1e-3;

/// Searches and gives the exit code.
///
/// # Errors
/// If the options make no sense, or it cannot be done or saved.
pub(crate) fn search(args: &SearchArgs, allowed: &[usize]) -> Result<Code, Failure> {
    resume::check(args.resume.as_deref(), "search")?;
    let (mut options, extra) = args.options()?;
    let (tiers, precision) = check(&mut options, &extra)?;
    if args.common.fleet.has_workers() {
        // Workers know nothing of tiers.
        options.goodput = tiers.goodput()?.map(|limits| limits.to_string());
    }
    let open_length = Campaign::has_no_length(&options);
    let place = (extra.idle_wait, args.resume.as_deref());
    let mut campaign = Campaign::prepare(options, "search", place, &args.common, allowed)?;
    campaign.stage.workload.objectives.goodput = tiers.goodput()?;
    let seeking = Seeking::begin(campaign, extra, tiers, precision, open_length)?;
    seeking.go()
}

/// Looks at the options that only a search has, and fills in what it searches: the tiers of objectives,
/// and how close it comes.
///
/// # Errors
/// A usage error if they make no sense.
pub(super) fn check(options: &mut Options, extra: &SearchOptions) -> Result<(Tiers, f64), Failure> {
    if options.rate.is_none() && options.concurrency.is_none() {
        options.rate = Some(Levels::Auto);
    }
    if options.requests.is_some() || options.sessions.is_some() || options.until.is_some() {
        return Err(Failure::usage(
            "a search looks at each load for a time, and longer where it is not sure: give --duration \
             and --max-duration in place of --requests, --sessions or --until",
        ));
    }
    if [&options.rate, &options.concurrency].iter().any(|one| matches!(one, Some(Levels::List(_))))
    {
        return Err(Failure::usage(
            "a search chooses its loads itself: give the first, a range such as 1..100, or auto",
        ));
    }
    let tiers = Tiers::of(options, &extra.tier)?;
    let precision = extra.precision.unwrap_or(PRECISION).value();
    if !(PRECISION_MIN..=1.0).contains(&precision) {
        return Err(Failure::usage("--precision: give 0.1% to 100%, such as 5%"));
    }
    options.slo = tiers.rules();
    Ok((tiers, precision))
}

/// The tiers of objectives, and all rules in the order in which a summary has them.
pub(super) struct Tiers {
    tiers: Vec<Tier>,
    /// Limits on requests that were given apart.
    goodput: Option<String>,
}

impl Tiers {
    fn of(options: &Options, named: &[String]) -> Result<Self, Failure> {
        let has_class_rules = options.class.iter().any(|class| !class.slo.is_empty());
        let mut tiers = Vec::new();
        if !options.slo.is_empty() || has_class_rules {
            tiers.push(Tier { name: None, objectives: options.slo.clone() });
        }
        for text in named {
            let name = text.split_once(':').map(|(name, _)| name.trim()).filter(|n| !n.is_empty());
            let objectives = rules_of(text);
            let (Some(name), false) = (name, objectives.is_empty()) else {
                return Err(Failure::usage(format!(
                    "--tier '{text}': write it like 'gold: p95(ttft)<200ms, p99(itl)<30ms'"
                )));
            };
            tiers.push(Tier { name: Some(name.to_owned()), objectives });
        }
        tiers.retain(|tier| tier.name.is_some() || !tier.objectives.is_empty() || has_class_rules);
        if tiers.is_empty() {
            return Err(Failure::usage(
                "a search needs an objective that a load keeps or breaks: give --slo, such as --slo \
                 'p95(ttft)<500ms'",
            ));
        }
        Ok(Self { tiers, goodput: options.goodput.clone() })
    }

    /// The rules that are of no named tier.
    fn unnamed(&self) -> Vec<String> {
        let own = self.tiers.iter().filter(|tier| tier.name.is_none());
        own.flat_map(|tier| tier.objectives.iter().cloned()).collect()
    }

    /// All rules, tier after tier.
    fn rules(&self) -> Vec<String> {
        self.tiers.iter().flat_map(|tier| tier.objectives.iter().cloned()).collect()
    }

    /// The limits of a good request: those of the first tier, whatever the others say.
    fn goodput(&self) -> Result<Option<Goodput>, Failure> {
        if let Some(limits) = &self.goodput {
            return limits
                .parse()
                .map(Some)
                .map_err(|error| Failure::usage(format!("--goodput '{limits}': {error}")));
        }
        let rules = self.tiers.first().map(|tier| &tier.objectives[..]).unwrap_or_default();
        let read = |rule: &String| {
            rule.parse::<Objective>()
                .map_err(|error| Failure::usage(format!("--slo '{rule}': {error}")))
        };
        let slo = rules.iter().map(read).collect::<Result<_, _>>()?;
        let first = Objectives { slo, ..Objectives::default() };
        Ok(first.request_limits().map(|limits| Goodput { limits }))
    }

    /// What a summary says of each objective of each tier; those of classes belong to the first.
    fn evidence(&self, summary: &Summary) -> Vec<Vec<Option<Evidence>>> {
        let own = summary.slo.iter().flat_map(|slo| &slo.objectives);
        let mut own = own.map(|one| one.evidence);
        let mut each: Vec<Vec<Option<Evidence>>> = self
            .tiers
            .iter()
            .map(|tier| own.by_ref().take(tier.objectives.len()).collect())
            .collect();
        let of_classes = summary.classes.iter().flat_map(|class| class.slo.iter());
        let of_classes = of_classes.flat_map(|slo| &slo.objectives).map(|one| one.evidence);
        if let Some(first) = each.first_mut() {
            first.extend(of_classes);
        }
        each
    }

    /// The tiers with the objectives of classes among the first's, as `class: rule`.
    fn named(&self, runs: &[Ran]) -> Vec<Tier> {
        let mut tiers = self.tiers.clone();
        let classes = runs.first().map(|ran| &ran.summary.classes[..]).unwrap_or_default();
        let texts = classes.iter().flat_map(|class| {
            let all = class.slo.iter().flat_map(|slo| &slo.objectives);
            all.map(|one| format!("{}: {}", class.name, one.text))
        });
        if let Some(first) = tiers.first_mut() {
            first.objectives.extend(texts);
        }
        tiers
    }
}

/// The rules of `gold: p95(ttft)<200ms, p99(itl)<30ms`.
fn rules_of(tier: &str) -> Vec<String> {
    let rules = tier.split_once(':').map_or("", |(_, rules)| rules);
    let rules = rules.split(',').map(str::trim).filter(|rule| !rule.is_empty());
    rules.map(str::to_owned).collect()
}

/// A search under way.
struct Seeking {
    campaign: Campaign,
    tiers: Tiers,
    search: Search,
    runs: Vec<Ran>,
    /// Loads at which the client failed once.
    forgiven: Vec<f64>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Whole,
    Interrupted,
    ServerGone,
    /// What became of workers.
    WorkersLost(String),
}

impl Seeking {
    fn begin(
        campaign: Campaign,
        extra: SearchOptions,
        tiers: Tiers,
        precision: f64,
        open_length: bool,
    ) -> Result<Self, Failure> {
        let range = &campaign.range;
        let write = |length: Option<Span>| {
            let text = campaign.toml("search", &extra, |options| {
                // Those of the tiers stand beside them.
                options.slo = tiers.unnamed();
                if length.is_some() {
                    options.duration = length;
                }
            })?;
            campaign.dir.write_run(&text)
        };
        write(None)?;
        let is_auto = matches!(range.levels, Levels::Auto);
        let by_rate = range.variable == Variable::Rate;
        let alone = (open_length || (is_auto && by_rate)).then(|| campaign.pilot()).transpose()?;
        let length = open_length.then(|| alone.map(Campaign::level_length)).flatten();
        write(length)?;
        let look = length.or(campaign.draft.options().duration);
        let look_ns = look.map_or(0, Span::ns);
        let start = match (&range.levels, alone) {
            (Levels::One(value), _) => *value,
            (Levels::Range { from, .. }, _) => *from,
            // What two users alone get done.
            (_, Some(e2e_ns)) if by_rate => 2e9 / e2e_ns as f64,
            _ => 1.0,
        };
        let spec = SearchSpec {
            start,
            least: match range.levels {
                Levels::Range { from, .. } => from,
                _ if by_rate => start * DOWN_TO,
                _ => 1.0,
            },
            most: range.most(),
            whole: range.is_whole(),
            precision,
            look_ns,
            longest_ns: extra
                .max_duration
                .map_or(look_ns.saturating_mul(LOOKS), Span::ns)
                .max(look_ns),
            probes_max: extra.max_probes.unwrap_or(PROBES).max(1) as usize * tiers.tiers.len(),
            tiers: tiers.tiers.len(),
        };
        let mut runs = resume::runs(campaign.dir.path());
        runs.retain(|ran| ran.summary.client.verdict != Health::Invalid);
        let search = Search::new(spec);
        let mut seeking = Self { search, runs, campaign, tiers, forgiven: Vec::new() };
        // A look at a load was had in the order of its repetitions.
        seeking.runs.sort_by_key(|ran| ran.repetition);
        for at in 0..seeking.runs.len() {
            seeking.take(at);
        }
        if !seeking.runs.is_empty() {
            let count = seeking.runs.len();
            seeking.campaign.screen.note(resume::found(count));
        }
        Ok(seeking)
    }

    /// What a run says goes into the search.
    fn take(&mut self, at: usize) {
        let ran = &self.runs[at];
        let window = &ran.summary.run.window;
        let length_ns = window.end_ns.saturating_sub(window.start_ns);
        let evidence = self.tiers.evidence(&ran.summary);
        let is_invalid = ran.summary.client.verdict == Health::Invalid;
        self.search.saw(ran.value, length_ns, evidence, is_invalid);
    }

    fn go(mut self) -> Result<Code, Failure> {
        let end = loop {
            if self.campaign.is_stopped() {
                break End::Interrupted;
            }
            let Some(look) = self.search.next() else { break End::Whole };
            let ran = match self.look(&look) {
                Ok(ran) => ran,
                Err(failure) => {
                    let lost = self.campaign.lost(&self.name_of(&look))?.ok_or(failure)?;
                    break End::WorkersLost(lost);
                }
            };
            if ran.summary.run.interrupted {
                break End::Interrupted;
            }
            let name = ran.dir.rsplit('/').next().unwrap_or_default();
            if let Some(lost) = self.campaign.lost(name)? {
                break End::WorkersLost(lost);
            }
            if self.campaign.is_server_gone(&ran)? {
                break End::ServerGone;
            }
            if ran.summary.client.verdict == Health::Invalid && self.forgives(&ran) {
                continue;
            }
            self.runs.push(ran);
            self.take(self.runs.len() - 1);
            self.write(false)?;
        };
        self.finish(end)
    }

    /// Whether a look at which the client was not good enough is had once more: something else may
    /// have run on this host.
    fn forgives(&mut self, ran: &Ran) -> bool {
        if self.forgiven.contains(&ran.value) {
            return false;
        }
        self.forgiven.push(ran.value);
        self.campaign.screen.note(
            "the client was not good enough for that (see its summary.json): it is tried once more",
        );
        true
    }

    /// The name of its level.
    fn name_of(&self, look: &Look) -> String {
        resume::name(resume::number_of(look.value, &self.runs, None, 0), look.number - 1)
    }

    fn look(&self, look: &Look) -> Result<Ran, Failure> {
        let (value, repetition) = (look.value, look.number - 1);
        let at = resume::number_of(value, &self.runs, None, 0);
        let words = self.campaign.range.words(value);
        let again = if look.number > 1 { ", longer" } else { "" };
        let label = format!("probe {}: {words}{again}", at + 1);
        let course = Course { label, after_ns: None };
        let name = self.name_of(look);
        let length = Some(Span::from_ns(look.length_ns));
        self.campaign.level((value, repetition), &name, &course, length)
    }

    fn write(&self, is_complete: bool) -> Result<SearchReport, Failure> {
        let variable = self.campaign.range.variable;
        let levels = levels(&self.runs);
        let tiers = self.tiers.named(&self.runs);
        let mut report = SearchReport::new(variable, &self.search, &tiers, &levels, is_complete);
        let mut curve = Curve::new(variable, levels, self.campaign.draft.name(), None);
        report.about = self.campaign.about(&self.runs);
        curve.about.clone_from(&report.about);
        self.campaign.write_curve(&curve)?;
        self.campaign.dir.write_json("search.json", &report)?;
        Ok(report)
    }

    fn finish(self, end: End) -> Result<Code, Failure> {
        let report = self.write(end == End::Whole)?;
        let screen = self.campaign.screen;
        screen.report(&report::search_page(&report, screen.width(), screen.colour()));
        let dir = self.campaign.dir.path().display();
        screen.note(format_args!("results: {dir}"));
        if self.campaign.with_page {
            report::html::leave(&self.campaign.dir, screen);
        }
        if screen.json {
            output::json(&report)?;
        }
        let holds = |boundary: &tokclock_engine::run::search::Boundary| boundary.low.is_some();
        match end {
            End::Interrupted => {
                screen.note(format_args!("to go on: tokclock search --resume {dir}"));
                Ok(Code::Interrupted)
            }
            End::ServerGone => Err(Failure::could_not_run(format!(
                "the server does not answer any more: the search ends with what it has; to go on: \
                 tokclock search --resume {dir}"
            ))),
            End::WorkersLost(lost) => Err(Failure::could_not_run(format!(
                "{lost}: the search ends with what it has; to go on: tokclock search --resume {dir}, with \
                 workers"
            ))),
            End::Whole if report.tiers.iter().any(|tier| holds(&tier.boundary)) => Ok(Code::Ok),
            // Nothing is sure, but the samples of some load keep the objectives.
            End::Whole if report.probes.iter().any(|probe| probe.leans_to_pass) => Ok(Code::Ok),
            End::Whole => Ok(Code::ObjectiveMissed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse_options;

    #[test]
    fn tiers_are_read_and_their_rules_kept_in_order() {
        let options = parse_options(&["--slo", "p95(ttft)<1s"]);
        let named = ["gold: p95(ttft)<200ms, p99(itl)<30ms".to_owned()];
        let tiers = Tiers::of(&options, &named).unwrap();
        assert_eq!(tiers.rules(), ["p95(ttft)<1s", "p95(ttft)<200ms", "p99(itl)<30ms"]);
        assert_eq!(tiers.goodput().unwrap().unwrap().to_string(), "ttft:1000");
        // As a search that goes on reads it.
        let again = Options { slo: tiers.unnamed(), ..options };
        assert_eq!(Tiers::of(&again, &named).unwrap().rules(), tiers.rules());
    }

    #[test]
    fn a_tier_may_share_a_rule_with_the_first() {
        let options = parse_options(&["--slo", "p95(ttft)<1s"]);
        let named = ["gold: p95(ttft)<1s, p99(itl)<30ms".to_owned()];
        let tiers = Tiers::of(&options, &named).unwrap();
        assert_eq!(tiers.tiers.len(), 2);
        assert_eq!(tiers.unnamed(), ["p95(ttft)<1s"]);
    }

    #[test]
    fn without_an_objective_there_is_nothing_to_search() {
        let none = Tiers::of(&parse_options(&[]), &[]).err().unwrap();
        assert!(none.message.contains("--slo"), "{none}");
        for wrong in ["gold", "gold:", ": p95(ttft)<1s"] {
            let said = Tiers::of(&parse_options(&[]), &[wrong.to_owned()]).err().unwrap();
            assert!(said.message.contains("--tier"), "{said}");
        }
    }
}
