//! Copies between devices whose queues hold few commands: no submission waits for room, everything ends, no byte is wrong.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Compared, Devices, Machine, Runtime, RuntimeConfig, TransferConfig,
    sim::{DeviceConfig, ScheduleOrder},
};
use piton_topology::LinkKind;
use support::{check, copies::Copy};

/// More than a round compares at once.
const BYTES: usize = (20 << 20) + 4096;

/// Devices that all have links to each other and whose queues hold so many commands.
fn runtime(commands: u32, is_virtual: bool, transfers: TransferConfig) -> Runtime {
    let machine = Machine::mesh(4, LinkKind::Hccs, 1).unwrap();
    let device = DeviceConfig {
        memory_bytes: 192 << 20,
        page_bytes: 64 << 10,
        queue_commands: commands,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(&machine, &device).unwrap();
    let Devices::Simulated(sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    config.devices = Devices::Simulated(if is_virtual {
        sim.in_virtual_time(1, ScheduleOrder::ByTime)
    } else {
        sim
    });
    config.transfers = Some(transfers);
    Runtime::new(config).unwrap()
}

/// Copies both ways between two pairs, all at once.
fn both_ways(runtime: &Runtime) -> Vec<Copy> {
    let pairs = [(0, 1), (1, 0), (2, 3), (3, 2)];
    let copies = pairs.iter().zip(1..);
    copies
        .map(|((from, to), seed)| Copy::new(runtime, *from, *to, BYTES, seed))
        .collect()
}

/// Carries them all out, and looks at every byte.
fn assert_all_arrive(runtime: &Runtime) {
    let mut copies = both_ways(runtime);
    copies.iter_mut().for_each(Copy::start);
    copies.iter_mut().for_each(Copy::assert_arrived);
    assert!(runtime.incidents().is_empty(), "{:?}", runtime.incidents());
    check(runtime);
}

#[test]
fn striped_copies_in_both_directions_end_where_queues_hold_few_commands() {
    for (commands, is_virtual) in [(8, true), (8, false), (32, false)] {
        let runtime = runtime(commands, is_virtual, TransferConfig::default());
        assert_all_arrive(&runtime);
        assert_all_arrive(&runtime);
        let routes = runtime.routes();
        let relayed = routes.iter().filter(|route| !route.relays.is_empty());
        assert!(relayed.count() > 0, "{commands}: {routes:?}");
    }
}

#[test]
fn copies_through_fewer_commands_than_a_guard_takes_go_one_way() {
    for commands in [2, 4] {
        let runtime = runtime(commands, true, TransferConfig::default());
        assert_all_arrive(&runtime);
        let routes = runtime.routes();
        assert!(
            routes.iter().all(|route| route.relays.is_empty()),
            "{routes:?}"
        );
    }
}

#[test]
fn every_byte_is_compared_where_queues_hold_few_commands() {
    let transfers = TransferConfig {
        compared: Compared::Everything,
        ..TransferConfig::default()
    };
    assert_all_arrive(&runtime(8, false, transfers));
}

#[test]
fn submitting_a_copy_waits_for_nothing_though_it_cannot_begin() {
    for is_virtual in [true, false] {
        let runtime = runtime(8, is_virtual, TransferConfig::default());
        // Every leg is tried first.
        assert_all_arrive(&runtime);
        let mut copies = both_ways(&runtime);
        let gates: Vec<_> = copies
            .iter()
            .map(|copy| {
                let to = runtime.device(copy.to.device().0).unwrap();
                let gate = to.semaphore(0).unwrap();
                copy.to.wait_semaphore(&gate, 1).unwrap();
                gate
            })
            .collect();
        // Nothing of them runs before all are submitted.
        copies.iter_mut().for_each(Copy::start);
        for gate in &gates {
            gate.signal(1).unwrap();
        }
        copies.iter_mut().for_each(Copy::assert_arrived);
        check(&runtime);
    }
}
