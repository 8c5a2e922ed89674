//! Checking the formatting, that of the fuzz targets too although they are a workspace of their own.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    for place in ["--all", "--manifest-path fuzz/Cargo.toml"] {
        let ran = Invocation::cargo(&format!("fmt --check {place}")).run(workspace.root())?;
        if !ran.success {
            return Ok(Report::of(&ran));
        }
    }
    Ok(Report::passed())
}
