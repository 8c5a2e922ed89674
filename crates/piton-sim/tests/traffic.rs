//! Copies that share wires in virtual time: each gets its share, to the nanosecond, and none is lost.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{Device, DeviceId, DevicePtr, Driver, PeerAddress, Queue, WaitOutcome};
use piton_sim::{Backing, FaultPlan, ScheduleOrder, SimConfig, SimDriver, Trigger, Wires};
use std::sync::Arc;
use support::{Pinned, accepted, config, copy_to_peer, machine, queue};

/// Bytes of a copy; over a link of 48 GB/s without anybody beside it, half a millisecond.
const BYTES: u64 = 24_000_000;
const ALONE_NS: u64 = 500_000;
/// Starting a copy, and the link's latency.
const START_NS: u64 = 3_000 + 1_000;

struct Bench {
    driver: SimDriver,
    devices: Vec<Arc<dyn Device>>,
    memory: Vec<DevicePtr>,
}

impl Bench {
    fn new(config: SimConfig) -> Self {
        let config = config.in_virtual_time(1, ScheduleOrder::ByTime);
        let count = u32::try_from(config.devices.len()).unwrap();
        let (driver, _) = machine(config);
        let devices: Vec<_> = (0..count)
            .map(|id| driver.open(DeviceId(id)).unwrap())
            .collect();
        for device in &devices {
            for peer in (0..count).filter(|peer| *peer != device.info().id.0) {
                device.peers().unwrap().enable(DeviceId(peer)).unwrap();
            }
        }
        let memory = devices
            .iter()
            .map(|device| device.memory().allocate(BYTES).unwrap());
        let memory = memory.collect();
        Self {
            driver,
            devices,
            memory,
        }
    }

    /// Starts these copies at once; when each has ended.
    fn run(&self, pairs: &[(usize, usize)]) -> Vec<u64> {
        for device in &self.devices {
            device.execution_trace().unwrap().start(100);
        }
        let queues: Vec<Arc<dyn Queue>> = pairs
            .iter()
            .map(|(from, _)| queue(&self.devices[*from]))
            .collect();
        for (queue, (from, to)) in queues.iter().zip(pairs) {
            let dst = PeerAddress {
                device: self.devices[*to].info().id,
                ptr: self.memory[*to],
            };
            let source = self.memory[*from];
            accepted(copy_to_peer(
                &self.devices[*from],
                queue,
                dst,
                source,
                BYTES,
            ));
        }
        for queue in &queues {
            let outcome = queue.wait(queue.submitted(), None);
            assert_eq!(outcome, Ok(WaitOutcome::Reached));
        }
        let traces = self.devices.iter();
        let records: Vec<_> = traces
            .flat_map(|device| device.execution_trace().unwrap().finish().0)
            .collect();
        let end = |queue: &Arc<dyn Queue>| {
            let record = records.iter().find(|record| record.queue == queue.id());
            record.unwrap().end_ns
        };
        queues.iter().map(end).collect()
    }
}

fn wide(devices: u32) -> SimConfig {
    let mut config = config(devices);
    for device in &mut config.devices {
        device.memory_bytes = 32 << 20;
        device.peer_engines = 8;
    }
    config
}

#[test]
fn copies_over_one_link_share_it_and_those_over_others_do_not() {
    let bench = Bench::new(wide(3));
    assert_eq!(bench.run(&[(0, 1)]), [START_NS + ALONE_NS]);
    let bench = Bench::new(wide(3));
    let ends = bench.run(&[(0, 1), (0, 1), (0, 2), (1, 0)]);
    let (shared, alone) = (START_NS + 2 * ALONE_NS, START_NS + ALONE_NS);
    assert_eq!(ends, [shared, shared, alone, alone]);
}

#[test]
fn pairs_share_the_wires_on_their_ways() {
    let mut config = wide(4);
    // One wire of 24 GB/s for all that leaves device 0, another of 48 GB/s into device 3.
    let ways = [((0, 1), vec![0]), ((0, 3), vec![0, 1]), ((2, 3), vec![1])];
    config.wires = Wires {
        bytes_per_second: vec![24_000_000_000, 48_000_000_000],
        ways: ways
            .into_iter()
            .map(|((a, b), way)| ((DeviceId(a), DeviceId(b)), way.into()))
            .collect(),
        ..Wires::default()
    };
    let ends = Bench::new(config).run(&[(0, 1), (0, 3), (2, 3)]);
    // The first two get 12 GB/s each all the time; the third what the second leaves of the other wire, 36.
    let third = START_NS + BYTES / 36;
    assert_eq!(
        ends,
        [START_NS + 4 * ALONE_NS, START_NS + 4 * ALONE_NS, third + 1]
    );
}

