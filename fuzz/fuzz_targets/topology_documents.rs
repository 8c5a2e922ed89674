//! Any text read as a description of a machine: refused with an error, or a machine whose every answer can be asked
//! for. What is written down reads back as the same machine. A file that leaves things out is a part of a machine, which
//! goes together with itself and with a whole one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_topology::{Machine, Origin, Partial, merge};

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
        let part = Partial::of_machine(Origin::File, &machine);
        let _put_together = merge(&[part.clone(), part]);
    }
    if let Ok(part) = Partial::of_nccl_xml(text)
        && let Ok(merged) = merge(&[part.clone(), part])
    {
        topology_answers::ask_everything(&merged.machine);
    }
});
