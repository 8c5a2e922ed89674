//! Checking the formatting.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("fmt --all --check").run(workspace.root())?;
    Ok(Report::of(&ran))
}
