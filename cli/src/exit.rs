//! How a command ends: exit codes, and failures that carry one.

use std::fmt;
use std::process::ExitCode;

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

/// What a finished run says that bears on its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Evidence {
    /// The user stopped it.
    pub(crate) interrupted: bool,
    /// Its verdict is *invalid*.
    pub(crate) invalid: bool,
    /// Measured requests that succeeded.
    pub(crate) ok: u64,
    /// Measured requests that failed.
    pub(crate) failed: u64,
    /// An objective on the run was missed.
    pub(crate) objective_missed: bool,
}

impl Code {
    /// The code of a finished run, the first that applies.
    ///
    /// The error rate is `failed / (ok + failed)`: a request that we ended ourselves is no failure.
    /// A run without one success is a failure whatever the allowed rate.
    #[must_use]
    pub(crate) fn of_run(evidence: &Evidence, max_error_rate: Share) -> Self {
        let settled = evidence.ok.saturating_add(evidence.failed);
        let allowed = max_error_rate.value() * settled as f64;
        if evidence.interrupted {
            Self::Interrupted
        } else if evidence.invalid {
            Self::Invalid
        } else if evidence.ok == 0 || evidence.failed as f64 > allowed {
            Self::Failures
        } else if evidence.objective_missed {
            Self::ObjectiveMissed
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

    const GOOD: Evidence = Evidence {
        interrupted: false,
        invalid: false,
        ok: 100,
        failed: 0,
        objective_missed: false,
    };

    #[test]
    fn a_good_run_ends_with_0() {
        assert_eq!(Code::of_run(&GOOD, FIVE) as u8, 0);
    }

    #[test]
    fn a_missed_objective_ends_with_3() {
        let run = Evidence { objective_missed: true, ..GOOD };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 3);
    }

    #[test]
    fn failures_above_the_allowed_rate_end_with_5_before_a_missed_objective() {
        let run = Evidence { ok: 94, failed: 6, objective_missed: true, ..GOOD };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 5);
    }

    #[test]
    fn failures_at_the_allowed_rate_are_allowed() {
        assert_eq!(Code::of_run(&Evidence { ok: 95, failed: 5, ..GOOD }, FIVE), Code::Ok);
        let none = Share::from_percent(0.0);
        assert_eq!(Code::of_run(&GOOD, none), Code::Ok);
        assert_eq!(Code::of_run(&Evidence { failed: 1, ..GOOD }, none), Code::Failures);
    }

    #[test]
    fn a_run_without_a_success_is_never_0() {
        let all = Share::from_percent(100.0);
        for failed in [0, 10] {
            let run = Evidence { ok: 0, failed, ..GOOD };
            assert_eq!(Code::of_run(&run, all) as u8, 5);
        }
    }

    #[test]
    fn an_invalid_result_ends_with_4_before_its_failures() {
        let run = Evidence { invalid: true, ok: 0, failed: 9, objective_missed: true, ..GOOD };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 4);
    }

    #[test]
    fn an_interrupt_ends_with_130_before_all_else() {
        let run = Evidence { interrupted: true, invalid: true, ..GOOD };
        assert_eq!(Code::of_run(&run, FIVE) as u8, 130);
    }

    #[test]
    fn failures_before_a_result_are_1_or_2() {
        assert_eq!(Failure::could_not_run("").code as u8, 1);
        assert_eq!(Failure::usage("").code as u8, 2);
    }
}
