//! Running the suite that every backend passes, and printing its table.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::demo;
use crate::invocation::Invocation;
use crate::report::Report;
use crate::workspace::Workspace;

/// The package that holds the suite; each of its test targets runs it on one backend.
pub(crate) const PACKAGE: &str = "piton-conformance";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Only this backend, on whatever device there is for it (all of them if not said); then the demonstration on its
    /// devices, and what measures them, where there are such
    #[arg(long)]
    backend: Option<Backend>,
    /// Also write what was printed into this file
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
    if ran.success && suite.tally.passed == 0 {
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
        std::fs::write(file, &printed)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(Report::of_all(steps))
}
