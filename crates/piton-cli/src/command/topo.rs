//! `piton topo`: a machine, its distances, and the routes copies take, with reasons.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use piton_topology::{DeviceId, MAX_CAPTURE_BYTES, Machine, PeerAccess, Router, matrix_text};
use serde::Serialize;

use crate::quantity;
use crate::report::{self, Fact, ReportData, Topology};

use super::{Failure, Output, size};

/// Pairs whose routes are explained in text; more fill screens.
const MAX_EXPLAINED_DEVICES: usize = 8;

/// Options of `piton topo`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// A captured machine: piton's JSON, an NCCL, RCCL or hwloc XML file, what `nvidia-smi topo -m`, `npu-smi info -t topo`
    /// or `rocm-smi --showtopo` printed, or a folder with a copy of `/sys` in it. This machine if nothing is given.
    #[arg(value_name = "FILE|DIR")]
    source: Option<PathBuf>,
    /// Write the machine as JSON to this file.
    #[arg(long, value_name = "OUT")]
    capture: Option<PathBuf>,
    /// Bytes of the copies whose routes are chosen.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size::parse)]
    bytes: u64,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Write a page with a drawing of the machine to this file.
    #[arg(long, value_name = "HTML")]
    output: Option<PathBuf>,
}

pub(super) fn run(options: &Options, output: &mut Output) -> Result<(), Failure> {
    let machine = read(options.source.as_deref())?;
    if let Some(path) = &options.capture {
        let json = machine.to_json().map_err(Failure::result)?;
        write(path, &json)?;
    }
    if let Some(path) = &options.output {
        write(path, &report::render(&page(&machine, options)))?;
    }
    if options.json {
        return output.line(json(&machine, options.bytes)?);
    }
    output.line(matrix_text(&machine))?;
    machine
        .warnings()
        .iter()
        .try_for_each(|warning| output.line(format_args!("note: {warning}")))?;
    output.line(explained(&machine, options.bytes))
}

/// The machine that `source` describes, by what is in it and not by its name.
pub(super) fn read(source: Option<&Path>) -> Result<Machine, Failure> {
    let Some(path) = source else {
        return Machine::from_sysfs(Path::new("/")).map_err(Failure::input);
    };
    let in_file = |error: anyhow::Error| Failure::Input(error.context(path.display().to_string()));
    if path.is_dir() {
        if !path.join("sys").is_dir() {
            return Err(in_file(anyhow::anyhow!("the folder has no `sys` in it")));
        }
        return Machine::from_sysfs(path).map_err(Failure::input);
    }
    let text = read_text(path).map_err(in_file)?;
    from_text(&text).map_err(in_file)
}

fn from_text(text: &str) -> anyhow::Result<Machine> {
    let start = text.trim_start();
    Ok(if start.starts_with('{') {
        Machine::from_json(text)?
    } else if start.starts_with('<') && text.contains("<system") {
        Machine::from_nccl_xml(text)?
    } else if start.starts_with('<') {
        Machine::from_hwloc_xml(text)?
    } else {
        Machine::from_tool_matrix(text)?
    })
}

/// The file's text, refused before it is read whole if it is larger than any machine.
fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let limit = MAX_CAPTURE_BYTES as u64 + 1;
    fs::File::open(path)?
        .take(limit)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written =
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()));
    written.map_err(Failure::Input)
}

fn pairs(machine: &Machine) -> impl Iterator<Item = (DeviceId, DeviceId)> {
    let devices: Vec<DeviceId> = machine.device_ids().collect();
    let others = devices.clone();
    devices
        .into_iter()
        .flat_map(move |from| others.clone().into_iter().map(move |to| (from, to)))
}

fn explained(machine: &Machine, bytes: u64) -> String {
    let router = Router::new(machine, &PeerAccess::all());
    let mut text = format!("routes for copies of {}:", quantity::bytes(bytes));
    let is_shown = |id: DeviceId| {
        machine
            .device_ids()
            .take(MAX_EXPLAINED_DEVICES)
            .any(|shown| shown == id)
    };
    let shown = pairs(machine).filter(|(from, to)| from < to && is_shown(*from) && is_shown(*to));
    let mut count = 0;
    for candidate in
        shown.flat_map(|(from, to)| router.candidates(from, to, bytes).unwrap_or_default())
    {
        text.push_str(&format!("\n  {candidate}"));
        count += 1;
    }
    if count == 0 {
        text.push_str("\n  there are no two devices to copy between");
    }
    if machine.device_count() > MAX_EXPLAINED_DEVICES {
        text.push_str(&format!(
            "\n  (the first {MAX_EXPLAINED_DEVICES} devices; --json has all)"
        ));
    }
    text
}

#[derive(Serialize)]
struct Json<'a> {
    machine: serde_json::Value,
    copy_bytes: u64,
    routes: Vec<piton_topology::Candidate<'a>>,
}

fn json(machine: &Machine, bytes: u64) -> Result<String, Failure> {
    let router = Router::new(machine, &PeerAccess::all());
    let text = machine.to_json().map_err(Failure::result)?;
    let routes = pairs(machine).filter(|(from, to)| from != to);
    let json = Json {
        machine: serde_json::from_str(&text).map_err(Failure::result)?,
        copy_bytes: bytes,
        routes: routes
            .flat_map(|(from, to)| router.candidates(from, to, bytes).unwrap_or_default())
            .collect(),
    };
    serde_json::to_string_pretty(&json).map_err(Failure::result)
}

fn page(machine: &Machine, options: &Options) -> ReportData {
    let name = options.source.as_ref().map_or_else(
        || "this machine".to_owned(),
        |path| path.display().to_string(),
    );
    let fact = |label: &str, count: usize| Fact {
        label: label.to_owned(),
        value: count.to_string(),
        note: String::new(),
    };
    ReportData {
        title: "Machine".to_owned(),
        subtitle: name,
        facts: vec![
            fact("devices", machine.device_count()),
            fact("links", machine.links().len()),
            fact("NUMA nodes", machine.numa().len()),
        ],
        topology: Some(Topology {
            svg: piton_topology::svg(machine, &[]),
            caption: String::new(),
        }),
        ..ReportData::default()
    }
}
