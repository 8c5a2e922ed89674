//! Running clippy over every target of every package with every feature, with warnings refused.
//!
//! Features only add: that everything builds without them is what `fuzz` and `loom` show, which ask for none.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("clippy --workspace --all-targets --all-features -- -D warnings")
        .run(workspace.root())?;
    Ok(Report::of(&ran))
}
