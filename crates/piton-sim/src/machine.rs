//! The machine: its devices, and what they share.

use crate::{
    address_space::{AddressSpace, Geometry},
    config::{ADDRESS_BITS, Backing, DeviceConfig, LinkConfig, SPAN_TIMES, SimConfig},
    engine::Engine,
    fault::Faults,
    host_memory::HostRegions,
    memory_wait::MemoryWaits,
    module::SimModule,
    parameters::MAX_ARGUMENT_BYTES,
    queue::QueueCore,
    resource::Resource,
    trace::TraceBuffer,
    traffic::Traffic,
    window::Window,
};
use piton_driver::{
    ComputeUnitKind, DeviceId, DeviceInfo, DevicePtr, DriverError, ErrorKind, Limits, Operation,
    shield,
};
use piton_sync::{
    CachePadded, ForkMark, Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

/// Addresses of device n start at (`FIRST_DEVICE` + n) << [`ADDRESS_BITS`]: not canonical on x86-64 and past
/// the user's half on arm64, so the host cannot use one as a pointer by mistake.
const FIRST_DEVICE: u64 = 0x40;

/// Commands a queue holds at most, whatever the configuration says.
pub(crate) const QUEUE_COMMANDS: u32 = 1024;
/// Commands a queue holds if nobody says: 16 KiB of them, small enough that rings of many streams stay in a cache.
pub(crate) const DEFAULT_COMMANDS: u32 = 256;
/// Queues a device has at most.
pub(crate) const MAX_QUEUES: u32 = 16_384;

/// A hardware queue and who is placed on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HardwareLoad {
    pub(crate) queues: u32,
    pub(crate) is_exclusive: bool,
}

/// One device's state.
#[derive(Debug)]
pub(crate) struct DeviceCore {
    pub(crate) info: DeviceInfo,
    pub(crate) config: DeviceConfig,
    pub(crate) space: Mutex<AddressSpace>,
    pub(crate) is_lost: AtomicBool,
    pub(crate) error: Mutex<Option<DriverError>>,
    pub(crate) peers_enabled: AtomicU64,
    pub(crate) hardware: Vec<Resource<Arc<QueueCore>>>,
    pub(crate) loads: Mutex<Vec<HardwareLoad>>,
    pub(crate) queues: Mutex<Vec<Weak<QueueCore>>>,
    /// Copy engines: host to device, device to host, to and from peers.
    pub(crate) copy_in: Resource<Arc<QueueCore>>,
    pub(crate) copy_out: Resource<Arc<QueueCore>>,
    pub(crate) copy_peer: Resource<Arc<QueueCore>>,
    /// Its cores, as one thing that is busy or not, in virtual time.
    pub(crate) cores: Resource<()>,
    pub(crate) trace: TraceBuffer,
    pub(crate) unit_counts: [(ComputeUnitKind, u32); 1],
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) engine: Arc<Engine>,
    pub(crate) devices: Vec<DeviceCore>,
    pub(crate) links: Vec<LinkConfig>,
    /// Copies that share links; none where time is real, or a seed and not time says what runs next.
    pub(crate) traffic: Option<Traffic>,
    pub(crate) host: Mutex<HostRegions>,
    pub(crate) modules: Mutex<HashMap<Arc<str>, SimModule>>,
    pub(crate) faults: Faults,
    /// Apart from what every submission reads: the end of every command that may write memory touches it.
    pub(crate) memory_waits: CachePadded<MemoryWaits>,
    pub(crate) fork: ForkMark,
    /// Handles outside, see `presence`.
    pub(crate) handles: AtomicUsize,
    pub(crate) is_abandoned: AtomicBool,
    /// Whether a queue has ever waited for a semaphore: without that no circle is possible.
    pub(crate) semaphore_waits: AtomicBool,
    next_queue: AtomicU64,
    next_semaphore: AtomicU64,
}

impl Machine {
    pub(crate) fn new(config: SimConfig) -> Result<Self, DriverError> {
        let traffic = Traffic::of(&config);
        let engine = Engine::for_machine(config.clock, config.workers, config.spin)?;
        let devices = (0..)
            .zip(config.devices)
            .map(|(id, device)| DeviceCore::new(DeviceId(id), device, engine.is_virtual()))
            .collect::<Result<_, _>>()?;
        let faults = Faults::default();
        faults.set(config.faults);
        Ok(Self {
            engine,
            devices,
            links: config.links,
            traffic,
            host: Mutex::new(HostRegions::default()),
            modules: Mutex::new(HashMap::new()),
            faults,
            memory_waits: CachePadded::default(),
            fork: ForkMark::new(),
            handles: AtomicUsize::new(0),
            is_abandoned: AtomicBool::new(false),
            semaphore_waits: AtomicBool::new(false),
            next_queue: AtomicU64::new(0),
            next_semaphore: AtomicU64::new(0),
        })
    }

    pub(crate) fn device(&self, id: DeviceId) -> Option<&DeviceCore> {
        self.devices.get(id.0 as usize)
    }

