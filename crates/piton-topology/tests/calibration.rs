//! What was measured of pairs, put in place of what was modelled.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its case has failed"
)]

#[path = "prop_machine/random.rs"]
mod random;

use piton_topology::{
    BytesPerSec, Calibration, DeviceId, LinkKind, Machine, Measured, Nanos, Provenance, Transit,
};
use proptest::prelude::*;
use random::machines;

fn measured(megabytes: u64, latency: u64) -> Measured {
    Measured {
        bandwidth: BytesPerSec::from_mb(megabytes),
        latency: Nanos::new(latency),
    }
}

fn ids<const N: usize>() -> [DeviceId; N] {
    std::array::from_fn(|n| DeviceId::new(u16::try_from(n).unwrap()))
}

#[test]
fn a_link_between_two_devices_is_as_fast_as_it_was_measured_each_way() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    let [a, b, c] = ids();
    let mut known = Calibration::new();
    known.set(a, b, measured(20_000, 900));
    known.set(b, a, measured(30_000, 800));
    let calibrated = machine.calibrated(&known).unwrap();
    let rates = calibrated.valued_bandwidths(Transit::HostOnly);
    let rate = |from: DeviceId, to: DeviceId| rates.get(from.index(), to.index()).unwrap().unwrap();
    // The host's buses are narrower than the link, if only just.
    assert_eq!(rate(b, a).value, BytesPerSec::from_mb(30_000));
    assert_eq!(rate(b, a).provenance, Provenance::Measured);
    assert_eq!(rate(a, c).provenance, Provenance::Default);
    let times = calibrated.valued_latencies(Transit::HostOnly);
    let time = times.get(a.index(), b.index()).unwrap().unwrap();
    assert_eq!(time.value, Nanos::new(800));
    assert_eq!(time.provenance, Provenance::Measured);
    // What was modelled is still there to be shown beside it.
    let compared = known.compare(&machine);
    assert_eq!(compared.len(), 2);
    let modelled = compared[0].modelled.unwrap();
    assert_eq!(modelled.bandwidth.get(), 28_000_000_000 / 100 * 85);
    assert!(
        compared[0]
            .to_string()
            .ends_with("modelled 23.8 GB/s, 1.0 µs; 84 % of the model"),
        "{}",
        compared[0]
    );
}

#[test]
fn a_shared_link_is_as_wide_as_the_fastest_pair_over_it() {
    let machine = Machine::star(3, LinkKind::HccsSwitch, 1).unwrap();
    let [a, b, c] = ids();
    let mut known = Calibration::new();
    for (from, to, rate) in [(a, b, 150_000), (a, c, 100_000), (b, c, 100_000)] {
        known.set(from, to, measured(rate, 1_000));
    }
    let rates = machine
        .calibrated(&known)
        .unwrap()
        .bandwidths(Transit::HostOnly);
    let rate = |from: DeviceId, to: DeviceId| rates.get(from.index(), to.index()).unwrap().unwrap();
    // Only the third one's way in is slow.
    assert_eq!(rate(a, b), BytesPerSec::from_mb(150_000));
    assert_eq!(rate(a, c), BytesPerSec::from_mb(100_000));
    assert_eq!(rate(b, c), BytesPerSec::from_mb(100_000));
}

#[test]
fn what_cannot_be_measured_is_not_taken() {
    let [a, b] = ids();
    let mut known = Calibration::new();
    known.set(a, a, measured(1, 1));
    known.set(a, b, measured(0, 1));
    assert!(known.is_empty());
    // A pair that the machine does not have changes nothing and is not compared.
    known.set(a, DeviceId::new(9), measured(1, 1));
    let machine = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
    assert_eq!(machine.calibrated(&known).unwrap(), machine);
    assert_eq!(known.compare(&machine), []);
}

#[test]
fn a_measured_machine_says_so_when_it_is_captured() {
    let machine = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
    let [a, b] = ids();
    let mut known = Calibration::new();
    known.set(a, b, measured(21_000, 700));
    let calibrated = machine.calibrated(&known).unwrap();
    let json = calibrated.to_json().unwrap();
    assert!(json.contains("\"latency_provenance\": \"measured\""));
    assert_eq!(Machine::from_json(&json).unwrap(), calibrated);
    assert!(!machine.to_json().unwrap().contains("latency_provenance"));
}

#[test]
fn an_affinity_that_nobody_said_is_a_default() {
    let said = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
    let [a, _] = ids::<2>();
    let declared = said.valued_numa_affinity(a).unwrap();
    assert_eq!(declared.provenance, Provenance::Declared);
    let unsaid = Machine::unknown_host(2).unwrap();
    let stand_in = unsaid.valued_numa_affinity(a).unwrap();
    assert_eq!(stand_in.provenance, Provenance::Default);
}

proptest! {
    #[test]
    fn no_pair_is_promised_less_than_it_was_measured_to_get(
        parts in machines(),
        seen in prop::collection::vec((0..8_u16, 0..8_u16, 1..100_000_u64), 1..12),
    ) {
        let machine = parts.build();
        let mut known = Calibration::new();
        for (from, to, rate) in seen {
            known.set(DeviceId::new(from), DeviceId::new(to), measured(rate, 500));
        }
        let calibrated = machine.calibrated(&known).unwrap();
        let rates = calibrated.bandwidths(Transit::HostOnly);
        for compared in known.compare(&machine) {
            let found = rates.get(compared.from.index(), compared.to.index()).unwrap();
            if compared.modelled.is_some() {
                prop_assert!(found.unwrap() >= compared.measured.bandwidth);
            }
        }
    }
}
