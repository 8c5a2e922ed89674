//! Breaking the code on purpose and expecting red.
//!
//! A test that cannot fail proves nothing. Each `xtask/mutants/*.patch` breaks one protocol in one way and names
//! the test that must notice. The patch is applied to a copy of the tree under the target directory; the working
//! tree is never touched.
//!
//! Models and other tests build apart, so each kind has a copy of its own and the two kinds run beside each other:
//! while one compiles the other mostly runs a test.
//!
//! A mutant is *caught* when the named tests pass without the patch, the patched code still compiles, and the tests
//! then fail. A patch that no longer applies, does not compile or runs into the time limit is a failure of the
//! mutant: it has stopped saying anything.
//!
//! A model tries every order of events and says the same each time. Tests on real threads meet a broken protocol only in some
//! orders, so they are run up to [`RUNS`] times before the mutant counts as one that survived.

mod patch;
mod scratch;
mod seed;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::invocation::{Ending, Invocation};
use crate::loom;
use crate::report::{Outcome, Report};
use crate::tally::Tally;
use crate::workspace::Workspace;

use patch::Patch;
use scratch::{Kind, Scratch};

/// Where the patches are.
pub(crate) const FOLDER: &str = "xtask/mutants/";

/// The tests that a mutant names may take this long, built as they are by then; they are a few, not a suite. Without
/// a limit a mutant that waits for ever would hold up everything.
const TEST_LIMIT: Duration = Duration::from_secs(120);

/// How often tests on real threads are run for one answer.
const RUNS: usize = 3;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Only the mutants whose file name contains one of these
    names: Vec<String>,
}

/// What became of one mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Caught,
    /// The tests passed although the code is broken.
    Survived,
    /// The tests fail, or run nothing, without the patch.
    BaselineRed,
    DoesNotApply,
    DoesNotCompile,
    TimedOut,
    /// The test command failed without any test failing.
    NoTestFailed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caught => "caught",
            Self::Survived => "SURVIVED: the tests pass although the code is broken",
            Self::BaselineRed => "the tests do not pass without the patch",
            Self::DoesNotApply => "the patch does not apply to the tree",
            Self::DoesNotCompile => "the patched code does not compile",
            Self::TimedOut => "the tests did not end in time",
            Self::NoTestFailed => "the test command failed, but no test did",
        })
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let patches = chosen(workspace, &options.names)?;
    if patches.is_empty() {
        return Ok(Report::skipped("no mutant matches"));
    }
    let (models, others): (Vec<Patch>, Vec<Patch>) =
        patches.into_iter().partition(|patch| patch.loom);
    let verdicts = std::thread::scope(|scope| {
        let models = scope.spawn(|| try_all(workspace, Kind::Models, models));
        let others = try_all(workspace, Kind::Others, others);
        let models = models
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, anyhow::Error>([models?, others?].concat())
    })?;
    Ok(conclude(&verdicts))
}

/// A mutant that was tried.
#[derive(Debug, Clone)]
struct Tried {
    name: String,
    verdict: Verdict,
    took: Duration,
}

/// Tries mutants of one kind, one after the other.
fn try_all(workspace: &Workspace, kind: Kind, patches: Vec<Patch>) -> anyhow::Result<Vec<Tried>> {
    if patches.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::new(workspace, kind)?;
    let baselines = baselines(&scratch, &patches)?;
    let mut tried = Vec::new();
    for patch in patches {
        println!("\nmutant {}: {}", patch.name, patch.breaks);
        let start = Instant::now();
        let verdict = if baselines[&patch.command()] {
            try_one(&scratch, &patch)?
        } else {
            Verdict::BaselineRed
        };
        println!("{}: {verdict}", patch.name);
        tried.push(Tried {
            name: patch.name,
            verdict,
            took: start.elapsed(),
        });
    }
    Ok(tried)
}