    pub(crate) fn next_queue_id(&self) -> u64 {
        self.next_queue.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_semaphore_id(&self) -> u64 {
        self.next_semaphore.fetch_add(1, Ordering::Relaxed)
    }

    /// How many queues wait for a counter.
    pub(crate) fn stalled_queues(&self) -> u64 {
        self.live_queues()
            .filter(|queue| queue.stall.is_on())
            .count() as u64
    }

    /// Queues that are not gone.
    pub(crate) fn live_queues(&self) -> impl Iterator<Item = Arc<QueueCore>> {
        self.devices.iter().flat_map(DeviceCore::live_queues)
    }

    /// Whether queues may wait for each other in a circle.
    pub(crate) fn is_watched(&self) -> bool {
        self.semaphore_waits.load(Ordering::Relaxed)
    }

    /// Whose address this is.
    pub(crate) fn owner(&self, ptr: DevicePtr) -> Option<&DeviceCore> {
        let number = (ptr.address() >> ADDRESS_BITS).checked_sub(FIRST_DEVICE)?;
        self.devices.get(usize::try_from(number).ok()?)
    }

    pub(crate) fn link(&self, a: DeviceId, b: DeviceId) -> Option<&LinkConfig> {
        self.links
            .iter()
            .find(|link| (link.a, link.b) == (a, b) || (link.a, link.b) == (b, a))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Kernels: the program's, and this may be a thread of the engine's.
        for module in self.modules.get_mut().drain() {
            shield::discard(module);
        }
    }
}

impl DeviceCore {
    fn new(id: DeviceId, config: DeviceConfig, is_virtual: bool) -> Result<Self, DriverError> {
        let geometry = geometry(id, &config);
        let window = match config.backing {
            Backing::Books | Backing::Times => None,
            Backing::Pages => Some(open_window(id, geometry)?),
        };
        Ok(Self {
            info: info(id, &config),
            space: Mutex::new(AddressSpace::new(geometry, window, config.poison)),
            is_lost: AtomicBool::new(false),
            error: Mutex::new(None),
            peers_enabled: AtomicU64::new(0),
            hardware: (0..config.hardware_queues)
                .map(|_| Resource::new(1))
                .collect(),
            loads: Mutex::new(vec![
                HardwareLoad::default();
                config.hardware_queues as usize
            ]),
            queues: Mutex::new(Vec::new()),
            copy_in: Resource::new(config.host_engines),
            copy_out: Resource::new(config.host_engines),
            copy_peer: Resource::new(config.peer_engines),
            cores: Resource::new(1),
            trace: TraceBuffer::new(is_virtual),
            unit_counts: [(ComputeUnitKind::General, config.compute_units)],
            config,
        })
    }

    pub(crate) fn copy_engines(&self) -> [&Resource<Arc<QueueCore>>; 3] {
        [&self.copy_in, &self.copy_out, &self.copy_peer]
    }

    /// All that queues take turns on.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Resource<Arc<QueueCore>>> {
        self.hardware.iter().chain(self.copy_engines())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Loses the device: queues that wait for anything are woken to fail.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        for queue in self.live_queues() {
            queue.wake_stalled();
            queue.engine().share();
        }
    }

    /// Forgets queues that are gone, when they are about half of those remembered.
    pub(crate) fn prune_queues(&self) {
        let live: u32 = self.loads.lock().iter().map(|load| load.queues).sum();
        let mut queues = self.queues.lock();
        if queues.len() > 64 + 2 * live as usize {
            queues.retain(|queue| queue.strong_count() > 0);
        }
    }

    fn live_queues(&self) -> Vec<Arc<QueueCore>> {
        let queues = self.queues.lock();
        queues.iter().filter_map(Weak::upgrade).collect()
    }
}

fn geometry(id: DeviceId, config: &DeviceConfig) -> Geometry {
    Geometry {
        base: (FIRST_DEVICE + u64::from(id.0)) << ADDRESS_BITS,
        span: (config.memory_bytes * SPAN_TIMES)
            .max(1 << 36)
            .next_multiple_of(config.page_bytes),
        page: config.page_bytes,
        capacity: config.memory_bytes,
    }
}

fn open_window(id: DeviceId, geometry: Geometry) -> Result<Window, DriverError> {
    let error = |kind| DriverError::new(kind, Operation::Open, id);
    let too_large = ErrorKind::OutOfAddressSpace {
        requested: geometry.span,
        capacity: usize::MAX as u64,
    };
    let span = usize::try_from(geometry.span).map_err(|_| error(too_large))?;
    Window::new(span, geometry.capacity).map_err(error)
}

fn info(id: DeviceId, config: &DeviceConfig) -> DeviceInfo {
    DeviceInfo {
        id,
        name: config.name.clone(),
        memory_bytes: config.memory_bytes,
        pci: config.pci,
        numa_node: config.numa_node,
        limits: Limits {
            queues: MAX_QUEUES,
            hardware_queues: config.hardware_queues,
            queue_commands: config.queue_commands,
            argument_bytes: MAX_ARGUMENT_BYTES,
            grid_blocks: u64::from(u32::MAX),
            copy_bytes: config.memory_bytes,
        },
    }
}
