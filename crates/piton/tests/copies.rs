//! Copies between devices when links fail: bytes arrive by another way, and the log names the link.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    DeviceId, Devices, Machine, Reason, Runtime, RuntimeConfig, TransferConfig,
    sim::{DeviceConfig, FaultPlan, ScheduleOrder, Trigger},
};
use piton_topology::LinkKind;
use std::time::{Duration, Instant};
use support::{check, copies::Copy};

const BYTES: usize = 9 << 20;

fn small_device() -> DeviceConfig {
    DeviceConfig {
        memory_bytes: 96 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    }
}

/// `count` devices, each linked to each other, in virtual time.
fn mesh(count: u16) -> Runtime {
    let machine = Machine::mesh(count, LinkKind::Hccs, 1).unwrap();
    in_virtual_time(&machine, TransferConfig::default())
}

fn in_virtual_time(machine: &Machine, transfers: TransferConfig) -> Runtime {
    let mut config = RuntimeConfig::simulated_machine(machine, &small_device()).unwrap();
    let Devices::Simulated(sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    config.transfers = Some(transfers);
    Runtime::new(config).unwrap()
}

fn run(runtime: &Runtime, from: u32, to: u32, bytes: usize) {
    let mut copy = Copy::new(runtime, from, to, bytes, 7);
    copy.start();
    copy.assert_arrived();
}

fn names_the_link(runtime: &Runtime, a: u32, b: u32) -> String {
    let incidents = runtime.incidents();
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    let pair = [incidents[0].leg.from, incidents[0].leg.to];
    assert!(pair == [Some(DeviceId(a)), Some(DeviceId(b))], "{pair:?}");
    assert!(incidents[0].is_quarantined && !incidents[0].links.is_empty());
    incidents[0].to_string()
}

#[test]
fn a_large_copy_takes_several_ways_and_arrives() {
    let runtime = mesh(4);
    run(&runtime, 0, 1, BYTES);
    let routes = runtime.routes();
    assert!(
        routes.iter().any(|route| route.relays.is_empty()),
        "{routes:?}"
    );
    let relayed = routes.iter().filter(|route| route.relays.len() == 1);
    assert_eq!(relayed.count(), 2, "{routes:?}");
    let sum: u64 = routes.iter().map(|route| route.bytes).sum();
    assert_eq!(sum, BYTES as u64);
    assert!(runtime.incidents().is_empty());
    check(&runtime);
}

#[test]
fn a_link_that_dies_is_named_and_the_copy_arrives_another_way() {
    let runtime = mesh(3);
    run(&runtime, 0, 1, BYTES);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::CutLink(DeviceId(0), DeviceId(1))));
    run(&runtime, 0, 1, BYTES);
    let said = names_the_link(&runtime, 0, 1);
    assert!(
        said.contains(" over HCCS ") && said.contains("no copy takes it any more"),
        "{said}"
    );
    let fired = sim.faults_fired();
    run(&runtime, 1, 0, BYTES);
    run(&runtime, 0, 1, 100);
    assert_eq!(sim.faults_fired(), fired, "somebody tried the dead link");
    check(&runtime);
}

#[test]
fn a_relay_whose_link_dies_is_left_out() {
    let runtime = mesh(3);
    run(&runtime, 0, 1, BYTES);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::CutLink(DeviceId(2), DeviceId(1))));
    // Few chunks: the first leg ends well although the second has failed.
    run(&runtime, 0, 1, 7 << 20);
    names_the_link(&runtime, 2, 1);
    check(&runtime);
}

#[test]
fn a_link_that_changes_bytes_is_found_before_it_is_used() {
    let runtime = mesh(3);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::CorruptLink(DeviceId(0), DeviceId(1))));
    run(&runtime, 0, 1, 1000);
    names_the_link(&runtime, 0, 1);
    let reason = runtime.incidents()[0].reason;
    assert!(
        matches!(reason, Reason::Corrupted { wrong: 2, .. }),
        "{reason}"
    );
    run(&runtime, 0, 1, BYTES);
    check(&runtime);
}

