//! Recorded graphs over buffers: right without a single event, and safe whatever is dropped or forgotten.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, Device, DeviceBuffer, GraphRecorder, GraphSlice, GraphSliceMut, Grid, Kernel,
    Runtime, ScratchBuffer, Stream, StreamError,
    sim::{ScheduleOrder, SimConfig},
};
use proptest::prelude::*;
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use support::{check, runtime, sanitized, small_devices};

const WORDS: u64 = 128;
const LEN: usize = 128;
const GRID: Grid = Grid::linear(2);

struct Bench {
    runtime: Runtime,
    device: Device,
    add: Kernel,
    scale: Kernel,
    trap: Kernel,
}

impl Bench {
    fn new(runtime: Runtime) -> Self {
        let device = runtime.device(0).unwrap();
        let module = device.load("test").unwrap();
        Self {
            add: module.kernel("add").unwrap(),
            scale: module.kernel("scale").unwrap(),
            trap: module.kernel("trap").unwrap(),
            device,
            runtime,
        }
    }

    fn stream(&self, label: &str) -> Stream {
        self.device.stream(label).unwrap()
    }

    fn buffer(&self, stream: &Stream, word: u32) -> DeviceBuffer<u32> {
        let mut buffer = stream.allocate(WORDS).unwrap();
        stream.fill(&mut buffer, word).unwrap();
        buffer
    }
}

fn both_clocks() -> [SimConfig; 3] {
    [
        small_devices(1),
        small_devices(1).in_virtual_time(3, ScheduleOrder::ByTime),
        small_devices(1).in_virtual_time(4, ScheduleOrder::Seeded),
    ]
}

#[test]
fn a_replay_is_ordered_with_eager_work_on_every_stream() {
    for config in both_clocks() {
        let bench = Bench::new(sanitized(config));
        let [a, b, c] = ["a", "b", "c"].map(|label| bench.stream(label));
        let (mut x, mut y) = (bench.buffer(&a, 1), bench.buffer(&b, 10));
        let mut graph = bench.device.graph();
        graph
            .launch(&bench.add, GRID)
            .write(&mut y)
            .read(&x)
            .record()
            .unwrap();
        graph
            .launch(&bench.scale, GRID)
            .write(&mut x)
            .value(2_u32)
            .record()
            .unwrap();
        let mut ready = graph.finish(&a).unwrap();
        let mut expected = (1_u32, 10_u32);
        for turn in 0..20 {
            let streams = [&a, &b, &c];
            let (replays, eager) = (streams[turn % 3], streams[(turn + 1) % 3]);
            ready
                .replay(replays)
                .write(&mut x)
                .write(&mut y)
                .submit()
                .unwrap();
            eager
                .launch(&bench.add, GRID)
                .write(&mut x)
                .read(&y)
                .submit()
                .unwrap();
            expected.1 = expected.1.wrapping_add(expected.0);
            expected.0 = expected.0.wrapping_mul(2).wrapping_add(expected.1);
        }
        assert_eq!(c.read(&x).unwrap(), [expected.0; LEN]);
        assert_eq!(c.read(&y).unwrap(), [expected.1; LEN]);
        drop((ready, x, y));
        check(&bench.runtime);
    }
}

#[test]
fn scratch_memory_is_the_pools_and_goes_back_behind_the_last_replay() {
    for config in both_clocks() {
        let bench = Bench::new(runtime(config));
        let (a, b) = (bench.stream("a"), bench.stream("b"));
        let mut out = bench.buffer(&a, 0);
        let before = bench.device.memory_stats();
        let mut graph = bench.device.graph();
        let mut scratch: Vec<ScratchBuffer<u32>> =
            (0..8).map(|_| graph.scratch(WORDS).unwrap()).collect();
        graph.fill(&mut scratch[0], 1).unwrap();
        for at in 1..8 {
            let [from, to] = scratch.get_disjoint_mut([at - 1, at]).unwrap();
            graph.copy(&*from, &mut *to).unwrap();
            graph
                .launch(&bench.add, GRID)
                .write(to)
                .read(&*from)
                .record()
                .unwrap();
        }
        graph
            .launch(&bench.add, GRID)
            .write(&mut out)
            .read(&scratch[7])
            .record()
            .unwrap();
        let mut ready = graph.finish(&a).unwrap();
        assert_eq!(ready.scratch_bytes(), 2 * WORDS * 4, "two live at once");
        for stream in [&a, &b, &b, &a] {
            ready.replay(stream).write(&mut out).submit().unwrap();
        }
        drop(ready);
        assert_eq!(b.read(&out).unwrap(), [4 * 128; LEN]);
        a.synchronize().unwrap();
        assert_eq!(bench.device.memory_stats().live_bytes, before.live_bytes);
        check(&bench.runtime);
    }
}

