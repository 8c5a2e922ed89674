//! Running the suite that every backend passes, and printing its table.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::demo;
use crate::invocation::Invocation;
use crate::report::Report;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// The package that holds the suite; each of its test targets runs it on one backend.
pub(crate) const PACKAGE: &str = "piton-conformance";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Only this backend, on whatever device there is for it (all of them if not said); then the demonstration on its
    /// devices, and what measures them, where there are such
    #[arg(long)]
    backend: Option<Backend>,
    /// Also write what was printed into this file, under the day and the machine's name
    #[arg(long)]
    report: Option<PathBuf>,
}

/// A backend, by the name of its test target.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Backend {
    /// The simulated device
    Sim,
    /// OpenCL, where there is a driver
    Opencl,
    /// CUDA, or a stand-in for its library where there is no device
    Cuda,
    /// Ascend: a stand-in for its library
    Ascend,
}

impl Backend {
    const fn target(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Opencl => "opencl",
            Self::Cuda => "cuda",
            Self::Ascend => "ascend",
        }
    }

    /// Whether the demonstration runs on it, and only where there is a device.
    const fn is_of_a_vendor(self) -> bool {
        matches!(self, Self::Opencl | Self::Cuda)
    }

    /// What measures it beside the driver alone, if there is that; it says so where there is no device.
    fn bench(self) -> Option<Invocation> {
        match self {
            Self::Sim | Self::Ascend => None,
            Self::Opencl => Some(Invocation::cargo("bench -p piton-benches --bench opencl")),
            Self::Cuda => Some(Invocation::cargo("bench -p piton-benches --bench cuda")),
        }
    }
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Report> {
    let mut invocation = Invocation::cargo("test --no-fail-fast -p").argument(PACKAGE);
    if let Some(backend) = options.backend {
        invocation = invocation.argument("--test").argument(backend.target());
    }
    let ran = invocation
        .argument("--")
        .argument("--show-output")
        .run(workspace.root())?;
    let suite = Report::of(&ran);
    if ran.success && !has_run(&suite.tally) {
        return Ok(Report::skipped("the conformance suite has no test"));
    }
    let (mut steps, mut printed) = (vec![suite], ran.stdout);
    if let Some(backend) = options.backend.filter(|backend| backend.is_of_a_vendor()) {
        let (report, text) = demo::run_on(workspace, backend.target())?;
        printed.push_str(&text);
        steps.push(report);
        if let Some(bench) = backend.bench() {
            let measured = bench.run(workspace.root())?;
            printed.push_str(&measured.stdout);
            steps.push(Report::of(&measured));
        }
    }
    if let Some(file) = &options.report {
        std::fs::write(file, heading(workspace)? + &printed)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(Report::of_all(steps))
}

/// Whether the suite was run at all. On a stand-in it counts as skipped: the device was not there.
fn has_run(suite: &Tally) -> bool {
    suite.passed + suite.failed + suite.skipped() > 0
}

/// When and where: a report is of one day and one machine.
fn heading(workspace: &Workspace) -> anyhow::Result<String> {
    let said = |program: &str, arguments: &str| -> anyhow::Result<String> {
        let answer = Invocation::new(program, arguments).answer(workspace.root())?;
        Ok(String::from_utf8_lossy(&answer).trim().to_owned())
    };
    let (day, machine) = (said("date", "-u +%F")?, said("uname", "-nsrm")?);
    Ok(format!("{day} on {machine}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_ran_on_a_stand_in_alone_has_run() {
        let stood_in = "skipped: no CUDA library\ntest result: ok. 1 passed; 0 failed; 0 ignored";
        assert!(has_run(&Tally::read(stood_in)));
        let nothing = "test result: ok. 0 passed; 0 failed; 0 ignored";
        assert!(!has_run(&Tally::read(nothing)));
    }
}
