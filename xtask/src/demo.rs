//! Running a short `piton demo`, the project's main job, as a user would.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("run --release --quiet -- demo --help").run(workspace.root())?;
    if !ran.success {
        return Ok(Report::skipped("`piton demo` is not there yet"));
    }
    Ok(Report::of(&ran))
}