#[test]
fn bodies_run_as_values_on_the_device_say() {
    for config in both_clocks() {
        let bench = Bench::new(runtime(config));
        let stream = bench.stream("a");
        let (mut x, mut y) = (bench.buffer(&stream, 1), bench.buffer(&stream, 5));
        let minus = bench.buffer(&stream, u32::MAX);
        let mut graph = bench.device.graph();
        let mut counter = graph.scratch::<u32>(WORDS).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        graph.fill(&mut counter, 6).unwrap();
        let goes_on = graph.condition(&counter).unwrap();
        let counted = Arc::clone(&calls);
        let count = move || {
            counted.fetch_add(1, Ordering::AcqRel);
        };
        let rounds = graph.run_while(&goes_on, |body| {
            body.launch(&bench.scale, GRID)
                .write(&mut x)
                .value(3_u32)
                .record()?;
            body.launch(&bench.add, GRID)
                .write(&mut counter)
                .read(&minus)
                .record()?;
            body.call_host(count)?;
            Ok(())
        });
        rounds.unwrap();
        graph
            .run_if(&goes_on, |body| body.clear(&mut y).map(drop))
            .unwrap();
        let mut ready = graph.finish(&stream).unwrap();
        for _ in 0..2 {
            let replay = ready.replay(&stream).read(&minus);
            replay.write(&mut x).write(&mut y).submit().unwrap();
        }
        assert_eq!(stream.read(&x).unwrap()[0], 3_u32.pow(12));
        assert_eq!(
            stream.read(&y).unwrap()[0],
            5,
            "the counter had come to zero"
        );
        assert_eq!(calls.load(Ordering::Acquire), 12);
        check(&bench.runtime);
    }
}

#[test]
fn values_of_nodes_are_changed_between_replays() {
    for config in both_clocks() {
        let bench = Bench::new(runtime(config));
        let stream = bench.stream("a");
        let mut x = bench.buffer(&stream, 0);
        let mut graph = bench.device.graph();
        let set = graph.fill(&mut x, 2).unwrap();
        let launch = graph.launch(&bench.scale, GRID).write(&mut x);
        let scaled = launch.value(3_u32).record().unwrap();
        let mut ready = graph.finish(&stream).unwrap();
        ready.replay(&stream).write(&mut x).submit().unwrap();
        assert_eq!(stream.read(&x).unwrap(), [6; LEN]);
        ready.set_value(scaled, 1, 5_u32).unwrap();
        ready.replay(&stream).write(&mut x).submit().unwrap();
        ready.set_fill(set, 7_u32).unwrap();
        assert_eq!(stream.read(&x).unwrap(), [10; LEN]);
        ready.set_grid(scaled, Grid::linear(1)).unwrap();
        ready.replay(&stream).write(&mut x).submit().unwrap();
        assert_eq!(stream.read(&x).unwrap(), [[35; 64], [7; 64]].concat());
        let refused = [
            ready.set_value(scaled, 0, 1_u64),
            ready.set_value(scaled, 1, 1_u64),
            ready.set_value(scaled, 2, 1_u32),
            ready.set_value(set, 1, 1_u32),
            ready.set_fill(scaled, 1_u32),
            ready.set_fill(set, 1_u8),
            ready.set_grid(set, GRID),
            ready.set_grid(scaled, Grid::linear(0)),
        ];
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        ready.replay(&stream).write(&mut x).submit().unwrap();
        assert_eq!(stream.read(&x).unwrap(), [[35; 64], [7; 64]].concat());
    }
}

