//! Submits operations to streams and orders those that conflict with events, as any program must.

use crate::{
    case::Memory,
    program::{BUFFERS, Op, STREAMS},
    support::submit,
};
use piton_stream::{Event, Stream};
use std::mem;

/// The last accesses of a buffer.
#[derive(Clone, Default)]
struct Accesses {
    write: Option<Event>,
    reads: Vec<Event>,
}

pub(crate) struct Submitter<'a> {
    memory: &'a Memory<'a>,
    streams: &'a [Stream],
    accesses: Vec<Accesses>,
    has_begun: [bool; STREAMS],
    start: Event,
}

impl<'a> Submitter<'a> {
    /// Submits all of it, behind what the first stream has; the first stream comes after the rest at the end.
    pub(crate) fn submit(memory: &'a Memory<'a>, streams: &'a [Stream], ops: &[(usize, Op)]) {
        let mut submitter = Self {
            memory,
            streams,
            accesses: vec![Accesses::default(); BUFFERS],
            has_begun: [false; STREAMS],
            start: streams[0].record(),
        };
        for (stream, op) in ops {
            submitter.run(*stream, *op);
        }
        for stream in 1..STREAMS {
            if submitter.has_begun[stream] {
                let last = streams[stream].record();
                streams[0].wait(&last).unwrap();
            }
        }
    }

    fn run(&mut self, stream: usize, op: Op) {
        self.begin(stream);
        if let Op::Wait(other) = op {
            self.begin(other);
            let event = self.streams[other].record();
            self.streams[stream].wait(&event).unwrap();
        }
        let Some((written, read)) = op.named() else {
            return;
        };
        let mut before: Vec<Event> = self.accesses[written].reads.clone();
        before.extend(self.accesses[written].write.clone());
        before.extend(read.and_then(|read| self.accesses[read].write.clone()));
        for event in before {
            self.streams[stream].wait(&event).unwrap();
        }
        submit(&self.streams[stream], &self.memory.work(op)).unwrap();
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
        if stream > 0 && !mem::replace(&mut self.has_begun[stream], true) {
            self.streams[stream].wait(&self.start).unwrap();
        }
    }
}
