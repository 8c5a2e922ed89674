//! Running a program: each operation is done, and what the streams answer is held against the books.

#![expect(unsafe_code, reason = "submits commands")]

use crate::{
    books::{Book, Clock, Place, Task},
    program::{Op, Program},
    world::{BLOCKS, Entry, PATIENCE, World},
};
use piton_driver::{
    Command, Comparison, FillPattern, MemoryWait, MemoryWord, Priority, QueueActivity, WaitOutcome,
};
use piton_stream::{
    Event, Semaphore, Stream, StreamError, StreamOptions, Submission, Waited, WhenFull,
};
use piton_timeline::{Frontier, LaneId, Reuse, Timepoint};
use std::{collections::HashMap, sync::Arc, time::Instant};

/// Semaphores: the first ones are signalled by the host as well.
const OPEN: usize = 3;
const SEMAPHORES: usize = 5;
/// Launches at once.
const BURST: usize = 12;

struct Lane {
    stream: Stream,
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
    queues: HashMap<LaneId, usize>,
    pool: Vec<PoolBlock>,
    events: Vec<Recorded>,
    semaphores: Vec<Semaphore>,
    planned: Vec<u64>,
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
            queues: HashMap::new(),
            pool: (0..BLOCKS).map(|_| PoolBlock::default()).collect(),
            events: Vec::new(),
            semaphores: (0..SEMAPHORES).map(|n| semaphore(n).unwrap()).collect(),
            planned: vec![0; SEMAPHORES],
            token: Arc::new(()),
            tags: 0,
        };
        for lane in 0..program.lanes.len() {
            let made = run.make(lane);
            run.lanes.push(made);
        }
        run
    }

    fn make(&mut self, lane: usize) -> Lane {
        let given = self.program.lanes[lane];
        let options = StreamOptions {
            priority: Priority(given.priority),
            commands: Some(given.commands),
            on_failure: given.on_failure,
            when_full: WhenFull::Refuse,
            ..StreamOptions::default()
        };
        let stream = self
            .world
            .streams
            .create(&self.world.device, options)
            .unwrap();
        assert_eq!(stream.capacity(), u64::from(given.commands));
        let queue = self.books.len();
        let former = self.queues.insert(stream.id(), queue);
        assert_eq!(former, None, "a generation came back");
        self.books.push(Book {
            queue: self.world.watched.last_queue(),
            on_failure: given.on_failure,
            base: stream.now().seq,
            commands: u64::from(given.commands),
            tasks: Vec::new(),
            after: Vec::new(),
            clock: Clock::new(),
            aborted: 0,
            cleared: Vec::new(),
        });
        Lane {
            stream,
            queue,
            held: None,
        }
    }

    fn place(&self, point: Timepoint) -> Place {
        let queue = self.queues[&point.lane];
        (queue, point.seq - self.books[queue].base)
    }

    /// A submission has been answered. One that was refused has changed nothing.
    fn submitted(
        &mut self,
        lane: usize,
        task: Task,
        taken: Result<Submission, StreamError>,
    ) -> bool {
        let (stream, queue) = (&self.lanes[lane].stream, self.lanes[lane].queue);
        let book = &self.books[queue];
        let before = book.submitted();
        match taken {
            Ok(Submission::Accepted(point)) => {
                assert_eq!(self.place(point), (queue, before + 1), "positions in order");
                assert_eq!(stream.now(), point);
                self.books[queue].tasks.push(task);
                true
            }
            Ok(Submission::Full) | Err(StreamError::Full { .. }) => {
                assert_eq!(stream.now().seq, book.base + before, "nothing has changed");
                assert_eq!(book.queue.submitted().get(), before);
                let is_launch = matches!(task, Task::Kernel { .. });
                let is_full = book.queue.completed().get() + book.commands <= before;
                let can_tell = self.world.is_virtual && !is_launch;
                assert!(is_full || !can_tell, "there is room");
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn try_submit(&mut self, lane: usize, task: Task, command: &Command<'_>) -> bool {
        // SAFETY: each stream has areas of its own; words of memory are written by one stream each.
        let taken = unsafe { self.lanes[lane].stream.try_submit(command) };
        self.submitted(lane, task, taken)
    }

    fn next_tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    pub(crate) fn op(&mut self, op: Op) {
        let lanes = self.lanes.len();
        match op {
            Op::Use {
                lane,
                is_large,
                traps,
            } => self.use_block(lane % lanes, (is_large, traps)),
            Op::Burst(lane) => {
                (0..BURST).for_each(|_| self.use_block(lane % lanes, (true, false)));
            }
            Op::Lend { lane, to } => self.lend(lane % lanes, to % lanes),
            Op::Give(lane) => self.give(lane % lanes),
            Op::Fill(lane) => self.fill(lane % lanes),
            Op::Copy(lane) => self.copy(lane % lanes),
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
            Op::WaitOnHost(event) => self.wait_on_host(event),
            Op::Flush(lane) => self.lanes[lane % lanes].stream.flush().unwrap(),
            Op::Abort(lane) => self.abort(self.lanes[lane % lanes].queue),
            Op::ClearFailure(lane) => self.clear_failure(lane % lanes),
            Op::Renew(lane) => self.renew(lane % lanes),
        }
        self.observe();
    }

    /// The lane's block, taken from the pool if it has none.
    fn take(&mut self, lane: usize) -> Option<(usize, u32)> {
        if let Some(held) = self.lanes[lane].held {
            return Some(held);
        }
        let block = self.pool.iter().position(|block| !block.is_held)?;
        let id = self.lanes[lane].stream.id();
        let uses = self.pool[block].uses.clone();
        match self.world.streams.timeline().reuse(&uses, Some(id)) {
            Reuse::Now => uses
                .points()
                .iter()
                .for_each(|point| self.is_ordered(lane, *point)),
            Reuse::AfterWait(points) => {
                for point in points.points() {
                    assert!(uses.points().contains(point), "a wait for no use");
                    if !self.wait_point(lane, *point) {
                        return None;
                    }
                }
            }
            Reuse::No => panic!("a lane can wait"),
        }
        let user = self.next_tag();
        // What was used before stays in the books: this user may give the block back without having used it.
        self.pool[block].is_held = true;
        self.lanes[lane].held = Some((block, user));
        self.lanes[lane].held
    }

    /// The timeline says that the lane need not wait: it is done, or the waits made so far say so.
    fn is_ordered(&self, lane: usize, point: Timepoint) {
        let (queue, position) = self.place(point);
        let own = self.lanes[lane].queue;
        let is_done = self.books[queue].queue.completed().get() >= position;
        let known = self.books[own].clock.get(&queue).copied().unwrap_or(0);
        assert!(
            is_done || queue == own || known >= position,
            "an order that is not there"
        );
    }

    fn use_block(&mut self, lane: usize, how: (bool, bool)) {
        if let Some(held) = self.take(lane) {
            self.launch(lane, held, how);
        }
    }

    fn launch(&mut self, lane: usize, (block, user): (usize, u32), how: (bool, bool)) -> bool {
        let (tag, traps) = (self.next_tag(), how.1);
        let taken = self.world.launch(&self.lanes[lane].stream, block, tag, how);
        let task = Task::Kernel {
            tag,
            block,
            user,
            traps,
        };
        let is_taken = self.submitted(lane, task, taken);
        if is_taken {
            let point = self.lanes[lane].stream.now();
            self.pool[block].uses.insert(point);
        }
        is_taken
    }

    fn lend(&mut self, lane: usize, to: usize) {
        let Some(held) = self.lanes[lane].held else {
            return;
        };
        if lane != to && self.wait_point(to, self.lanes[lane].stream.now()) {
            self.launch(to, held, (false, false));
            if !self.wait_point(lane, self.lanes[to].stream.now()) {
                // The owner cannot come after the borrower: it does not use the block any more.
                self.give(lane);
            }
        }
    }

    fn give(&mut self, lane: usize) {
        if let Some((block, _)) = self.lanes[lane].held.take() {
            self.pool[block].is_held = false;
        }
    }

    fn fill(&mut self, lane: usize) {
        let (word, queue) = (self.next_tag(), self.lanes[lane].queue);
        let command = Command::Fill {
            dst: self.world.area(queue, 0),
            pattern: FillPattern::Word(word),
            bytes: 64,
        };
        self.try_submit(lane, Task::Fill(word), &command);
    }

    fn copy(&mut self, lane: usize) {
        let queue = self.lanes[lane].queue;
        let command = Command::CopyOnDevice {
            dst: self.world.area(queue, 1),
            src: self.world.area(queue, 0),
            bytes: 64,
        };
        self.try_submit(lane, Task::Copy, &command);
    }

    fn host(&mut self, lane: usize, panics: bool) {
        let (tag, token, log) = (
            self.next_tag(),
            Arc::clone(&self.token),
            self.world.log.clone(),
        );
        let taken = self.lanes[lane].stream.call_host(move || {
            log.lock().push(Entry::Start {
                tag,
                is_whole: Arc::strong_count(&token) > 1,
                found: 0,
            });
            log.lock().push(Entry::End { tag });
            if panics {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        self.submitted(
            lane,
            Task::Host { tag, panics },
            taken.map(Submission::Accepted),
        );
    }

    fn record(&mut self, lane: usize, is_timed: bool) {
        let Lane { stream, queue, .. } = &self.lanes[lane];
        let queue = *queue;
        let event = if is_timed {
            let event = stream.record_timed();
            let taken = event.as_ref().map(Event::timepoint).map_err(Clone::clone);
            if !self.submitted(lane, Task::Stamp, taken.map(Submission::Accepted)) {
                return;
            }
            event.unwrap()
        } else {
            stream.record()
        };
        let place = self.place(event.timepoint());
        assert_eq!(place, (queue, self.books[queue].submitted()));
        let clock = self.books[queue].clock.clone();
        self.events.push(Recorded {
            event,
            place,
            clock,
        });
    }

    fn wait_event(&mut self, lane: usize, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let Recorded {
            event,
            place,
            clock,
        } = &self.events[event];
        let (event, place, clock) = (event.clone(), *place, clock.clone());
        let waited = match self.lanes[lane].stream.try_wait(&event) {
            Ok(Submission::Accepted(waited)) => Ok(waited),
            Ok(Submission::Full) => Err(StreamError::Full { capacity: 0 }),
            Err(error) => Err(error),
        };
        self.waited(lane, place, &clock, waited);
    }

    /// As [`wait_event`](Self::wait_event), for a point of whose history the books say nothing.
    fn wait_point(&mut self, lane: usize, point: Timepoint) -> bool {
        let waited = self.lanes[lane].stream.wait_timepoint(point);
        let place = self.place(point);
        self.waited(lane, place, &self.books[place.0].clock.clone(), waited)
    }

    /// A wait has been answered; says whether what follows comes after the place.
    fn waited(
        &mut self,
        lane: usize,
        place: Place,
        clock: &Clock,
        waited: Result<Waited, StreamError>,
    ) -> bool {
        let own = self.lanes[lane].queue;
        let is_done = self.books[place.0].queue.completed().get() >= place.1;
        let has_failed = !self.books[place.0].failures().is_empty();
        let known = self.books[own].clock.get(&place.0).copied().unwrap_or(0);
        let is_known = place.0 == own || place.1 == 0 || known >= place.1;
        match waited {
            Ok(Waited::Enqueued(point)) => {
                let direct = |(_, (queue, position)): &(u64, Place)| {
                    *queue == place.0 && *position >= place.1
                };
                let is_direct = own == place.0 || self.books[own].after.iter().any(direct);
                assert!(!is_direct || has_failed, "a wait for what it comes after");
                let taken = Ok(Submission::Accepted(point));
                self.submitted(lane, Task::WaitQueue(place), taken);
            }
            Ok(Waited::Ordered) => assert!(is_known, "an order that is not there"),
            Ok(Waited::Done) => assert!(is_done, "it has not ended"),
            Ok(other) => panic!("{other:?}"),
            Err(StreamError::Poisoned(_)) => {
                assert!(is_done && has_failed, "nothing failed");
                return true;
            }
            Err(StreamError::Full { .. }) => return false,
            Err(other) => panic!("{other}"),
        }
        let book = &mut self.books[own];
        let behind = book.submitted() + 1;
        book.after.push((behind, place));
        for (queue, position) in clock.iter().chain([(&place.0, &place.1)]) {
            let known = book.clock.entry(*queue).or_default();
            *known = (*known).max(*position);
        }
        true
    }

    fn wait_semaphore(&mut self, lane: usize, semaphore: usize, ahead: u64) {
        let value = self.planned[semaphore] + ahead;
        let taken = self.lanes[lane]
            .stream
            .wait_semaphore(&self.semaphores[semaphore], value)
            .map(Submission::Accepted);
        self.submitted(lane, Task::WaitSemaphore(semaphore, value), taken);
    }

    fn signal(&mut self, lane: usize, semaphore: usize) {
        let value = self.planned[semaphore] + 1;
        let taken = self.lanes[lane]
            .stream
            .signal_semaphore(&self.semaphores[semaphore], value)
            .map(Submission::Accepted);
        if self.submitted(lane, Task::SignalSemaphore(semaphore, value), taken) {
            self.planned[semaphore] = value;
        }
    }

    fn host_signal(&mut self, semaphore: usize, by: u64) {
        let value = self.planned[semaphore] + by;
        self.planned[semaphore] = value;
        self.world.note(Entry::HostSignal { semaphore, value });
        self.semaphores[semaphore].signal(value).unwrap();
    }

    fn writes(&self, queue: usize) -> u32 {
        let writes = |task: &&Task| matches!(task, Task::WriteMemory(_));
        u32::try_from(self.books[queue].tasks.iter().filter(writes).count()).unwrap()
    }

    fn wait_memory(&mut self, lane: usize, writer: usize, ahead: u32) {
        let queue = self.lanes[writer].queue;
        let value = self.writes(queue) + ahead;
        let wait = MemoryWait {
            at: self.world.area(queue, 2),
            comparison: Comparison::AtLeast,
            value: MemoryWord::U32(value),
        };
        self.try_submit(
            lane,
            Task::WaitMemory(queue, value),
            &Command::WaitMemory(wait),
        );
    }

    fn write_memory(&mut self, lane: usize) {
        let queue = self.lanes[lane].queue;
        let value = self.writes(queue) + 1;
        let command = Command::WriteMemory {
            at: self.world.area(queue, 2),
            value: MemoryWord::U32(value),
        };
        self.try_submit(lane, Task::WriteMemory(value), &command);
    }

    fn query(&self, event: usize) {
        if let Some(event) = event.checked_rem(self.events.len()) {
            let recorded = &self.events[event];
            let (queue, position) = recorded.place;
            let book = &self.books[queue];
            let was_done = book.queue.completed().get() >= position;
            let answer = recorded.event.query();
            let is_done = book.queue.completed().get() >= position;
            match answer {
                Ok(false) => assert!(!was_done, "it has ended"),
                Ok(true) => {
                    // Streams are not told of failures that are cleared.
                    let is_well = !book.is_spoilt(position) || !book.cleared.is_empty();
                    assert!(is_done && is_well, "it has not ended well");
                }
                Err(StreamError::Poisoned(_)) => {
                    assert!(is_done && !book.failures().is_empty(), "nothing failed");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn wait_on_host(&self, event: usize) {
        let Some(event) = event.checked_rem(self.events.len()) else {
            return;
        };
        let now = Instant::now();
        // In virtual time the deadline is no matter of the clock: it passes when nothing runs any more.
        let deadline = if self.world.is_virtual {
            now + PATIENCE
        } else {
            now
        };
        match self.events[event].event.wait(Some(deadline)) {
            Ok(_) | Err(StreamError::Poisoned(_)) => self.query(event),
            Err(other) => panic!("{other}"),
        }
        if self.world.is_virtual {
            self.query(event);
        }
    }

    fn abort(&mut self, queue: usize) {
        let book = &mut self.books[queue];
        book.aborted = book.submitted();
        book.queue.abort().unwrap();
    }

    fn clear_failure(&mut self, lane: usize) {
        let book = &mut self.books[self.lanes[lane].queue];
        let submitted = book.submitted();
        let was_drained = book.queue.completed().get() == submitted;
        let cleared = book.queue.clear_failure();
        assert!(cleared.is_ok() || !was_drained, "it has drained");
        let cleared = cleared.ok().flatten();
        book.cleared
            .extend(cleared.map(|failure| (failure, submitted)));
    }

    fn renew(&mut self, lane: usize) {
        self.give(lane);
        let made = self.make(lane);
        self.lanes[lane] = made;
        self.world.streams.prune();
    }

    /// What the counters say must be so.
    fn observe(&self) {
        for (index, book) in self.books.iter().enumerate() {
            let completed = book.queue.completed().get();
            self.world.note(Entry::Seen {
                queue: index,
                completed,
            });
            assert!(completed <= book.submitted());
            for task in &book.tasks[..usize::try_from(completed).unwrap()] {
                if let Task::WaitQueue((queue, position)) = *task {
                    let awaited = self.books[queue].queue.completed().get();
                    assert!(awaited >= position, "a stalled wait counts as ended");
                }
            }
        }
        self.world.streams.check();
    }

    /// In virtual time: runs until nothing runs any more. Then every queue has drained or waits for something outside.
    pub(crate) fn quiet(&self) {
        for book in &self.books {
            let deadline = Some(Instant::now() + PATIENCE);
            let _outcome: WaitOutcome = book.queue.wait(book.queue.submitted(), deadline).unwrap();
        }
        for book in &self.books {
            let mut at = book;
            for _ in 0..=self.books.len() {
                let position = at.queue.completed().get() + 1;
                if position > at.submitted() {
                    break;
                }
                let task = at.tasks[usize::try_from(position).unwrap() - 1];
                let waits = matches!(at.queue.activity(), QueueActivity::Waiting(..));
                assert!(waits, "{position} is {task:?} and does not wait");
                match task {
                    Task::WaitQueue((queue, awaited)) => {
                        at = &self.books[queue];
                        assert!(at.queue.completed().get() < awaited, "a lost wake");
                    }
                    Task::WaitSemaphore(semaphore, value) => {
                        assert!(self.semaphores[semaphore].value() < value, "a lost wake");
                        break;
                    }
                    Task::WaitMemory(queue, value) => {
                        let written = self.books[queue].written();
                        assert!(written < value, "a lost wake");
                        break;
                    }
                    other => panic!("{other:?} waits for nothing"),
                }
            }
        }
    }

    /// Lets everything end: signals what is open, lets go of what is not, aborts what waits for memory.
    pub(crate) fn finish(&mut self) {
        for semaphore in 0..OPEN {
            self.host_signal(semaphore, 1_000_000);
        }
        self.semaphores.truncate(OPEN);
        for queue in 0..self.books.len() {
            let waits = |task: &Task| matches!(task, Task::WaitMemory(..));
            let book = &self.books[queue];
            let is_done = book.queue.completed().get() == book.submitted();
            if !is_done && book.tasks.iter().any(waits) {
                self.abort(queue);
            }
        }
        for book in &self.books {
            // In virtual time a wait without a deadline ends with an error where nothing can end it.
            let deadline = (!self.world.is_virtual).then(|| Instant::now() + PATIENCE);
            let outcome = book.queue.wait(book.queue.submitted(), deadline);
            assert_eq!(outcome, Ok(WaitOutcome::Reached), "lost: {book:?}");
        }
        (0..self.events.len()).for_each(|event| self.query(event));
        self.observe();
    }

    /// Drops everything in an order that the seed decides; returns what counts the host functions left.
    pub(crate) fn drop_all(self) -> Arc<()> {
        let mut random = fastrand::Rng::with_seed(self.program.seed);
        let (mut lanes, mut events) = (self.lanes, self.events);
        random.shuffle(&mut lanes);
        random.shuffle(&mut events);
        if random.bool() {
            drop(events);
            drop(lanes);
        } else {
            drop(lanes);
            drop(events);
        }
        drop((self.books, self.semaphores));
        self.token
    }
}
