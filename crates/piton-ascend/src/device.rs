//! An open device: what it says of itself, and its facets.

#![expect(
    unsafe_code,
    reason = "vouches for its streams to the queues built on them"
)]

use crate::{
    driver::Shared,
    ffi::{self, Called, Context, DeviceHandle, StreamCore, Ticket},
    queue::AscendStream,
    status::Status,
    timestamp::Written,
};
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
use piton_sync::{Mutex, atomic::AtomicU64};
use std::sync::{Arc, Weak};

/// Commands that a queue holds at most, where the configuration says nothing.
const QUEUE_COMMANDS: u32 = 256;

/// Bytes of arguments that a launch may have. The reference names no bound; what the suite and the demonstration need is far
/// below.
const ARGUMENT_BYTES: u32 = 4096;

/// Blocks of a launch: the runtime takes one number, of sixteen bits by the reference of its kernel language.
const GRID_BLOCKS: u64 = 0xffff;

/// An open device. Its handles, queues and kernels keep it open.
#[derive(Debug)]
pub(crate) struct AscendDevice {
    pub(crate) this: Weak<Self>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: DeviceHandle,
    pub(crate) context: Arc<Context>,
    pub(crate) info: DeviceInfo,
    /// The runtime's number of the lowest priority, and what priorities there are.
    priorities: Option<(i32, PriorityRange)>,
    /// Of virtual memory, where the device has it.
    pub(crate) pages: Option<PageGranularity>,
    /// Live allocations, each with where the runtime's starts.
    pub(crate) memory: Books<u64>,
    pub(crate) mappings: Mappings<ffi::PagesHandle>,
    pub(crate) host: Books<HostRun>,
    /// Asked for the time by an event, where the runtime tells: nothing else is on it.
    pub(crate) clock: Option<Arc<StreamCore>>,
    /// The latest time told.
    pub(crate) latest: AtomicU64,
    /// Contexts of devices that this one may reach: they stay for as long.
    pub(crate) reached: Mutex<Vec<Arc<Context>>>,
    pub(crate) standing: Standing<Self>,
}

impl AscendDevice {
    /// Opens the device: makes a context on it.
    pub(crate) fn open(shared: &Arc<Shared>, id: DeviceId) -> Called<Arc<Self>> {
        let handle = shared.handle(id).ok_or(Status::INVALID_DEVICE)?;
        let context = Context::create(handle)?;
        let info = info(id, &context, shared.config.queue_commands)?;
        let clock = match &context.api.timestamps {
            Some(_) => Some(ffi::stream(&context, 0)?),
            None => None,
        };
        let has_pages = context.api.virtual_memory.is_some();
        let pages = has_pages.then(|| context.granularity());
        Ok(Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            shared: Arc::clone(shared),
            handle,
            info,
            priorities: priorities(&context),
            pages,
            memory: Books::default(),
            mappings: Mappings::default(),
            host: Books::default(),
            clock,
            latest: AtomicU64::new(0),
            reached: Mutex::default(),
            standing: Standing::new(id),
            context,
        }))
    }
}

/// The runtime's number of the lowest priority, and the contract's range, if there is more than one: the runtime counts from
/// zero, the highest, up; the contract from zero, the lowest and what nobody asks for, down.
fn priorities(context: &Context) -> Option<(i32, PriorityRange)> {
    let (highest, lowest) = context.priorities()?;
    let steps = lowest.checked_sub(highest).filter(|steps| *steps > 0)?;
    let range = PriorityRange {
        highest: Priority(-steps),
        lowest: Priority(0),
    };
    Some((lowest, range))
}

fn info(id: DeviceId, context: &Context, queue_commands: Option<u32>) -> Called<DeviceInfo> {
    let (_, memory_bytes) = context.memory_info()?;
    Ok(DeviceInfo {
        id,
        name: context.api.soc_name(),
        memory_bytes,
        pci: None,
        numa_node: None,
        limits: Limits {
            queues: u32::MAX,
            hardware_queues: HARDWARE_QUEUES,
            queue_commands: queue_commands.unwrap_or(QUEUE_COMMANDS).max(1),
            argument_bytes: ARGUMENT_BYTES,
            grid_blocks: GRID_BLOCKS,
            copy_bytes: memory_bytes,
        },
    })
}

// SAFETY: streams run their commands in order. A ticket is over when an event behind it has passed and the stream, asked
// then, lives; or when the stream has failed and was waited for, after which nothing of it runs (`ffi::stream`).
unsafe impl NativeDevice for AscendDevice {
    const NAME: &'static str = "ascend";

    type Status = Status;
    type Event = Ticket;
    type Queue = AscendStream;
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

    fn make_queue(&self, priority: Priority) -> Called<AscendStream> {
        let number = match self.priorities {
            Some((lowest, _)) => lowest.saturating_add(priority.0),
            None => 0,
        };
        let number = u32::try_from(number).map_err(|_| Status::INVALID_PARAM)?;
        Ok(AscendStream::new(ffi::stream(&self.context, number)?))
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        self.memory.holds(address, bytes) || self.mappings.holds(address, bytes)
    }

    fn holds_host(&self, address: u64, bytes: u64) -> bool {
        self.host.holds(address, bytes)
    }

    /// Its own memory, and host memory that is mapped where it lies. That kernels reach other devices' memory is nowhere
    /// promised: copies do.
    fn reaches(&self, address: u64, bytes: u64) -> bool {
        NativeDevice::holds(self, address, bytes)
            || self.host.holds_of(address, bytes, HostRun::has_own_address)
    }

    fn opened(&self, device: DeviceId) -> Option<Arc<Self>> {
        self.shared.opened(device)
    }
}

// SAFETY: every facet is of the device of one context.
unsafe impl Device for AscendDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn status(&self) -> Result<(), DriverError> {
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
        self.priorities.map(|(_, range)| range)
    }

    fn timestamps(&self) -> Option<&dyn Timestamps> {
        self.clock.is_some().then_some(self)
    }
}

impl Queues for AscendDevice {
    fn create(&self, options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        piton_native::create_queue(self, options)
    }
}

impl HostFunctions for AscendDevice {
    fn call(
        &self,
        queue: &dyn Queue,
        function: &mut Option<HostFunction>,
        origin: Origin,
    ) -> Result<Admission, DriverError> {
        piton_native::call_host(self, queue, function, origin)
    }
}

impl Semaphores for AscendDevice {
    fn create(
        &self,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Arc<dyn Semaphore>, DriverError> {
        piton_native::create_semaphore(self, initial, signalled_by)
    }
}

impl SemaphoreSharing for AscendDevice {
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
