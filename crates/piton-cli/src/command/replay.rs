//! `piton replay`: what the device pool makes of recorded allocation histories.

mod inputs;

use std::path::{Path, PathBuf};

use anyhow::Context;
use piton_alloc::SearchRule;

use crate::quantity;
use crate::replay::planned::{self, PlannedError};
use crate::replay::survey::{self, SurveyError};
use crate::replay::{
    Placement, ReplayError, ReplayOptions, TraceResult, fail_each_call, picture_file, replay_file,
    snapshot_file, summary,
};
use crate::report;

use super::{Failure, Output, size};

/// Largest capacity: the most memory that a simulated device can have.
const MAX_CAPACITY: u64 = 1 << 40;

/// Options of `piton replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Traces: gzip'd or plain CSV, one event a line, or memory snapshots that PyTorch dumped; or folders of them.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Report everything: both placements, the smallest device and the cost of running near it, a host that runs ahead,
    /// plans, and time.
    #[arg(long, conflicts_with_all = ["plan", "snapshot", "output", "check", "lag", "placement", "faults"])]
    all: bool,
    /// Play each trace once for each of its calls to the driver, with that call failing, and report what each failure cost: tens
    /// of thousands of plays for some traces. With PLAYS at most that many plays; in each of them one of the first PLAYS calls
    /// fails, and every PLAYS-th call after it.
    #[arg(long, value_name = "PLAYS", num_args = 0..=1, require_equals = true, default_missing_value = "18446744073709551615",
        value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["plan", "snapshot", "output"])]
    faults: Option<u64>,
    /// Memory of the simulated device, such as 24GiB, rounded up to its pages of 2 MiB. `min` plays on 192GiB first and then
    /// looks for the smallest device that serves every request.
    #[arg(long, value_name = "BYTES|min", default_value = "192GiB", value_parser = capacity)]
    capacity: Capacity,
    /// Where the pool's memory lies.
    #[arg(long, value_enum, default_value = "virtual")]
    placement: Placement,
    /// Events after which a piece of work is complete; until then only its own stream reuses its memory without a wait.
    /// With 0 the host sees everything complete at once, as figures of other allocators are usually taken.
    #[arg(long, value_name = "EVENTS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    lag: u32,
    /// Free pieces of about a request's size that are looked at before it gets the best of them, or `all`.
    #[arg(long, value_name = "PIECES|all", default_value = "8", value_parser = search_rule)]
    search: SearchRule,
    /// Timed passes over each trace; the median counts.
    #[arg(long, value_name = "PASSES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=1000))]
    repeat: u32,
    /// Verify every allocation: none overlaps another, none is handed out before its last uses are ordered.
    #[arg(long)]
    check: bool,
    /// Look back instead: plan each trace from its recorded lifetimes, as a whole and by steps, and serve each step from its plan.
    /// Where steps begin is read from NAME.json beside the trace: a list `steps` of event numbers from 0.
    #[arg(long)]
    plan: bool,
    /// Write the pool's state at the end of the trace, and what led there, to this file, as PyTorch's memory viewer reads it.
    /// For one trace.
    #[arg(long, value_name = "PICKLE", conflicts_with = "plan")]
    snapshot: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Write a page to this file: memory over time, and what its addresses held.
    #[arg(long, value_name = "HTML")]
    output: Option<PathBuf>,
}

/// Memory of the simulated device.
#[derive(Debug, Clone, Copy)]
enum Capacity {
    Bytes(u64),
    Smallest,
}

fn capacity(text: &str) -> Result<Capacity, String> {
    if text == "min" {
        return Ok(Capacity::Smallest);
    }
    match size::parse(text) {
        Ok(bytes) if bytes > MAX_CAPACITY => {
            Err("more than the 1 TiB a simulated device can have".to_owned())
        }
        Ok(bytes) => Ok(Capacity::Bytes(bytes)),
        Err(error) => Err(error.to_string()),
    }
}

fn search_rule(text: &str) -> Result<SearchRule, String> {
    match text {
        "all" => Ok(SearchRule::Best),
        _ => match text.parse() {
            Ok(pieces) if pieces > 0 => Ok(SearchRule::BestOf(pieces)),
            _ => Err(format!("neither `all` nor a number from 1 to {}", u32::MAX)),
        },
    }
}

pub(super) fn run(options: &Options, output: &mut Output) -> Result<(), Failure> {
    let traces = inputs::expand(&options.traces)?;
    if options.plan {
        return plan(&traces, options.json, output);
    }
    let replay = ReplayOptions {
        capacity: match options.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Smallest => ReplayOptions::default().capacity,
        },
        finds_minimum: matches!(options.capacity, Capacity::Smallest),
        placement: options.placement,
        search: options.search,
        lag: options.lag as usize,
        repeat: options.repeat as usize,
        is_checked: options.check,
        ..ReplayOptions::default()
    };
    if options.all {
        return survey(&traces, &replay, options.json, output);
    }
    if let Some(plays) = options.faults {
        return faults(&traces, &replay, plays, options.json, output);
    }
    if let Some(file) = &options.snapshot {
        write_snapshot(file, &traces, &replay)?;
    }
    let results = replay_all(&traces, &replay, output)?;
    if let Some(path) = &options.output {
        write_page(path, &traces, &results, &replay)?;
    }
    if options.json {
        output.line(summary::json(&results, &replay).map_err(Failure::result)?)
    } else {
        output.line(summary::table(&results, &replay))
    }
}

