//! `piton demo`: several devices, simulated ones by default, train a small network on real data.

mod json;

use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
};

use anyhow::Context;
use piton::{Operation, Written};

use piton_driver::Driver;

use crate::demo::{
    Backend, Copying, DemoError, DemoOptions, Outcome, TrainingConfig, cuda, opencl,
};
use crate::quantity;
use crate::report::{self, Check, TrainingPoint};

use super::{Failure, Output, topo};

/// Options of `piton demo`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// What to train on: simulated devices, or those of an OpenCL driver or of CUDA.
    #[arg(long, value_enum, default_value_t = BackendName::Sim)]
    backend: BackendName,
    /// Devices that share each step's images, 1 to 16 [default: 4, or all of the topology, or all of the driver].
    #[arg(long)]
    devices: Option<usize>,
    /// Steps to train.
    #[arg(long, default_value_t = TrainingConfig::default().steps)]
    steps: usize,
    /// Images per device and step.
    #[arg(long, default_value_t = TrainingConfig::default().batch_per_device)]
    batch: usize,
    /// Seed of the first parameters, of the order of images, and of the order of events in deterministic mode.
    #[arg(long, default_value_t = TrainingConfig::default().seed)]
    seed: u64,
    /// Simulate this machine: piton's JSON, an NCCL or RCCL XML file, or a folder with a copy of `/sys` in it.
    #[arg(long, value_name = "FILE|DIR")]
    topology: Option<PathBuf>,
    /// Run in virtual time: the same seed gives the same order of events and the same times.
    #[arg(long)]
    deterministic: bool,
    /// Look for races between streams and for uses of freed memory, and fail if there is one.
    #[arg(long)]
    sanitize: bool,
    /// Measure copies of 64 MiB between two simulated devices beside a memcpy, in real time; takes a second.
    #[arg(long)]
    copies: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Write what the devices ran to this file, for Perfetto (ui.perfetto.dev) or chrome://tracing.
    #[arg(long, value_name = "JSON")]
    trace: Option<PathBuf>,
    /// Write the report to this file.
    #[arg(long, value_name = "HTML", default_value = "piton-report.html")]
    output: PathBuf,
}

/// Backends by the names of their drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BackendName {
    Sim,
    Opencl,
    Cuda,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Self {
        match name {
            BackendName::Sim => Self::Simulated,
            BackendName::Opencl => Self::OpenCl,
            BackendName::Cuda => Self::Cuda,
        }
    }
}

pub(super) fn run(options: &Options, output: &mut Output) -> Result<(), Failure> {
    let demo = demo_options(options)?;
    // A path that cannot be written is better known before the training than after.
    write(&options.output, "")?;
    if let Some(path) = &options.trace {
        write(path, "")?;
    }
    if !options.json {
        output.line(announcement(&demo))?;
    }
    let bar = output.progress(demo.config.steps.saturating_mul(2) as u64);
    bar.set_message("training on devices");
    let steps = demo.config.steps as u64;
    let outcome = Outcome::of(demo, |_: &TrainingPoint| {
        bar.inc(1);
        if bar.position() == steps {
            bar.set_message("training again in plain loops");
        }
    });
    bar.finish_and_clear();
    let mut outcome = outcome.map_err(failure)?;
    if options.copies {
        outcome.copying = Some(Copying::measured().map_err(failure)?);
    }
    write(&options.output, &report::render(&outcome.page()))?;
    let written = options.trace.as_deref();
    let written = written
        .map(|path| write_trace(path, &outcome))
        .transpose()?;
    if options.json {
        output.line(json::text(&outcome)?)?;
    } else {
        output.line(summary(&outcome))?;
        if let (Some(path), Some(written)) = (&options.trace, written) {
            output.line(trace_line(path, written))?;
        }
        output.line(format_args!("report: {}", options.output.display()))?;
    }
    verdict(&outcome.checks())
}