#[test]
fn what_a_replay_was_not_given_is_named() {
    let bench = Bench::new(runtime(small_devices(2)));
    let stream = bench.stream("a");
    let (mut x, y) = (bench.buffer(&stream, 1), bench.buffer(&stream, 2));
    let mut graph = bench.device.graph();
    graph
        .launch(&bench.add, GRID)
        .write(&mut x)
        .read(&y)
        .record()
        .unwrap();
    let mut ready = graph.finish(&stream).unwrap();
    let missing = |result| match result {
        Err(BufferError::NotGiven { to_write, .. }) => to_write,
        other => panic!("the replay is refused: {other:?}"),
    };
    assert!(missing(ready.replay(&stream).read(&y).submit()));
    assert!(missing(ready.replay(&stream).read(&y).read(&x).submit()));
    assert!(!missing(ready.replay(&stream).write(&mut x).submit()));
    let place = y.ptr();
    drop(y);
    let fresh = bench.buffer(&stream, 3);
    let other = stream.allocate::<u32>(WORDS * 4).unwrap();
    assert!(!missing(
        ready.replay(&stream).write(&mut x).read(&other).submit()
    ));
    // Memory is what counts, not the handle: a new buffer in the very place of the old one serves.
    assert_eq!(fresh.ptr(), place);
    let replay = ready.replay(&stream).write(&mut x).read(&fresh).submit();
    assert!(matches!(replay, Ok(())), "{replay:?}");
    let elsewhere = bench.runtime.device(1).unwrap().stream("b").unwrap();
    let refused = ready.replay(&elsewhere).write(&mut x).read(&fresh).submit();
    assert!(matches!(refused, Err(BufferError::OtherDevice { .. })));
    assert!(matches!(
        bench.device.graph().finish(&elsewhere).map(drop),
        Err(BufferError::OtherDevice { .. })
    ));
}

#[test]
fn scratch_memory_of_another_graph_is_refused() {
    let bench = Bench::new(runtime(small_devices(1)));
    let [mut first, mut second] = [(); 2].map(|()| bench.device.graph());
    let mut own = first.scratch::<u32>(WORDS).unwrap();
    let mut foreign = second.scratch::<u32>(WORDS).unwrap();
    let refused = |result: Result<_, BufferError>| {
        assert!(matches!(result, Err(BufferError::OtherGraph)));
    };
    refused(first.fill(&mut foreign, 1).map(drop));
    refused(first.copy(&foreign, &mut own).map(drop));
    refused(first.copy(&own, &mut foreign).map(drop));
    let launch = first
        .launch(&bench.add, GRID)
        .write(&mut own)
        .read(&foreign);
    refused(launch.record().map(drop));
    refused(first.condition(&foreign).map(drop));
    let condition = second.condition(&foreign).unwrap();
    refused(first.run_if(&condition, |_| Ok(())).map(drop));
    let inside = second.run_if(&condition, |body| body.fill(&mut own, 1).map(drop));
    refused(inside.map(drop));
    assert!(matches!(
        first.scratch::<u32>(0),
        Err(BufferError::InvalidLength { .. })
    ));
}