/// Everything about all traces.
fn survey(
    traces: &[PathBuf],
    options: &ReplayOptions,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    inputs::read_through(traces)?;
    let bar = output.progress(traces.len() as u64 * survey::PARTS);
    let mut surveyed = Vec::with_capacity(traces.len());
    for path in traces {
        let of_trace = survey::survey_file(path, options, || bar.inc(1));
        surveyed.push(of_trace.map_err(|error| match error {
            SurveyError::Plan(error) => plan_failure(error, path),
            SurveyError::Replay(error) => failure(error, path),
        })?);
    }
    bar.finish_and_clear();
    if json {
        output.line(as_json(&surveyed)?)
    } else {
        output.line(survey::table(&surveyed, options))
    }
}

/// What each failing call costs each trace.
fn faults(
    traces: &[PathBuf],
    options: &ReplayOptions,
    plays: u64,
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let bar = output.progress(traces.len() as u64);
    let mut met = Vec::with_capacity(traces.len());
    for path in traces {
        met.push(fail_each_call(path, options, plays).map_err(|error| failure(error, path))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if json {
        return output.line(as_json(&met)?);
    }
    for (path, met) in traces.iter().zip(&met) {
        output.line(format_args!(
            "{}: {} calls to the driver failed in {} plays. {} plays lost nothing, and none more than {} of its requests for each call.",
            path.display(),
            quantity::count(met.calls),
            quantity::count(met.plays),
            quantity::count(met.unnoticed),
            quantity::count(met.most_refused)
        ))?;
    }
    Ok(())
}

fn as_json(results: &impl serde::Serialize) -> Result<String, Failure> {
    let json =
        serde_json::to_string_pretty(results).context("the results cannot be written as JSON");
    json.map_err(Failure::Result)
}

fn plan(traces: &[PathBuf], json: bool, output: &mut Output) -> Result<(), Failure> {
    let bar = output.progress(traces.len() as u64);
    let mut planned = Vec::with_capacity(traces.len());
    for path in traces {
        planned.push(planned::plan_file(path).map_err(|error| plan_failure(error, path))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if json {
        output.line(as_json(&planned)?)
    } else {
        output.line(planned::table(&planned))
    }
}

fn write_snapshot(file: &Path, traces: &[PathBuf], options: &ReplayOptions) -> Result<(), Failure> {
    let [trace] = traces else {
        let count = traces.len();
        return Err(Failure::Input(anyhow::anyhow!(
            "--snapshot shows one pool, and {count} traces make as many"
        )));
    };
    let bytes = snapshot_file(trace, options).map_err(|error| failure(error, trace))?;
    let written = std::fs::write(file, bytes)
        .with_context(|| format!("{} cannot be written", file.display()));
    written.map_err(Failure::Input)
}

/// A bad trace is the caller's; everything else is the planner's.
fn plan_failure(error: PlannedError, path: &Path) -> Failure {
    match error {
        PlannedError::Trace(error) => Failure::input(error),
        error => Failure::Result(anyhow::Error::new(error).context(path.display().to_string())),
    }
}

fn replay_all(
    traces: &[PathBuf],
    options: &ReplayOptions,
    output: &Output,
) -> Result<Vec<TraceResult>, Failure> {
    let passes = traces.len().saturating_mul(options.repeat + 1);
    let bar = output.progress(passes as u64);
    let mut results = Vec::with_capacity(traces.len());
    for path in traces {
        let name = path.file_name().unwrap_or(path.as_os_str());
        bar.set_message(name.to_string_lossy().into_owned());
        results
            .push(replay_file(path, options, || bar.inc(1)).map_err(|error| failure(error, path))?);
    }
    bar.finish_and_clear();
    Ok(results)
}

/// A bad trace or an impossible device is the caller's; everything else is the pool's.
fn failure(error: ReplayError, path: &Path) -> Failure {
    match error {
        ReplayError::Trace(error) => Failure::input(error),
        ReplayError::Device(_) | ReplayError::Pool(_) => Failure::input(error),
        error => Failure::Result(anyhow::Error::new(error).context(path.display().to_string())),
    }
}

fn write_page(
    path: &Path,
    traces: &[PathBuf],
    results: &[TraceResult],
    options: &ReplayOptions,
) -> Result<(), Failure> {
    let picture =
        |trace: &PathBuf| picture_file(trace, options).map_err(|error| failure(error, trace));
    let addresses: Result<Vec<_>, Failure> = traces.iter().map(picture).collect();
    let page = report::render(&summary::page(results, addresses?, options));
    let written =
        std::fs::write(path, page).with_context(|| format!("{} cannot be written", path.display()));
    written.map_err(Failure::Input)
}
