//! Building the documentation, with broken links refused.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let ran = Invocation::cargo("doc --workspace --all-features --no-deps")
        .variable("RUSTDOCFLAGS", "-D warnings")
        .run(workspace.root())?;
    Ok(Report::of(&ran))
}
