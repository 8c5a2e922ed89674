//! Counting tests from what the test binaries print.
//!
//! Every test binary ends in a line `test result: ok. 5 passed; 0 failed; 1 ignored; …`. A test that found no
//! ground to stand on (no such device, not enough locked memory) passes for the test runner, so it prints a line
//! beginning `skipped:` with its reason, and is counted here as skipped and not as passed.
//!
//! What a failed test printed stands between the lines `failures:` and `test result:`, under `---- its name stdout
//! ----`. It is kept, so that a long run can say it again at its end.

use std::ops::AddAssign;

/// How many tests passed, failed and were skipped, the last with their reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests left out by an attribute: they printed no reason.
    pub(crate) ignored: u64,
    /// One reason for each skipped test, in the order they were printed.
    pub(crate) skips: Vec<String>,
    /// What each failed test printed, under the line with its name.
    pub(crate) failures: Vec<String>,
}

/// The most lines of a failed test that are kept: the message of a panic and the nearer part of a backtrace.
const FAILURE_LINES: usize = 40;

/// What part of a test binary's output a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Results of tests, and what those that passed printed.
    Results,
    /// After `failures:`, before the first name or in the list of names.
    Failures,
    /// What one failed test printed, so many lines of it so far.
    Failure(usize),
}

impl Tally {
    /// Reads the output of one or many test binaries.
    pub(crate) fn read(output: &str) -> Self {
        let mut tally = Self::default();
        let mut part = Part::Results;
        for line in output.lines() {
            let line = without_colours(line);
            tally.read_line(&line);
            part = tally.read_failure(part, &line);
        }
        tally.passed = tally.passed.saturating_sub(tally.skips.len() as u64);
        tally
    }

    fn read_line(&mut self, line: &str) {
        if let Some(reason) = line.trim_start().strip_prefix("skipped:") {
            self.skips.push(reason.trim().to_owned());
        } else if let Some(counts) = line.strip_prefix("test result:") {
            self.passed += count_before(counts, "passed");
            self.failed += count_before(counts, "failed");
            self.ignored += count_before(counts, "ignored");
        }
    }

    /// Keeps the line if it stands in what a failed test printed; answers what part the next line stands in.
    fn read_failure(&mut self, part: Part, line: &str) -> Part {
        match part {
            _ if line.starts_with("test result:") => Part::Results,
            _ if line == "failures:" => Part::Failures,
            Part::Results => Part::Results,
            _ if line.starts_with("---- ") => {
                self.failures.push(line.to_owned());
                Part::Failure(0)
            }
            Part::Failure(lines) if lines < FAILURE_LINES => {
                if let Some(failure) = self.failures.last_mut() {
                    failure.push('\n');
                    failure.push_str(line);
                }
                Part::Failure(lines + 1)
            }
            part => part,
        }
    }

    /// Everything that was skipped, with or without a reason.
    pub(crate) fn skipped(&self) -> u64 {
        self.ignored + self.skips.len() as u64
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skips.extend(other.skips);
        self.failures.extend(other.failures);
    }
}

/// The number in front of `word` in `ok. 5 passed; 0 failed`, or zero.
fn count_before(counts: &str, word: &str) -> u64 {
    let words: Vec<&str> = counts
        .split([' ', ';', '.'])
        .filter(|part| !part.is_empty())
        .collect();
    words
        .windows(2)
        .find(|pair| pair[1] == word)
        .and_then(|pair| pair[0].parse().ok())
        .unwrap_or(0)
}

/// The line as it reads: terminals' colour sequences (escape, `[`, digits, `m`) left out.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_are_summed() {
        let tally = Tally::read(
            "running 5 tests\n\
             test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
             test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((tally.passed, tally.failed, tally.ignored), (12, 2, 1));
    }

    #[test]
    fn a_test_that_says_it_skipped_is_not_counted_as_passed() {
        let tally = Tally::read(
            "skipped: no second memory node\n\
             test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((tally.passed, tally.skipped()), (4, 1));
        assert_eq!(tally.skips, ["no second memory node"]);
    }

    #[test]
    fn colours_do_not_hide_a_result() {
        let tally = Tally::read("test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 2 passed; 0 failed");
        assert_eq!(tally.passed, 2);
    }

    #[test]
    fn what_failed_tests_printed_is_kept_and_what_others_did_is_not() {
        let long = "a frame\n".repeat(2 * FAILURE_LINES);
        let tally = Tally::read(&format!(
            "test one ... FAILED\n\nsuccesses:\n\n---- two stdout ----\nall is well\n\n\
             failures:\n\n---- one stdout ----\nassertion failed\n{long}\nfailures:\n    one\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored\n---- three stdout ----\n",
        ));
        let [failure] = tally.failures.as_slice() else {
            panic!("{:?}", tally.failures);
        };
        assert!(failure.starts_with("---- one stdout ----\nassertion failed\n"));
        assert_eq!(failure.lines().count(), 1 + FAILURE_LINES);
    }

    #[test]
    fn other_lines_count_nothing() {
        let tally = Tally::read("the test result: is near\n3 passed\n");
        assert_eq!(tally, Tally::default());
    }
}
