//! A freshly opened device with what most cases need.

use crate::{
    drive::{DeviceBuffer, HostBuffer, fetch},
    outcome::{Checked, Failure, accepted, ensure_eq},
    subject::Subject,
};
use piton_driver::{
    Device, DeviceId, Driver, Kernel, Module, Position, Queue, QueueOptions, WaitOutcome,
};
use std::sync::Arc;

pub(crate) struct Stage {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) device: Arc<dyn Device>,
    module: Arc<dyn Module>,
}

impl Stage {
    pub(crate) fn open(subject: &Subject) -> Result<Self, Failure> {
        let driver = subject.open()?;
        let device = driver.open(DeviceId(0))?;
        let module = subject.load(&*device)?;
        Ok(Self {
            driver,
            device,
            module,
        })
    }

    pub(crate) fn queue(&self) -> Result<Arc<dyn Queue>, Failure> {
        Ok(self.device.queues().create(&QueueOptions::default())?)
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, Failure> {
        Ok(self.module.kernel(name)?)
    }

    pub(crate) fn buffer(&self, bytes: u64) -> Result<DeviceBuffer, Failure> {
        DeviceBuffer::new(&self.device, bytes)
    }

    pub(crate) fn host(&self, words: &[u32]) -> Result<HostBuffer, Failure> {
        HostBuffer::new(&self.device, words)
    }

    /// The first `count` words of a buffer that no command writes any more.
    pub(crate) fn words(&self, buffer: &DeviceBuffer, count: usize) -> Result<Vec<u32>, Failure> {
        self.words_at(buffer, 0, count)
    }

    pub(crate) fn words_at(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        count: usize,
    ) -> Result<Vec<u32>, Failure> {
        let (queue, host) = (self.queue()?, self.host(&vec![0; count])?);
        accepted(fetch(&queue, buffer, offset, &host, count as u64 * 4))?;
        finish(&queue)?;
        host.words()
    }
}

/// Waits for all of a queue, which must not have failed.
#[track_caller]
pub(crate) fn finish(queue: &Arc<dyn Queue>) -> Checked {
    end(queue, queue.submitted())?;
    let failure = queue.failure().map(|failure| failure.error.to_string());
    ensure_eq(failure, None, "the queue did not fail")
}

/// Waits for a position, failed or not.
#[track_caller]
pub(crate) fn end(queue: &Arc<dyn Queue>, position: Position) -> Checked {
    let outcome = queue.wait(position, None)?;
    ensure_eq(
        outcome,
        WaitOutcome::Reached,
        "a wait without deadline reaches",
    )?;
    let has_ended = queue.completed() >= position;
    crate::outcome::ensure(has_ended, "completed has reached what was waited for")
}
