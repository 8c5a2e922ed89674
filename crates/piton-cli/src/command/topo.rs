//! `piton topo`: a machine, its distances, and the routes copies take, with reasons.

mod explain;
mod json;
mod measure;
mod page;
mod scaling;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use piton_topology::{
    CostModel, DeviceId, Machine, PeerAccess, Residual, Router, StripeOptions, StripePlan,
    StripePlanner, matrix_text, warning_lines,
};

use crate::report;

use super::{Failure, Output, size};
pub(super) use source::read;

/// Options of `piton topo`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// A captured machine: piton's JSON, an NCCL, RCCL or hwloc XML file, what `nvidia-smi topo -m`, `npu-smi info -t topo`
    /// or `rocm-smi --showtopo` printed, or a folder with a copy of `/sys` in it. This machine if nothing is given. Several are
    /// put together by PCI address: what files say before what tools print, and that before what `/sys` says.
    #[arg(value_name = "FILE|DIR")]
    sources: Vec<PathBuf>,
    /// Measure copies between simulated devices of the machine, in virtual time, and show what was modelled beside it; with
    /// --capture, the machine is written with what was measured.
    #[arg(long)]
    measure: bool,
    /// Print how far copies between 2, 4, 8, 16, 64 and all devices add up, and what the machine's cuts allow.
    #[arg(long)]
    scaling: bool,
    /// Write the machine to this file: as an NCCL topology file if it ends in `.xml`, else as JSON.
    #[arg(long, value_name = "OUT")]
    capture: Option<PathBuf>,
    /// Explain copies from this device alone, by number or name.
    #[arg(long, value_name = "DEVICE")]
    from: Option<String>,
    /// Explain copies to this device alone, by number or name.
    #[arg(long, value_name = "DEVICE")]
    to: Option<String>,
    /// Bytes of the copies whose routes are chosen.
    #[arg(long, visible_alias = "bytes", value_name = "BYTES", default_value = "64MiB", value_parser = size::parse)]
    size: u64,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Write a page with a drawing of the machine to this file; with --from and --to, of the copy as well.
    #[arg(long, value_name = "HTML")]
    output: Option<PathBuf>,
}

pub(super) fn run(options: &Options, output: &mut Output) -> Result<(), Failure> {
    let source::Found { machine, notes } = source::read_all(&options.sources)?;
    let measured = options
        .measure
        .then(|| measure::calibration(&machine))
        .transpose()?;
    if let Some(path) = &options.capture {
        let known = measured.as_ref().map(|known| machine.calibrated(known));
        let known = known.transpose().map_err(Failure::result)?;
        write(path, &captured(known.as_ref().unwrap_or(&machine), path)?)?;
    }
    let study = Study::new(&machine, options)?;
    if let Some(path) = &options.output {
        write(path, &report::render(&page::page(&study, options)))?;
    }
    if options.json {
        return output.line(json::text(&study, measured.as_ref())?);
    }
    output.line(matrix_text(&machine))?;
    for warning in warning_lines(&machine) {
        output.line(format_args!("note: {warning}"))?;
    }
    let overruled = notes.iter().filter(|note| note.overruled.is_some());
    for note in overruled {
        output.line(format_args!("note: {note}"))?;
    }
    output.line(explain::text(&study))?;
    if let Some(measured) = &measured {
        output.line(measure::text(&machine, measured))?;
    }
    if options.scaling {
        output.line(scaling::text(&machine))?;
    }
    Ok(())
}

fn captured(machine: &Machine, path: &Path) -> Result<String, Failure> {
    if path.extension().is_some_and(|extension| extension == "xml") {
        return Ok(machine.to_nccl_xml());
    }
    machine.to_json().map_err(Failure::result)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written =
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()));
    written.map_err(Failure::Input)
}

/// A machine and the copies somebody asks about.
struct Study<'m> {
    machine: &'m Machine,
    router: Router,
    planner: StripePlanner,
    from: Option<DeviceId>,
    to: Option<DeviceId>,
    bytes: u64,
}

impl<'m> Study<'m> {
    fn new(machine: &'m Machine, options: &Options) -> Result<Self, Failure> {
        let peers = PeerAccess::all();
        Ok(Self {
            machine,
            router: Router::with_relays(machine, &peers, CostModel::default()),
            planner: StripePlanner::new(machine, peers, StripeOptions::default()),
            from: device(machine, options.from.as_deref())?,
            to: device(machine, options.to.as_deref())?,
            bytes: options.size,
        })
    }

    /// The ordered pairs of different devices that are asked about.
    fn pairs(&self) -> impl Iterator<Item = (DeviceId, DeviceId)> + '_ {
        let asked = |wanted: Option<DeviceId>| {
            let ids = self.machine.device_ids();
            ids.filter(move |id| wanted.is_none_or(|wanted| wanted == *id))
        };
        asked(self.from)
            .flat_map(move |from| asked(self.to).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
    }

    /// Whether somebody named a device.
    fn is_narrowed(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// The copy over several routes at once, with nothing else under way.
    fn striped(&self, from: DeviceId, to: DeviceId) -> Option<StripePlan> {
        let free = Residual::of(self.machine);
        self.planner.plan(from, to, self.bytes, &free).ok()
    }
}

/// The device somebody means by its number or its name.
fn device(machine: &Machine, text: Option<&str>) -> Result<Option<DeviceId>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse().ok().map(DeviceId::new);
    let found = number
        .filter(|id| machine.device(*id).is_some())
        .or_else(|| {
            let named = |id: &DeviceId| machine.device(*id).is_some_and(|node| node.name == text);
            machine.device_ids().find(named)
        });
    let unknown = || {
        let count = machine.device_count();
        Failure::Input(anyhow::anyhow!(
            "{text} is none of the machine's {count} devices"
        ))
    };
    found.map(Some).ok_or_else(unknown)
}
