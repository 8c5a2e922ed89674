//! Running a program: each operation is done, and what the streams answer is held against the books.

mod behind;
mod ends;
mod keep;
mod order;
mod promise;
mod signal;
mod submit;
mod work;

use crate::{
    books::{Book, Clock, Place},
    program::{Op, Program},
    world::{BLOCKS, World},
};
use piton_driver::{ErrorKind, Priority};
use piton_stream::{Event, Semaphore, Stream, StreamError, StreamOptions};
use piton_timeline::{Frontier, LaneId, Timepoint};
use promise::Promise;
use std::{collections::HashMap, sync::Arc};

/// Semaphores: the first ones are signalled by the host as well.
const OPEN: usize = 3;
const SEMAPHORES: usize = 5;

struct Lane {
    /// Not here while its writer is kept.
    stream: Option<Stream>,
    queue: usize,
    /// The block it holds, and as which user.
    held: Option<(usize, u32)>,
}

#[derive(Default)]
struct PoolBlock {
    is_held: bool,
    uses: Frontier,
}

struct Recorded {
    event: Event,
    place: Place,
    clock: Clock,
}

pub(crate) struct Run<'a> {
    pub(crate) world: &'a World,
    program: &'a Program,
    lanes: Vec<Lane>,
    pub(crate) books: Vec<Book>,
    /// All commands, in the order they were submitted in.
    pub(crate) issued: Vec<Place>,
    queues: HashMap<LaneId, usize>,
    pool: Vec<PoolBlock>,
    events: Vec<Recorded>,
    promises: Vec<Promise>,
    semaphores: Vec<Semaphore>,
    planned: Vec<u64>,
    /// Blocks of host memory that copies have used.
    slots: u64,
    /// Held by every host function: counts those that were not dropped.
    token: Arc<()>,
    tags: u32,
}

impl<'a> Run<'a> {
    pub(crate) fn new(world: &'a World, program: &'a Program) -> Self {
        let device = &world.device;
        let semaphore = |index| match index {
            0..OPEN => Semaphore::new(device, 0),
            _ => Semaphore::between_streams(device, 0),
        };
        let mut run = Self {
            world,
            program,
            lanes: Vec::new(),
            books: Vec::new(),
            issued: Vec::new(),
            queues: HashMap::new(),
            pool: (0..BLOCKS * program.devices)
                .map(|_| PoolBlock::default())
                .collect(),
            events: Vec::new(),
            promises: Vec::new(),
            semaphores: (0..SEMAPHORES).map(|n| semaphore(n).unwrap()).collect(),
            planned: vec![0; SEMAPHORES],
            slots: 0,
            token: Arc::new(()),
            tags: 0,
        };
        for lane in 0..program.lanes.len() {
            let made = run.make(lane).unwrap();
            run.lanes.push(made);
        }
        run
    }

    fn stream(&self, lane: usize) -> &Stream {
        self.lanes[lane].stream.as_ref().unwrap()
    }

    /// A stream; none on a device that is gone.
    fn make(&mut self, lane: usize) -> Option<Lane> {
        let given = self.program.lanes[lane];
        let options = StreamOptions {
            priority: Priority(given.priority),
            commands: Some(given.commands),
            on_failure: given.on_failure,
            when_full: given.when_full,
            ..StreamOptions::default()
        };
        let one = &self.world.devices[given.device];
        let stream = self.world.streams.create(&one.device, options);
        let stream = self.unless_lost(stream)?;
        assert_eq!(stream.capacity(), u64::from(given.commands));
        let queue = self.books.len();
        let former = self.queues.insert(stream.id(), queue);
        assert_eq!(former, None, "a generation came back");
        self.books.push(Book {
            queue: one.watched.last_queue(),
            device: given.device,
            on_failure: given.on_failure,
            base: stream.now().seq,
            commands: u64::from(given.commands),
            tasks: Vec::new(),
            after: Vec::new(),
            clock: Clock::new(),
            aborted: 0,
            cleared: Vec::new(),
        });
        Some(Lane {
            stream: Some(stream),
            queue,
            held: None,
        })
    }

    /// The answer, or none that is due to a device that is gone.
    fn unless_lost<T>(&self, answer: Result<T, StreamError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) if self.is_due_to_loss(&error) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn is_due_to_loss(&self, error: &StreamError) -> bool {
        let is_lost =
            matches!(error, StreamError::Driver(error) if error.kind == ErrorKind::DeviceLost);
        is_lost && self.world.is_lost.get()
    }

    fn place(&self, point: Timepoint) -> Place {
        let queue = self.queues[&point.lane];
        (queue, point.seq - self.books[queue].base)
    }

    fn next_tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    /// Does all of it, looking at what must be so after each operation.
    pub(crate) fn all(&mut self, mut ops: &[Op]) {
        while let Some((op, rest)) = ops.split_first() {
            let kept = match *op {
                Op::Keep { operations, .. } => operations.min(rest.len()),
                _ => 0,
            };
            let (kept, rest) = rest.split_at(kept);
            self.do_it(*op, kept);
            self.observe();
            ops = rest;
        }
    }

    /// Does an operation, and while it does it others, if it is one of that kind.
    fn do_it(&mut self, op: Op, meanwhile: &[Op]) {
        let lanes = self.lanes.len();
        match op {
            Op::Use {
                lane,
                is_large,
                traps,
                form,
            } => self.use_block(lane % lanes, (is_large, traps), form),
            Op::Burst { lane, form } => self.burst(lane % lanes, form),
            Op::Lend { lane, to } => self.lend(lane % lanes, to % lanes),
            Op::Behind { lane, events, form } => self.behind(lane % lanes, events, form),
            Op::Keep { lane, .. } => self.keep(lane % lanes, meanwhile),
            Op::Give(lane) => self.give(lane % lanes),
            Op::Move {
                lane,
                what,
                dice,
                form,
            } => self.move_bytes(lane % lanes, what, dice, form),
            Op::Host { lane, panics } => self.host(lane % lanes, panics),
            Op::Record { lane, is_timed } => self.record(lane % lanes, is_timed),
            Op::Wait { lane, event } => self.wait_event(lane % lanes, event),
            Op::WaitSemaphore {
                lane,
                semaphore,
                ahead,
            } => self.wait_semaphore(lane % lanes, semaphore % SEMAPHORES, ahead),
            Op::SignalSemaphore { lane, semaphore } => {
                self.signal(lane % lanes, semaphore % SEMAPHORES);
            }
            Op::HostSignal(semaphore) => self.host_signal(semaphore % OPEN, 1),
            Op::WaitMemory {
                lane,
                writer,
                ahead,
            } => self.wait_memory(lane % lanes, writer % lanes, ahead),
            Op::WriteMemory(lane) => self.write_memory(lane % lanes),
            Op::Query(event) => self.query(event),
            Op::Await(event) => self.promise(event),
            Op::Poll(promise) => self.poll(promise),
            Op::DropFuture(promise) => self.drop_promise(promise),
            Op::WaitOnHost(event) => self.wait_on_host(event),
            Op::Flush(lane) => {
                let _flushed = self.unless_lost(self.stream(lane % lanes).flush());
            }
            Op::Abort(lane) => self.abort(self.lanes[lane % lanes].queue),
            Op::ClearFailure(lane) => self.clear_failure(lane % lanes),
            Op::Renew(lane) => self.renew(lane % lanes),
            Op::Lose => self.lose(),
        }
    }
}
