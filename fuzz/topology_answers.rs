//! Asks a machine everything, whatever document it was read from. Shared by the targets that read documents.

use std::hint::black_box;

use piton_topology::{Machine, PeerAccess, Router, matrix_text, svg};

pub fn ask_everything(machine: &Machine) {
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