#[test]
fn what_starts_later_delays_what_is_under_way() {
    let bench = Bench::new(wide(2));
    let (first, second) = (queue(&bench.devices[0]), queue(&bench.devices[0]));
    let trace = bench.devices[0].execution_trace().unwrap();
    trace.start(100);
    let dst = PeerAddress {
        device: DeviceId(1),
        ptr: bench.memory[1],
    };
    let copy = |queue: &Arc<dyn Queue>, bytes| {
        accepted(copy_to_peer(
            &bench.devices[0],
            queue,
            dst,
            bench.memory[0],
            bytes,
        ))
    };
    copy(&first, BYTES);
    // Behind a copy of its own of half the length, so that it begins in the middle.
    copy(&second, BYTES / 4);
    copy(&second, BYTES / 4);
    for queue in [&first, &second] {
        let outcome = queue.wait(queue.submitted(), None);
        assert_eq!(outcome, Ok(WaitOutcome::Reached));
    }
    let records = trace.finish().0;
    let last = records.iter().map(|record| record.end_ns).max().unwrap();
    // All of it went over the link, which was never idle but for the starts.
    let all = ALONE_NS * 3 / 2;
    assert!(
        last >= START_NS + all && last <= 2 * START_NS + all,
        "{last}"
    );
}

#[test]
fn a_copy_that_is_given_up_leaves_its_share_to_the_others() {
    let bench = Bench::new(wide(2));
    let lost = queue(&bench.devices[0]);
    let kept = queue(&bench.devices[0]);
    let dst = PeerAddress {
        device: DeviceId(1),
        ptr: bench.memory[1],
    };
    for queue in [&lost, &kept] {
        accepted(copy_to_peer(
            &bench.devices[0],
            queue,
            dst,
            bench.memory[0],
            BYTES,
        ));
    }
    lost.abort().unwrap();
    assert_eq!(kept.wait(kept.submitted(), None), Ok(WaitOutcome::Reached));
    assert_eq!(lost.wait(lost.submitted(), None), Ok(WaitOutcome::Reached));
    assert!(lost.failure().is_some() && kept.failure().is_none());
    // Nothing of it is left: the next copy has the link to itself.
    let ends = bench.run(&[(0, 1)]);
    let start = START_NS + ALONE_NS;
    assert_eq!(ends[0] % start, 0, "{ends:?}");
}

#[test]
fn a_slow_link_takes_so_many_times_as_long() {
    let bench = Bench::new(wide(2));
    let slow = Trigger::SlowLink(DeviceId(0), DeviceId(1), 3);
    bench.driver.set_faults(FaultPlan::new().with(slow));
    assert_eq!(bench.run(&[(0, 1)]), [START_NS + 3 * ALONE_NS]);
}

#[test]
fn copies_over_a_link_too_narrow_to_share_end_all_the_same() {
    let mut config = wide(2);
    config.links[0].bytes_per_second = 1;
    let ends = Bench::new(config).run(&[(0, 1), (0, 1)]);
    assert_eq!(ends.len(), 2);
}

#[test]
fn host_memory_is_where_it_was_allocated_and_copies_there_share_the_way() {
    let mut config = wide(2);
    for device in &mut config.devices {
        (device.backing, device.host_engines) = (Backing::Times, 2);
    }
    // Device 0 has 24 GB/s to memory near itself, and 12 to that near the other.
    let ways = [((0, 0), vec![0]), ((0, 1), vec![0, 1])];
    config.wires = Wires {
        bytes_per_second: vec![24_000_000_000, 12_000_000_000],
        host_ways: ways
            .into_iter()
            .map(|((a, b), way)| ((DeviceId(a), DeviceId(b)), [way.clone().into(), way.into()]))
            .collect(),
        ..Wires::default()
    };
    let took = |homes: &[usize]| -> Vec<u64> {
        let bench = Bench::new(config.clone());
        let device = &bench.devices[0];
        let words = vec![0; usize::try_from(BYTES / 4).unwrap()];
        let hosts = homes
            .iter()
            .map(|home| Pinned::new(&bench.devices[*home], &words));
        let hosts: Vec<_> = hosts.collect();
        let trace = device.execution_trace().unwrap();
        trace.start(100);
        let queues: Vec<Arc<dyn Queue>> = hosts.iter().map(|_| queue(device)).collect();
        for (queue, host) in queues.iter().zip(&hosts) {
            host.fetch(queue, bench.memory[0]);
        }
        for queue in &queues {
            let outcome = queue.wait(queue.submitted(), None);
            assert_eq!(outcome, Ok(WaitOutcome::Reached));
        }
        let records = trace.finish().0;
        records.iter().map(|record| record.end_ns).collect()
    };
    let alone = 2 * ALONE_NS;
    assert_eq!(took(&[0]), [3_000 + alone]);
    assert_eq!(took(&[1]), [3_000 + 2 * alone]);
    // Both want half of the way out of the device.
    assert_eq!(took(&[0, 1]), [3_000 + 2 * alone, 3_000 + 2 * alone]);
}
