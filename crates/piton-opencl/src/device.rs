//! An open device: what it says of itself, and its facets.

#![expect(
    unsafe_code,
    reason = "vouches for its events to the queues built on them"
)]

use crate::{
    driver::Shared,
    ffi::{Called, DeviceHandle, Event, NativeQueue},
    host_memory::Backing,
    memory::{Budget, DeviceMemory},
    priority,
    status::Status,
    timestamp::Clock,
};
use opencl_sys as cl;
use piton_driver::{
    Admission, Device, DeviceId, DeviceInfo, DriverError, ExecutionRecord, ExecutionTrace,
    ExportedSemaphore, HostFunction, HostFunctions, HostMemory, Kernels, Limits, Memory, Operation,
    Origin, Peers, Priority, PriorityRange, Queue, QueueOptions, Queues, Semaphore,
    SemaphoreSharing, Semaphores, SignalledBy, Timestamps,
};
use piton_native::{
    Books, Driven, HARDWARE_QUEUES, NativeDevice, Standing, kernels::LoadedKernel,
    semaphore_sharing, slots::SlotPool,
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
    /// What addresses of kernels' buffers must be multiples of: parts of buffers begin at those.
    buffer_alignment: u64,
    /// The largest single allocation.
    pub(crate) max_allocation: u64,
    /// Whether the host may use shared memory without mapping it.
    pub(crate) has_fine_memory: bool,
    /// Whether its queues may be told how urgent they are.
    has_priorities: bool,
    pub(crate) budget: Budget,
    pub(crate) memory: Books<DeviceMemory>,
    pub(crate) host: Books<Backing>,
    pub(crate) clock: Option<Clock>,
    pub(crate) standing: Standing<Self>,
}

impl OpenClDevice {
    /// Opens the device at this place of the context.
    pub(crate) fn open(shared: &Arc<Shared>, index: usize) -> Called<Arc<Self>> {
        let handle = shared.devices[index];
        let config = &shared.config;
        let all = handle.number(cl::CL_DEVICE_GLOBAL_MEM_SIZE)?;
        let memory_bytes = config.memory_bytes.map_or(all, |bytes| bytes.min(all));
        // Told in bits.
        let bits = handle.number32(cl::CL_DEVICE_MEM_BASE_ADDR_ALIGN)?;
        let base_alignment = u64::from(bits / 8).next_power_of_two();
        let clock = if config.keep_times {
            let resolution = handle.number(cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION)?;
            let queue = NativeQueue::new(&shared.context, handle, true, Priority::DEFAULT)?;
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
            alignment: base_alignment.max(LEAST_ALIGNMENT),
            buffer_alignment: if shared.has_shared_memory {
                1
            } else {
                base_alignment
            },
            max_allocation,
            has_fine_memory: shared.has_shared_memory
                && handle.shared_memory() & cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0,
            has_priorities: handle.has_extension(priority::EXTENSION),
            budget: Budget::new(memory_bytes),
            memory: Books::default(),
            host: Books::default(),
            clock,
            standing: Standing::new(id),
        }))
    }

    /// The device is not lost.
    pub(crate) fn alive(&self, operation: Operation) -> Result<(), DriverError> {
        self.standing.alive(operation)
    }

    pub(crate) const fn keeps_times(&self) -> bool {
        self.clock.is_some()
    }
}

// SAFETY: an event of OpenCL's is complete, or has a negative status, when its command is over, and its queues are in order.
unsafe impl NativeDevice for OpenClDevice {
    const NAME: &'static str = "opencl";

    type Status = Status;
    type Event = Event;
    type Queue = NativeQueue;
    type Kernel = LoadedKernel<Self>;
    type Slots = SlotPool<Self, Event>;

    fn driven(&self) -> &Arc<Driven<Self>> {
        &self.shared.driven
    }

    fn standing(&self) -> &Standing<Self> {
        &self.standing
    }

    fn counted(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    fn make_queue(&self, priority: Priority) -> Called<NativeQueue> {
        let context = &self.shared.context;
        let queue = NativeQueue::new(context, self.handle, self.keeps_times(), priority)?;
        Ok(if self.shared.has_shared_memory {
            queue
        } else {
            queue.on_buffers(&self.shared)
        })
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        self.memory.holds(address, bytes)
    }

    fn holds_host(&self, address: u64, bytes: u64) -> bool {
        self.host.holds(address, bytes)
    }

    fn reaches(&self, address: u64, bytes: u64) -> bool {
        let in_peer = |peer: DeviceId| {
            let peer = self.shared.opened(peer);
            peer.is_some_and(|peer| peer.memory.holds(address, bytes))
        };
        self.memory.holds(address, bytes)
            || self.host.holds_of(address, bytes, Backing::is_shared)
            || self.standing.enabled().into_iter().any(in_peer)
    }

    fn buffer_alignment(&self) -> u64 {
        self.buffer_alignment
    }

    fn opened(&self, device: DeviceId) -> Option<Arc<Self>> {
        self.shared.opened(device)
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
            hardware_queues: HARDWARE_QUEUES,
            queue_commands: queue_commands.unwrap_or(QUEUE_COMMANDS).max(1),
            argument_bytes: u32::try_from(argument_bytes).unwrap_or(u32::MAX),
            grid_blocks: u32::MAX.into(),
            copy_bytes: memory_bytes,
        },
    })
}

// SAFETY: every facet is of the device of one handle, whose addresses one book keeps.
unsafe impl Device for OpenClDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn status(&self) -> Result<(), DriverError> {
        self.alive(Operation::QueryStatus)
    }

    fn record_error(&self, error: DriverError) {
        self.standing.keep_error(error);
    }

    fn take_error(&self) -> Option<DriverError> {
        self.standing.take_error()
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

    fn semaphore_sharing(&self) -> Option<&dyn SemaphoreSharing> {
        semaphore_sharing::ARE_THERE.then_some(self)
    }

    fn peers(&self) -> Option<&dyn Peers> {
        Some(self)
    }

    fn priorities(&self) -> Option<PriorityRange> {
        self.has_priorities.then_some(priority::RANGE)
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        self.keeps_times().then_some(self)
    }

    fn execution_trace(&self) -> Option<&dyn ExecutionTrace> {
        self.keeps_times().then_some(self)
    }
}

impl Queues for OpenClDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        piton_native::create_queue(self, options)
    }
}

impl HostFunctions for OpenClDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        piton_native::call_host(self, queue, function, origin)
    }
}

impl Semaphores for OpenClDevice {
    fn create(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Arc<dyn Semaphore>, DriverError> {
        piton_native::create_semaphore(self, initial, signalled_by)
    }
}

impl SemaphoreSharing for OpenClDevice {
    fn create(&self, initial: u64) -> Result<Arc<dyn Semaphore>, DriverError> {
        semaphore_sharing::create(self, initial)
    }

    fn export(&self, semaphore: &dyn Semaphore) -> Result<ExportedSemaphore, DriverError> {
        semaphore_sharing::export(self, semaphore)
    }

    fn import(&self, exported: &ExportedSemaphore) -> Result<Arc<dyn Semaphore>, DriverError> {
        semaphore_sharing::import(self, exported)
    }
}

impl ExecutionTrace for OpenClDevice {
    fn start(&self, capacity: usize) {
        self.standing.start_trace(capacity);
    }

    fn finish(&self) -> (Vec<ExecutionRecord>, u64) {
        self.standing.finish_trace()
    }
}
