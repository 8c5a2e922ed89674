//! An open device: what it says of itself, and its facets.

use crate::{
    books::Books,
    driver::Shared,
    ffi::{Called, DeviceHandle, NativeQueue, SharedMemory},
    host_memory::Backing,
    memory::Budget,
    placement::{self, Places},
    queue::Core,
    timestamp::Clock,
    trace::Trace,
};
use opencl_sys as cl;
use piton_driver::{
    Device, DeviceId, DeviceInfo, DriverError, ErrorKind, ExecutionTrace, HostFunctions,
    HostMemory, Kernels, Limits, Memory, Operation, Peers, Queues, Semaphores, Timestamps,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::sync::{Arc, Weak};

/// Commands that a queue holds at most, where the configuration says nothing.
const QUEUE_COMMANDS: u32 = 1024;

/// What allocations are aligned to at least: what CUDA's are, and what pools above expect of a device.
const LEAST_ALIGNMENT: u64 = 512;

/// An open device. Its handles, queues, kernels keep it open.
#[derive(Debug)]
pub(crate) struct OpenClDevice {
    pub(crate) this: Weak<Self>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: DeviceHandle,
    /// Its place among the devices of the context.
    pub(crate) index: usize,
    pub(crate) info: DeviceInfo,
    /// The version of its driver.
    pub(crate) version: String,
    /// What allocations start at, and are multiples of.
    pub(crate) alignment: u64,
    /// The largest single allocation.
    pub(crate) max_allocation: u64,
    /// Whether the host may use shared memory without mapping it.
    pub(crate) has_fine_memory: bool,
    pub(crate) budget: Budget,
    pub(crate) memory: Books<SharedMemory>,
    pub(crate) host: Books<Backing>,
    pub(crate) places: Arc<Places>,
    pub(crate) clock: Option<Clock>,
    pub(crate) trace: Trace,
    /// Devices whose memory this one may reach.
    pub(crate) enabled: Mutex<Vec<DeviceId>>,
    queues: Mutex<Vec<Weak<Core>>>,
    error: Mutex<Option<DriverError>>,
    is_lost: AtomicBool,
}

impl OpenClDevice {
    /// Opens the device at this place of the context.
    pub(crate) fn open(shared: &Arc<Shared>, index: usize) -> Called<Arc<Self>> {
        let handle = shared.devices[index];
        let config = &shared.config;
        let all = handle.number(cl::CL_DEVICE_GLOBAL_MEM_SIZE)?;
        let memory_bytes = config.memory_bytes.map_or(all, |bytes| bytes.min(all));
        let bits = handle.number32(cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN)?;
        let svm = handle.number(cl::CL_DEVICE_SVM_CAPABILITIES)?;
        let clock = if config.keep_times {
            let resolution = handle.number(cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION)?;
            let queue = NativeQueue::new(&shared.context, handle, true)?;
            Some(Clock::new(queue, resolution.max(1)))
        } else {
            None
        };
        let id = DeviceId(u32::try_from(index).unwrap_or(u32::MAX));
        let info = info(id, handle, memory_bytes, config.queue_commands)?;
        let version = handle.text(cl::CL_DRIVER_VERSION)?;
        let max_allocation = handle.number(cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE)?;
        Ok(Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            shared: Arc::clone(shared),
            handle,
            index,
            info,
            version,
            // Told in bits.
            alignment: u64::from(bits / 8).next_power_of_two().max(LEAST_ALIGNMENT),
            max_allocation,
            has_fine_memory: svm & cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0,
            budget: Budget::new(memory_bytes),
            memory: Books::default(),
            host: Books::default(),
            places: Places::new(),
            clock,
            trace: Trace::default(),
            enabled: Mutex::default(),
            queues: Mutex::default(),
            error: Mutex::default(),
            is_lost: AtomicBool::new(false),
        }))
    }

    /// The device is not lost.
    pub(crate) fn alive(&self, operation: Operation) -> Result<(), DriverError> {
        if self.is_lost.load(Ordering::Acquire) {
            return Err(self.lost(operation));
        }
        Ok(())
    }

    const fn lost(&self, operation: Operation) -> DriverError {
        DriverError::new(ErrorKind::DeviceLost, operation, self.info.id)
    }

    /// From now on the device is lost.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// A counted handle of this device.
    pub(crate) fn strong(&self, operation: Operation) -> Result<Arc<Self>, DriverError> {
        // Whoever calls holds one, so there is one.
        self.this.upgrade().ok_or_else(|| self.lost(operation))
    }

    pub(crate) fn keep_error(&self, error: DriverError) {
        self.error.lock().get_or_insert(error);
    }

    /// Whether another device is of the same driver.
    pub(crate) fn is_kin(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) const fn keeps_times(&self) -> bool {
        self.clock.is_some()
    }

    /// Whether this device may reach the other's memory.
    pub(crate) fn has_enabled(&self, other: DeviceId) -> bool {
        self.enabled.lock().contains(&other)
    }

    /// Whether kernels of this device reach these bytes.
    pub(crate) fn reaches(&self, address: u64, bytes: u64) -> bool {
        let in_peer = |peer: &DeviceId| {
            let peer = self.shared.opened(*peer);
            peer.is_some_and(|peer| peer.memory.holds(address, bytes))
        };
        self.memory.holds(address, bytes)
            || self.host.holds_of(address, bytes, Backing::is_shared)
            || self.enabled.lock().iter().any(in_peer)
    }

    /// Remembers a queue for as long as it lives.
    pub(crate) fn note_queue(&self, core: &Arc<Core>) {
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(core));
    }

    /// Finds out what has ended on every queue.
    pub(crate) fn look_at_queues(&self) {
        let queues = self.queues.lock().clone();
        for queue in queues.iter().filter_map(Weak::upgrade) {
            queue.look();
        }
    }
}

fn info(
    id: DeviceId,
    handle: DeviceHandle,
    memory_bytes: u64,
    queue_commands: Option<u32>,
) -> Called<DeviceInfo> {
    let argument_bytes = handle.number(cl::CL_DEVICE_MAX_PARAMETER_SIZE)?;
    Ok(DeviceInfo {
        id,
        name: handle.text(cl::CL_DEVICE_NAME)?,
        memory_bytes,
        pci: None,
        numa_node: None,
        limits: Limits {
            queues: u32::MAX,
            hardware_queues: placement::COUNT,
            queue_commands: queue_commands.unwrap_or(QUEUE_COMMANDS).max(1),
            argument_bytes: u32::try_from(argument_bytes).unwrap_or(u32::MAX),
            grid_blocks: u32::MAX.into(),
            copy_bytes: memory_bytes,
        },
    })
}

impl Device for OpenClDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn status(&self) -> Result<(), DriverError> {
        self.alive(Operation::Open)
    }

    fn record_error(&self, error: DriverError) {
        self.keep_error(error);
    }

    fn take_error(&self) -> Option<DriverError> {
        self.error.lock().take()
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn queues(&self) -> &dyn Queues {
        self
    }

    fn kernels(&self) -> &dyn Kernels {
        self
    }

    fn host_memory(&self) -> Option<&dyn HostMemory> {
        Some(self)
    }

    fn host_functions(&self) -> Option<&dyn HostFunctions> {
        Some(self)
    }

    fn semaphores(&self) -> Option<&dyn Semaphores> {
        Some(self)
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        self.keeps_times().then_some(self)
    }

    fn execution_trace(&self) -> Option<&dyn ExecutionTrace> {
        self.keeps_times().then_some(self)
    }
}
