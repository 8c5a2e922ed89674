//! Programs over a few lanes, run on the sanitizer and on a plain graph of what comes before what.

use piton_driver::{Access, DeviceId, DevicePtr, Operation};
use piton_sanitizer::{
    Author, Effect, Footprint, FunctionId, Sanitizer, SanitizerConfig, SignalId, Space,
};
use piton_timeline::{LaneId, Timepoint};
use proptest::prelude::*;
use std::{collections::BTreeSet, panic::Location};

pub(crate) const LANES: usize = 8;
const SIGNALS: usize = 4;
const BYTES: u64 = 12;
/// Operations of a program: no more than there are names to tell commands apart by.
const MOST: usize = 30;
const _: () = assert!(Operation::ALL.len() > MOST);
pub(crate) const SPACE: Space = Space::Device(DeviceId(0));

/// A run of bytes and whether it is written.
pub(crate) type Touch = (u64, u64, bool);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Command(usize, Vec<Touch>),
    /// The lane waits for the n-th command so far, with a command or without.
    Wait(usize, usize, bool),
    /// The host, or a function if one runs, waits for the n-th command so far.
    Sync(usize, bool),
    WaitSignal(usize, usize),
    Signal(usize, usize),
    HostSignal(usize),
    Call(usize),
    /// The n-th function call starts, if it may.
    Start(usize),
    /// A function that runs submits.
    FromFunction(usize, usize, Vec<Touch>),
    Return(usize),
    /// Forgets what need not be known; nothing changes.
    Settle,
}

fn touches() -> impl Strategy<Value = Vec<Touch>> {
    prop::collection::vec((0..BYTES, 1..5_u64, any::<bool>()), 1..3)
}

/// Commands and waits: what is known at once.
pub(crate) fn plain() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..LANES, touches()).prop_map(|(l, t)| Op::Command(l, t)),
        4 => (0..LANES, 0..30_usize, any::<bool>()).prop_map(|(l, n, c)| Op::Wait(l, n, c)),
        2 => (0..30_usize).prop_map(|n| Op::Sync(n, false)),
        1 => Just(Op::Settle),
    ];
    prop::collection::vec(op, 1..=MOST)
}

/// Programs with signals that come late and host functions that return late, too.
pub(crate) fn with_holds() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..LANES, touches()).prop_map(|(l, t)| Op::Command(l, t)),
        4 => (0..LANES, 0..30_usize).prop_map(|(l, n)| Op::Wait(l, n, true)),
        1 => (0..30_usize).prop_map(|n| Op::Sync(n, false)),
        4 => (0..30_usize).prop_map(|n| Op::Sync(n, true)),
        2 => (0..LANES, 0..SIGNALS).prop_map(|(l, s)| Op::WaitSignal(l, s)),
        1 => (0..LANES, 0..SIGNALS).prop_map(|(l, s)| Op::Signal(l, s)),
        1 => (0..SIGNALS).prop_map(Op::HostSignal),
        2 => (0..LANES).prop_map(Op::Call),
        3 => (0..4_usize).prop_map(Op::Start),
        2 => (0..4_usize, 0..LANES, touches()).prop_map(|(f, l, t)| Op::FromFunction(f, l, t)),
        2 => (0..4_usize).prop_map(Op::Return),
        1 => Just(Op::Settle),
    ];
    prop::collection::vec(op, 1..=MOST)
}

/// What happens in the graph. A node without a way in that is open is looked at.
#[derive(Debug, Default)]
struct Node {
    after: Vec<usize>,
    /// It waits for something that has not happened yet.
    is_open: bool,
}

/// A command that touches memory.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) node: usize,
    pub(crate) point: Timepoint,
    pub(crate) touches: Vec<Touch>,
}

struct Function {
    id: FunctionId,
    /// The call, the last thing the function did, and what comes after its return.
    call: usize,
    last: usize,
    returned: usize,
    runs: bool,
}

