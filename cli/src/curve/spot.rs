//! What is varied, and one place on it.

use tokclock_engine::measure::curve::Variable;
use tokclock_engine::run::ladder::geometric;

use crate::config::Options;
use crate::exit::Failure;
use crate::values::{Levels, Span, WarmUp};

/// Loads that stand for all of a sweep whose end nobody knows: connections and cores are checked for
/// so many.
const USERS_OF_AUTO: f64 = 256.0;
const RATE_OF_AUTO: f64 = 100.0;
/// No sweep or search goes beyond these.
const USERS_MAX: f64 = 65_536.0;
const RATE_MAX: f64 = 1_000_000.0;
/// How long what is in flight may go on after a level, unless `--drain` says otherwise.
const DRAIN: Span = Span::from_ns(10_000_000_000);

/// What is varied, and over which loads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Range {
    pub(super) variable: Variable,
    pub(super) levels: Levels,
}

impl Range {
    /// What the options vary: users, unless they name a rate.
    ///
    /// # Errors
    /// A usage error if they vary nothing that can be.
    pub(super) fn of(options: &Options) -> Result<Self, Failure> {
        let fixed = [("--rates", options.rates.is_some()), ("--trace", options.trace.is_some())];
        if let Some((flag, _)) = fixed.iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!(
                "{flag} is one load, and several were asked for: vary --concurrency or --rate"
            )));
        }
        match (&options.rate, &options.concurrency) {
            (Some(_), Some(_)) => {
                Err(Failure::usage("--rate and --concurrency exclude each other: vary one of them"))
            }
            (Some(levels), None) => Ok(Self { variable: Variable::Rate, levels: levels.clone() }),
            (None, levels) => Ok(Self {
                variable: Variable::Concurrency,
                levels: levels.clone().unwrap_or(Levels::Auto),
            }),
        }
    }

    /// Whether only whole loads are.
    pub(super) fn is_whole(&self) -> bool {
        self.variable == Variable::Concurrency
    }

    /// No load is above this.
    pub(super) fn most(&self) -> f64 {
        match (&self.levels, self.variable) {
            (Levels::Range { to, .. }, _) => *to,
            (_, Variable::Concurrency) => USERS_MAX,
            (_, Variable::Rate) => RATE_MAX,
        }
    }

    /// The loads that were named; nothing where the service decides.
    pub(super) fn listed(&self) -> Option<Vec<f64>> {
        match &self.levels {
            Levels::One(value) => Some(vec![*value]),
            Levels::List(values) => Some(values.clone()),
            Levels::Range { from, to, step } => Some(geometric(*from, *to, *step, self.is_whole())),
            Levels::Auto => None,
        }
    }

    /// The load that stands for all when it is checked whether this host can carry them.
    pub(super) fn representative(&self) -> f64 {
        let listed = self.listed().and_then(|values| values.into_iter().reduce(f64::max));
        listed.unwrap_or(match self.variable {
            Variable::Concurrency => USERS_OF_AUTO,
            Variable::Rate => RATE_OF_AUTO,
        })
    }

    /// A load in words.
    pub(super) fn words(&self, value: f64) -> String {
        match self.variable {
            Variable::Concurrency if value == 1.0 => "1 user".to_owned(),
            Variable::Concurrency => format!("{value} users"),
            Variable::Rate => format!("{value} requests/s"),
        }
    }
}

/// The options with this load in place of levels.
pub(super) fn set_load(options: &mut Options, variable: Variable, value: f64) {
    match variable {
        Variable::Concurrency => options.concurrency = Some(Levels::One(value)),
        Variable::Rate => options.rate = Some(Levels::One(value)),
    }
}

/// The options of a closed loop with one user, whatever they were before.
pub(super) fn set_alone(options: &mut Options, requests: u64) {
    (options.rate, options.arrival, options.burstiness) = (None, None, None);
    (options.max_in_flight, options.overflow, options.ramp) = (None, None, None);
    options.concurrency = Some(Levels::One(1.0));
    (options.duration, options.sessions, options.until) = (None, None, None);
    options.requests = Some(requests);
    options.warmup = Some(WarmUp::Requests(1));
}

/// Fills in what a level means by default.
pub(super) fn fill(options: &mut Options) {
    // A ramp is a warm-up of its own.
    if options.warmup.is_none() && options.ramp.is_none() {
        options.warmup = Some(WarmUp::Auto);
    }
    options.drain.get_or_insert(DRAIN);
}

/// The seed of a run at this load: the same whenever it is run, another for each load and repetition,
/// so that no prefix cache knows its prompts.
pub(super) fn seed(seed: u64, value: f64, repetition: usize) -> u64 {
    /// What every reader of TOML and JSON takes as it is.
    const SEED_BITS: u32 = 53;
    // The finaliser of SplitMix64 (Steele et al. 2014) scatters sums.
    let mut mixed = seed ^ value.to_bits().rotate_left(17);
    mixed =
        mixed.wrapping_add((repetition as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) >> (64 - SEED_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse_options;

    #[test]
    fn users_are_varied_unless_a_rate_is_named() {
        let range = Range::of(&parse_options(&[])).unwrap();
        assert_eq!((range.variable, range.levels), (Variable::Concurrency, Levels::Auto));
        let range = Range::of(&parse_options(&["--rate", "1..4"])).unwrap();
        assert_eq!(range.listed(), Some(vec![1.0, 2.0, 4.0]));
        assert_eq!((range.representative(), range.most()), (4.0, 4.0));
        for (options, wrong) in [
            (&["--rates", "1@2s"][..], "--rates is one load"),
            (&["--rate", "1", "-c", "2"], "exclude each other"),
        ] {
            let said = Range::of(&parse_options(options)).unwrap_err();
            assert!(said.message.contains(wrong), "{said}");
        }
    }

    #[test]
    fn every_load_and_every_repetition_has_a_seed_of_its_own() {
        let mut seeds: Vec<u64> = [1.0, 2.0, 2.5, 1024.0]
            .into_iter()
            .flat_map(|value| (0..5).map(move |repetition| seed(7, value, repetition)))
            .collect();
        assert!(seeds.iter().all(|seed| *seed < 1 << 53));
        assert_eq!(seeds[0], seed(7, 1.0, 0));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 20);
    }
}
