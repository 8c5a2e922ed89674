//! A machine with the buffers of a program, run at once or made into a graph.

#![expect(unsafe_code, reason = "reads and writes memory that commands name")]

use crate::{
    program::{
        BYTES, COUNTERS, DEVICE, HOSTS, Op, PRIVATE, PUBLIC, Part, STREAMS, WORDS, filled_whole,
    },
    submitter::Submitter,
    support::{Bench, counts_down, submit},
};
use piton_driver::{DevicePtr, FillPattern, HostAllocation, HostMemoryOptions, Locking, NodeWork};
use piton_graph::{Graph, GraphBuilder, GraphError, NodeId, PrivateMemory};
use piton_sim::SimConfig;
use piton_stream::{Captured, Stream};
use std::{ptr::NonNull, slice, sync::Arc, thread};

/// Where the buffers of a program are, and what its operations are there.
pub(crate) struct Memory<'a> {
    pub(crate) bench: &'a Bench,
    device: &'a [DevicePtr],
    host: NonNull<u8>,
}

impl Memory<'_> {
    fn at(&self, buffer: usize, offset: usize) -> DevicePtr {
        self.device[buffer].checked_add(offset as u64).unwrap()
    }

    fn host_at(&self, buffer: usize, offset: usize) -> NonNull<u8> {
        // SAFETY: within the host's memory.
        unsafe { self.host.add((buffer - DEVICE) * BYTES + offset) }
    }

    /// What a node, or a command, does for the operation.
    pub(crate) fn work(&self, op: Op) -> NodeWork {
        let at = |buffer| self.at(buffer, 0);
        let counter = |depth| at(PUBLIC + PRIVATE + depth);
        match op {
            Op::Fill {
                to,
                pattern,
                at,
                bytes,
            } => NodeWork::Fill {
                dst: self.at(to, at),
                pattern,
                bytes: bytes as u64,
            },
            Op::Add(x, value) => self.bench.adds(at(x), value),
            Op::Mix(x, y) => self.bench.mixes(at(x), at(y)),
            Op::Flag(x, y) => self.bench.flags(at(x), at(y)),
            Op::Move { to, from, span } => {
                let bytes = span.bytes as u64;
                if to >= DEVICE {
                    let (dst, src) = (self.host_at(to, span.to), self.at(from, span.from));
                    NodeWork::CopyToHost { dst, src, bytes }
                } else if from >= DEVICE {
                    let (dst, src) = (self.at(to, span.to), self.host_at(from, span.from));
                    NodeWork::CopyToDevice { dst, src, bytes }
                } else {
                    let (dst, src) = (self.at(to, span.to), self.at(from, span.from));
                    NodeWork::CopyOnDevice { dst, src, bytes }
                }
            }
            Op::Call { to, from, factor } => self.call(to, from, factor),
            Op::Count(depth, times) => NodeWork::Fill {
                dst: counter(depth),
                pattern: FillPattern::Word(times),
                bytes: BYTES as u64,
            },
            Op::CountDown(depth) => counts_down(self.bench, counter(depth), 1),
            Op::Wait(_) => NodeWork::Empty,
        }
    }

    fn call(&self, to: usize, from: usize, factor: u32) -> NodeWork {
        let [to, from] = [to, from].map(|buffer| Shared(self.host_at(buffer, 0).cast()));
        NodeWork::CallHost(Arc::new(move || {
            let (to, from) = (to.start(), from.start());
            // SAFETY: a buffer of the host's, all of whose uses the program orders.
            let to = unsafe { slice::from_raw_parts_mut(to, WORDS) };
            // SAFETY: as above, and another one.
            let from = unsafe { slice::from_raw_parts(from, WORDS) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = to.wrapping_mul(factor).wrapping_add(*from);
            }
        }))
    }
}

/// Where a buffer of the host's is, for functions that run on threads of the device's.
#[derive(Clone, Copy)]
struct Shared(NonNull<u32>);

// SAFETY: whoever uses it is ordered with all other uses by the program, and it is freed when all of it has ended.
unsafe impl Send for Shared {}

// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn start(&self) -> *mut u32 {
        self.0.as_ptr()
    }
}

/// What can be compared: the device's public buffers, and the host's.
pub(crate) type Contents = Vec<u8>;

pub(crate) struct Case {
    pub(crate) bench: Bench,
    streams: Vec<Stream>,
    /// All of the device's.
    buffers: Vec<DevicePtr>,
    /// What the graph's nodes name: public buffers, and placeholders.
    in_graph: Vec<DevicePtr>,
    pub(crate) private: PrivateMemory,
    /// The host's buffers, and as much as the device's to read those.
    host: HostAllocation,
}

impl Case {
    pub(crate) fn new(bench: Bench) -> Self {
        let streams = (0..STREAMS).map(|_| bench.stream("s")).collect();
        let memory = bench.device.memory();
        let start = memory.allocate((DEVICE * BYTES) as u64).unwrap();
        let at = |buffer: usize| start.checked_add((buffer * BYTES) as u64).unwrap();
        let buffers: Vec<_> = (0..DEVICE).map(at).collect();
        let mut private = PrivateMemory::new();
        let mut in_graph = buffers[..PUBLIC].to_vec();
        for extra in 0..PRIVATE + COUNTERS {
            let bytes = BYTES + extra % 3 * 48;
            in_graph.push(private.chunk(bytes as u64).unwrap().ptr());
        }
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let host = bench.device.host_memory().unwrap();
        let host = host.allocate((HOSTS + PUBLIC) * BYTES, options).unwrap();
        Self {
            streams,
            buffers,
            in_graph,
            private,
            host,
            bench,
        }
    }