pub(crate) struct World {
    pub(crate) sanitizer: Sanitizer,
    nodes: Vec<Node>,
    pub(crate) commands: Vec<Command>,
    /// All commands of any kind: lane, seq, node.
    places: Vec<(Timepoint, usize)>,
    lanes: Vec<(Timepoint, Option<usize>)>,
    host: usize,
    functions: Vec<Function>,
    signals: Vec<(SignalId, Option<usize>, Vec<usize>)>,
    pub(crate) reported: BTreeSet<(Timepoint, Timepoint)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let sanitizer = Sanitizer::new(SanitizerConfig::default());
        let lane = |index: u32| {
            let generation = 0;
            let base = Timepoint {
                lane: LaneId { index, generation },
                seq: u64::from(index),
            };
            sanitizer.open(base, None);
            (base, None)
        };
        let lanes = (0..).map(lane).take(LANES).collect();
        let signals = (0..SIGNALS).map(|_| (sanitizer.signal(0), None, Vec::new()));
        Self {
            signals: signals.collect(),
            sanitizer,
            nodes: vec![Node::default()],
            commands: Vec::new(),
            places: Vec::new(),
            lanes,
            host: 0,
            functions: Vec::new(),
            reported: BTreeSet::new(),
        }
    }

    pub(crate) fn run(program: &[Op]) -> Self {
        let mut world = Self::new();
        for op in program {
            world.step(op);
            world.sanitizer.check();
            for report in world.sanitizer.take_reports() {
                let point = |site: piton_sanitizer::Site| site.point.unwrap();
                world
                    .reported
                    .insert((point(report.first), point(report.second)));
            }
        }
        world
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Command(lane, touches) => self.command(*lane, touches, None),
            Op::Wait(lane, place, with_command) => self.wait(*lane, *place, *with_command),
            Op::Sync(place, in_function) => self.sync(*place, *in_function),
            Op::WaitSignal(lane, signal) => {
                let (id, given, _) = &self.signals[*signal];
                let (id, given) = (*id, *given);
                let node = self.submit(*lane, Effect::WaitsForSignal(id, 1), None);
                match given {
                    Some(given) => self.nodes[node].after.push(given),
                    None => {
                        self.nodes[node].is_open = true;
                        self.signals[*signal].2.push(node);
                    }
                }
            }
            Op::Signal(lane, signal) if self.signals[*signal].1.is_none() => {
                let effect = Effect::Signals(self.signals[*signal].0, 1);
                let node = self.submit(*lane, effect, None);
                self.given(*signal, node);
            }
            Op::HostSignal(signal) if self.signals[*signal].1.is_none() => {
                self.given(*signal, self.host);
                let id = self.signals[*signal].0;
                self.sanitizer.give(Author::Host, id, 1);
            }
            Op::Call(lane) => self.call(*lane),
            Op::Start(n) => self.start(*n),
            Op::FromFunction(n, lane, touches) => {
                if self.functions.get(*n).is_some_and(|function| function.runs) {
                    self.command(*lane, touches, Some(*n));
                }
            }
            Op::Return(n) => self.finish(*n),
            Op::Settle => self.sanitizer.settle(),
            Op::Signal(..) | Op::HostSignal(_) => {}
        }
    }

    fn node(&mut self, after: Vec<usize>) -> usize {
        let is_open = false;
        self.nodes.push(Node { after, is_open });
        self.nodes.len() - 1
    }

    /// One more command of a lane, by the host or a function.
    #[track_caller]
    fn submit(&mut self, lane: usize, effect: Effect, function: Option<usize>) -> usize {
        let by = function.map_or(Author::Host, |n| Author::Function(self.functions[n].id));
        let author = function.map_or(self.host, |n| self.functions[n].last);
        let (last, before) = self.lanes[lane];
        let point = Timepoint {
            seq: last.seq + 1,
            ..last
        };
        let node = self.node(before.into_iter().chain([author]).collect());
        self.lanes[lane] = (point, Some(node));
        self.places.push((point, node));
        // Each command has an operation of its own, so that no two reports are folded into one.
        let operation = Operation::ALL[self.places.len() % Operation::ALL.len()];
        let attempt = self
            .sanitizer
            .attempt(by, last, (operation, effect), Location::caller());
        attempt.unwrap().accepted(point);
        node
    }

    fn command(&mut self, lane: usize, touches: &[Touch], function: Option<usize>) {
        let mut footprint = Footprint::default();
        for &(start, bytes, is_write) in touches {
            let start = DevicePtr::new(start);
            footprint = if is_write {
                footprint.write(SPACE, start, bytes)
            } else {
                footprint.read(SPACE, start, bytes)
            };
        }
        let node = self.submit(lane, Effect::Touches(footprint), function);
        self.commands.push(Command {
            node,
            point: self.lanes[lane].0,
            touches: touches.to_vec(),
        });
    }

    fn wait(&mut self, lane: usize, place: usize, with_command: bool) {
        let Some(&(point, node)) = self.places.get(place) else {
            return;
        };
        let awaited = self.lanes.iter().find(|(last, _)| last.lane == point.lane);
        // Waits without a command count for the place they stand behind.
        let end = awaited
            .filter(|(last, _)| *last == point)
            .and_then(|(_, node)| *node);
        let awaited = end.unwrap_or(node);
        if with_command {
            let waiter = self.submit(lane, Effect::Waits(point), None);
            self.nodes[waiter].after.push(awaited);
        } else {
            let (last, before) = self.lanes[lane];
            let after = before.into_iter().chain([awaited, self.host]).collect();
            let waiter = self.node(after);
            self.lanes[lane].1 = Some(waiter);
            if let Some(at) = self.places.iter_mut().find(|(at, _)| *at == last) {
                at.1 = waiter;
            }
            self.sanitizer.wait_left_out(Author::Host, last.lane, point);
        }
    }

    fn sync(&mut self, place: usize, in_function: bool) {
        let Some(&(point, node)) = self.places.get(place) else {
            return;
        };
        if !self.looked_at()[node] {
            return;
        }
        let running = self.functions.iter().position(|function| function.runs);
        match running.filter(|_| in_function) {
            Some(n) => {
                let last = self.node(vec![self.functions[n].last, node]);
                self.functions[n].last = last;
                self.sanitizer
                    .saw(Author::Function(self.functions[n].id), point);
            }
            None => {
                self.host = self.node(vec![self.host, node]);
                self.sanitizer.saw(Author::Host, point);
            }
        }
    }

    fn given(&mut self, signal: usize, by: usize) {
        self.signals[signal].1 = Some(by);
        for wait in std::mem::take(&mut self.signals[signal].2) {
            self.nodes[wait].is_open = false;
            self.nodes[wait].after.push(by);
        }
    }

    fn call(&mut self, lane: usize) {
        let id = self.sanitizer.function();
        let call = self.submit(lane, Effect::Calls(id), None);
        let returned = self.node(vec![call]);
        self.nodes[returned].is_open = true;
        self.lanes[lane].1 = Some(returned);
        if let Some(place) = self.places.last_mut() {
            place.1 = returned;
        }
        self.functions.push(Function {
            id,
            call,
            last: call,
            returned,
            runs: false,
        });
    }

    fn start(&mut self, n: usize) {
        let Some(function) = self.functions.get(n) else {
            return;
        };
        let has_ended = !self.nodes[function.returned].is_open;
        if self.looked_at()[function.call] && !has_ended {
            self.sanitizer.start(self.functions[n].id);
            self.functions[n].runs = true;
        }
    }

    fn finish(&mut self, n: usize) {
        if let Some(function) = self.functions.get_mut(n)
            && function.runs
        {
            function.runs = false;
            let (last, returned) = (function.last, function.returned);
            self.nodes[returned].after.push(last);
            self.nodes[returned].is_open = false;
            self.sanitizer.end(self.functions[n].id);
        }
    }

    /// Which nodes have nothing open before them.
    pub(crate) fn looked_at(&self) -> Vec<bool> {
        let mut done = vec![false; self.nodes.len()];
        loop {
            let ready = |n: &usize| {
                let node = &self.nodes[*n];
                !done[*n] && !node.is_open && node.after.iter().all(|before| done[*before])
            };
            match (0..self.nodes.len()).find(ready) {
                Some(n) => done[n] = true,
                None => return done,
            }
        }
    }

    /// `before[n]` are the nodes before n.
    pub(crate) fn reachability(&self) -> Vec<BTreeSet<usize>> {
        let search = |n: usize| {
            let mut found = BTreeSet::new();
            let mut next = self.nodes[n].after.clone();
            while let Some(node) = next.pop() {
                if found.insert(node) {
                    next.extend(&self.nodes[node].after);
                }
            }
            found
        };
        (0..self.nodes.len()).map(search).collect()
    }
}

/// The bytes on which two commands conflict.
pub(crate) fn conflicts(one: &Command, other: &Command) -> BTreeSet<u64> {
    let mut bytes = BTreeSet::new();
    for a in &one.touches {
        for b in &other.touches {
            if a.2 || b.2 {
                bytes.extend(a.0.max(b.0)..(a.0 + a.1).min(b.0 + b.1));
            }
        }
    }
    bytes
}

/// What a command does to a byte, the strongest of it.
pub(crate) fn access(command: &Command, byte: u64) -> Option<Access> {
    let mut uses = command.touches.iter();
    let mut found = None;
    for (_, _, is_write) in uses.by_ref().filter(|t| t.0 <= byte && byte < t.0 + t.1) {
        if *is_write || found.is_none() {
            found = Some(if *is_write {
                Access::Write
            } else {
                Access::Read
            });
        }
    }
    found
}
