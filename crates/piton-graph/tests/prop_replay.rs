//! Random programs over at most four streams: captured and replayed, they do what they do when run at once.
//!
//! A program is a list of operations on a few buffers; the test orders those that conflict with events, as any
//! program must. Some buffers are the graph's own in the replay, and ordinary ones otherwise. A sanitizer looks on and
//! finds nothing.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_driver::DevicePtr;
use piton_graph::{Executable, Graph, GraphBuilder, NodeId, NodeWork, PrivateMemory};
use piton_sim::{ScheduleOrder, SimConfig};
use piton_stream::{Captured, Event, Stream};
use proptest::{collection::vec, prelude::*, sample::Index};
use support::{Bench, config, copies, fills, replay, submit};

const STREAMS: usize = 4;
/// Buffers whose content is compared.
const PUBLIC: usize = 3;
/// Buffers that live within the graph.
const PRIVATE: usize = 5;

#[derive(Clone, Debug)]
enum Op {
    Fill(usize, u32),
    Add(usize, u32),
    Mix(usize, usize),
    Copy(usize, usize),
    /// The stream waits for another without need.
    Wait(usize),
}

fn op() -> impl Strategy<Value = (usize, Op)> {
    let buffer = || 0..PUBLIC + PRIVATE;
    let pair =
        (buffer(), 1..PUBLIC + PRIVATE).prop_map(|(a, step)| (a, (a + step) % (PUBLIC + PRIVATE)));
    let op = prop_oneof![
        2 => (buffer(), any::<u32>()).prop_map(|(b, word)| Op::Fill(b, word)),
        4 => (buffer(), any::<u32>()).prop_map(|(b, value)| Op::Add(b, value)),
        5 => pair.clone().prop_map(|(x, y)| Op::Mix(x, y)),
        3 => pair.prop_map(|(x, y)| Op::Copy(x, y)),
        1 => (0..STREAMS).prop_map(Op::Wait),
    ];
    (0..STREAMS, op)
}

/// The last accesses of a buffer.
#[derive(Clone, Default)]
struct Accesses {
    write: Option<Event>,
    reads: Vec<Event>,
}

/// Submits a program, ordering what conflicts.
struct Submitter<'a> {
    bench: &'a Bench,
    streams: &'a [Stream],
    buffers: Vec<DevicePtr>,
    accesses: Vec<Accesses>,
    has_begun: Vec<bool>,
    start: Event,
}

impl<'a> Submitter<'a> {
    fn new(bench: &'a Bench, streams: &'a [Stream], buffers: &[DevicePtr]) -> Self {
        Self {
            bench,
            streams,
            buffers: buffers.to_vec(),
            accesses: vec![Accesses::default(); buffers.len()],
            has_begun: vec![false; streams.len()],
            start: streams[0].record(),
        }
    }

    /// Submits all of it; the first stream comes after the rest at the end.
    fn submit(&mut self, program: &[(usize, Op)]) {
        // Private chunks hold anything at first, so the program writes them.
        for (index, buffer) in (0..).zip(PUBLIC..PUBLIC + PRIVATE) {
            self.run(buffer % STREAMS, &Op::Fill(buffer, index));
        }
        for (stream, op) in program {
            self.run(*stream, op);
        }
        for stream in 1..STREAMS {
            if self.has_begun[stream] {
                let last = self.streams[stream].record();
                self.streams[0].wait(&last).unwrap();
            }
        }
    }

    fn run(&mut self, stream: usize, op: &Op) {
        self.begin(stream);
        if let Op::Wait(other) = *op {
            self.begin(other);
            let event = self.streams[other].record();
            self.streams[stream].wait(&event).unwrap();
            return;
        }
        let (written, read) = named(op);
        let mut before: Vec<Event> = self.accesses[written].reads.clone();
        before.extend(self.accesses[written].write.clone());
        before.extend(read.and_then(|read| self.accesses[read].write.clone()));
        for event in before {
            self.streams[stream].wait(&event).unwrap();
        }
        submit(&self.streams[stream], &work(self.bench, &self.buffers, op)).unwrap();
        let event = self.streams[stream].record();
        self.accesses[written] = Accesses {
            write: Some(event.clone()),
            reads: Vec::new(),
        };
        if let Some(read) = read {
            self.accesses[read].reads.push(event);
        }
    }

    fn begin(&mut self, stream: usize) {
        if stream > 0 && !std::mem::replace(&mut self.has_begun[stream], true) {
            self.streams[stream].wait(&self.start).unwrap();
        }
    }
}

/// The buffer an operation writes and the one it reads.
fn named(op: &Op) -> (usize, Option<usize>) {
    match *op {
        Op::Fill(x, _) | Op::Add(x, _) => (x, None),
        Op::Mix(x, y) | Op::Copy(x, y) => (x, Some(y)),
        Op::Wait(_) => panic!("a wait names no buffer"),
    }
}

fn work(bench: &Bench, buffers: &[DevicePtr], op: &Op) -> NodeWork {
    match *op {
        Op::Fill(x, word) => fills(buffers[x], word),
        Op::Add(x, value) => bench.adds(buffers[x], value),
        Op::Mix(x, y) => bench.mixes(buffers[x], buffers[y]),
        Op::Copy(x, y) => copies(buffers[x], buffers[y]),
        Op::Wait(_) => panic!("a wait is no command"),
    }
}

