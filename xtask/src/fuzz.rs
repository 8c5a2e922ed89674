//! Feeding the fuzz targets random input for a bounded time.
//!
//! The targets are a workspace of their own under `fuzz/`, built by cargo-fuzz on the nightly toolchain because
//! they need the compiler's coverage counters. Where either is absent the command says which, and skips.

use std::path::Path;

use anyhow::Context as _;

use crate::invocation::Invocation;
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
    for name in names {
        if run_one(workspace, &name, options.seconds)? {
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

/// Runs one target from what earlier runs found and the seeds kept beside it; true if nothing fell over.
fn run_one(workspace: &Workspace, name: &str, seconds: u32) -> anyhow::Result<bool> {
    let corpus = format!("fuzz/corpus/{name}");
    std::fs::create_dir_all(workspace.root().join(&corpus))?;
    let mut invocation = cargo_fuzz(workspace, "run").argument(name).argument(corpus);
    let seeds = format!("fuzz/seeds/{name}");
    if workspace.root().join(&seeds).is_dir() {
        invocation = invocation.argument(seeds);
    }
    let ran = invocation
        .argument("--")
        .argument(format!("-max_total_time={seconds}"))
        .argument(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
        .argument("-print_final_stats=1")
        .argument("-verbosity=0")
        .argument("-print_funcs=0")
        .run(workspace.root())?;
    Ok(ran.success)
}

/// The standard library as the toolchain ships it: building it would need its sources.
fn cargo_fuzz(workspace: &Workspace, verb: &str) -> Invocation {
    Invocation::cargo("+nightly fuzz")
        .argument(verb)
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
    fn every_file_of_the_folder_is_a_target() {
        let workspace = Workspace::find().unwrap();
        let all = targets(&workspace, &[]).unwrap();
        assert!(all.contains(&"suballoc_operations".to_owned()));
    }
}
