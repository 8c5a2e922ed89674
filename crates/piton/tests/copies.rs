//! Copies between devices when links fail: bytes arrive by another way, and the log names the link.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Compared, DeviceId, Devices, Machine, Reason, Runtime, RuntimeConfig, RuntimeError,
    TransferConfig,
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
    try_in_virtual_time(machine, transfers).unwrap()
}

fn try_in_virtual_time(
    machine: &Machine,
    transfers: TransferConfig,
) -> Result<Runtime, RuntimeError> {
    let mut config = RuntimeConfig::simulated_machine(machine, &small_device()).unwrap();
    let Devices::Simulated(sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    config.transfers = Some(transfers);
    Runtime::new(config)
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

/// What a copy of `bytes` bytes from 0 to 1 reaches of what its link and those over all others carry together, among
/// `count` devices that all have links to each other.
fn reached(count: u16, bytes: u64) -> f64 {
    let machine = Machine::mesh(count, LinkKind::Hccs, 1).unwrap();
    let device = DeviceConfig {
        memory_bytes: 512 << 20,
        // Two lanes a leg, two legs a part.
        hardware_queues: 64,
        peer_engines: 64,
        ..small_device()
    };
    let mut config = RuntimeConfig::simulated_machine(&machine, &device).unwrap();
    let Devices::Simulated(sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    let runtime = Runtime::new(config).unwrap();
    let [from, to] = [0, 1].map(|id| runtime.device(id).unwrap().stream("copy").unwrap());
    let source = from.allocate_zeroed::<u8>(bytes).unwrap();
    let mut target = to.allocate_zeroed::<u8>(bytes).unwrap();
    // Every leg is tried first.
    to.copy_peer(&source, &mut target).unwrap();
    to.synchronize().unwrap();
    let start = to.record_timed().unwrap();
    to.copy_peer(&source, &mut target).unwrap();
    let end = to.record_timed().unwrap();
    to.synchronize().unwrap();
    let took = end.time_ns().unwrap().unwrap() - start.time_ns().unwrap().unwrap();
    let link = LinkKind::Hccs.default_bandwidth(1).unwrap().get();
    let bound = link as f64 * f64::from(count - 1);
    let rate = bytes as f64 / (took as f64 / 1e9);
    rate / bound
}

#[test]
fn a_large_copy_reaches_what_all_links_carry_together() {
    // Over relays the second leg waits for the first chunks.
    for (count, least) in [(2, 0.95), (4, 0.95), (8, 0.95)] {
        let share = reached(count, 192 << 20);
        assert!(share >= least, "{share:.3} among {count} devices");
    }
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
fn copies_that_stop_on_a_device_take_no_more_of_it_than_they_may() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    let config = TransferConfig {
        relay_bytes: 0,
        ..TransferConfig::default()
    };
    let runtime = in_virtual_time(&machine, config);
    run(&runtime, 0, 1, BYTES);
    let routes = runtime.routes();
    assert!(
        routes.iter().all(|route| route.relays.is_empty()),
        "{routes:?}"
    );
    // Nothing was wrong with the leg: others may take it.
    assert!(runtime.incidents().is_empty(), "{:?}", runtime.incidents());
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
fn a_link_that_goes_bad_after_it_was_tried_is_seen_where_copies_are_compared() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    for compared in [Compared::Nothing, Compared::Places(5), Compared::Everything] {
        let config = TransferConfig {
            compared,
            ..TransferConfig::default()
        };
        let runtime = in_virtual_time(&machine, config);
        run(&runtime, 0, 1, BYTES);
        let sim = runtime.sim().unwrap();
        sim.set_faults(FaultPlan::new().with(Trigger::CorruptLink(DeviceId(0), DeviceId(1))));
        let mut copy = Copy::new(&runtime, 0, 1, BYTES, 3);
        copy.start();
        if compared == Compared::Nothing {
            // Nobody looks, so nobody sees.
            copy.to.synchronize().unwrap();
            assert!(runtime.incidents().is_empty());
            continue;
        }
        copy.assert_arrived();
        names_the_link(&runtime, 0, 1);
        let reason = runtime.incidents()[0].reason;
        assert!(
            matches!(reason, Reason::Changed { wrong: 1, .. }),
            "{reason}"
        );
        check(&runtime);
    }
}

#[test]
fn more_places_than_a_queue_holds_are_refused_and_as_many_as_may_be_are_compared() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    let config = |places| TransferConfig {
        compared: Compared::Places(places),
        ..TransferConfig::default()
    };
    for places in [513, 30_000, u32::MAX] {
        let refused = try_in_virtual_time(&machine, config(places)).unwrap_err();
        let message = refused.to_string();
        let expected = format!("{places} places of a part to compare; at most 512 may be");
        assert!(message.contains(&expected), "{message}");
    }
    let runtime = in_virtual_time(&machine, config(512));
    run(&runtime, 0, 1, BYTES);
    check(&runtime);
}

#[test]
fn a_least_deadline_before_which_nobody_can_look_is_refused() {
    let machine = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
    for (least_deadline, is_fine) in [
        (Duration::ZERO, false),
        (Duration::from_micros(999), false),
        (Duration::from_millis(1), true),
    ] {
        let config = TransferConfig {
            least_deadline,
            ..TransferConfig::default()
        };
        let told = try_in_virtual_time(&machine, config).map_err(|error| error.to_string());
        assert_eq!(told.is_ok(), is_fine);
        if let Err(message) = told {
            let expected = format!("a least deadline of {least_deadline:?}; it may be 1ms or more");
            assert!(message.contains(&expected), "{message}");
        }
    }
}

#[test]
fn lanes_of_copies_are_told_apart_by_their_labels() {
    let runtime = mesh(3);
    run(&runtime, 0, 1, BYTES);
    let dumps = runtime.dump_streams();
    let labels: Vec<String> = dumps
        .iter()
        .filter_map(|dump| dump.name.label.as_deref())
        .map(str::to_owned)
        .collect();
    let lanes: Vec<&String> = labels
        .iter()
        .filter(|label| label.starts_with("copies of "))
        .collect();
    let apart: std::collections::BTreeSet<&String> = lanes.iter().copied().collect();
    assert!(lanes.len() > 2 && apart.len() == lanes.len(), "{lanes:?}");
    check(&runtime);
}

#[test]
fn where_everything_is_compared_no_wrong_byte_is_seen_of_a_copy_of_any_size() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    for bytes in [1, 700, 17 << 20] {
        let config = TransferConfig {
            compared: Compared::Everything,
            ..TransferConfig::default()
        };
        let runtime = in_virtual_time(&machine, config);
        // Every leg is trusted by now.
        run(&runtime, 0, 1, BYTES);
        let sim = runtime.sim().unwrap();
        let bad = |to| Trigger::CorruptLink(DeviceId(0), DeviceId(to));
        sim.set_faults(FaultPlan::new().with(bad(1)).with(bad(2)));
        // Both roads are bad; through host memory it arrives.
        run(&runtime, 0, 1, bytes);
        assert!(!runtime.incidents().is_empty());
        check(&runtime);
    }
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
    let deadline = TransferConfig::default().least_deadline;
    assert_eq!(runtime.check_copies(now + deadline), 0);
    let late = now + deadline + Duration::from_millis(1);
    assert_eq!(runtime.check_copies(late), 1);
    copy.assert_arrived();
    names_the_link(&runtime, 0, 1);
    let reason = runtime.incidents()[0].reason;
    assert!(matches!(reason, Reason::Overdue { .. }), "{reason}");
    check(&runtime);
}

#[test]
fn in_real_time_a_copy_that_hangs_is_noticed_by_itself() {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    let mut config = RuntimeConfig::simulated_machine(&machine, &small_device()).unwrap();
    config.transfers = Some(TransferConfig {
        oversees: true,
        // Longer than any other copy here waits for a busy machine.
        least_deadline: Duration::from_secs(5),
        ..TransferConfig::one_way()
    });
    let runtime = Runtime::new(config).unwrap();
    run(&runtime, 0, 1, 1 << 20);
    let sim = runtime.sim().unwrap();
    sim.set_faults(FaultPlan::new().with(Trigger::HangLink(DeviceId(0), DeviceId(1))));
    // Nobody looks but the runtime itself.
    run(&runtime, 0, 1, 1 << 20);
    names_the_link(&runtime, 0, 1);
    assert!(matches!(
        runtime.incidents()[0].reason,
        Reason::Overdue { .. }
    ));
}

/// Bytes of a copy from 0 to 1 that stopped on device 2, where a copy from 0 to 2 that began before, or after, takes the
/// link to it for some of the time.
fn relayed_beside_another(installment: Duration, is_first: bool) -> u64 {
    let machine = Machine::mesh(3, LinkKind::Hccs, 1).unwrap();
    let config = TransferConfig {
        installment,
        ..TransferConfig::default()
    };
    let runtime = in_virtual_time(&machine, config);
    // The legs are tried.
    for (from, to) in [(0, 1), (0, 2)] {
        run(&runtime, from, to, BYTES);
    }
    let relayed = || -> u64 {
        let routes = runtime.routes();
        let over = routes.iter().filter(|route| *route.relays == [DeviceId(2)]);
        let ours = over.filter(|route| (route.from, route.to) == (DeviceId(0), DeviceId(1)));
        ours.map(|route| route.bytes).sum()
    };
    let before = relayed();
    let mut long = Copy::new(&runtime, 0, 1, 3 * BYTES, 7);
    let mut short = Copy::new(&runtime, 0, 2, BYTES, 8);
    for copy in [&long, &short] {
        copy.from.synchronize().unwrap();
        copy.to.synchronize().unwrap();
    }
    if is_first {
        short.start();
        long.start();
    } else {
        long.start();
        short.start();
    }
    long.assert_arrived();
    short.assert_arrived();
    check(&runtime);
    relayed() - before
}

#[test]
fn a_copy_under_way_takes_a_link_that_another_has_left() {
    let never = relayed_beside_another(Duration::MAX, true);
    let anew = relayed_beside_another(Duration::from_micros(100), true);
    assert_eq!(never, 0, "its relay was taken when it began");
    assert!(
        anew > 3 << 20,
        "{anew} bytes over the link that is free again"
    );
}

#[test]
fn a_copy_under_way_leaves_a_link_to_another_that_came() {
    let never = relayed_beside_another(Duration::MAX, false);
    let anew = relayed_beside_another(Duration::from_micros(100), false);
    assert!(
        anew < never,
        "{anew} of {never} bytes over the link that was taken"
    );
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