struct Case {
    bench: Bench,
    streams: Vec<Stream>,
    /// Public ones first.
    buffers: Vec<DevicePtr>,
    private: PrivateMemory,
    /// What the graph's nodes name: public buffers, and placeholders.
    in_graph: Vec<DevicePtr>,
}

impl Case {
    fn new(config: SimConfig) -> Self {
        let bench = Bench::sanitized(config);
        let streams = (0..STREAMS).map(|_| bench.stream("s")).collect();
        let buffers: Vec<_> = (0..PUBLIC + PRIVATE).map(|_| bench.buffer()).collect();
        let mut private = PrivateMemory::new();
        let mut in_graph = buffers[..PUBLIC].to_vec();
        for _ in 0..PRIVATE {
            in_graph.push(private.chunk(support::BYTES).unwrap().ptr());
        }
        Self {
            bench,
            streams,
            buffers,
            private,
            in_graph,
        }
    }

    fn reset(&self) {
        for (word, buffer) in (1..).zip(&self.buffers) {
            submit(&self.streams[0], &fills(*buffer, word)).unwrap();
        }
        self.streams[0].synchronize().unwrap();
    }

    fn memory(&self) -> Vec<Vec<u32>> {
        let words = |buffer: &DevicePtr| self.bench.words(&self.streams[0], *buffer);
        self.buffers[..PUBLIC].iter().map(words).collect()
    }

    /// What the program leaves in the public buffers, run `times` times.
    fn eager(&self, program: &[(usize, Op)], times: usize) -> Vec<Vec<u32>> {
        self.reset();
        for _ in 0..times {
            Submitter::new(&self.bench, &self.streams, &self.buffers).submit(program);
        }
        self.memory()
    }

    fn capture(&self, program: &[(usize, Op)]) -> Captured {
        let capture = self.streams[0].begin_capture().unwrap();
        Submitter::new(&self.bench, &self.streams, &self.in_graph).submit(program);
        capture.end().unwrap()
    }

    fn replay(&self, executable: &mut Executable, times: usize) -> Vec<Vec<u32>> {
        self.reset();
        for turn in 0..times {
            replay(executable, &self.streams[turn % STREAMS]).unwrap();
        }
        for stream in &self.streams {
            self.streams[0].wait(&stream.record()).unwrap();
        }
        self.memory()
    }
}

/// The operation with another value, if it has one.
fn changed(op: &Op, value: u32) -> Op {
    match *op {
        Op::Fill(x, _) => Op::Fill(x, value),
        Op::Add(x, _) => Op::Add(x, value),
        ref other => other.clone(),
    }
}

fn check(config: SimConfig, program: &[(usize, Op)], updates: &[(Index, u32)]) {
    let case = Case::new(config);
    let (once, twice) = (case.eager(program, 1), case.eager(program, 2));
    let before = case.memory();
    let captured = case.capture(program);
    assert_eq!(case.memory(), before, "nothing runs in a capture");
    let graph = Graph::from_capture(captured, case.private.clone());
    let mut executable = graph.instantiate(&case.bench.device).unwrap();
    assert_eq!(case.replay(&mut executable, 1), once);
    assert_eq!(case.replay(&mut executable, 2), twice);
    // Nodes are numbered as submitted: first the fills of the private chunks, then the program without its waits.
    let mut changed_program = program.to_vec();
    let nodes: Vec<usize> = (0..program.len())
        .filter(|at| !matches!(program[*at].1, Op::Wait(_)))
        .collect();
    for (index, value) in updates.iter().filter(|_| !nodes.is_empty()) {
        let number = index.index(nodes.len());
        let op = &mut changed_program[nodes[number]].1;
        *op = changed(op, *value);
        let node = NodeId(u32::try_from(PRIVATE + number).unwrap());
        let work = work(&case.bench, &case.in_graph, op);
        executable.update(node, work).unwrap();
    }
    let expected = case.eager(&changed_program, 1);
    assert_eq!(case.replay(&mut executable, 1), expected);
    // Captured work as a part of a graph that is built.
    let mut builder = GraphBuilder::new();
    let first = builder.add(fills(case.buffers[0], 77), &[]).unwrap();
    let parts = builder
        .add_captured(case.capture(program), &[first])
        .unwrap();
    builder
        .add(fills(case.buffers[PUBLIC], 78), &parts)
        .unwrap();
    let built = builder.finish(case.private.clone());
    let mut built = built.instantiate(&case.bench.device).unwrap();
    assert_eq!(built.private_bytes(), executable.private_bytes());
    case.replay(&mut built, 1);
    // Neither the program, nor its replays, nor chunks that share bytes.
    assert_eq!(case.bench.reports(), []);
}

fn program() -> impl Strategy<Value = Vec<(usize, Op)>> {
    vec(op(), 0..40)
}

fn updates() -> impl Strategy<Value = Vec<(Index, u32)>> {
    vec((any::<Index>(), any::<u32>()), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_replay_does_what_the_program_does_in_virtual_time(
        seed in any::<u64>(), program in program(), updates in updates(),
    ) {
        check(config().in_virtual_time(seed, ScheduleOrder::Seeded), &program, &updates);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_replay_does_what_the_program_does_on_threads(program in program(), updates in updates()) {
        check(SimConfig { workers: Some(2), ..config() }, &program, &updates);
    }
}