fn write_trace(path: &Path, outcome: &Outcome) -> Result<Written, Failure> {
    let written = File::create(path).and_then(|file| {
        let out = BufWriter::new(file);
        piton::write_chrome_trace(out, &outcome.traces)
    });
    written
        .with_context(|| format!("{} cannot be written", path.display()))
        .map_err(Failure::Input)
}

fn trace_line(path: &Path, written: Written) -> String {
    let count = quantity::count;
    let mut line = format!(
        "trace: {}: {} commands, {} waits with arrows",
        path.display(),
        count(written.commands),
        count(written.arrows)
    );
    if written.dropped > 0 {
        let dropped = format!("; {} more commands found no room", count(written.dropped));
        line.push_str(&dropped);
    }
    line
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::write(path, text);
    written
        .with_context(|| format!("{} cannot be written", path.display()))
        .map_err(Failure::Input)
}

fn demo_options(options: &Options) -> Result<DemoOptions, Failure> {
    let is_simulated = options.backend == BackendName::Sim;
    if !is_simulated && (options.deterministic || options.topology.is_some()) {
        let message = "a topology and virtual time are for simulated devices";
        return Err(Failure::Input(anyhow::anyhow!(message)));
    }
    let machine = options
        .topology
        .as_deref()
        .map(|path| topo::read(Some(path)))
        .transpose()?;
    let all = machine
        .as_ref()
        .map(|machine| machine.device_count().min(crate::demo::config::MAX_DEVICES));
    let all = match options.backend {
        BackendName::Sim => all,
        BackendName::Opencl => Some(devices_of(opencl::driver())?),
        BackendName::Cuda => Some(devices_of(cuda::driver())?),
    };
    let config = TrainingConfig {
        devices: options
            .devices
            .or(all)
            .unwrap_or(TrainingConfig::default().devices),
        steps: options.steps,
        batch_per_device: options.batch,
        seed: options.seed,
        ..TrainingConfig::default()
    };
    config.validate().map_err(Failure::input)?;
    Ok(DemoOptions {
        backend: options.backend.into(),
        config,
        machine,
        is_deterministic: options.deterministic,
        is_sanitized: options.sanitize,
    })
}

/// How many devices of a driver there are to train on.
fn devices_of(
    driver: Result<impl Driver, impl std::error::Error + Send + Sync + 'static>,
) -> Result<usize, Failure> {
    let count = driver.map_err(Failure::input)?.device_count() as usize;
    Ok(count.min(crate::demo::config::MAX_DEVICES))
}

/// Values out of range are the caller's; what the runtime refuses is not.
fn failure(error: DemoError) -> Failure {
    match error {
        DemoError::Config(_)
        | DemoError::TooFewDevices { .. }
        | DemoError::OpenCl(_)
        | DemoError::Cuda(_) => Failure::input(error),
        error => Failure::result(error),
    }
}

fn announcement(options: &DemoOptions) -> String {
    let config = &options.config;
    let images = quantity::count(config.batch_per_device as u64);
    let kind = format!("{} device", options.backend.as_str());
    format!(
        "training a 64-64-32-10 network on 1437 handwritten digits: {}, {} of {images} images on each device",
        quantity::counted(config.devices as u64, &kind),
        quantity::counted(config.steps as u64, "step"),
    )
}

fn summary(outcome: &Outcome) -> String {
    let mut lines: Vec<String> = outcome.checks().iter().map(check_line).collect();
    let times = outcome.step_times();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let first_and_last = outcome.training.first().zip(outcome.training.last());
    if let Some((first, last)) = first_and_last {
        lines.push(format!(
            "loss            {:.4} at the first step, {:.4} at the last",
            first.loss, last.loss
        ));
    }
    lines.push(format!(
        "accuracy        {} on 360 held-back images",
        quantity::percent(outcome.accuracy)
    ));
    lines.push(format!(
        "time            {} per step (median, devices' clock); {:.2} s on the host, reference {:.2} s",
        quantity::duration(median),
        outcome.wall.as_secs_f64(),
        outcome.reference_wall.as_secs_f64()
    ));
    lines.push(format!(
        "launches        {} kernels",
        quantity::count(outcome.launches)
    ));
    lines.extend(copy_lines(outcome));
    lines.extend(outcome.copying.as_ref().map(copying_line));
    lines.extend(route_lines(outcome));
    lines.extend(pool_lines(outcome));
    lines.join("\n")
}

