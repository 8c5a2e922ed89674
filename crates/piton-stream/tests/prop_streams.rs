//! Random programs over at most four streams, stepped in random order, against what the program says.
//!
//! The model knows no clock and leaves out no wait: it keeps, for every command, the set of commands that the
//! program put before it. Whatever the streams left out must come to the same.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use piton_stream::{Event, Stream, StreamError, Waited};
use proptest::{collection::vec, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use support::{Bench, Step, trap, work};

const STREAMS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    Work(usize),
    Trap(usize),
    Record(usize),
    /// The stream waits for one of the events so far.
    Wait(usize, usize),
    /// Ends a command of a queue, if it can.
    Step(usize),
    /// Drops a stream and makes another in its place.
    Renew(usize),
    Query(usize),
}

fn op(traps: u32) -> impl Strategy<Value = Op> {
    let stream = 0..STREAMS;
    let any = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        8 => stream.clone().prop_map(Op::Work),
        traps => stream.clone().prop_map(Op::Trap),
        6 => stream.clone().prop_map(Op::Record),
        8 => (stream.clone(), any.clone()).prop_map(|(s, e)| Op::Wait(s, e)),
        12 => any.clone().prop_map(Op::Step),
        1 => stream.prop_map(Op::Renew),
        3 => any.prop_map(Op::Query),
    ]
}

/// Queue and position of a command.
type Id = (usize, u64);

struct Model {
    bench: Bench,
    streams: Vec<Stream>,
    /// The queue behind each stream: queues are numbered as they are made.
    queues: Vec<usize>,
    /// What the program put before the next command of each stream.
    before: Vec<BTreeSet<Id>>,
    /// What it put before each command.
    after: BTreeMap<Id, BTreeSet<Id>>,
    traps: BTreeSet<Id>,
    events: Vec<(Event, BTreeSet<Id>)>,
}

impl Model {
    fn new() -> Self {
        let bench = Bench::new();
        Self {
            streams: (0..STREAMS).map(|_| bench.stream("s")).collect(),
            queues: (0..STREAMS).collect(),
            before: vec![BTreeSet::new(); STREAMS],
            after: BTreeMap::new(),
            traps: BTreeSet::new(),
            events: Vec::new(),
            bench,
        }
    }

    /// Notes that the stream has submitted a command.
    fn submitted(&mut self, stream: usize) -> Id {
        let queue = self.queues[stream];
        let earlier = self.after.range((queue, 0)..(queue + 1, 0)).count();
        let id = (queue, earlier as u64 + 1);
        self.after.insert(id, self.before[stream].clone());
        self.before[stream].insert(id);
        id
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Work(stream) if self.streams[stream].free() > 0 => {
                work(&self.streams[stream]).unwrap();
                self.submitted(stream);
            }
            Op::Trap(stream) if self.streams[stream].free() > 0 => {
                trap(&self.streams[stream]).unwrap();
                let id = self.submitted(stream);
                self.traps.insert(id);
            }
            Op::Work(_) | Op::Trap(_) => {}
            Op::Record(stream) => {
                let event = self.streams[stream].record();
                self.events.push((event, self.before[stream].clone()));
            }
            Op::Wait(stream, event) => self.wait(stream, event),
            Op::Step(queue) => {
                let queue = queue % self.bench.machine.queue_count();
                let _step: Step = self.bench.machine.step(queue);
            }
            Op::Renew(stream) => {
                self.streams[stream] = self.bench.stream("s");
                self.queues[stream] = self.bench.machine.queue_count() - 1;
                self.before[stream].clear();
            }
            Op::Query(event) => self.query(event),
        }
    }

    fn wait(&mut self, stream: usize, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        if self.streams[stream].free() == 0 {
            return;
        }
        let (event, past) = &self.events[event];
        match self.streams[stream].wait(event) {
            Ok(waited) => {
                let past = past.clone();
                self.before[stream].extend(past);
                if matches!(waited, Waited::Enqueued(_)) {
                    self.submitted(stream);
                }
            }
            // Nobody is left to spread the failure, and nothing was submitted.
            Err(StreamError::Poisoned(_)) => assert_eq!(event.query().map_err(drop), Err(())),
            Err(other) => panic!("{other}"),
        }
    }

    /// An event says that its work has ended exactly when it has.
    fn query(&self, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let (event, past) = &self.events[event];
        let trace = self.bench.machine.trace();
        let ended: BTreeMap<Id, bool> = trace
            .iter()
            .map(|ran| ((ran.queue, ran.position), ran.did))
            .collect();
        match event.query() {
            Ok(true) => assert!(past.iter().all(|id| ended.get(id) == Some(&true))),
            Ok(false) => assert!(past.iter().any(|id| !ended.contains_key(id))),
            Err(StreamError::Poisoned(_)) => {
                assert!(past.iter().all(|id| ended.contains_key(id)));
                assert!(past.iter().any(|id| !ended[id]));
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Every command ran after all that the program put before it, and only if all of it did its work.
    fn verdict(&self) {
        self.bench.machine.run();
        let mut did: BTreeMap<Id, bool> = BTreeMap::new();
        for ran in self.bench.machine.trace() {
            let id = (ran.queue, ran.position);
            let past = &self.after[&id];
            for earlier in past {
                assert!(did.contains_key(earlier), "{id:?} ran before {earlier:?}");
            }
            let is_well = past.iter().all(|earlier| did[earlier]);
            assert!(!ran.did || is_well, "{id:?} ran after a failure");
            if is_well && !self.traps.contains(&id) {
                assert!(ran.did, "{id:?} was skipped for nothing");
            }
            did.insert(id, ran.did);
        }
        assert_eq!(did.len(), self.after.len(), "everything ended, once");
        for event in 0..self.events.len() {
            self.query(event);
        }
        self.bench.streams.prune();
        assert_eq!(self.bench.streams.detached(), 0);
        self.bench.streams.check();
    }
}

fn check(ops: &[Op]) {
    let mut model = Model::new();
    for op in ops {
        model.run(*op);
        model.bench.streams.check();
    }
    model.verdict();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn programs_run_in_the_order_they_say(ops in vec(op(0), 1..120)) {
        check(&ops);
    }

    #[test]
    fn dependents_of_a_failure_never_run(ops in vec(op(1), 1..120)) {
        check(&ops);
    }
}