#[test]
fn a_link_that_hangs_is_given_up_when_the_copy_is_overdue() {
    let runtime = mesh(3);
    run(&runtime, 0, 1, BYTES);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::HangLink(DeviceId(0), DeviceId(1))));
    let mut copy = Copy::new(&runtime, 0, 1, BYTES, 3);
    copy.start();
    // Runs all that can run: in virtual time the host's wait finds that nothing goes on.
    assert!(copy.to.synchronize().is_err());
    let now = Instant::now();
    assert_eq!(runtime.check_copies(now), 0, "its time has only begun");
    assert_eq!(runtime.check_copies(now + Duration::from_millis(100)), 0);
    assert_eq!(runtime.check_copies(now + Duration::from_millis(101)), 1);
    copy.assert_arrived();
    names_the_link(&runtime, 0, 1);
    let reason = runtime.incidents()[0].reason;
    assert!(matches!(reason, Reason::Overdue { .. }), "{reason}");
    check(&runtime);
}

#[test]
fn a_slow_link_makes_a_copy_late_and_not_wrong() {
    let runtime = mesh(3);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::SlowLink(DeviceId(0), DeviceId(1), 9)));
    run(&runtime, 0, 1, BYTES);
    assert!(runtime.incidents().is_empty());
    check(&runtime);
}

#[test]
fn a_relay_that_is_lost_is_left_out() {
    let runtime = mesh(3);
    run(&runtime, 0, 1, BYTES);
    runtime.sim().unwrap().lose(DeviceId(2));
    run(&runtime, 0, 1, BYTES);
    let incidents = runtime.incidents();
    assert!(!incidents.is_empty());
    for incident in incidents {
        assert!([incident.leg.from, incident.leg.to].contains(&Some(DeviceId(2))));
    }
}

#[test]
fn a_copy_behind_a_failure_fails_and_no_link_is_blamed() {
    let runtime = mesh(3);
    runtime.register(support::module()).unwrap();
    let mut copy = Copy::new(&runtime, 0, 1, BYTES, 3);
    let trap = runtime
        .device(1)
        .unwrap()
        .load("test")
        .unwrap()
        .kernel("trap")
        .unwrap();
    let mut word = copy.to.allocate::<u32>(1).unwrap();
    let launch = copy.to.launch(&trap, piton::Grid::linear(1));
    launch.write(&mut word).value(7_u32).submit().unwrap();
    copy.start();
    assert!(copy.to.synchronize().is_err());
    assert!(runtime.incidents().is_empty(), "{:?}", runtime.incidents());
    drop((copy, word));
    run(&runtime, 0, 1, BYTES);
    check(&runtime);
}

#[test]
fn a_lost_end_is_an_error_and_the_other_end_works_on() {
    for lost in [0, 1] {
        let runtime = mesh(3);
        run(&runtime, 0, 1, BYTES);
        let mut copy = Copy::new(&runtime, 0, 1, BYTES, 3);
        runtime.sim().unwrap().lose(DeviceId(lost));
        let started = copy.to.copy_peer(&copy.source, &mut copy.target);
        assert!(started.is_err() || copy.to.synchronize().is_err());
        drop(copy);
        run(&runtime, 1 - lost, 2, BYTES);
    }
}

/// Whatever driver call of a guarded copy fails: the bytes arrive or somebody is told, and nothing is kept.
#[test]
fn any_driver_call_of_a_copy_may_fail() {
    let runtime = mesh(3);
    let sim = runtime.sim().unwrap();
    let held = || -> Vec<u64> {
        let device = |id| sim.device(DeviceId(id)).unwrap();
        (0..3).map(|id| device(id).memory_counters().held).collect()
    };
    run(&runtime, 0, 1, BYTES);
    let before = held();
    let (mut failed, mut n) = (0, 0);
    loop {
        n += 1;
        let mut copy = Copy::new(&runtime, 0, 1, BYTES, n);
        copy.from.synchronize().unwrap();
        copy.to.synchronize().unwrap();
        sim.set_faults(FaultPlan::new().with(Trigger::Call(n)));
        let started = copy.to.copy_peer(&copy.source, &mut copy.target);
        let ended = copy.to.synchronize();
        let fired = sim.faults_fired();
        sim.set_faults(FaultPlan::new());
        if started.is_err() || ended.is_err() {
            failed += 1;
            // A refused wait on the host says nothing of the copy.
            drop(copy);
        } else {
            copy.assert_arrived();
        }
        check(&runtime);
        if fired == 0 {
            break;
        }
    }
    assert!(n > 20 && failed < n, "{failed} of {n} failed");
    run(&runtime, 0, 1, BYTES);
    assert_eq!(before, held(), "memory of relays was lost or kept twice");
}
