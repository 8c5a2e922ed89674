//! Model-checking the concurrent protocols under loom.
//!
//! A protocol's models are in a module `loom_tests` beside the code they prove. `cfg(loom)` reaches every crate
//! through `RUSTFLAGS`, so these builds have a target directory of their own. Built as tests are: optimising more makes
//! the models end a little sooner and the building of them take ten times as long.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::invocation::Invocation;
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;

/// Most known bugs in protocols of this size show with two forced switches of threads; three leaves a margin and
/// still ends within seconds.
const PREEMPTIONS: &str = "3";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Explore every schedule, however many times threads are preempted (may take very long)
    #[arg(long)]
    full: bool,
    /// Only these packages
    packages: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let modelled = modelled_packages(workspace)?;
    let chosen: Vec<&String> = modelled
        .iter()
        .filter(|name| options.packages.is_empty() || options.packages.contains(name))
        .collect();
    if chosen.is_empty() {
        return Ok(Report::skipped(format!(
            "no package among {:?} has a module loom_tests",
            options.packages
        )));
    }
    let mut invocation = invocation(workspace, options.full);
    for name in chosen {
        invocation = invocation.argument("-p").argument(name);
    }
    let ran = invocation.argument("loom_tests").run(workspace.root())?;
    let mut report = Report::of(&ran);
    if ran.success && report.tally.passed == 0 {
        report.outcome = Outcome::Failed("no model ran".to_owned());
    }
    Ok(report)
}

fn invocation(workspace: &Workspace, full: bool) -> Invocation {
    let mut invocation = Invocation::cargo("test --no-fail-fast --lib")
        .path_variable("CARGO_TARGET_DIR", &workspace.target_for("loom"));
    for (name, value) in variables(full) {
        invocation = invocation.variable(name, value);
    }
    invocation
}

/// The environment that makes a build a loom build, and bounds its search.
pub(crate) fn variables(full: bool) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![("RUSTFLAGS", "--cfg loom")];
    if !full {
        variables.push(("LOOM_MAX_PREEMPTIONS", PREEMPTIONS));
    }
    variables
}

/// The packages with a module `loom_tests` somewhere below their `src`.
fn modelled_packages(workspace: &Workspace) -> anyhow::Result<BTreeSet<String>> {
    let files = workspace.files()?;
    let mut modelled = BTreeSet::new();
    for package in workspace.packages() {
        let sources = format!("{}/src/", package.folder);
        for path in files.iter().filter(|path| path.starts_with(&sources)) {
            let text = std::fs::read_to_string(workspace.root().join(path))
                .with_context(|| format!("cannot read {path}"))?;
            if has_models(&text) {
                modelled.insert(package.name.clone());
            }
        }
    }
    Ok(modelled)
}

fn has_models(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("mod loom_tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_models_is_seen_wherever_it_is_declared() {
        assert!(has_models("#[cfg(all(test, loom))]\nmod loom_tests {\n"));
        assert!(has_models("    mod loom_tests;\n"));
        assert!(!has_models("// the mod loom_tests is elsewhere\n"));
    }

    #[test]
    fn only_the_full_search_is_unbounded() {
        let bounded = |full| {
            variables(full)
                .iter()
                .any(|(name, _)| *name == "LOOM_MAX_PREEMPTIONS")
        };
        assert!(bounded(false));
        assert!(!bounded(true));
    }
}
