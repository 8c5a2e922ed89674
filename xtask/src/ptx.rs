//! What can be checked of kernels in PTX without a GPU: that those which clang made of CUDA C are what it makes today, and that
//! NVIDIA's own assembler takes each. Either is done where the program is installed.
//!
//! `ptxas` comes with CUDA, and as a Python package (`nvidia-cuda-nvcc-cu12`), whose licence does not let it be shipped. It
//! is looked for in `PTXAS`, then among the programs; clang in `CLANG`, then as `clang-15`, the version that made the files:
//! another orders instructions otherwise.

use std::path::Path;

use anyhow::Context as _;

use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

/// The oldest architecture that the kernels say they run on, and two that are met today.
const ARCHITECTURES: &[&str] = &["sm_50", "sm_80", "sm_90"];

/// What makes PTX of CUDA C: without CUDA's headers and library, and with each operation rounded for itself.
const COMPILE: &str = "-x cuda --cuda-device-only --cuda-gpu-arch=sm_50 -nocudainc -nocudalib -O2 -ffp-contract=off \
                       -fno-unroll-loops -S -o -";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Write what clang makes instead of comparing
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let steps = [made(workspace, options)?, assembled(workspace)?];
    Ok(Report::of_all(steps))
}

/// Compares each file in PTX that stands beside one in CUDA C with what clang makes of that.
fn made(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let program = std::env::var("CLANG").unwrap_or_else(|_| "clang-15".to_owned());
    let is_there = Invocation::new(&program, "--version").answer(workspace.root());
    if is_there.is_err() {
        return Ok(Report::skipped(
            "no clang-15 to make PTX with: set CLANG, or install it",
        ));
    }
    for source in workspace
        .files()?
        .iter()
        .filter(|name| name.ends_with(".cu"))
    {
        let compile = Invocation::new(&program, COMPILE).argument(source);
        println!("$ {}", compile.as_typed());
        let ptx = compile.answer(workspace.root())?;
        let file = Path::new(source).with_extension("ptx");
        let place = workspace.root().join(&file);
        if options.write {
            std::fs::write(&place, &ptx)
                .with_context(|| format!("cannot write {}", file.display()))?;
        } else if std::fs::read(&place).ok().as_ref() != Some(&ptx) {
            return Ok(Report::failed(format!(
                "{} is not what clang makes of {source}: cargo xtask ptx --write",
                file.display()
            )));
        }
    }
    Ok(Report::passed())
}

fn assembled(workspace: &Workspace) -> anyhow::Result<Report> {
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
