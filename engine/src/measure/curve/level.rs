//! One level of a curve: a load, and its repetitions.

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use crate::measure::health::{Health, Reason};
use crate::measure::interval::Interval;
use crate::measure::{Held, ObjectiveReport, Summary};

/// One run at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Whether the objectives held, those of classes included; null without any.
    pub slo: Option<Held>,
    /// Each objective; those of a class say so, as `class: text`.
    pub objectives: Vec<ObjectiveReport>,
    /// Whether the client can be believed.
    pub client: Health,
    /// What is worth knowing of the client and of the figures.
    pub notes: Vec<Reason>,
    /// The window was in a steady state; null where it is too short to tell.
    pub steady: Option<bool>,
    /// Requests in flight or TTFT rose through the window of an open loop; null where that was not
    /// or could not be looked at.
    pub rising: Option<bool>,
    /// Its result directory, relative to the file of the curve; empty where there is none.
    pub dir: String,
}

impl Repetition {
    /// What a run says.
    #[must_use]
    pub fn of(summary: &Summary) -> Self {
        let objectives = objectives(summary);
        Self {
            slo: all_held(&objectives),
            objectives,
            steady: summary.steadiness.is_steady,
            rising: summary.steadiness.rising,
            notes: summary.client.reasons.iter().chain(&summary.notes).cloned().collect(),
            ..Self::of_figures(Figures::of(summary), summary.client.verdict)
        }
    }

    /// A run of which these figures and the verdict on the client are all that is known.
    #[must_use]
    pub fn of_figures(figures: Figures, client: Health) -> Self {
        Self {
            figures,
            slo: None,
            objectives: Vec::new(),
            client,
            notes: Vec::new(),
            steady: None,
            rising: None,
            dir: String::new(),
        }
    }

    /// The same with where its result lies.
    #[must_use]
    pub fn with_dir(self, dir: &str) -> Self {
        Self { dir: dir.to_owned(), ..self }
    }
}

/// All objectives of a run.
fn objectives(summary: &Summary) -> Vec<ObjectiveReport> {
    let run = summary.slo.iter().flat_map(|slo| slo.objectives.clone());
    let classes = summary.classes.iter().flat_map(|class| {
        let all = class.slo.iter().flat_map(|slo| &slo.objectives);
        all.map(|one| ObjectiveReport {
            text: format!("{}: {}", class.name, one.text),
            ..one.clone()
        })
    });
    run.chain(classes).collect()
}

/// `fail` if any failed, else `unknown` if any is, else `pass`; `None` without any.
fn all_held(objectives: &[ObjectiveReport]) -> Option<Held> {
    worst(objectives.iter().map(|objective| objective.verdict))
}

/// `fail` if there is one, else `unknown` if there is one, else `pass`; `None` of none.
fn worst(verdicts: impl Iterator<Item = Held>) -> Option<Held> {
    let grave = |held: &Held| match held {
        Held::Pass => 0,
        Held::Unknown => 1,
        Held::Fail => 2,
    };
    verdicts.max_by_key(grave)
}

/// The smallest and the largest figure of a level's repetitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Of `rps`.
    pub rps: Option<[f64; 2]>,
    /// Of `output_tps`.
    pub output_tps: Option<[f64; 2]>,
    /// Of `goodput_rps`.
    pub goodput_rps: Option<[f64; 2]>,
    /// Of `ttft_p95`, ns; an end that lies among bad requests is null.
    pub ttft_p95: Interval,
    /// Of `itl_p95`, ns, likewise.
    pub itl_p95: Interval,
    /// Of `e2e_p95`, ns, likewise.
    pub e2e_p95: Interval,
}

impl Spread {
    fn of(figures: &[&Figures]) -> Self {
        let rate = |pick: fn(&Figures) -> Option<f64>| {
            let values = || figures.iter().filter_map(|figures| pick(figures));
            Some([values().reduce(f64::min)?, values().reduce(f64::max)?])
        };
        let judged = |pick: fn(&Figures) -> Option<u64>| {
            let values = || figures.iter().map(|figures| pick(figures));
            // `None` is the smallest of options, yet longer than anything here.
            let high = if values().any(|value| value.is_none()) { None } else { values().max() };
            [values().flatten().min(), high.flatten()]
        };
        Self {
            rps: rate(|f| f.rps),
            output_tps: rate(|f| f.output_tps),
            goodput_rps: rate(|f| f.goodput_rps),
            ttft_p95: judged(|f| f.ttft_p95),
            itl_p95: judged(|f| f.itl_p95),
            e2e_p95: judged(|f| f.e2e_p95),
        }
    }
}

/// One level: a load, the medians of its repetitions' figures, what they say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The load, in the unit of the curve's variable.
    pub value: f64,
    /// The result directory of its first repetition.
    pub dir: String,
    /// The median of each figure over the repetitions.
    #[serde(flatten)]
    pub figures: Figures,
    /// `fail` if the objectives failed in any repetition, `pass` only if they held in all, else
    /// `unknown`; null without objectives.
    pub slo: Option<Held>,
    /// See [`super::saturated`].
    pub saturated: Option<bool>,
    /// The worst verdict on the client.
    pub client: Health,
    /// False if any repetition was not steady, true only if all were, else null.
    pub steady: Option<bool>,
    /// Whether more than half of the repetitions that could tell saw in-flight or TTFT rise.
    pub rising: Option<bool>,
    /// How far the repetitions lie apart; null of one alone.
    pub spread: Option<Spread>,
    /// What is worth knowing of the client and the figures, each kind once, as the first repetition
    /// with it says.
    pub notes: Vec<Reason>,
    /// Each repetition.
    pub repetitions: Vec<Repetition>,
}

impl Level {
    /// The level at load `value` from its repetitions. Whether it is saturated depends on other
    /// levels too and is filled in by [`super::Curve::new`].
    #[must_use]
    pub fn of(value: f64, repetitions: Vec<Repetition>) -> Self {
        let figures: Vec<&Figures> = repetitions.iter().map(|one| &one.figures).collect();
        let steady = repetitions.iter().map(|one| one.steady);
        let rising: Vec<bool> = repetitions.iter().filter_map(|one| one.rising).collect();
        let rose = rising.iter().filter(|&&rose| rose).count();
        // Without objectives in one repetition there are none in any.
        let verdicts = repetitions.iter().filter_map(|one| one.slo);
        let mut notes: Vec<Reason> = Vec::new();
        for reason in repetitions.iter().flat_map(|one| &one.notes) {
            if notes.iter().all(|note| note.kind != reason.kind) {
                notes.push(reason.clone());
            }
        }
        Self {
            value,
            dir: repetitions.first().map(|one| one.dir.clone()).unwrap_or_default(),
            figures: Figures::median(&figures),
            slo: worst(verdicts),
            saturated: None,
            client: repetitions.iter().map(|one| one.client).max().unwrap_or(Health::Valid),
            steady: if steady.clone().any(|steady| steady == Some(false)) {
                Some(false)
            } else {
                (!repetitions.is_empty() && steady.clone().all(|s| s == Some(true))).then_some(true)
            },
            rising: (!rising.is_empty()).then_some(rose * 2 > rising.len()),
            spread: (figures.len() > 1).then(|| Spread::of(&figures)),
            notes,
            repetitions,
        }
    }

    /// Whether the objectives held in every repetition.
    #[must_use]
    pub fn held(&self) -> bool {
        self.slo == Some(Held::Pass)
    }
}
