//! How a command ends: exit codes, and failures that carry one.

use std::fmt;
use std::process::ExitCode;

use tokclock_engine::measure::Verdicts;

use crate::values::Share;

/// The exit codes. Of a finished run the first that applies counts, in the order of
/// [`Code::of_run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Done, and nothing to complain about.
    Ok = 0,
    /// The command could not do its work.
    CouldNotRun = 1,
    /// Options that make no sense.
    Usage = 2,
    /// An objective was missed.
    ObjectiveMissed = 3,
    /// The result is invalid: the client was at fault.
    Invalid = 4,
    /// More requests failed than `--max-error-rate` allows, or none succeeded.
    Failures = 5,
    /// Interrupted; the results up to then are written.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

impl Code {
    /// The code of a finished run, the first that applies.
    ///
    /// The error rate is `failed / (ok + failed)`: a request that we ended ourselves is no failure.
    /// A run without one success is a failure whatever the allowed rate. A result that is a part of
    /// the load alone is no success, if nothing worse can be said of it.
    #[must_use]
    pub(crate) fn of_run(run: &Verdicts, max_error_rate: Share) -> Self {
        if run.interrupted {
            Self::Interrupted
        } else if run.invalid {
            Self::Invalid
        } else if run.completed == 0 || run.error_rate > max_error_rate.value() {
            Self::Failures
        } else if run.slo_missed {
            Self::ObjectiveMissed
        } else if run.partial {
            Self::CouldNotRun
        } else {
            Self::Ok
        }
    }
}

/// Why a command ended without a result: one clear line, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: Code,
    /// What was wrong, where, what to do.
    pub(crate) message: String,
}

impl Failure {
    /// Options that make no sense: exit code 2.
    #[must_use]
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: Code::Usage, message: message.into() }
    }

    /// Something in the way: exit code 1.
    #[must_use]
    pub(crate) fn could_not_run(message: impl Into<String>) -> Self {
        Self { code: Code::CouldNotRun, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Share = Share::from_percent(5.0);

    /// A run of which `failed` of 100 requests failed.
    fn run(failed: u64) -> Verdicts {
        Verdicts {
            interrupted: false,
            invalid: false,
            error_rate: failed as f64 / 100.0,
            slo_missed: false,
            completed: 100 - failed,
            settled: 100,
            partial: false,
        }
    }

    #[test]
    fn a_good_run_ends_with_0() {
        assert_eq!(Code::of_run(&run(0), FIVE) as u8, 0);
    }

    #[test]
    fn a_missed_objective_ends_with_3() {
        assert_eq!(Code::of_run(&Verdicts { slo_missed: true, ..run(0) }, FIVE) as u8, 3);
    }

    #[test]
    fn a_part_of_a_load_ends_with_1_after_all_else() {
        let part = Verdicts { partial: true, ..run(0) };
        assert_eq!(Code::of_run(&part, FIVE) as u8, 1);
        assert_eq!(Code::of_run(&Verdicts { slo_missed: true, ..part }, FIVE) as u8, 3);
        assert_eq!(Code::of_run(&Verdicts { partial: true, ..run(6) }, FIVE) as u8, 5);
    }

    #[test]
    fn failures_above_the_allowed_rate_end_with_5_before_a_missed_objective() {
        assert_eq!(Code::of_run(&Verdicts { slo_missed: true, ..run(6) }, FIVE) as u8, 5);
    }

    #[test]
    fn failures_at_the_allowed_rate_are_allowed() {
        for failed in 0..100 {
            let allowed: Share = format!("{failed}%").parse().unwrap();
            assert_eq!(Code::of_run(&run(failed), allowed), Code::Ok, "{failed} of 100");
            assert_eq!(Code::of_run(&run(failed + 1), allowed), Code::Failures);
        }
    }

    #[test]
    fn a_run_without_a_success_is_never_0() {
        let all = Share::from_percent(100.0);
        assert_eq!(Code::of_run(&run(100), all) as u8, 5);
        let nothing = Verdicts { completed: 0, settled: 0, error_rate: 0.0, ..run(0) };
        assert_eq!(Code::of_run(&nothing, all) as u8, 5);
    }

    #[test]
    fn an_invalid_result_ends_with_4_before_its_failures() {
        let run = Verdicts { invalid: true, slo_missed: true, ..run(100) };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 4);
    }

    #[test]
    fn an_interrupt_ends_with_130_before_all_else() {
        let run = Verdicts { interrupted: true, invalid: true, ..run(100) };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 130);
    }

    #[test]
    fn failures_before_a_result_are_1_or_2() {
        assert_eq!(Failure::could_not_run("").code as u8, 1);
        assert_eq!(Failure::usage("").code as u8, 2);
    }
}
