//! An open device: what it says of itself, and its facets.

#![expect(
    unsafe_code,
    reason = "vouches for its streams to the queues built on them"
)]

use crate::{
    driver::Shared,
    ffi::{self, Called, Context, DeviceHandle, Ticket, declarations::Attribute},
    queue::CudaStream,
    status::Status,
    timestamp::{Clock, Written},
};
#[cfg(unix)]
use piton_driver::PageSharing;
use piton_driver::{
    Admission, Device, DeviceId, DeviceInfo, DriverError, ExportedSemaphore, HostFunction,
    HostFunctions, HostMemory, Kernels, Limits, Memory, Operation, Origin, PageGranularity, Peers,
    Priority, PriorityRange, Queue, QueueOptions, Queues, Semaphore, SemaphoreSharing, Semaphores,
    SignalledBy, Timestamps, VirtualMemory,
};
use piton_native::{
    Books, Driven, HARDWARE_QUEUES, Mappings, NativeDevice, Standing, host_memory::HostRun,
    kernels::LoadedKernel, semaphore_sharing, slots::SlotPool,
};
use piton_sync::Mutex;
use std::sync::{Arc, Weak};

/// Commands that a queue holds at most, where the configuration says nothing. A launch that finds CUDA's own queue full
/// blocks, at a depth that nobody documents; a command may be two entries there, and queues share streams.
const QUEUE_COMMANDS: u32 = 256;

/// Bytes of arguments that every launch may have; newer devices take more.
const ARGUMENT_BYTES: u32 = 4096;

/// An open device. Its handles, queues and kernels keep it open.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(crate) this: Weak<Self>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: DeviceHandle,
    pub(crate) context: Arc<Context>,
    pub(crate) info: DeviceInfo,
    /// Whether streams write and wait for counters in memory.
    has_counters: bool,
    priorities: Option<PriorityRange>,
    /// What code can be made for, a number like 90.
    pub(crate) architecture: i32,
    /// Of virtual memory, where the device has it.
    pub(crate) pages: Option<PageGranularity>,
    /// Live allocations, each with where CUDA's starts.
    pub(crate) memory: Books<u64>,
    pub(crate) mappings: Mappings<u64>,
    pub(crate) host: Books<HostRun>,
    pub(crate) clock: Clock,
    /// Contexts of devices that this one may reach: they stay for as long.
    pub(crate) reached: Mutex<Vec<Arc<Context>>>,
    pub(crate) standing: Standing<Self>,
}

impl CudaDevice {
    /// Opens the device: takes its primary context.
    pub(crate) fn open(shared: &Arc<Shared>, id: DeviceId) -> Called<Arc<Self>> {
        let handle = shared.handle(id).ok_or(Status::INVALID_DEVICE)?;
        // Addresses that mean one thing in the whole process: all 64-bit systems have them.
        if !handle.has(Attribute::UnifiedAddressing) {
            return Err(Status::NOT_SUPPORTED);
        }
        let context = Context::retain(handle)?;
        let info = info(id, handle, shared.config.queue_commands)?;
        let has_counters =
            context.api.counters.is_some() && handle.has(Attribute::MemoryOperations64);
        let clock_stream = ffi::stream(&context, Priority::DEFAULT.0, false)?;
        let clock = Clock::start(clock_stream)?;
        let architecture = architecture(handle)?;
        let has_pages =
            context.api.virtual_memory.is_some() && handle.has(Attribute::VirtualMemory);
        let pages = if has_pages {
            let (minimum, recommended) = context.granularity()?;
            Some(PageGranularity {
                minimum,
                recommended,
            })
        } else {
            None
        };
        Ok(Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            shared: Arc::clone(shared),
            handle,
            info,
            has_counters,
            priorities: priorities(handle, &context),
            architecture,
            pages,
            memory: Books::default(),
            mappings: Mappings::default(),
            host: Books::default(),
            clock,
            reached: Mutex::default(),
            standing: Standing::new(id),
            context,
        }))
    }
}

/// The priorities of its streams, if there is more than one.
fn priorities(handle: DeviceHandle, context: &Context) -> Option<PriorityRange> {
    if !handle.has(Attribute::StreamPriorities) {
        return None;
    }
    let (highest, lowest) = context.priorities()?;
    (highest < lowest).then_some(PriorityRange {
        highest: Priority(highest),
        lowest: Priority(lowest),
    })
}