/// A body that takes what it was lent away takes the list of what replays must be given with it.
#[test]
fn a_graph_whose_body_did_not_end_as_it_should_is_never_ready() {
    let bench = Bench::new(runtime(small_devices(1)));
    let stream = bench.stream("s");
    let flag = bench.buffer(&stream, 1);
    let broken = |body: &mut dyn FnMut(&mut GraphRecorder) -> Result<(), BufferError>| {
        let mut buffer = bench.buffer(&stream, 1);
        let mut graph = bench.device.graph();
        graph.fill(&mut buffer, 7).unwrap();
        let condition = graph.condition(&flag).unwrap();
        let recorded = catch_unwind(AssertUnwindSafe(|| graph.run_if(&condition, &mut *body)));
        assert!(!matches!(recorded, Ok(Ok(_))), "{recorded:?}");
        // A body that is as it should be does not mend it.
        graph.run_if(&condition, |_| Ok(())).unwrap();
        let finished = graph.finish(&stream);
        assert!(matches!(finished, Err(BufferError::BrokenGraph)));
    };
    let mut other = bench.device.graph();
    broken(&mut |body| {
        mem::swap(body, &mut other);
        Ok(())
    });
    broken(&mut |_| Err(BufferError::OtherRuntime));
    broken(&mut |_| panic!("on purpose"));
    broken(&mut |body| {
        let condition = body.condition(&flag)?;
        let _refused = body.run_if(&condition, |_| Err(BufferError::OtherRuntime));
        Ok(())
    });
    let stolen = other.finish(&stream);
    assert!(
        matches!(stolen, Err(BufferError::BrokenGraph)),
        "what was taken away is no graph"
    );
    check(&bench.runtime);
}

/// Two recorders that were taken out of bodies of one graph are two lists all the same.
#[test]
fn recorders_of_one_graph_are_told_apart() {
    let bench = Bench::new(runtime(small_devices(1)));
    let stream = bench.stream("s");
    let flag = bench.buffer(&stream, 1);
    let mut graph = bench.device.graph();
    let condition = graph.condition(&flag).unwrap();
    let mut steal = || {
        let mut stolen = bench.device.graph();
        let body = |body: &mut GraphRecorder| {
            mem::swap(body, &mut stolen);
            Ok(())
        };
        assert!(graph.run_if(&condition, body).is_err());
        stolen
    };
    let (mut first, mut second) = (steal(), steal());
    let mut buffer = bench.buffer(&stream, 1);
    first.fill(&mut buffer, 7).unwrap();
    let exchanged = first.run_if(&condition, |body| {
        mem::swap(body, &mut second);
        Ok(())
    });
    assert!(matches!(exchanged, Err(BufferError::BrokenGraph)));
    assert!(matches!(
        first.finish(&stream),
        Err(BufferError::BrokenGraph)
    ));
    check(&bench.runtime);
}

#[test]
fn a_failed_replay_poisons_its_stream_and_leaves_memory_in_order() {
    for config in both_clocks() {
        let bench = Bench::new(runtime(config));
        let (a, b) = (bench.stream("a"), bench.stream("b"));
        let mut x = bench.buffer(&a, 1);
        let mut graph = bench.device.graph();
        let mut held = graph.scratch::<u32>(WORDS).unwrap();
        graph.fill(&mut held, 1).unwrap();
        graph
            .launch(&bench.trap, GRID)
            .write(&mut x)
            .value(7_u32)
            .record()
            .unwrap();
        let mut ready = graph.finish(&a).unwrap();
        ready.replay(&a).write(&mut x).submit().unwrap();
        drop(ready);
        let failed = a.synchronize();
        assert!(matches!(
            failed,
            Err(BufferError::Stream(StreamError::Poisoned(_)))
        ));
        drop(x);
        let y = bench.buffer(&b, 2);
        assert_eq!(b.read(&y).unwrap()[0], 2);
        drop(y);
        check(&bench.runtime);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Fill(usize, u32),
    Scale(usize, u32),
    Add(usize, usize),
    Copy(usize, usize),
}

const BUFFERS: usize = 3;
const SCRATCH: usize = 3;

fn op() -> impl Strategy<Value = Op> {
    let all = BUFFERS + SCRATCH;
    let pair = (0..all, 1..all).prop_map(move |(a, step)| (a, (a + step) % all));
    prop_oneof![
        (0..all, any::<u32>()).prop_map(|(b, v)| Op::Fill(b, v)),
        (0..all, any::<u32>()).prop_map(|(b, v)| Op::Scale(b, v)),
        pair.clone().prop_map(|(a, b)| Op::Add(a, b)),
        pair.prop_map(|(a, b)| Op::Copy(a, b)),
    ]
}

enum Slot {
    Buffer(Box<DeviceBuffer<u32>>),
    Scratch(ScratchBuffer<u32>),
}

impl Slot {
    fn as_read(&self) -> GraphSlice<'_, u32> {
        match self {
            Self::Buffer(buffer) => (&**buffer).into(),
            Self::Scratch(scratch) => scratch.into(),
        }
    }

    fn as_write(&mut self) -> GraphSliceMut<'_, u32> {
        match self {
            Self::Buffer(buffer) => (&mut **buffer).into(),
            Self::Scratch(scratch) => scratch.into(),
        }
    }
}

