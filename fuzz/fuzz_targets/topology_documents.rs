//! Any text read as a description of a machine: refused with an error, or a machine whose every answer can be asked
//! for. What is written down reads back as the same machine.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use piton_topology::{Machine, PeerAccess, Router, matrix_text, svg};

fuzz_target!(|text: &str| {
    for machine in [
        Machine::from_nccl_xml(text).ok(),
        Machine::from_json(text).ok(),
    ]
    .into_iter()
    .flatten()
    {
        ask_everything(&machine);
    }
});

fn ask_everything(machine: &Machine) {
    let written = machine.to_json().expect("a machine can be written down");
    let again = Machine::from_json(&written).expect("and read again");
    assert_eq!(again.to_json().ok(), Some(written));

    // Matrices and drawings grow with the square of the devices: enough of them tell all there is.
    if machine.device_count() <= 16 {
        black_box((matrix_text(machine), svg(machine, &[]), machine.distances()));
        ask_routes(machine);
    }
}

fn ask_routes(machine: &Machine) {
    let router = Router::new(machine, &PeerAccess::all());
    for from in machine.device_ids() {
        for to in machine.device_ids() {
            for bytes in [0, 1, u64::MAX] {
                if let Ok(route) = router.route(from, to, bytes) {
                    black_box(router.duration(route, bytes));
                }
            }
        }
    }
}
