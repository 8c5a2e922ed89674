//! Assembling each kernel in PTX with NVIDIA's own assembler, where it is installed: no GPU is needed for it.
//!
//! `ptxas` comes with CUDA, and as a Python package (`nvidia-cuda-nvcc-cu12`), whose licence does not let it be shipped. It
//! is looked for in `PTXAS`, then among the programs.

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

/// The oldest architecture that the kernels say they run on, and two that are met today.
const ARCHITECTURES: &[&str] = &["sm_50", "sm_80", "sm_90"];

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<Report> {
    let program = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".to_owned());
    let version = Invocation::new(&program, "--version").answer(workspace.root());
    if version.is_err() {
        return Ok(Report::skipped(
            "no ptxas to assemble kernels with: set PTXAS, or install CUDA's",
        ));
    }
    let files = workspace.files()?;
    for file in files.iter().filter(|name| name.ends_with(".ptx")) {
        for architecture in ARCHITECTURES {
            let ran = Invocation::new(&program, "--output-file /dev/null")
                .argument(format!("--gpu-name={architecture}"))
                .argument(file)
                .run(workspace.root())?;
            if !ran.success {
                return Ok(Report::failed(format!(
                    "{file} does not assemble for {architecture}"
                )));
            }
        }
    }
    Ok(Report::passed())
}
