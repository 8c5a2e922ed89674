//! Ends: aborts, failures that are forgotten, streams that go, and what must be so when nothing runs any more.

use super::{Lane, OPEN, Run};
use crate::{
    books::Task,
    world::{Entry, PATIENCE},
};
use piton_driver::{Position, QueueActivity, QueueFailure, WaitOutcome};
use piton_stream::StreamError;
use std::{sync::Arc, time::Instant};

impl Run<'_> {
    pub(super) fn abort(&mut self, queue: usize) {
        let book = &mut self.books[queue];
        book.aborted = book.submitted();
        let aborted = book.queue.abort();
        let is_lost = self.world.is_lost.get();
        assert!(aborted.is_ok() || is_lost, "{aborted:?}");
    }

    pub(super) fn clear_failure(&mut self, lane: usize) {
        let Lane { stream, queue, .. } = &mut self.lanes[lane];
        let (stream, book) = (stream.as_mut().unwrap(), &mut self.books[*queue]);
        let submitted = book.submitted();
        let was_drained = book.queue.completed().get() == submitted;
        match stream.clear_error() {
            Ok(Some(failure)) => {
                let failure = QueueFailure {
                    position: Position::new(failure.timepoint.seq - book.base),
                    error: failure.error,
                    origin: failure.place,
                };
                book.cleared.push((failure, submitted));
                // Behind it something that does nothing, so that the present place is none that failed.
                book.tasks.push(Task::WaitQueue((*queue, 0)));
                self.issued.push((*queue, submitted + 1));
                assert_eq!(stream.now().seq, book.base + book.submitted());
            }
            Ok(None) => assert_eq!(stream.now().seq, book.base + submitted),
            Err(StreamError::NotDrained { .. }) => assert!(!was_drained, "it has drained"),
            Err(error) => assert!(self.is_due_to_loss(&error), "{error}"),
        }
    }

    pub(super) fn lose(&mut self) {
        self.world.lose();
    }

    pub(super) fn renew(&mut self, lane: usize) {
        self.give(lane);
        if let Some(made) = self.make(lane) {
            self.lanes[lane] = made;
        }
        self.world.streams.prune();
    }

    /// What the counters say must be so.
    pub(super) fn observe(&self) {
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
                    Task::WaitSome => break,
                    other => panic!("{other:?} waits for nothing"),
                }
            }
        }
        self.promises
            .iter()
            .for_each(|promise| promise.is_told(&self.books));
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
        self.promises_are_kept();
        self.observe();
    }

    /// Drops everything in an order that the seed decides; returns what counts the host functions left.
    pub(crate) fn drop_all(self) -> Arc<()> {
        let mut random = fastrand::Rng::with_seed(self.program.seed);
        let (mut lanes, mut events, promises) = (self.lanes, self.events, self.promises);
        random.shuffle(&mut lanes);
        random.shuffle(&mut events);
        if random.bool() {
            drop(events);
            drop(lanes);
        } else {
            drop(lanes);
            drop(events);
        }
        drop((self.books, promises, self.semaphores));
        self.token
    }
}
