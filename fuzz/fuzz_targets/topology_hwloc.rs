//! Any text read as an hwloc file: refused with an error, or a machine whose every answer can be asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_topology::Machine;

#[path = "../topology_answers.rs"]
mod topology_answers;

fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::from_hwloc_xml(text) {
        topology_answers::ask_everything(&machine);
    }
});
