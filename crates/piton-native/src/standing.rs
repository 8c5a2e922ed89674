//! How a device stands: whether it is lost, what went wrong where nobody could be told, its queues, the devices it may
//! reach.

use crate::{
    backend::{NativeDevice, VendorStatus},
    placement::Places,
    queue::Core,
    trace::Trace,
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::sync::{Arc, Weak};

/// How a device stands. A field of each backend's device.
#[derive(Debug)]
pub struct Standing<D: NativeDevice> {
    id: DeviceId,
    pub(crate) places: Arc<Places<D::Queue>>,
    pub(crate) trace: Trace,
    queues: Mutex<Vec<Weak<Core<D>>>>,
    enabled: Mutex<Vec<DeviceId>>,
    error: Mutex<Option<DriverError>>,
    is_lost: AtomicBool,
}

impl<D: NativeDevice> Standing<D> {
    /// Of a device that has just been opened.
    pub fn new(id: DeviceId) -> Self {
        Self {
            id,
            places: Places::new(),
            trace: Trace::default(),
            queues: Mutex::default(),
            enabled: Mutex::default(),
            error: Mutex::default(),
            is_lost: AtomicBool::new(false),
        }
    }

    /// The device is not lost.
    ///
    /// # Errors
    /// [`DeviceLost`](ErrorKind::DeviceLost).
    pub fn alive(&self, operation: Operation) -> Result<(), DriverError> {
        if self.is_lost() {
            return Err(self.lost(operation));
        }
        Ok(())
    }

    /// Whether the device is lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The error for a call on a device that is lost.
    pub const fn lost(&self, operation: Operation) -> DriverError {
        DriverError::new(ErrorKind::DeviceLost, operation, self.id)
    }

    /// From now on the device is lost.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// The error that a code stands for. A device that is lost stays so.
    pub fn called(&self, status: D::Status, operation: Operation) -> DriverError {
        let error = status.error(operation, self.id);
        if error.is_device_lost() {
            self.lose();
        }
        error
    }

    /// Keeps an error that nobody could be told; the first stays until taken.
    pub fn keep_error(&self, error: DriverError) {
        self.error.lock().get_or_insert(error);
    }

    /// The error kept.
    pub fn take_error(&self) -> Option<DriverError> {
        self.error.lock().take()
    }

    /// The device may reach the other's memory from now on.
    pub fn enable(&self, peer: DeviceId) {
        let mut enabled = self.enabled.lock();
        if !enabled.contains(&peer) {
            enabled.push(peer);
        }
    }

    /// Whether the device may reach the other's memory.
    pub fn has_enabled(&self, peer: DeviceId) -> bool {
        self.enabled.lock().contains(&peer)
    }

    /// The devices whose memory this one may reach.
    pub fn enabled(&self) -> Vec<DeviceId> {
        self.enabled.lock().clone()
    }

    /// Starts keeping records of what runs, at most `capacity`.
    pub fn start_trace(&self, capacity: usize) {
        self.look_at_queues();
        self.trace.start(capacity);
    }

    /// Stops, and hands out what was kept, with the number that found no room.
    pub fn finish_trace(&self) -> (Vec<piton_driver::ExecutionRecord>, u64) {
        self.look_at_queues();
        self.trace.finish()
    }

    /// Remembers a queue for as long as it lives.
    pub(crate) fn note_queue(&self, core: &Arc<Core<D>>) {
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(core));
    }

    /// Finds out what has ended on every queue.
    fn look_at_queues(&self) {
        let queues = self.queues.lock().clone();
        for queue in queues.iter().filter_map(Weak::upgrade) {
            queue.look();
        }
    }
}
