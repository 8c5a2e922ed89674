//! Running the suite that every backend passes, and printing its table.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

/// The package that holds the suite; its tests run it on the simulated device.
pub(crate) const PACKAGE: &str = "piton-conformance";

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("test --no-fail-fast -p")
        .argument(PACKAGE)
        .argument("--")
        .argument("--show-output")
        .run(workspace.root())?;
    let report = Report::of(&ran);
    if ran.success && report.tally.passed == 0 {
        return Ok(Report::skipped("the conformance suite has no test"));
    }
    Ok(report)
}