fn chosen(workspace: &Workspace, names: &[String]) -> anyhow::Result<Vec<Patch>> {
    workspace
        .files()?
        .iter()
        .filter(|path| path.starts_with(FOLDER) && path.ends_with(".patch"))
        .filter(|path| names.is_empty() || names.iter().any(|name| path.contains(name.as_str())))
        .map(|path| {
            let text = std::fs::read_to_string(workspace.root().join(path))
                .with_context(|| format!("cannot read {path}"))?;
            Patch::parse(path, &text).with_context(|| path.clone())
        })
        .collect()
}

/// Which of the patches' test commands pass on the tree as it is.
fn baselines(scratch: &Scratch, patches: &[Patch]) -> anyhow::Result<BTreeMap<String, bool>> {
    let mut green = BTreeMap::new();
    for patch in patches {
        if green.contains_key(&patch.command()) {
            continue;
        }
        println!("\nthe tests of {} without any patch:", patch.name);
        let passes = compiles(scratch, patch)? && is_green(scratch, patch)?;
        green.insert(patch.command(), passes);
    }
    Ok(green)
}

/// Whether the tests pass on the tree as it is. What the step `test` has found green is not red for one slow run beside another build.
fn is_green(scratch: &Scratch, patch: &Patch) -> anyhow::Result<bool> {
    for _ in 0..patch.runs() {
        let ending = test(scratch, patch)?;
        if passes(&ending) {
            return Ok(true);
        }
        if let Ending::Exited { output, .. } = &ending {
            println!("{}", last_lines(output, 30));
        }
    }
    Ok(false)
}

/// Applies the patch, runs its tests, and puts the tree back.
fn try_one(scratch: &Scratch, patch: &Patch) -> anyhow::Result<Verdict> {
    if !scratch.apply(&patch.path)? {
        scratch.restore()?;
        return Ok(Verdict::DoesNotApply);
    }
    let verdict = if compiles(scratch, patch)? {
        judge_runs(scratch, patch)?
    } else {
        Verdict::DoesNotCompile
    };
    // A patch that git thought applied but that changed nothing has not broken anything.
    if scratch.restore()? == 0 {
        return Ok(Verdict::DoesNotApply);
    }
    Ok(verdict)
}

/// The first run that is red decides, or else the last.
fn judge_runs(scratch: &Scratch, patch: &Patch) -> anyhow::Result<Verdict> {
    let mut verdict = judge(&test(scratch, patch)?);
    for _ in 1..patch.runs() {
        if verdict == Verdict::Caught {
            break;
        }
        println!("{}: {verdict}; once more", patch.name);
        verdict = judge(&test(scratch, patch)?);
    }
    Ok(verdict)
}

fn compiles(scratch: &Scratch, patch: &Patch) -> anyhow::Result<bool> {
    let invocation = cargo(scratch, patch, "--no-run");
    let ending = invocation.run_logged(None, scratch.tree(), scratch.log())?;
    if let Ending::Exited {
        success: false,
        output,
    } = &ending
    {
        println!("{}", last_lines(output, 30));
    }
    Ok(matches!(ending, Ending::Exited { success: true, .. }))
}

fn test(scratch: &Scratch, patch: &Patch) -> anyhow::Result<Ending> {
    // One red is enough, and nobody reads the shortest input that gives it.
    let invocation = cargo(scratch, patch, "--quiet").variable("PROPTEST_MAX_SHRINK_ITERS", "0");
    invocation.run_logged(Some(TEST_LIMIT), scratch.tree(), scratch.log())
}

fn cargo(scratch: &Scratch, patch: &Patch, flag: &str) -> Invocation {
    let mut invocation = Invocation::cargo("test").argument(flag);
    for argument in &patch.test {
        invocation = invocation.argument(argument);
    }
    // A patch changes a line or two of a crate that others build on: with what rustc kept of the build before, that is seconds of
    // work and not a minute, whatever the run around says about builds from nothing.
    invocation = invocation
        .path_variable("CARGO_TARGET_DIR", scratch.target())
        .variable("CARGO_INCREMENTAL", "1");
    if patch.loom {
        for (name, value) in loom::variables(false) {
            invocation = invocation.variable(name, value);
        }
    }
    invocation
}

fn passes(ending: &Ending) -> bool {
    match ending {
        Ending::TimedOut => false,
        Ending::Exited { success, output } => *success && Tally::read(output).passed > 0,
    }
}

