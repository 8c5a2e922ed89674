//! Running clippy over every target of every package, with warnings refused.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("clippy --workspace --all-targets -- -D warnings")
        .run(workspace.root())?;
    Ok(Report::of(&ran))
}
