//! How copies between 2 to 64 devices add up, beside what the machine allows.

#![expect(
    clippy::print_stdout,
    reason = "a run says how much of what was possible was reached"
)]

use piton_fluid::{Pattern, Scaled, scaling};
use piton_topology::{LinkKind, Machine, NvLinkVersion};

const NVLINK: LinkKind = LinkKind::NvLink(NvLinkVersion::V3);
const COUNTS: [u16; 6] = [1, 2, 4, 8, 16, 64];

/// Whatever grows with the devices as far as the cut lets it. Prints each line.
fn check(name: &str, machine: &Machine, patterns: &[Pattern], counts: &[u16]) -> Vec<Scaled> {
    let all = scaling(machine, patterns, counts);
    for scaled in &all {
        println!(
            "{name}, {} devices, {}: {:.3} of linear, {:.3} of possible",
            scaled.devices,
            scaled.pattern.word(),
            scaled.of_linear(),
            scaled.of_possible()
        );
        assert!(
            scaled.of_possible() >= 0.95,
            "{name}: {scaled:?} reaches {}",
            scaled.of_possible()
        );
        // Nothing exceeds what is proven.
        for together in scaled.together {
            assert!(
                together as f64 <= scaled.cut as f64 * 1.001,
                "{name}: {scaled:?}"
            );
        }
    }
    all
}

#[test]
fn up_to_sixty_four_devices_of_a_switched_machine_add_up() {
    let machine = Machine::star(64, NVLINK, 12).unwrap();
    let patterns = [Pattern::Neighbour, Pattern::Shift];
    let all = check("star", &machine, &patterns, &COUNTS);
    // One device copies to nobody.
    assert_eq!(all.len(), 2 * (COUNTS.len() - 1));
    assert!(all.iter().all(|scaled| scaled.of_linear() >= 0.95));
}

#[test]
fn machines_of_every_size_reach_what_their_cuts_allow() {
    let patterns = [Pattern::Neighbour, Pattern::Shift, Pattern::AllToAll];
    for count in [2_u16, 4, 8, 16] {
        check(
            "mesh",
            &Machine::mesh(count, NVLINK, 1).unwrap(),
            &patterns,
            &[count],
        );
        check(
            "ring",
            &Machine::ring(count, NVLINK, 2).unwrap(),
            &patterns,
            &[count],
        );
    }
}

#[test]
fn a_pattern_without_ways_is_left_out() {
    assert_eq!(
        scaling(
            &Machine::mesh(4, NVLINK, 1).unwrap(),
            &Pattern::ALL,
            &[1, 65]
        ),
        []
    );
}
