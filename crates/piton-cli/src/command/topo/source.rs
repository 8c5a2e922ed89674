//! Reads the machine that somebody points at, by what is in the file and not by its name.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use piton_topology::sysfs::SysfsTree;
use piton_topology::{MAX_CAPTURE_BYTES, Machine, Note, Origin, Partial};

use crate::command::Failure;

/// A machine, and who said what of it where several did.
pub(super) struct Found {
    pub(super) machine: Machine,
    pub(super) notes: Vec<Note>,
}

/// The machine that all of `sources` describe; this one if none is named.
pub(super) fn read_all(sources: &[PathBuf]) -> Result<Found, Failure> {
    if let [] | [_] = sources {
        let machine = read(sources.first().map(PathBuf::as_path))?;
        let notes = Vec::new();
        return Ok(Found { machine, notes });
    }
    let partials = sources.iter().map(|path| partial(path));
    let partials: Vec<Partial> = partials.collect::<Result<_, _>>()?;
    let merged = piton_topology::merge(&partials).map_err(Failure::input)?;
    Ok(Found {
        machine: merged.machine,
        notes: merged.notes,
    })
}

/// What one of several sources says.
fn partial(path: &Path) -> Result<Partial, Failure> {
    let in_file = |error: anyhow::Error| Failure::Input(error.context(path.display().to_string()));
    if let Some(root) = tree_root(path)? {
        return Ok(Partial::of_sysfs(
            SysfsTree::read(root).map_err(Failure::input)?,
        ));
    }
    let text = read_text(path).map_err(in_file)?;
    let partial = || -> anyhow::Result<Partial> {
        Ok(match Form::of(&text) {
            Form::Json => Partial::of_machine(Origin::File, &Machine::from_json(&text)?),
            Form::Nccl => Partial::of_nccl_xml(&text)?,
            Form::Hwloc => Partial::of_hwloc_xml(&text)?,
            Form::Printed => Partial::of_tool_matrix(&text).context(PRINTED)?,
        })
    };
    partial().map_err(in_file)
}

/// The machine that `source` describes; this one if none is named.
pub(in crate::command) fn read(source: Option<&Path>) -> Result<Machine, Failure> {
    let Some(path) = source else {
        return Machine::from_sysfs(Path::new("/")).map_err(Failure::input);
    };
    let in_file = |error: anyhow::Error| Failure::Input(error.context(path.display().to_string()));
    if let Some(root) = tree_root(path)? {
        return Machine::from_sysfs(root).map_err(Failure::input);
    }
    let text = read_text(path).map_err(in_file)?;
    from_text(&text).map_err(in_file)
}

/// The folder itself, if it is one with a copy of `/sys` in it.
fn tree_root(path: &Path) -> Result<Option<&Path>, Failure> {
    if !path.is_dir() {
        return Ok(None);
    }
    if path.join("sys").is_dir() {
        return Ok(Some(path));
    }
    let error = anyhow::anyhow!("the folder has no `sys` in it");
    Err(Failure::Input(error.context(path.display().to_string())))
}

/// Said where a text that is neither JSON nor XML is no tool's output either.
const PRINTED: &str =
    "neither JSON nor XML, and not what `nvidia-smi topo -m`, `npu-smi` or `rocm-smi` print";

/// What a text is, by what is in it.
enum Form {
    Json,
    Nccl,
    Hwloc,
    Printed,
}

impl Form {
    fn of(text: &str) -> Self {
        let start = text.trim_start();
        if start.starts_with('{') {
            Self::Json
        } else if start.starts_with('<') && text.contains("<system") {
            Self::Nccl
        } else if start.starts_with('<') {
            Self::Hwloc
        } else {
            Self::Printed
        }
    }
}

fn from_text(text: &str) -> anyhow::Result<Machine> {
    Ok(match Form::of(text) {
        Form::Json => Machine::from_json(text)?,
        Form::Nccl => Machine::from_nccl_xml(text)?,
        Form::Hwloc => Machine::from_hwloc_xml(text)?,
        Form::Printed => Machine::from_tool_matrix(text).context(PRINTED)?,
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
