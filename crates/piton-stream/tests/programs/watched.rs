//! The simulated device, with its queues handed to the test as well: what streams do not say, their queues do.

#![expect(unsafe_code, reason = "being a device is an unsafe promise")]

use piton_driver::{
    Device, DeviceInfo, DriverError, ExecutionTrace, HostFunctions, HostMemory, Kernels, Memory,
    Peers, PriorityRange, Queue, QueueOptions, Queues, Semaphores, Timestamps,
};
use piton_sync::Mutex;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct WatchedDevice {
    inner: Arc<dyn Device>,
    made: Mutex<Vec<Arc<dyn Queue>>>,
}

impl WatchedDevice {
    pub(crate) fn new(inner: Arc<dyn Device>) -> Self {
        Self {
            inner,
            made: Mutex::new(Vec::new()),
        }
    }

    /// The queue made last.
    pub(crate) fn last_queue(&self) -> Arc<dyn Queue> {
        self.made.lock().pop().unwrap()
    }
}

impl Queues for WatchedDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        let queue = self.inner.queues().create(options)?;
        self.made.lock().push(Arc::clone(&queue));
        Ok(queue)
    }
}

// SAFETY: every facet is the inner device's.
unsafe impl Device for WatchedDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn status(&self) -> Result<(), DriverError> {
        self.inner.status()
    }

    fn record_error(&self, error: DriverError) {
        self.inner.record_error(error);
    }

    fn take_error(&self) -> Option<DriverError> {
        self.inner.take_error()
    }

    fn memory(&self) -> &dyn Memory {
        self.inner.memory()
    }

    fn queues(&self) -> &dyn Queues {
        self
    }

    fn kernels(&self) -> &dyn Kernels {
        self.inner.kernels()
    }

    fn host_memory(&self) -> Option<&dyn HostMemory> {
        self.inner.host_memory()
    }

    fn host_functions(&self) -> Option<&dyn HostFunctions> {
        self.inner.host_functions()
    }

    fn peers(&self) -> Option<&dyn Peers> {
        self.inner.peers()
    }

    fn semaphores(&self) -> Option<&dyn Semaphores> {
        self.inner.semaphores()
    }

    fn memory_operations(&self) -> bool {
        self.inner.memory_operations()
    }

    fn priorities(&self) -> Option<PriorityRange> {
        self.inner.priorities()
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        self.inner.timestamps()
    }

    fn execution_trace(&self) -> Option<&dyn ExecutionTrace> {
        self.inner.execution_trace()
    }
}
