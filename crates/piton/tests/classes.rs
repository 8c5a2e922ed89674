//! Copies of streams of different priorities, and of one priority, that want the same links.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton::{
    DeviceBuffer, Devices, Machine, Priority, Runtime, RuntimeConfig, Stream, StreamOptions,
    TransferConfig,
    sim::{Backing, DeviceConfig, ScheduleOrder},
};
use piton_topology::LinkKind;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;

/// Two devices with a link, in virtual time, whose copies carry nothing.
fn pair() -> Runtime {
    let machine = Machine::mesh(2, LinkKind::Hccs, 1).unwrap();
    let device = DeviceConfig {
        memory_bytes: 4 << 30,
        backing: Backing::Times,
        hardware_queues: 64,
        peer_engines: 64,
        host_engines: 64,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(&machine, &device).unwrap();
    let Devices::Simulated(sim) = config.devices else {
        unreachable!("a simulated machine")
    };
    config.devices = Devices::Simulated(sim.in_virtual_time(1, ScheduleOrder::ByTime));
    config.transfers = Some(TransferConfig {
        verifies_peers: false,
        installment: Duration::from_millis(1),
        ..TransferConfig::default()
    });
    Runtime::new(config).unwrap()
}

/// A copy from device 0 to device 1.
struct Copy {
    stream: Stream,
    source: DeviceBuffer<u8>,
    target: DeviceBuffer<u8>,
    ended: Arc<AtomicU64>,
}

impl Copy {
    fn new(runtime: &Runtime, bytes: u64, priority: i32) -> Self {
        let options = StreamOptions {
            priority: Priority(priority),
            ..StreamOptions::default()
        };
        let stream = runtime.device(1).unwrap().stream_with(options).unwrap();
        let from = runtime.device(0).unwrap().stream("from").unwrap();
        let source = from.allocate::<u8>(bytes).unwrap();
        let target = stream.allocate::<u8>(bytes).unwrap();
        from.synchronize().unwrap();
        Self {
            stream,
            source,
            target,
            ended: Arc::default(),
        }
    }

    /// Starts it; its end is noted.
    fn start(&mut self, runtime: &Runtime) {
        self.stream
            .copy_peer(&self.source, &mut self.target)
            .unwrap();
        let clock = runtime.driver().open(piton::DeviceId(0)).unwrap();
        let ended = Arc::clone(&self.ended);
        let note = move || ended.store(clock.timestamps().unwrap().now(), Ordering::Relaxed);
        self.stream.call_host(note).unwrap();
    }

    fn ended(&self) -> u64 {
        self.stream.synchronize().unwrap();
        self.ended.load(Ordering::Relaxed)
    }
}

/// When copies of so many mebibytes, on streams of these priorities, end that are started in this order.
fn ends(copies: &[(u64, i32)]) -> Vec<u64> {
    let runtime = pair();
    let copies = copies.iter();
    let mut copies: Vec<Copy> = copies
        .map(|(mib, priority)| Copy::new(&runtime, mib * MIB, *priority))
        .collect();
    copies.iter_mut().for_each(|copy| copy.start(&runtime));
    copies.iter().map(Copy::ended).collect()
}

#[test]
fn what_a_more_urgent_copy_can_use_a_less_urgent_one_does_not_get() {
    let [alone] = ends(&[(96, -1)])[..] else {
        unreachable!()
    };
    let both = ends(&[(96, 0), (96, -1)]);
    // But for the installment that was under way, and a turn each time.
    assert!(both[1] < alone * 3 / 2, "{both:?}, {alone} alone");
    assert!(both[0] > both[1] + alone / 2, "{both:?}, {alone} alone");
}

#[test]
fn copies_of_one_class_share_their_way() {
    let [alone] = ends(&[(96, 0)])[..] else {
        unreachable!()
    };
    let both = ends(&[(96, 0), (96, 0)]);
    for end in &both {
        assert!(*end > alone * 7 / 4, "{both:?}, {alone} alone");
    }
}

#[test]
fn a_copy_that_has_waited_for_long_gets_its_part_though_a_more_urgent_one_goes_on() {
    let both = ends(&[(48, 0), (1200, -1)]);
    // It waits ten milliseconds, and is then one of two.
    let millisecond = 1_000_000;
    assert!(
        (8 * millisecond..30 * millisecond).contains(&both[0]),
        "{both:?}"
    );
    assert!(both[1] > 30 * millisecond, "{both:?}");
}
