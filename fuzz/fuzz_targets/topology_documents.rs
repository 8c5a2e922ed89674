//! Any text read as a description of a machine: refused with an error, or a machine whose every answer can be asked
//! for. What is written down reads back as the same machine.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_topology::Machine;

#[path = "../topology_answers.rs"]
mod topology_answers;

fuzz_target!(|text: &str| {
    for machine in [
        Machine::from_nccl_xml(text).ok(),
        Machine::from_json(text).ok(),
    ]
    .into_iter()
    .flatten()
    {
        topology_answers::ask_everything(&machine);
    }
});