    fn memory<'a>(&'a self, device: &'a [DevicePtr]) -> Memory<'a> {
        Memory {
            bench: &self.bench,
            device,
            host: self.host.start,
        }
    }

    /// What the nodes of the graph name.
    pub(crate) fn graph_memory(&self) -> Memory<'_> {
        self.memory(&self.in_graph)
    }

    pub(crate) fn stream(&self, turn: usize) -> &Stream {
        &self.streams[turn % STREAMS]
    }

    /// Gives every buffer what it holds at first.
    pub(crate) fn reset(&self) {
        let memory = self.memory(&self.buffers);
        for (word, buffer) in (1..).zip(0..DEVICE) {
            let fills = memory.work(filled_whole(buffer, word));
            submit(&self.streams[0], &fills).unwrap();
        }
        self.streams[0].synchronize().unwrap();
        for (byte, value) in (0..HOSTS * BYTES).zip((1..=251_u8).cycle()) {
            // SAFETY: within the host's memory.
            let at = unsafe { self.host.start.add(byte) };
            // SAFETY: nothing uses it now.
            unsafe { at.write(value) };
        }
    }

    /// What can be compared, once everything has ended.
    pub(crate) fn contents(&self) -> Contents {
        for stream in &self.streams {
            self.streams[0].wait(&stream.record()).unwrap();
        }
        let (bytes, behind) = (PUBLIC * BYTES, HOSTS * BYTES);
        // SAFETY: there is as much behind the host's buffers.
        let landing = unsafe { self.host.start.add(behind) };
        // SAFETY: the public buffers lie together; nothing else uses either.
        let copied =
            unsafe { self.streams[0].copy_to_host(landing, self.buffers[0], bytes as u64) };
        copied.unwrap();
        self.streams[0].synchronize().unwrap();
        // SAFETY: all of the host's memory, which nothing uses now.
        unsafe { slice::from_raw_parts(self.host.start.as_ptr(), behind + bytes) }.to_vec()
    }

    /// Does the program, asking on the host what decides.
    pub(crate) fn eager(&self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Run(ops) => {
                    Submitter::submit(&self.memory(&self.buffers), &self.streams, ops)
                }
                Part::If { flag, word, body } => {
                    if self.word(*flag, *word) != 0 {
                        self.eager(body);
                    }
                }
                Part::While { counter, body } => {
                    while self.word(*counter, 0) != 0 {
                        self.eager(body);
                    }
                }
            }
        }
    }

    fn word(&self, buffer: usize, word: usize) -> u32 {
        self.bench.words(&self.streams[0], self.buffers[buffer])[word]
    }

    fn capture(&self, ops: &[(usize, Op)]) -> Captured {
        let capture = self.streams[0].begin_capture().unwrap();
        Submitter::submit(&self.graph_memory(), &self.streams, ops);
        capture.end().unwrap()
    }

    /// The graph that does it. Node n does what the n-th of [`nodes`] says.
    pub(crate) fn graph(&self, parts: &[Part]) -> Graph {
        if let [Part::Run(ops)] = parts {
            return Graph::from_capture(self.capture(ops), self.private.clone());
        }
        let mut builder = GraphBuilder::new();
        self.build(&mut builder, parts, &[]).unwrap();
        builder.finish(self.private.clone())
    }

    /// Adds the program to a graph behind some nodes; says what else comes behind.
    pub(crate) fn build(
        &self,
        graph: &mut GraphBuilder,
        parts: &[Part],
        after: &[NodeId],
    ) -> Result<Vec<NodeId>, GraphError> {
        let mut last = after.to_vec();
        for part in parts {
            let added = match part {
                Part::Run(ops) => graph.add_captured(self.capture(ops), &last)?,
                Part::If { flag, word, body } => {
                    let condition = self.graph_memory().at(*flag, word * 4);
                    let inside = |inner: &mut GraphBuilder| self.build(inner, body, &[]).map(drop);
                    vec![graph.add_if(condition, &last, inside)?]
                }
                Part::While { counter, body } => {
                    let condition = self.graph_memory().at(*counter, 0);
                    let inside = |inner: &mut GraphBuilder| self.build(inner, body, &[]).map(drop);
                    vec![graph.add_while(condition, &last, inside)?]
                }
            };
            if !added.is_empty() {
                last = added;
            }
        }
        Ok(last)
    }

    /// Where an `If` node looks, when it looks at another word.
    pub(crate) fn condition(&self, flag: usize, word: usize) -> NodeWork {
        NodeWork::If {
            condition: self.graph_memory().at(flag, word * 4),
            body: Vec::new(),
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // What a failing test leaves under way may still use it.
        if !thread::panicking() {
            let host = HostAllocation { ..self.host };
            // SAFETY: the case has ended, and with it all that names the memory; it is freed here alone.
            unsafe { self.bench.device.host_memory().unwrap().free(host) }.unwrap();
        }
    }
}

/// A machine whose streams a sanitizer watches, or one of which nobody knows.
pub(crate) fn bench(config: SimConfig, is_watched: bool) -> Bench {
    if is_watched {
        Bench::sanitized(config)
    } else {
        Bench::new(config)
    }
}
