//! All checks and tests, one after the other, and the count.
//!
//! A step that fails does not stop the next: one run shows everything that is wrong. The last lines say once more what
//! failed tests printed and what was skipped and why, and the very last is the plain count `N passed, N failed, N
//! skipped`.

use std::time::{Duration, Instant};

use std::process::ExitCode;

use crate::report::{Outcome, Report};
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{conformance, demo, doc, fmt, fuzz, lint, loom, mutants, ptx, test, tidy};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A step that must run and was skipped is a failure; so it is too when the environment says CI=true
    #[arg(long)]
    strict: bool,
}

/// One step of the run.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> anyhow::Result<Report>,
    /// Whether skipping it is a failure under `--strict`.
    must_run: bool,
}

/// Cheap answers first; then in an order that builds on what the step before has built.
const STEPS: &[Step] = &[
    step("fmt", fmt::run),
    step("tidy", tidy::run),
    step("lint", lint::run),
    step("test", test::run),
    required("conformance", |workspace| {
        conformance::run(workspace, &conformance::Options::default())
    }),
    step("ptx", |workspace| {
        ptx::run(workspace, &ptx::Options::default())
    }),
    step("doc", doc::run),
    required("loom", |workspace| {
        loom::run(workspace, &loom::Options::default())
    }),
    step("mutants", |workspace| {
        mutants::run(workspace, &mutants::Options::default())
    }),
    step("demo", demo::run),
    required("fuzz", |workspace| {
        fuzz::run(workspace, &fuzz::Options::default())
    }),
];

const fn step(name: &'static str, run: fn(&Workspace) -> anyhow::Result<Report>) -> Step {
    Step {
        name,
        run,
        must_run: false,
    }
}

const fn required(name: &'static str, run: fn(&Workspace) -> anyhow::Result<Report>) -> Step {
    Step {
        name,
        run,
        must_run: true,
    }
}

/// A step that has been run.
struct Done {
    name: &'static str,
    report: Report,
    took: Duration,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<ExitCode> {
    let strict = options.strict || std::env::var_os("CI").is_some_and(|value| value == "true");
    let done: Vec<Done> = STEPS
        .iter()
        .map(|step| {
            println!("\n==== {} ====", step.name);
            let start = Instant::now();
            let report = attempt(step, workspace, strict);
            Done {
                name: step.name,
                report,
                took: start.elapsed(),
            }
        })
        .collect();
    print!("{}", table(&done));
    print!("{}", closing_lines(&done));
    Ok(if done.iter().any(|done| failed(&done.report)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs the step. That it could not be run at all is a failure like any other.
fn attempt(step: &Step, workspace: &Workspace, strict: bool) -> Report {
    let report = (step.run)(workspace).unwrap_or_else(|error| Report::failed(format!("{error:#}")));
    if step.must_run && strict {
        refuse_skip(report)
    } else {
        report
    }
}

fn refuse_skip(report: Report) -> Report {
    match report.outcome {
        Outcome::Skipped(reason) => Report::failed(format!("must not be skipped: {reason}")),
        _ => report,
    }
}

fn failed(report: &Report) -> bool {
    matches!(report.outcome, Outcome::Failed(_))
}

fn table(done: &[Done]) -> String {
    let mut text = format!("\n{:<12} {:<8} {:>8}\n", "step", "result", "seconds");
    for Done { name, report, took } in done {
        let (result, reason) = match &report.outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed(reason) => ("FAILED", reason.as_str()),
            Outcome::Skipped(reason) => ("skipped", reason.as_str()),
        };
        let line = format!(
            "{name:<12} {result:<8} {:>8.1}  {reason}",
            took.as_secs_f64()
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What failed tests printed, what was skipped and why, and the count. A failed step without a failed test counts as one, so that the count
/// never looks green when the run is not.
fn closing_lines(done: &[Done]) -> String {
    let mut total = Tally::default();
    let mut text = String::from("\n");
    for Done { name, report, .. } in done {
        for failure in &report.tally.failures {
            text.push_str(&format!("failed: {name}: {}\n", failure.trim_end()));
        }
        for reason in &report.tally.skips {
            text.push_str(&format!("skipped: {name}: {reason}\n"));
        }
        if report.tally.ignored > 0 {
            text.push_str(&format!(
                "skipped: {name}: {} ignored\n",
                report.tally.ignored
            ));
        }
        total += report.tally.clone();
        match &report.outcome {
            Outcome::Skipped(reason) => {
                text.push_str(&format!("skipped: {name}: the whole step: {reason}\n"));
                total.skips.push(reason.clone());
            }
            Outcome::Failed(_) if report.tally.failed == 0 => total.failed += 1,
            _ => {}
        }
    }
    let (passed, failed, skipped) = (total.passed, total.failed, total.skipped());
    text.push_str(&format!(
        "{passed} passed, {failed} failed, {skipped} skipped\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &'static str, report: Report) -> Done {
        Done {
            name,
            report,
            took: Duration::from_millis(1500),
        }
    }

    fn tests(passed: u64, failed: u64, skips: &[&str]) -> Report {
        Report {
            outcome: if failed == 0 {
                Outcome::Passed
            } else {
                Outcome::Failed(format!("{failed} tests failed"))
            },
            tally: Tally {
                passed,
                failed,
                ignored: 0,
                skips: skips.iter().map(|reason| (*reason).to_owned()).collect(),
                failures: (0..failed)
                    .map(|_| "---- a_test stdout ----\nwhat it said".to_owned())
                    .collect(),
            },
        }
    }

    #[test]
    fn the_last_line_counts_every_step() {
        let lines = closing_lines(&[
            done("test", tests(10, 1, &["one memory node only"])),
            done("loom", tests(3, 0, &[])),
        ]);
        assert_eq!(lines.lines().last(), Some("13 passed, 1 failed, 1 skipped"));
        assert!(lines.contains("skipped: test: one memory node only"));
        assert!(lines.contains("failed: test: ---- a_test stdout ----\nwhat it said\n"));
    }

    #[test]
    fn a_failed_step_without_tests_shows_in_the_count() {
        let lines = closing_lines(&[done("lint", Report::failed("the command failed"))]);
        assert_eq!(lines.lines().last(), Some("0 passed, 1 failed, 0 skipped"));
    }

    #[test]
    fn a_skipped_step_is_named_with_its_reason() {
        let lines = closing_lines(&[done("fuzz", Report::skipped("no nightly toolchain"))]);
        assert!(lines.contains("skipped: fuzz: the whole step: no nightly toolchain"));
        assert_eq!(lines.lines().last(), Some("0 passed, 0 failed, 1 skipped"));
    }

    #[test]
    fn under_strict_a_required_step_may_not_be_skipped() {
        assert!(failed(&refuse_skip(Report::skipped(
            "no nightly toolchain"
        ))));
        assert!(!failed(&refuse_skip(Report::passed())));
    }

    #[test]
    fn the_table_has_a_line_for_each_step() {
        let text = table(&[
            done("fmt", Report::passed()),
            done("lint", Report::failed("bad")),
        ]);
        assert!(text.contains("fmt          passed        1.5\n"));
        assert!(text.contains("lint         FAILED        1.5  bad\n"));
    }
}
