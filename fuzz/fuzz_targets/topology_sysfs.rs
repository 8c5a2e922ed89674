//! Any files where sysfs has its own: refused with an error, or a machine whose every answer can be asked for.
//!
//! The input is a tree as text: a line for each file, its path and what is in it. What a line cannot say (links between
//! folders) the tests of captured trees do.

#![no_main]

use std::{
    fs,
    path::{Path, PathBuf},
};

use libfuzzer_sys::fuzz_target;
use piton_topology::Machine;

#[path = "../topology_answers.rs"]
mod topology_answers;

/// Files of one tree: enough for a few devices, few enough to be quick.
const MOST_FILES: usize = 64;

fuzz_target!(|text: &str| {
    let root = std::env::temp_dir().join(format!("piton-sysfs-{}", std::process::id()));
    let bus = root.join("sys/bus/pci/devices");
    fs::create_dir_all(&bus).expect("a folder for the tree");
    for line in text.lines().take(MOST_FILES) {
        if let Some((path, content)) = line.split_once(' ') {
            write(&root, path, content);
        }
    }
    if let Ok(machine) = Machine::from_sysfs(&root) {
        topology_answers::ask_everything(&machine);
    }
    fs::remove_dir_all(&root).expect("the tree can go");
});

/// Writes a file of the tree; a line that names nothing below it is left out.
fn write(root: &Path, path: &str, content: &str) {
    let is_plain = |part: &str| !part.is_empty() && part.len() < 64 && part != "." && part != "..";
    let parts: Vec<&str> = path.split('/').collect();
    if parts.len() > 8 || !parts.iter().all(|part| is_plain(part)) || path.contains('\0') {
        return;
    }
    let short = match parts[0] {
        "p" => "sys/bus/pci/devices",
        "n" => "sys/devices/system/node",
        _ => return,
    };
    let below: PathBuf = parts[1..].iter().collect();
    let file = root.join(short).join(below);
    let folder = file.parent().unwrap_or(root);
    // A file where a folder is to be, or the other way round, is a line too many.
    if fs::create_dir_all(folder).is_ok() && !file.is_dir() {
        let _ = fs::write(file, content);
    }
}
