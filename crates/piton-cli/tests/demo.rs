//! The demonstration: devices against the plain training, repeatability, and what happens to bad input.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton::PoolStats;
use piton_cli::demo::{
    ACCURACY_WANTED, Backend, ConfigError, DemoError, DemoOptions, Outcome, TrainingConfig,
};
use piton_cli::report::{MAX_BYTES, render};
use piton_topology::{LinkKind, Machine, NvLinkVersion};

fn options(devices: usize, steps: usize, batch_per_device: usize) -> DemoOptions {
    let config = TrainingConfig {
        devices,
        steps,
        batch_per_device,
        ..TrainingConfig::default()
    };
    DemoOptions {
        backend: Backend::Simulated,
        config,
        machine: None,
        is_deterministic: false,
        is_sanitized: false,
    }
}

#[track_caller]
fn check_good(options: DemoOptions) -> Outcome {
    let outcome = Outcome::of(options, |_| {}).unwrap();
    for check in outcome.checks() {
        assert!(check.has_passed, "{check:?}");
    }
    outcome
}

#[test]
fn any_number_of_devices_and_any_batch_agree_with_the_plain_training() {
    for (devices, batch) in [(1, 32), (2, 1), (3, 7), (4, 33), (5, 8), (16, 3)] {
        let outcome = check_good(options(devices, 12, batch));
        assert!(outcome.comparison.largest_difference > 0.0 || devices == 1);
        assert_eq!(outcome.training.len(), 12);
    }
}

#[test]
fn the_default_training_reads_digits() {
    let outcome = check_good(DemoOptions {
        backend: Backend::Simulated,
        config: TrainingConfig::default(),
        machine: None,
        is_deterministic: false,
        is_sanitized: false,
    });
    assert!(outcome.is_accuracy_judged());
    assert!(outcome.accuracy >= ACCURACY_WANTED);
    // How many requests are hits depends on how far the devices are; that few reach the driver does not.
    let few_calls = |pool: &PoolStats| pool.block_allocations * 100 < pool.hits + pool.misses;
    assert!(outcome.pools.iter().all(few_calls), "{:?}", outcome.pools);
    let page = render(&outcome.page());
    assert!(page.len() < MAX_BYTES, "{}", page.len());
}

#[test]
fn a_sanitizer_finds_nothing_in_the_training() {
    for is_deterministic in [false, true] {
        let outcome = check_good(DemoOptions {
            is_sanitized: true,
            is_deterministic,
            ..options(4, 20, 8)
        });
        let name = "no two commands race, whatever the schedule";
        assert!(outcome.checks().iter().any(|check| check.name == name));
    }
}

#[test]
fn virtual_time_repeats_itself_to_the_byte() {
    let page = || {
        let outcome = check_good(DemoOptions {
            is_deterministic: true,
            ..options(3, 10, 8)
        });
        render(&outcome.page())
    };
    assert!(page() == page(), "two pages of one seed differ");
}

#[test]
fn every_copy_between_devices_is_counted_with_its_route() {
    let steps = 5;
    let outcome = check_good(options(4, steps, 4));
    assert_eq!(
        outcome.routes.len(),
        4,
        "around the ring: {:?}",
        outcome.routes
    );
    // Twice three rounds a step, one piece for each device in each.
    let copies: u64 = outcome.routes.iter().map(|route| route.copies).sum();
    assert_eq!(copies, steps as u64 * 2 * 3 * 4);
    let parameters = 6570 * size_of::<f32>() as u64;
    let bytes: u64 = outcome.routes.iter().map(|route| route.bytes).sum();
    assert_eq!(bytes, steps as u64 * 2 * 3 * parameters);
}

#[test]
fn machines_of_any_shape_carry_the_training() {
    let link = LinkKind::NvLink(NvLinkVersion::V3);
    let machines = [
        Machine::ring(4, link, 4).unwrap(),
        Machine::pcie_pairs(4).unwrap(),
        Machine::linked_pairs(4, link, 4).unwrap(),
        Machine::unknown_host(2).unwrap(),
    ];
    for machine in machines {
        let devices = machine.device_count();
        let outcome = check_good(DemoOptions {
            machine: Some(machine),
            ..options(devices, 5, 8)
        });
        assert!(outcome.page().topology.unwrap().svg.contains("<svg"));
    }
}

#[test]
fn bad_input_is_refused() {
    let refused = |options| Outcome::of(options, |_| {}).unwrap_err();
    assert!(matches!(
        refused(options(0, 1, 1)),
        DemoError::Config(ConfigError::Devices { devices: 0 })
    ));
    assert!(matches!(refused(options(17, 1, 1)), DemoError::Config(_)));
    let machine = Some(Machine::pcie_pairs(2).unwrap());
    assert!(matches!(
        refused(DemoOptions {
            machine,
            ..options(3, 1, 1)
        }),
        DemoError::TooFewDevices {
            wanted: 3,
            present: 2
        }
    ));
}
