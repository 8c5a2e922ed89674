//! What all devices of a driver share: the names of queues, the thread that looks at them, the threads of host functions.

use crate::{backend::NativeDevice, completion::Completion, host_function::Functions};
use piton_driver::QueueId;
use piton_sync::atomic::{AtomicU64, Ordering};

/// What all devices of a driver share. Its threads end when it is dropped.
#[derive(Debug)]
pub struct Driven<D: NativeDevice> {
    pub(crate) completion: Completion<D>,
    pub(crate) functions: Functions<D>,
    queues: AtomicU64,
}

impl<D: NativeDevice> Driven<D> {
    /// Starts the thread that looks at queues.
    ///
    /// # Errors
    /// The system's, where it has no thread left.
    pub fn start() -> std::io::Result<Self> {
        Ok(Self {
            completion: Completion::start()?,
            functions: Functions::new(),
            queues: AtomicU64::new(0),
        })
    }

    /// A name that no queue of this driver had before.
    pub(crate) fn next_queue_id(&self) -> QueueId {
        QueueId(self.queues.fetch_add(1, Ordering::Relaxed))
    }
}