/// Its compute capability, as one number.
fn architecture(handle: DeviceHandle) -> Called<i32> {
    let major = handle.attribute(Attribute::CapabilityMajor)?;
    let minor = handle.attribute(Attribute::CapabilityMinor)?;
    Ok(major.saturating_mul(10).saturating_add(minor))
}

fn info(id: DeviceId, handle: DeviceHandle, queue_commands: Option<u32>) -> Called<DeviceInfo> {
    let memory_bytes = handle.memory_bytes()?;
    let blocks = handle.attribute(Attribute::MaxGridX)?;
    let numa_node = handle.attribute(Attribute::HostNumaNode).ok();
    Ok(DeviceInfo {
        id,
        name: handle.name()?,
        memory_bytes,
        pci: handle.pci(),
        // Less than zero where the system has no nodes.
        numa_node: numa_node.and_then(|node| u32::try_from(node).ok()),
        limits: Limits {
            queues: u32::MAX,
            hardware_queues: HARDWARE_QUEUES,
            queue_commands: queue_commands.unwrap_or(QUEUE_COMMANDS).max(1),
            argument_bytes: ARGUMENT_BYTES,
            // Along x; along y and z there may be fewer, and CUDA refuses more.
            grid_blocks: u64::try_from(blocks).unwrap_or(0),
            copy_bytes: memory_bytes,
        },
    })
}

// SAFETY: streams run their commands in order. A ticket is over when the stream has written its ordinal or a later one, or
// an event behind it has passed, or the context has failed, after which nothing of it runs (`ffi::stream`).
unsafe impl NativeDevice for CudaDevice {
    const NAME: &'static str = "cuda";

    type Status = Status;
    type Event = Ticket;
    type Queue = CudaStream;
    type Kernel = LoadedKernel<Self>;
    type Slots = SlotPool<Self, Written>;

    fn driven(&self) -> &Arc<Driven<Self>> {
        &self.shared.driven
    }

    fn standing(&self) -> &Standing<Self> {
        &self.standing
    }

    fn counted(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    fn make_queue(&self, priority: Priority) -> Called<CudaStream> {
        let stream = ffi::stream(&self.context, priority.0, self.has_counters)?;
        Ok(CudaStream::new(stream, Arc::clone(&self.shared)))
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        self.memory.holds(address, bytes) || self.mappings.holds(address, bytes)
    }

    fn holds_host(&self, address: u64, bytes: u64) -> bool {
        self.host.holds(address, bytes)
    }

    fn reaches(&self, address: u64, bytes: u64) -> bool {
        let in_peer = |peer: DeviceId| {
            let peer = self.shared.opened(peer);
            peer.is_some_and(|peer| NativeDevice::holds(&*peer, address, bytes))
        };
        NativeDevice::holds(self, address, bytes)
            || self.host.holds_of(address, bytes, HostRun::has_own_address)
            || self.standing.enabled().into_iter().any(in_peer)
    }

    fn opened(&self, device: DeviceId) -> Option<Arc<Self>> {
        self.shared.opened(device)
    }
}

// SAFETY: every facet is of the device of one context.
unsafe impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn status(&self) -> Result<(), DriverError> {
        if let Some(status) = self.context.fate.failure() {
            return Err(self.standing.called(status, Operation::QueryStatus));
        }
        self.standing.alive(Operation::QueryStatus)
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

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.pages.is_some().then_some(self)
    }

    /// Where the driver has descriptors of pages.
    #[cfg(unix)]
    fn page_sharing(&self) -> Option<&dyn PageSharing> {
        let can_share = self.context.api.page_sharing.is_some()
            && self.handle.has(Attribute::DescriptorHandles);
        (self.pages.is_some() && can_share).then_some(self)
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
        self.context.api.peers.is_some().then_some(self)
    }

    fn priorities(&self) -> Option<PriorityRange> {
        self.priorities
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        Some(self)
    }
}

impl Queues for CudaDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        piton_native::create_queue(self, options)
    }
}

impl HostFunctions for CudaDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        piton_native::call_host(self, queue, function, origin)
    }
}

impl Semaphores for CudaDevice {
    fn create(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Arc<dyn Semaphore>, DriverError> {
        piton_native::create_semaphore(self, initial, signalled_by)
    }
}

impl SemaphoreSharing for CudaDevice {
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
