//! Copies of streams of different priorities, and of one priority, that want the same links.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton::{
    CopyWeight, DeviceBuffer, Devices, Machine, Priority, Runtime, RuntimeConfig, Stream,
    StreamOptions, TransferConfig,
    sim::{Backing, DeviceConfig, ScheduleOrder},
};
use piton_topology::{BytesPerSec, CopyEngines, LinkKind};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;

/// So many devices, each with a link to each other, in virtual time, whose copies carry nothing.
fn mesh(devices: u16) -> Runtime {
    mesh_with(devices, virtual_time())
}

fn virtual_time() -> TransferConfig {
    TransferConfig {
        verifies_peers: false,
        installment: Duration::from_millis(1),
        ..TransferConfig::default()
    }
}

fn mesh_with(devices: u16, transfers: TransferConfig) -> Runtime {
    let machine = Machine::mesh(devices, LinkKind::Hccs, 1).unwrap();
    let device = DeviceConfig {
        memory_bytes: 8 << 30,
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
    config.transfers = Some(transfers);
    Runtime::new(config).unwrap()
}

/// A copy from device 0 to device 1.
struct Copy {
    weight: CopyWeight,
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
            weight: CopyWeight::ONE,
            stream,
            source,
            target,
            ended: Arc::default(),
        }
    }

    /// Starts it; its end is noted.
    fn start(&mut self, runtime: &Runtime) {
        self.stream
            .copy_peer_weighing(&self.source, &mut self.target, self.weight)
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
    let runtime = mesh(2);
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

/// How many times as much as the second of two copies the first has carried when one of them ends: each carries `mib` mebibytes
/// for each that it weighs.
fn ratio(devices: u16, transfers: TransferConfig, mib: u64, weights: [u16; 2]) -> f64 {
    let runtime = mesh_with(devices, transfers);
    let bytes = weights.map(|weight| mib * MIB * u64::from(weight));
    let mut copies = bytes.map(|bytes| Copy::new(&runtime, bytes, 0));
    for (copy, weight) in copies.iter_mut().zip(weights) {
        copy.weight = CopyWeight::new(weight).unwrap();
        copy.start(&runtime);
    }
    let ended = copies.map(|copy| copy.ended() as f64);
    let [first, second] = bytes.map(|bytes| bytes as f64);
    // The one that is left goes on with all that both had.
    let last = ended[0].max(ended[1]);
    let left = (first + second) * (ended[0] - ended[1]).abs() / last;
    if ended[0] < ended[1] {
        first / (second - left)
    } else {
        (first - left) / second
    }
}

#[test]
fn copies_of_one_class_share_a_link_by_weights() {
    let one_way = TransferConfig {
        stripes: false,
        ..virtual_time()
    };
    for weights in [[1, 1], [3, 1], [1, 3], [8, 1], [2, 5]] {
        let wanted = f64::from(weights[0]) / f64::from(weights[1]);
        let found = ratio(2, one_way, 64, weights);
        assert!((found / wanted - 1.0).abs() < 0.01, "{weights:?}: {found}");
    }
    let few = TransferConfig {
        engines: Some(CopyEngines {
            count: 4,
            rate: BytesPerSec::MAX,
        }),
        ..one_way
    };
    // More than there are engines for is as much as there are.
    for (weights, wanted) in [([3, 1], 3.0), ([1, 3], 1.0 / 3.0), ([8, 1], 4.0)] {
        let found = ratio(2, few, 64, weights);
        assert!((found / wanted - 1.0).abs() < 0.02, "{weights:?}: {found}");
    }
}

#[test]
fn copies_of_one_class_share_all_ways_that_they_have_in_common_by_weights() {
    let usual = TransferConfig {
        installment: TransferConfig::default().installment,
        ..virtual_time()
    };
    // The link and the host's memory, or those and two relays.
    for (devices, mib) in [(2, 480), (4, 960)] {
        let found = ratio(devices, usual, mib, [3, 1]);
        assert!((2.9..3.1).contains(&found), "{devices} devices: {found}");
    }
}

#[test]
fn what_a_copy_weighs_is_nothing_beside_a_more_urgent_one_until_it_has_waited_for_long() {
    let runtime = mesh(2);
    let mut heavy = Copy::new(&runtime, 96 * MIB, 0);
    let mut urgent = Copy::new(&runtime, 1200 * MIB, -1);
    heavy.weight = CopyWeight::MOST;
    // It begins behind the other.
    urgent.start(&runtime);
    heavy.start(&runtime);
    let millisecond = 1_000_000;
    let heavy = heavy.ended();
    assert!(
        (10 * millisecond..15 * millisecond).contains(&heavy),
        "{heavy}"
    );
    assert!(urgent.ended() > 2 * heavy);
}
