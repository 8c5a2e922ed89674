//! Semaphores, and words in memory that streams wait for.

use super::Run;
use crate::{
    books::Task,
    program::Form,
    world::{Entry, area_at},
};
use piton_driver::{Command, Comparison, MemoryWait, MemoryWord};
use piton_stream::Submission;

impl Run<'_> {
    pub(super) fn wait_semaphore(&mut self, lane: usize, semaphore: usize, ahead: u64) {
        let value = self.planned[semaphore] + ahead;
        let taken = self
            .stream(lane)
            .wait_semaphore(&self.semaphores[semaphore], value)
            .map(Submission::Accepted);
        self.submitted(lane, Task::WaitSemaphore(semaphore, value), taken);
    }

    pub(super) fn signal(&mut self, lane: usize, semaphore: usize) {
        let value = self.planned[semaphore] + 1;
        let taken = self
            .stream(lane)
            .signal_semaphore(&self.semaphores[semaphore], value)
            .map(Submission::Accepted);
        if self.submitted(lane, Task::SignalSemaphore(semaphore, value), taken) {
            self.planned[semaphore] = value;
        }
    }

    pub(super) fn host_signal(&mut self, semaphore: usize, by: u64) {
        let value = self.planned[semaphore] + by;
        self.planned[semaphore] = value;
        self.world.note(Entry::HostSignal { semaphore, value });
        let signalled = self.semaphores[semaphore].signal(value);
        let _given = self.unless_lost(signalled);
    }

    /// An area of a queue on its own device.
    pub(super) fn area(&self, queue: usize, which: usize) -> u64 {
        area_at(self.books[queue].device, queue, which)
    }

    fn writes(&self, queue: usize) -> u32 {
        let writes = |task: &&Task| matches!(task, Task::WriteMemory { .. });
        u32::try_from(self.books[queue].tasks.iter().filter(writes).count()).unwrap()
    }

    pub(super) fn wait_memory(&mut self, lane: usize, writer: usize, ahead: u32) {
        let queue = self.lanes[writer].queue;
        if self.books[queue].device != self.books[self.lanes[lane].queue].device {
            return;
        }
        let value = self.writes(queue) + ahead;
        let wait = MemoryWait {
            at: self.world.at(self.area(queue, 2)),
            comparison: Comparison::AtLeast,
            value: MemoryWord::U32(value),
        };
        let task = Task::WaitMemory(queue, value);
        self.submit(lane, task, &Command::WaitMemory(wait), Form::Try);
    }

    pub(super) fn write_memory(&mut self, lane: usize) {
        let queue = self.lanes[lane].queue;
        let value = self.writes(queue) + 1;
        let at = self.area(queue, 2);
        let command = Command::WriteMemory {
            at: self.world.at(at),
            value: MemoryWord::U32(value),
        };
        self.submit(lane, Task::WriteMemory { at, value }, &command, Form::Try);
    }
}
