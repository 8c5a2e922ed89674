//! Copies through host memory that nobody guards: in order, whichever end's stream they are given to, and what fails is the
//! stream that failed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    DeviceBuffer, Devices, Grid, Machine, Runtime, RuntimeConfig, SanitizerConfig, Stream,
    TransferConfig,
    sim::{DeviceConfig, ScheduleOrder},
};
use proptest::prelude::*;
use support::{check, module};

/// Two devices of this machine that reach each other through host memory alone.
const STRANGERS: [u32; 2] = [0, 2];
const STREAMS: usize = 2;
const BUFFERS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A buffer of an end, by one of its streams.
    Fill(usize, usize, usize, u8),
    /// From a buffer of an end to one of the other, by a stream of the source's or the destination's.
    Copy {
        from: usize,
        source: usize,
        target: usize,
        by_source: bool,
        stream: usize,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let fill = (0..2_usize, 0..BUFFERS, 0..STREAMS, any::<u8>())
        .prop_map(|(end, buffer, stream, value)| Op::Fill(end, buffer, stream, value));
    let copy = (
        0..2_usize,
        0..BUFFERS,
        0..BUFFERS,
        any::<bool>(),
        0..STREAMS,
    )
        .prop_map(|(from, source, target, by_source, stream)| Op::Copy {
            from,
            source,
            target,
            by_source,
            stream,
        });
    prop::collection::vec(prop_oneof![fill, copy], 1..24)
}

/// A runtime that guards no copy through host memory. In virtual time if there is a seed.
fn runtime(seed: Option<u64>) -> Runtime {
    let machine = Machine::pcie_pairs(4).unwrap();
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    let mut config = RuntimeConfig::simulated_machine(&machine, &device).unwrap();
    if let (Some(seed), Devices::Simulated(sim)) = (seed, config.devices.clone()) {
        config.devices = Devices::Simulated(sim.in_virtual_time(seed, ScheduleOrder::Seeded));
    }
    config.transfers = Some(TransferConfig {
        guarded_bytes: u64::MAX,
        ..TransferConfig::default()
    });
    config.sanitizer = Some(SanitizerConfig::default());
    let runtime = Runtime::new(config).unwrap();
    runtime.register(module()).unwrap();
    runtime
}

struct End {
    streams: Vec<Stream>,
    buffers: Vec<DeviceBuffer<u8>>,
    model: Vec<Vec<u8>>,
}

impl End {
    fn new(runtime: &Runtime, device: u32, bytes: usize) -> Self {
        let device = runtime.device(device).unwrap();
        let streams: Vec<_> = (0..STREAMS)
            .map(|n| device.stream(&format!("{}.{n}", device.id())).unwrap())
            .collect();
        let zeroed = |_| streams[0].allocate_zeroed(bytes as u64).unwrap();
        Self {
            buffers: (0..BUFFERS).map(zeroed).collect(),
            model: vec![vec![0; bytes]; BUFFERS],
            streams,
        }
    }
}

fn run(ends: &mut [End; 2], op: Op) {
    match op {
        Op::Fill(end, buffer, stream, value) => {
            let end = &mut ends[end];
            end.streams[stream]
                .fill(&mut end.buffers[buffer], value)
                .unwrap();
            end.model[buffer].fill(value);
        }
        Op::Copy {
            from,
            source,
            target,
            by_source,
            stream,
        } => {
            let [first, second] = ends;
            let (from, to) = if from == 0 {
                (first, second)
            } else {
                (second, first)
            };
            let streams = if by_source {
                &from.streams
            } else {
                &to.streams
            };
            streams[stream]
                .copy_peer(&from.buffers[source], &mut to.buffers[target])
                .unwrap();
            to.model[target].clone_from(&from.model[source]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn copies_through_host_memory_are_in_order(
        ops in ops(),
        bytes in prop_oneof![1..100_000_usize, (9_usize << 20)..(10 << 20)],
        seed in prop::option::of(any::<u64>()),
    ) {
        let runtime = runtime(seed);
        let mut ends = STRANGERS.map(|device| End::new(&runtime, device, bytes));
        ops.iter().for_each(|op| run(&mut ends, *op));
        for end in &mut ends {
            for (buffer, model) in end.buffers.iter().zip(&end.model) {
                let found = end.streams[0].read(buffer).unwrap();
                prop_assert!(found == *model, "first byte {} for {}", found[0], model[0]);
            }
        }
        drop(ends);
        check(&runtime);
    }
}

#[test]
fn a_stream_that_fails_takes_no_other_streams_copies_with_it() {
    for seed in [None, Some(7)] {
        let runtime = runtime(seed);
        let mut ends = STRANGERS.map(|device| End::new(&runtime, device, 64 << 10));
        let device = runtime.device(STRANGERS[0]).unwrap();
        let trap = device.load("test").unwrap().kernel("trap").unwrap();
        let (mut bad, good) = (
            device.stream("bad").unwrap(),
            device.stream("good").unwrap(),
        );
        let [near, far] = &mut ends;
        let mut word = bad.allocate_zeroed::<u32>(1).unwrap();
        near.streams[0].fill(&mut near.buffers[1], 9).unwrap();
        // The companion of each has work behind it.
        bad.copy_peer(&near.buffers[0], &mut far.buffers[0])
            .unwrap();
        good.copy_peer(&near.buffers[0], &mut far.buffers[1])
            .unwrap();
        let launch = bad.launch(&trap, Grid::linear(1));
        launch.write(&mut word).value(3_u32).submit().unwrap();
        // It may be refused at once, or fail later; either way it is `bad` that fails.
        drop(bad.copy_peer(&near.buffers[0], &mut far.buffers[0]));
        good.copy_peer(&near.buffers[1], &mut far.buffers[1])
            .unwrap();
        bad.synchronize().unwrap_err();
        good.synchronize().unwrap();
        let found = far.streams[0].read(&far.buffers[1]).unwrap();
        assert_eq!(found, vec![9; 64 << 10]);
        bad.clear_error().unwrap();
        // What the failed copy was to write stays spoilt; the stream is well.
        bad.copy_peer(&near.buffers[1], &mut far.buffers[1])
            .unwrap();
        bad.synchronize().unwrap();
        drop((ends, word));
    }
}
