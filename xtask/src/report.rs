//! What a command found out: whether it passed, and what it counted.

use crate::invocation::Ran;
use crate::tally::Tally;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was checked and is as it should be.
    Passed,
    /// Something is wrong, in one line.
    Failed(String),
    /// Nothing could be checked, and why.
    Skipped(String),
}

/// An outcome with the tests counted on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) tally: Tally,
}

impl Report {
    /// All well, with no test to count.
    pub(crate) fn passed() -> Self {
        Self {
            outcome: Outcome::Passed,
            tally: Tally::default(),
        }
    }

    /// Something is wrong.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Failed(reason.into()),
            tally: Tally::default(),
        }
    }

    /// Nothing could be checked.
    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Skipped(reason.into()),
            tally: Tally::default(),
        }
    }

    /// Several steps as one: failed where one has, skipped where all were. Reasons of the skipped ones are counted.
    pub(crate) fn of_all(steps: impl IntoIterator<Item = Self>) -> Self {
        let mut tally = Tally::default();
        let (mut failed, mut is_skipped) = (Vec::new(), true);
        for step in steps {
            tally += step.tally;
            match step.outcome {
                Outcome::Skipped(reason) => tally.skips.push(reason),
                Outcome::Failed(reason) => failed.push(reason),
                Outcome::Passed => is_skipped = false,
            }
        }
        let outcome = match (failed.is_empty(), is_skipped) {
            (false, _) => Outcome::Failed(failed.join("; ")),
            // The reasons stand in the outcome then, once.
            (true, true) => return Self::skipped(tally.skips.join("; ")),
            (true, false) => Outcome::Passed,
        };
        Self { outcome, tally }
    }

    /// What a finished command says for itself: its exit status, and the tests named in its output.
    pub(crate) fn of(ran: &Ran) -> Self {
        let tally = Tally::read(&ran.stdout);
        let outcome = match (ran.success, tally.failed) {
            (true, _) => Outcome::Passed,
            (false, 0) => Outcome::Failed("the command failed".to_owned()),
            (false, failed) => Outcome::Failed(format!("{failed} tests failed")),
        };
        Self { outcome, tally }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(success: bool, stdout: &str) -> Ran {
        Ran {
            success,
            stdout: stdout.to_owned(),
        }
    }

    #[test]
    fn a_failing_command_fails_even_when_it_counted_no_test() {
        let report = Report::of(&ran(false, "error: could not compile"));
        assert_eq!(
            report.outcome,
            Outcome::Failed("the command failed".to_owned())
        );
    }

    #[test]
    fn a_passing_command_keeps_its_count() {
        let report = Report::of(&ran(true, "test result: ok. 3 passed; 0 failed; 0 ignored"));
        assert_eq!(report.outcome, Outcome::Passed);
        assert_eq!(report.tally.passed, 3);
    }
}
