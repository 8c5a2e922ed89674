//! Submitting a command in each form there is, and what must be so afterwards.

#![expect(unsafe_code, reason = "submits commands")]

use super::Run;
use crate::{books::Task, program::Form, wakers::CountingWaker, world::PATIENCE};
use piton_driver::{Command, Position, WaitOutcome};
use piton_stream::{StreamError, Submission, WhenFull};
use piton_timeline::Timepoint;
use std::{task::Poll, time::Instant};

/// What a submission was answered, and the stream's place right after it.
pub(super) struct Answer {
    pub(super) taken: Result<Submission, StreamError>,
    pub(super) now: Timepoint,
}

impl Run<'_> {
    /// Submits a command; says whether it was taken.
    pub(super) fn submit(
        &mut self,
        lane: usize,
        task: Task,
        command: &Command<'_>,
        form: Form,
    ) -> bool {
        let stream = self.lanes[lane].stream.as_mut().unwrap();
        let taken = match form {
            // SAFETY: the program orders the uses of each byte, and memory lives until everything has ended.
            Form::Try => unsafe { stream.try_submit(command) },
            // SAFETY: as above.
            Form::Blocking => unsafe { stream.submit(command) }.map(Submission::Accepted),
            // SAFETY: as above.
            Form::Writer => unsafe { stream.writer().try_submit(command) },
            Form::Future { is_dropped } => self.submit_as_future(lane, command, is_dropped),
        };
        let may_park = self.stream(lane).when_full() == WhenFull::Park;
        let must_be_taken = form == Form::Blocking && may_park && !self.world.is_lost.get();
        let is_taken = self.submitted(lane, task, taken);
        assert!(is_taken || !must_be_taken, "it parks and is never refused");
        is_taken
    }

    /// A future that finds no room is dropped, or is polled again when it was woken.
    fn submit_as_future(
        &self,
        lane: usize,
        command: &Command<'_>,
        is_dropped: bool,
    ) -> Result<Submission, StreamError> {
        let (stream, queue) = (self.stream(lane), self.lanes[lane].queue);
        let queue = &self.books[queue].queue;
        let waker = CountingWaker::new();
        // SAFETY: as for the other forms.
        let mut future = unsafe { stream.submit_async(*command) };
        loop {
            let (told, completed) = (waker.wakes(), queue.completed().get());
            match waker.poll(&mut future) {
                Poll::Ready(taken) => return taken.map(Submission::Accepted),
                Poll::Pending if is_dropped => return Ok(Submission::Full),
                Poll::Pending => {}
            }
            let deadline = self.deadline();
            let outcome = queue.wait(Position::new(completed + 1), Some(deadline));
            if outcome != Ok(WaitOutcome::Reached) {
                return Ok(Submission::Full);
            }
            let is_told = waker.wakes() > told;
            assert!(is_told || !self.world.is_virtual, "nobody told of room");
        }
    }

    /// In virtual time the deadline is no matter of the clock: it passes when nothing runs any more.
    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        if self.world.is_virtual {
            now + PATIENCE
        } else {
            now
        }
    }

    /// A submission has just been answered; says whether it was taken.
    pub(super) fn submitted(
        &mut self,
        lane: usize,
        task: Task,
        taken: Result<Submission, StreamError>,
    ) -> bool {
        let now = self.stream(lane).now();
        self.answered(lane, task, Answer { taken, now })
    }

    /// A submission has been answered. One that was refused has changed nothing.
    pub(super) fn answered(&mut self, lane: usize, task: Task, answer: Answer) -> bool {
        let queue = self.lanes[lane].queue;
        let book = &self.books[queue];
        let before = book.submitted();
        match answer.taken {
            Ok(Submission::Accepted(point)) => {
                assert_eq!(self.place(point), (queue, before + 1), "positions in order");
                assert_eq!(answer.now, point);
                self.books[queue].tasks.push(task);
                self.issued.push((queue, before + 1));
                true
            }
            Ok(Submission::Full) | Err(StreamError::Full { .. }) => {
                assert_eq!(answer.now.seq, book.base + before, "nothing has changed");
                // Arguments need room too, and there is all of it where nothing is under way.
                let is_launch = matches!(task, Task::Kernel { .. });
                let least = if is_launch { 1 } else { book.commands };
                let is_full = book.queue.completed().get() + least <= before;
                assert!(is_full || !self.world.is_virtual, "there is room");
                false
            }
            Err(other) => {
                assert_eq!(answer.now.seq, book.base + before, "nothing has changed");
                assert!(self.is_due_to_loss(&other), "{other}");
                false
            }
        }
    }
}
