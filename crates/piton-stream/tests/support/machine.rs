//! The engine of the fake device: books of queues, and one step of one of them.

use piton_driver::{
    DeviceId, DriverError, ErrorKind, Fault, HostFunction, OnFailure, Operation, Origin, Position,
    QueueFailure, QueueId,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

/// A command of a fake queue.
pub(crate) enum Work {
    /// Takes its turn.
    Touch(Operation),
    /// Fails in its turn.
    Trap(Operation),
    /// Whose, how far, and whether a failure there is its own too.
    WaitQueue(usize, u64, bool),
    Host(HostFunction),
    /// Writes the clock into a slot.
    Stamp(Arc<Mutex<Vec<Option<u64>>>>, usize),
    WaitValue(Arc<Mutex<u64>>, u64),
    Signal(Arc<Mutex<u64>>, u64),
}

impl Work {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Touch(operation) | Self::Trap(operation) => *operation,
            Self::WaitQueue(..) => Operation::WaitQueue,
            Self::Host(_) => Operation::CallHost,
            Self::Stamp(..) => Operation::WriteTimestamp,
            Self::WaitValue(..) => Operation::WaitSemaphore,
            Self::Signal(..) => Operation::SignalSemaphore,
        }
    }
}

/// A command that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) queue: usize,
    pub(crate) position: u64,
    /// Whether it did its work: neither failed nor skipped.
    pub(crate) did: bool,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ended,
    Blocked,
    Idle,
}

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) device: u32,
    pub(crate) commands: VecDeque<Work>,
    /// What each command is, and where it was submitted.
    pub(crate) origins: VecDeque<(Operation, Origin)>,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) failure: Option<QueueFailure>,
    /// Failures that were cleared: where they stood, and the last position each spoils.
    pub(crate) cleared: Vec<(u64, u64)>,
    pub(crate) on_failure: OnFailure,
    /// Commands up to here that have not started end as aborted.
    pub(crate) aborted: u64,
    pub(crate) watchers: Vec<(u64, Waker)>,
    /// A host function of it runs.
    pub(crate) is_busy: bool,
}

impl Book {
    /// Whether what comes next is skipped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.failure.is_some() && self.on_failure == OnFailure::Stop
    }

    fn is_spoilt(&self, position: u64) -> bool {
        let failed = self.failure.map(|failure| failure.position.get());
        let mut cleared = self.cleared.iter();
        failed.is_some_and(|failed| failed <= position)
            || cleared.any(|(from, last)| (*from..=*last).contains(&position))
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) books: Vec<Book>,
    trace: Vec<Ran>,
    clock: u64,
}

/// All fake devices of a test.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) inner: Mutex<Inner>,
    /// Held by a test while calls that ask a queue how far it is, or give it something, are to stay inside.
    gate: Mutex<()>,
    /// How many calls have come to the gate.
    came: AtomicU64,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What ended so far, in order.
    pub(crate) fn trace(&self) -> Vec<Ran> {
        self.inner.lock().trace.clone()
    }

    /// A call has come to the gate.
    pub(crate) fn pass(&self) {
        self.came.fetch_add(1, Ordering::AcqRel);
        drop(self.gate.lock());
    }

    /// Runs `then` while another thread is inside a call that has come as far as asking a queue, and stays there.
    pub(crate) fn while_inside(&self, call: impl FnOnce() + Send, then: impl FnOnce()) {
        std::thread::scope(|scope| {
            let held = self.gate.lock();
            let before = self.came.load(Ordering::Acquire);
            scope.spawn(call);
            while self.came.load(Ordering::Acquire) == before {
                std::thread::yield_now();
            }
            then();
            drop(held);
        });
    }

    pub(crate) fn queue_count(&self) -> usize {
        self.inner.lock().books.len()
    }

    /// Ends the next command of a queue if it may start.
    pub(crate) fn step(&self, queue: usize) -> Step {
        let mut inner = self.inner.lock();
        let verdict = match inner.judge(queue) {
            Ok(verdict) => verdict,
            Err(step) => return step,
        };
        let work = inner.books[queue].commands.pop_front().unwrap();
        let is_skipped = inner.books[queue].is_stopped();
        let verdict = match (verdict, work) {
            (None, work) if is_skipped => {
                drop(inner);
                drop(work);
                inner = self.inner.lock();
                None
            }
            (None, Work::Host(function)) => {
                inner.books[queue].is_busy = true;
                drop(inner);
                let result = catch_unwind(AssertUnwindSafe(function));
                inner = self.inner.lock();
                inner.books[queue].is_busy = false;
                result.err().map(|_| ErrorKind::HostFunctionPanicked)
            }
            (None, work) => inner.perform(work),
            (verdict, _) => verdict,
        };
        let wakers = inner.end(queue, verdict);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        Step::Ended
    }

    /// Steps the first queue that can; false if none can.
    pub(crate) fn step_any(&self) -> bool {
        (0..self.queue_count()).any(|queue| self.step(queue) == Step::Ended)
    }

    /// Runs everything that can run.
    pub(crate) fn run(&self) {
        while self.step_any() {}
    }
}