fn check_line(check: &Check) -> String {
    let word = if check.has_passed { "ok    " } else { "FAILED" };
    format!("{word}          {}: {}", check.name, check.detail)
}

/// What copies reach in real time.
fn copying_line(copying: &Copying) -> String {
    let [straight, staged] = copying.of_memcpy();
    let bytes = quantity::bytes(copying.bytes);
    format!(
        "copies          {bytes} between simulated devices: {straight:.2} of a memcpy's rate straight, {staged:.2} through \
         host memory"
    )
}

/// A line per direction between host and devices, which only a trace tells.
fn copy_lines(outcome: &Outcome) -> Vec<String> {
    if outcome.traces.is_empty() {
        let devices = outcome.options.backend.as_str();
        return vec![format!(
            "copies          not counted to and from the host: {devices} devices keep no trace"
        )];
    }
    let line = |(name, operation)| {
        let (copies, bytes) = outcome.copied(operation);
        let (copies, bytes) = (quantity::count(copies), quantity::bytes(bytes));
        format!("copies          {copies} {name}, {bytes}")
    };
    let both = [
        ("to devices", Operation::CopyToDevice),
        ("to the host", Operation::CopyToHost),
    ];
    both.map(line).into()
}

/// A line per kind of route, summed over pairs of devices.
fn route_lines(outcome: &Outcome) -> Vec<String> {
    let mut kinds = std::collections::BTreeMap::new();
    for route in &outcome.routes {
        let (copies, bytes, pairs) = kinds.entry(route.kind).or_insert((0, 0, 0_u64));
        *copies += route.copies;
        *bytes += route.bytes;
        *pairs += 1;
    }
    let line = |(kind, (copies, bytes, pairs)): (piton::RouteKind, (u64, u64, u64))| {
        let (copies, bytes) = (quantity::count(copies), quantity::bytes(bytes));
        let pairs = quantity::counted(pairs, "pair");
        format!("copies          {copies} between devices {kind}, {bytes}, {pairs}")
    };
    kinds.into_iter().map(line).collect()
}

fn pool_lines(outcome: &Outcome) -> Vec<String> {
    let sum = |of: fn(&piton::PoolStats) -> u64| outcome.pools.iter().map(of).sum::<u64>();
    let host = |of: fn(&piton::PinnedStats) -> u64| outcome.pinned.iter().map(of).sum::<u64>();
    let (live, held) = (
        sum(|pool| pool.peak_live_bytes),
        sum(|pool| pool.peak_held_bytes),
    );
    vec![
        format!(
            "device pools    {} hits, {} misses, {} waits, {} driver calls",
            quantity::count(sum(|pool| pool.hits)),
            quantity::count(sum(|pool| pool.misses)),
            quantity::count(sum(|pool| pool.waits)),
            quantity::count(sum(piton::PoolStats::source_calls))
        ),
        format!(
            "                peak {} live, {} held of the devices, {} of it idle",
            quantity::bytes(live),
            quantity::bytes(held),
            quantity::bytes(held.saturating_sub(live))
        ),
        format!(
            "pinned pools    {} hits, {} cut, {} misses, {} held",
            quantity::count(host(|pool| pool.hits)),
            quantity::count(host(|pool| pool.cuts)),
            quantity::count(host(|pool| pool.misses)),
            quantity::bytes(host(|pool| pool.held_bytes))
        ),
    ]
}

fn verdict(checks: &[Check]) -> Result<(), Failure> {
    let failed = checks.iter().filter(|check| !check.has_passed).count();
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::Result(anyhow::anyhow!(
        "{failed} of {} checks failed",
        checks.len()
    )))
}