/// Records an operation, and does it to the model: all words of a buffer are the same.
fn record(bench: &Bench, graph: &mut GraphRecorder, op: &Op, slots: &mut [Slot]) {
    match *op {
        Op::Fill(to, value) => drop(graph.fill(slots[to].as_write(), value).unwrap()),
        Op::Scale(to, value) => {
            let launch = graph.launch(&bench.scale, GRID);
            launch
                .write(slots[to].as_write())
                .value(value)
                .record()
                .unwrap();
        }
        Op::Add(to, from) => {
            let [to, from] = slots.get_disjoint_mut([to, from]).unwrap();
            let launch = graph.launch(&bench.add, GRID);
            launch
                .write(to.as_write())
                .read(from.as_read())
                .record()
                .unwrap();
        }
        Op::Copy(to, from) => {
            let [to, from] = slots.get_disjoint_mut([to, from]).unwrap();
            graph.copy(from.as_read(), to.as_write()).unwrap();
        }
    }
}

fn run(op: &Op, model: &mut [u32]) {
    match *op {
        Op::Fill(to, value) => model[to] = value,
        Op::Scale(to, value) => model[to] = model[to].wrapping_mul(value),
        Op::Add(to, from) => model[to] = model[to].wrapping_add(model[from]),
        Op::Copy(to, from) => model[to] = model[from],
    }
}

fn program_is_kept(config: SimConfig, program: &[Op], replays: &[usize]) {
    let bench = Bench::new(sanitized(config));
    let streams = [0, 1, 2].map(|n| bench.stream(&n.to_string()));
    let mut graph = bench.device.graph();
    let mut slots: Vec<Slot> = (1..)
        .take(BUFFERS)
        .map(|word| Slot::Buffer(bench.buffer(&streams[0], word).into()))
        .collect();
    for _ in 0..SCRATCH {
        slots.push(Slot::Scratch(graph.scratch(WORDS).unwrap()));
    }
    let fills = (BUFFERS..BUFFERS + SCRATCH).map(|slot| Op::Fill(slot, 77));
    let program: Vec<Op> = fills.chain(program.iter().cloned()).collect();
    for op in &program {
        record(&bench, &mut graph, op, &mut slots);
    }
    let mut ready = graph.finish(&streams[0]).unwrap();
    let mut model = [1, 2, 3, 0, 0, 0];
    for stream in replays {
        let mut replay = ready.replay(&streams[*stream]);
        for slot in &mut slots {
            if let Slot::Buffer(buffer) = slot {
                replay = replay.write(buffer);
            }
        }
        replay.submit().unwrap();
        program.iter().for_each(|op| run(op, &mut model));
    }
    for (slot, expected) in slots.iter().zip(model) {
        if let Slot::Buffer(buffer) = slot {
            assert_eq!(streams[2].read(&**buffer).unwrap(), [expected; LEN]);
        }
    }
    drop((ready, slots));
    check(&bench.runtime);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_recorded_program_does_what_it_says(
        seed in any::<u64>(),
        program in prop::collection::vec(op(), 0..30),
        replays in prop::collection::vec(0..3_usize, 1..5),
    ) {
        let config = small_devices(1).in_virtual_time(seed, ScheduleOrder::Seeded);
        program_is_kept(config, &program, &replays);
        program_is_kept(small_devices(1), &program, &replays);
    }
}
