//! Reads the machine that somebody points at, by what is in the file and not by its name.

use std::fs;
use std::io::Read;
use std::path::Path;

use piton_topology::{MAX_CAPTURE_BYTES, Machine};

use crate::command::Failure;

/// The machine that `source` describes; this one if none is named.
pub(in crate::command) fn read(source: Option<&Path>) -> Result<Machine, Failure> {
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