impl Inner {
    /// Whether the front may start, and with which error it ends if it only passes one on.
    fn judge(&self, queue: usize) -> Result<Option<ErrorKind>, Step> {
        let book = &self.books[queue];
        let front = match book.commands.front() {
            _ if book.is_busy => return Err(Step::Blocked),
            None => return Err(Step::Idle),
            Some(front) => front,
        };
        let is_aborted = book.completed < book.aborted;
        if book.is_stopped() || is_aborted {
            // A skipped wait still keeps its place in the order: see the contract.
            return match front {
                Work::WaitQueue(other, position, _) if self.books[*other].completed < *position => {
                    Err(Step::Blocked)
                }
                _ => Ok(is_aborted.then_some(ErrorKind::Aborted)),
            };
        }
        match front {
            Work::WaitQueue(other, position, inherits) => {
                let other_book = &self.books[*other];
                if other_book.completed < *position {
                    Err(Step::Blocked)
                } else if *inherits && other_book.is_spoilt(*position) {
                    Ok(Some(ErrorKind::DependencyFailed {
                        queue: QueueId(*other as u64),
                        position: Position::new(*position),
                    }))
                } else {
                    Ok(None)
                }
            }
            Work::WaitValue(cell, value) if *cell.lock() < *value => Err(Step::Blocked),
            _ => Ok(None),
        }
    }

    fn perform(&mut self, work: Work) -> Option<ErrorKind> {
        self.clock += 10;
        match work {
            Work::Trap(_) => return Some(ErrorKind::KernelFault(Fault::Trapped { code: 7 })),
            Work::Stamp(pool, slot) => pool.lock()[slot] = Some(self.clock),
            Work::Signal(cell, value) => {
                let mut cell = cell.lock();
                *cell = (*cell).max(value);
            }
            _ => {}
        }
        None
    }

    fn end(&mut self, queue: usize, error: Option<ErrorKind>) -> Vec<Waker> {
        let book = &mut self.books[queue];
        let position = book.completed + 1;
        let (operation, origin) = book.origins.pop_front().unzip();
        let operation = operation.unwrap_or(Operation::Fill);
        let did = error.is_none() && !book.is_stopped();
        if let (Some(kind), None) = (error, book.failure) {
            book.failure = Some(QueueFailure {
                position: Position::new(position),
                error: DriverError::new(kind, operation, DeviceId(book.device)),
                origin,
            });
        }
        book.completed = position;
        let (due, later) = book
            .watchers
            .drain(..)
            .partition(|(awaited, _)| *awaited <= position);
        book.watchers = later;
        self.trace.push(Ran {
            queue,
            position,
            did,
        });
        let due: Vec<(u64, Waker)> = due;
        due.into_iter().map(|(_, waker)| waker).collect()
    }
}
