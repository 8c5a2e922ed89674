//! Feeding the fuzz targets random input for a bounded time.
//!
//! The targets are a workspace of their own under `fuzz/`, built by cargo-fuzz on the nightly toolchain because
//! they need the compiler's coverage counters. Where either is absent the command says which, and skips.
//!
//! Built without the address sanitizer: the crates under test forbid unsafe code, or use it for promises about a device
//! and touch no memory by it, so all it could do is to make the build longer and the runs shorter. Targets run beside each
//! other, one a core.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use anyhow::Context as _;

use crate::invocation::{Ending, Invocation};
use crate::report::{Outcome, Report};
use crate::tally::Tally;
use crate::workspace::Workspace;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// How long each target runs, in seconds
    #[arg(long, default_value_t = SMOKE_SECONDS)]
    seconds: u32,
    /// Only these targets
    targets: Vec<String>,
}

/// Long enough to leave the trivial inputs behind, short enough for each change.
const SMOKE_SECONDS: u32 = 20;

/// One input may take this long, in seconds, before it counts as a hang.
const INPUT_TIMEOUT_SECONDS: u32 = 10;

/// Lines shown of what a target printed that fell over.
const FALLEN_LINES: usize = 60;

impl Default for Options {
    fn default() -> Self {
        Self {
            seconds: SMOKE_SECONDS,
            targets: Vec::new(),
        }
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    if let Some(reason) = missing_tool(workspace.root()) {
        return Ok(Report::skipped(reason));
    }
    let names = targets(workspace, &options.targets)?;
    let built = cargo_fuzz(workspace, "build").run(workspace.root())?;
    if !built.success {
        return Ok(Report::failed("the fuzz targets do not build"));
    }
    let mut tally = Tally::default();
    let mut fallen = Vec::new();
    for (name, stood) in run_all(workspace, &names, options.seconds)? {
        if stood {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            fallen.push(name);
        }
    }
    let outcome = if fallen.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!(
            "{} fell over; the input is in fuzz/artifacts: make it a test of the crate",
            fallen.join(", ")
        ))
    };
    Ok(Report { outcome, tally })
}

/// Runs the targets, as many at once as there are cores; true for those that did not fall over.
fn run_all(
    workspace: &Workspace,
    names: &[String],
    seconds: u32,
) -> anyhow::Result<Vec<(String, bool)>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut ran = Vec::new();
    for some in names.chunks(cores) {
        let stood: Vec<anyhow::Result<bool>> = thread::scope(|scope| {
            let runs: Vec<_> = some
                .iter()
                .map(|name| scope.spawn(move || run_one(workspace, name, seconds)))
                .collect();
            runs.into_iter()
                .map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        for (name, stood) in some.iter().zip(stood) {
            ran.push((name.clone(), stood?));
        }
    }
    Ok(ran)
}

/// Runs one target from what earlier runs found and the seeds kept beside it; true if nothing fell over.
fn run_one(workspace: &Workspace, name: &str, seconds: u32) -> anyhow::Result<bool> {
    let corpus = format!("fuzz/corpus/{name}");
    std::fs::create_dir_all(workspace.root().join(&corpus))?;
    let mut invocation = cargo_fuzz(workspace, "run").argument(name).argument(corpus);
    let seeds = format!("fuzz/seeds/{name}");
    if workspace.root().join(&seeds).is_dir() {
        invocation = invocation.argument(seeds);
    }
    let log = workspace.target_for("fuzz").join(format!("{name}.log"));
    let ending = invocation
        .argument("--")
        .argument(format!("-max_total_time={seconds}"))
        .argument(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
        .argument("-print_final_stats=1")
        .argument("-verbosity=0")
        .argument("-print_funcs=0")
        .run_logged(None, workspace.root(), &log)?;
    let Ending::Exited { success, output } = ending else {
        return Ok(false);
    };
    println!("{name}: {}", summary(success, &output));
    Ok(success)
}

/// How many inputs were tried, or the end of what a target that fell over printed.
fn summary(success: bool, output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    if success {
        let units = "stat::number_of_executed_units:";
        let found = lines.iter().find_map(|line| line.strip_prefix(units));
        let count = found.map_or("?", str::trim);
        return format!("{count} inputs");
    }
    let end = lines.len().saturating_sub(FALLEN_LINES);
    format!("fell over\n{}", lines[end..].join("\n"))
}

/// The standard library as the toolchain ships it: building it would need its sources.
fn cargo_fuzz(workspace: &Workspace, verb: &str) -> Invocation {
    Invocation::cargo("+nightly fuzz")
        .argument(verb)
        .argument("--sanitizer")
        .argument("none")
        // One is cargo-fuzz's choice, and leaves cores idle while the crates build one after the other.
        .argument("--codegen-units")
        .argument("4")
        .argument("--target-dir")
        .argument(workspace.target_for("fuzz").to_string_lossy())
}

/// What is not installed, with how to get it, or nothing.
fn missing_tool(directory: &Path) -> Option<&'static str> {
    let answers = |arguments| Invocation::cargo(arguments).answer(directory).is_ok();
    if !answers("+nightly --version") {
        Some("no nightly toolchain (rustup toolchain install nightly --profile minimal)")
    } else if !answers("fuzz --version") {
        Some("no cargo-fuzz (cargo install cargo-fuzz --locked)")
    } else {
        None
    }
}

/// The targets to run: those asked for, or one for each file under `fuzz/fuzz_targets`.
fn targets(workspace: &Workspace, asked: &[String]) -> anyhow::Result<Vec<String>> {
    let all: Vec<String> = workspace
        .files()?
        .iter()
        .filter_map(|path| path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"))
        .filter(|name| !name.contains('/'))
        .map(str::to_owned)
        .collect();
    anyhow::ensure!(!all.is_empty(), "fuzz/fuzz_targets has no target");
    for name in asked {
        all.iter()
            .find(|known| *known == name)
            .with_context(|| format!("no fuzz target {name}; there are {}", all.join(", ")))?;
    }
    Ok(if asked.is_empty() {
        all
    } else {
        asked.to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_does_not_exist_is_named() {
        let workspace = Workspace::find().unwrap();
        let error = targets(&workspace, &["no_such_target".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("no_such_target"));
    }

    #[test]
    fn a_run_is_told_by_its_count_or_by_its_last_words() {
        let output = "Done\nstat::number_of_executed_units: 17\nstat::x: 1";
        assert_eq!(summary(true, output), "17 inputs");
        assert!(summary(false, "panicked at lib.rs").contains("panicked at lib.rs"));
    }

    #[test]
    fn every_file_of_the_folder_is_a_target() {
        let workspace = Workspace::find().unwrap();
        let all = targets(&workspace, &[]).unwrap();
        assert!(all.contains(&"suballoc_operations".to_owned()));
    }
}
