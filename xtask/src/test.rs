//! Running the unit, integration, property and documentation tests, with every feature.
//!
//! The conformance package is left to [`crate::conformance`], which prints its table, so that no test is counted
//! twice. `--show-output` makes the test binaries pass on what their tests printed: that is where the reasons of
//! skipped ones are.

use crate::conformance;
use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("test --workspace --all-features --no-fail-fast")
        .argument("--exclude")
        .argument(conformance::PACKAGE)
        .argument("--")
        .argument("--show-output")
        .run(workspace.root())?;
    Ok(Report::of(&ran))
}