/// What the test runner says of a process that broke down: it aborted, or touched memory that is not there.
const BROKE_DOWN: [&str; 2] = ["SIGABRT", "SIGSEGV"];

/// A red that counts is a test that failed, or a model that panicked beyond what the test runner can report, or a test that took
/// the process with it.
fn judge(ending: &Ending) -> Verdict {
    match ending {
        Ending::TimedOut => Verdict::TimedOut,
        Ending::Exited { success: true, .. } => Verdict::Survived,
        Ending::Exited { output, .. } => {
            let has_failed = ["test result: FAILED", "panicked at"];
            let mut reds = has_failed.iter().chain(&BROKE_DOWN);
            if reds.any(|red| output.contains(red)) {
                Verdict::Caught
            } else {
                println!("{}", last_lines(output, 30));
                Verdict::NoTestFailed
            }
        }
    }
}

fn conclude(verdicts: &[Tried]) -> Report {
    println!();
    let mut tally = Tally::default();
    for Tried {
        name,
        verdict,
        took,
    } in verdicts
    {
        println!("{name:<44} {:>6.1} s  {verdict}", took.as_secs_f64());
        if *verdict == Verdict::Caught {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            tally.failures.push(format!("{name}: {verdict}"));
        }
    }
    let outcome = if tally.failed == 0 {
        Outcome::Passed
    } else {
        Outcome::Failed(format!(
            "{} of {} mutants were not caught",
            tally.failed,
            verdicts.len()
        ))
    };
    Report { outcome, tally }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(success: bool, output: &str) -> Ending {
        Ending::Exited {
            success,
            output: output.to_owned(),
        }
    }

    #[test]
    fn a_failing_test_catches_the_mutant() {
        let ending = exited(false, "test result: FAILED. 0 passed; 1 failed");
        assert_eq!(judge(&ending), Verdict::Caught);
    }

    #[test]
    fn a_model_that_aborts_catches_the_mutant() {
        let ending = exited(
            false,
            "thread 'main' panicked at src/ring.rs:1:1:\ndeadlock",
        );
        assert_eq!(judge(&ending), Verdict::Caught);
    }

    #[test]
    fn a_test_that_takes_the_process_with_it_catches_the_mutant() {
        let output = "error: test failed\n\nCaused by:\n  process didn't exit successfully: `destructors` \
                      (signal: 6, SIGABRT: process abort signal)";
        assert_eq!(judge(&exited(false, output)), Verdict::Caught);
    }

    #[test]
    fn a_green_run_lets_the_mutant_survive() {
        let ending = exited(true, "test result: ok. 1 passed; 0 failed");
        assert_eq!(judge(&ending), Verdict::Survived);
    }

    #[test]
    fn a_command_that_fails_without_a_failing_test_catches_nothing() {
        let ending = exited(false, "error: no test target named `x`");
        assert_eq!(judge(&ending), Verdict::NoTestFailed);
    }

    #[test]
    fn a_filter_that_matches_no_test_is_no_baseline() {
        assert!(!passes(&exited(
            true,
            "test result: ok. 0 passed; 0 failed"
        )));
        assert!(passes(&exited(true, "test result: ok. 1 passed; 0 failed")));
    }

    #[test]
    fn a_mutant_that_was_not_caught_is_named_at_the_end() {
        let tried = |name: &str, verdict| Tried {
            name: name.to_owned(),
            verdict,
            took: Duration::ZERO,
        };
        let report = conclude(&[
            tried("ring_reads_early", Verdict::Survived),
            tried("gate_opens_twice", Verdict::Caught),
        ]);
        assert_eq!(report.tally.failures.len(), 1);
        assert!(report.tally.failures[0].starts_with("ring_reads_early: SURVIVED"));
        assert!(matches!(report.outcome, Outcome::Failed(_)));
    }

    #[test]
    fn every_kept_patch_has_a_readable_header() {
        let workspace = Workspace::find().unwrap();
        chosen(&workspace, &[]).unwrap();
    }
}
