//! What it costs to start a copy, in virtual time: a latency from when it could be made ready, that keeps no engine busy.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{
    Command, Device, DeviceId, DevicePtr, Driver, PeerAddress, Position, Queue, WaitOutcome,
};
use piton_sim::{ScheduleOrder, SimDriver};
use std::{panic::Location, sync::Arc};
use support::{accepted, config, copy_to_peer, machine, queue};

/// Bytes that take half a millisecond over a link of 48 GB/s.
const LONG: u64 = 24_000_000;
const LONG_NS: u64 = 500_000;
/// Bytes that take a nanosecond.
const SHORT: u64 = 48;
const START_NS: u64 = 3_000;
const BETWEEN_NS: u64 = 1_000;
const LINK_NS: u64 = 1_000;

struct Bench {
    _driver: SimDriver,
    devices: [Arc<dyn Device>; 2],
    memory: [DevicePtr; 2],
}

impl Bench {
    /// Two devices with one engine each for copies to the other.
    fn new(order: ScheduleOrder) -> Self {
        let mut config = config(2);
        for device in &mut config.devices {
            (device.memory_bytes, device.peer_engines) = (32 << 20, 1);
        }
        let (driver, _) = machine(config.in_virtual_time(1, order));
        let devices = [0, 1].map(|id| driver.open(DeviceId(id)).unwrap());
        for (at, device) in devices.iter().enumerate() {
            let other = DeviceId(u32::from(at == 0));
            device.peers().unwrap().enable(other).unwrap();
            device.execution_trace().unwrap().start(100);
        }
        let memory = devices.each_ref();
        let memory = memory.map(|device| device.memory().allocate(LONG).unwrap());
        Self {
            _driver: driver,
            devices,
            memory,
        }
    }

    /// A copy from one device to the other, on a queue of the first.
    fn copy(&self, from: usize, on: &Arc<dyn Queue>, bytes: u64) -> Position {
        let dst = PeerAddress {
            device: self.devices[1 - from].info().id,
            ptr: self.memory[1 - from],
        };
        accepted(copy_to_peer(
            &self.devices[from],
            on,
            dst,
            self.memory[from],
            bytes,
        ))
    }

    /// When each copy of a queue ended.
    fn ends(&self, queues: &[&Arc<dyn Queue>]) -> Vec<Vec<u64>> {
        for queue in queues {
            let outcome = queue.wait(queue.submitted(), None);
            assert_eq!(outcome, Ok(WaitOutcome::Reached));
        }
        let traces = self.devices.iter();
        let records: Vec<_> = traces
            .flat_map(|device| device.execution_trace().unwrap().finish().0)
            .filter(|record| record.bytes > 0)
            .collect();
        let of = |queue: &&Arc<dyn Queue>| {
            let own = records.iter().filter(|record| record.queue == queue.id());
            own.map(|record| record.end_ns).collect()
        };
        queues.iter().map(of).collect()
    }
}

#[test]
fn a_copy_behind_a_long_one_waits_for_no_start() {
    for order in [ScheduleOrder::ByTime, ScheduleOrder::Seeded] {
        let bench = Bench::new(order);
        let own = queue(&bench.devices[0]);
        for _ in 0..3 {
            bench.copy(0, &own, LONG);
        }
        let first = START_NS + LINK_NS + LONG_NS;
        let each = BETWEEN_NS + LINK_NS + LONG_NS;
        let ends = bench.ends(&[&own]);
        assert_eq!(ends, [[first, first + each, first + 2 * each]]);
    }
}

#[test]
fn short_copies_of_a_queue_are_a_start_apart() {
    let bench = Bench::new(ScheduleOrder::ByTime);
    let own = queue(&bench.devices[0]);
    for _ in 0..3 {
        bench.copy(0, &own, SHORT);
    }
    let first = START_NS + LINK_NS + 1;
    let ends = bench.ends(&[&own]);
    assert_eq!(ends, [[first, first + START_NS, first + 2 * START_NS]]);
}

#[test]
fn a_copy_that_waited_for_its_engine_was_made_ready_meanwhile() {
    let bench = Bench::new(ScheduleOrder::ByTime);
    let [one, other] = [0, 0].map(|device: usize| queue(&bench.devices[device]));
    bench.copy(0, &one, LONG);
    bench.copy(0, &other, LONG);
    let first = START_NS + LINK_NS + LONG_NS;
    let second = first + BETWEEN_NS + LINK_NS + LONG_NS;
    let mut ends = bench.ends(&[&one, &other]).concat();
    ends.sort_unstable();
    assert_eq!(ends, [first, second]);
}

#[test]
fn a_copy_whose_wait_ends_late_pays_all_of_its_start() {
    let bench = Bench::new(ScheduleOrder::ByTime);
    let [before, behind] = [0, 1].map(|device: usize| queue(&bench.devices[device]));
    let position = bench.copy(0, &before, LONG);
    let wait = Command::WaitQueue {
        queue: &*before,
        position,
        inherits: true,
    };
    // SAFETY: a wait names no memory.
    accepted(unsafe { behind.submit(&wait, Location::caller()) });
    bench.copy(1, &behind, LONG);
    let whole = START_NS + LINK_NS + LONG_NS;
    assert_eq!(bench.ends(&[&before, &behind]), [[whole], [2 * whole]]);
}
