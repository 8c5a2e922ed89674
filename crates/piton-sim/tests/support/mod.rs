//! A small machine and the few unsafe calls that tests of the simulated device share.

#![expect(unsafe_code, reason = "the contract's copies take raw host memory")]
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_driver::{
    Admission, Device, DeviceId, DevicePtr, DeviceRange, Driver, DriverError, FillPattern, Grid,
    HostAllocation, HostMemoryOptions, Kernel, Launch, Locking, ModuleImage, Parameter,
    PeerAddress, PhysicalHandle, Position, Queue, QueueOptions, Signature, WaitOutcome,
};
use piton_sim::{DeviceConfig, KernelDefinition, SimConfig, SimDriver, SimModule};
use std::{ptr, sync::Arc, thread};

pub(crate) const KIB: u64 = 1 << 10;

pub(crate) fn config(devices: u32) -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 64 << 20,
        page_bytes: 64 * KIB,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(devices, &device)
}

pub(crate) fn machine(config: SimConfig) -> (SimDriver, Arc<dyn Device>) {
    let driver = SimDriver::new(config).unwrap();
    driver.register(module());
    let device = driver.open(DeviceId(0)).unwrap();
    (driver, device)
}

/// `add`: x[i] += value, 256 elements a block; `panic`; `overlap`: all blocks write the same element.
pub(crate) fn module() -> SimModule {
    let signature = || Signature::new([Parameter::write::<u32>(), Parameter::value::<u32>()]);
    let add = KernelDefinition::new("add", signature(), |block| {
        let start = u64::from(block.index().x) * 256;
        let value = block.value::<u32>(1)?;
        for x in block.write::<u32>(0, start..start + 256)? {
            *x = x.wrapping_add(value);
        }
        Ok(())
    });
    let panic = KernelDefinition::new("panic", signature(), |_| panic!("on purpose"));
    let overlap = KernelDefinition::new("overlap", signature(), |block| {
        block.write::<u32>(0, 0..1)?[0] = block.index().x;
        Ok(())
    });
    SimModule::new("test").with(add).with(panic).with(overlap)
}

pub(crate) fn kernel(device: &Arc<dyn Device>, name: &str) -> Arc<dyn Kernel> {
    device
        .kernels()
        .load(ModuleImage::Registered("test"))
        .unwrap()
        .kernel(name)
        .unwrap()
}

pub(crate) fn queue(device: &Arc<dyn Device>) -> Arc<dyn Queue> {
    device.queues().create(&QueueOptions::default()).unwrap()
}

/// Looks before what is to come counts as lost: about a second on a quiet machine, longer where others are busy.
const LOOKS: u32 = 3_000_000;

/// Looks until it is so, and helps nobody; says whether it came to be.
pub(crate) fn comes(is_so: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        thread::yield_now();
        is_so()
    })
}

/// The position ends, and without the host's help where there are workers.
#[track_caller]
pub(crate) fn ends(config: &SimConfig, queue: &Arc<dyn Queue>, position: Position) {
    queue.flush().unwrap();
    let has_workers = config.workers.is_some();
    let has_ended = !has_workers || comes(|| queue.completed() >= position);
    assert!(has_ended, "the queue stands still");
    assert_eq!(queue.wait(position, None), Ok(WaitOutcome::Reached));
}

pub(crate) fn accepted(admission: Result<Admission, DriverError>) -> Position {
    match admission.unwrap() {
        Admission::Accepted(position) => position,
        Admission::Full => panic!("the queue is full"),
    }
}

pub(crate) fn launch(
    queue: &Arc<dyn Queue>,
    kernel: &Arc<dyn Kernel>,
    blocks: u32,
    ptr: DevicePtr,
    value: u32,
) -> Result<Admission, DriverError> {
    let mut arguments = [0; 12];
    arguments[..8].copy_from_slice(&ptr.address().to_ne_bytes());
    arguments[8..].copy_from_slice(&value.to_ne_bytes());
    let launch = Launch::new(kernel, Grid::linear(blocks), &arguments);
    // SAFETY: tests pass live memory of the extent the kernel uses, and order what conflicts.
    unsafe { queue.launch(&launch) }
}

/// As [`launch`], saying how far the buffer reaches.
pub(crate) fn launch_within(
    queue: &Arc<dyn Queue>,
    kernel: &Arc<dyn Kernel>,
    blocks: u32,
    ptr: DevicePtr,
    extents: &[u64],
) -> Result<Admission, DriverError> {
    let mut arguments = [0; 12];
    arguments[..8].copy_from_slice(&ptr.address().to_ne_bytes());
    let launch = Launch {
        extents,
        ..Launch::new(kernel, Grid::linear(blocks), &arguments)
    };
    // SAFETY: as for `launch`.
    unsafe { queue.launch(&launch) }
}

pub(crate) fn fill(
    queue: &Arc<dyn Queue>,
    ptr: DevicePtr,
    word: u32,
    bytes: u64,
) -> Result<Admission, DriverError> {
    // SAFETY: as for `launch`.
    unsafe { queue.fill(ptr, FillPattern::Word(word), bytes) }
}

pub(crate) fn free(device: &Arc<dyn Device>, ptr: DevicePtr) -> Result<(), DriverError> {
    // SAFETY: tests wait for their work before they free.
    unsafe { device.memory().free(ptr) }
}

/// Page-locked memory that goes away with the value.
pub(crate) struct Pinned {
    device: Arc<dyn Device>,
    allocation: Option<HostAllocation>,
    words: usize,
}

impl Pinned {
    pub(crate) fn new(device: &Arc<dyn Device>, words: &[u32]) -> Self {
        Self::try_new(device, words).unwrap()
    }

    pub(crate) fn try_new(device: &Arc<dyn Device>, words: &[u32]) -> Result<Self, DriverError> {
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let host = device.host_memory().unwrap();
        let allocation = host.allocate(words.len() * 4, options)?;
        let start = allocation.start.as_ptr().cast();
        // SAFETY: the allocation is at least that long, fresh and page-aligned.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr(), start, words.len()) };
        Ok(Self {
            device: Arc::clone(device),
            allocation: Some(allocation),
            words: words.len(),
        })
    }

    /// Gives the memory back; on a refusal it is still held.
    pub(crate) fn give_back(&mut self) -> Result<(), DriverError> {
        let Some(allocation) = self.allocation.take() else {
            return Ok(());
        };
        let (start, bytes, is_locked) = (allocation.start, allocation.bytes, allocation.is_locked);
        // SAFETY: tests wait before they give back; what is refused is kept and tried again.
        let result = unsafe { self.device.host_memory().unwrap().free(allocation) };
        if result.is_err() {
            self.allocation = Some(HostAllocation {
                start,
                bytes,
                is_locked,
            });
        }
        result
    }

    pub(crate) fn start(&self) -> ptr::NonNull<u8> {
        self.allocation.as_ref().unwrap().start
    }

    /// The words; only when no command that writes them is under way.
    pub(crate) fn words(&self) -> Vec<u32> {
        let start = self.start().as_ptr().cast_const().cast::<u32>();
        // SAFETY: `words` of them are initialised; the test has waited for writers.
        unsafe { std::slice::from_raw_parts(start, self.words) }.to_vec()
    }

    pub(crate) fn send(&self, queue: &Arc<dyn Queue>, dst: DevicePtr) -> Position {
        // SAFETY: the memory outlives the test's waits.
        accepted(unsafe { queue.copy_to_device(dst, self.start(), self.words as u64 * 4) })
    }

    pub(crate) fn fetch(&self, queue: &Arc<dyn Queue>, src: DevicePtr) -> Position {
        // SAFETY: as above.
        accepted(unsafe { queue.copy_to_host(self.start(), src, self.words as u64 * 4) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let (Some(allocation), Some(host)) = (self.allocation.take(), self.device.host_memory())
        {
            // SAFETY: tests wait before they drop; an allocation is freed once.
            let result = unsafe { host.free(allocation) };
            debug_assert!(result.is_ok() || device_is_lost(&self.device));
        }
    }
}

/// What `words` words at `ptr` are, read through a queue of its own after `position` of `queue`.
pub(crate) fn read(device: &Arc<dyn Device>, ptr: DevicePtr, words: usize) -> Vec<u32> {
    let pinned = Pinned::new(device, &vec![0; words]);
    let reader = queue(device);
    let position = pinned.fetch(&reader, ptr);
    assert_eq!(
        reader.wait(position, None),
        Ok(piton_driver::WaitOutcome::Reached)
    );
    assert_eq!(reader.failure(), None);
    pinned.words()
}

fn device_is_lost(device: &Arc<dyn Device>) -> bool {
    device.status().is_err()
}

/// Maps a handle that no command uses yet.
pub(crate) fn map(
    device: &Arc<dyn Device>,
    at: DevicePtr,
    handle: PhysicalHandle,
) -> Result<(), DriverError> {
    // SAFETY: tests submit commands on the range only afterwards.
    unsafe { device.virtual_memory().unwrap().map(at, handle) }
}

/// Unmaps what no command uses any more.
pub(crate) fn unmap(device: &Arc<dyn Device>, range: DeviceRange) -> Result<(), DriverError> {
    // SAFETY: tests wait for their work first.
    unsafe { device.virtual_memory().unwrap().unmap(range) }
}

/// Releases a reservation that no command uses any more.
pub(crate) fn release(device: &Arc<dyn Device>, range: DeviceRange) -> Result<(), DriverError> {
    // SAFETY: as for `unmap`.
    unsafe { device.virtual_memory().unwrap().release(range) }
}

/// Copies from memory of this device to memory of another.
pub(crate) fn copy_to_peer(
    device: &Arc<dyn Device>,
    queue: &Arc<dyn Queue>,
    dst: PeerAddress,
    src: DevicePtr,
    bytes: u64,
) -> Result<Admission, DriverError> {
    let src = PeerAddress {
        device: device.info().id,
        ptr: src,
    };
    // SAFETY: tests keep both ends alive until they have waited.
    unsafe { queue.copy_peer(dst, src, bytes) }
}

/// As [`Pinned::send`] and [`Pinned::fetch`], with the device's answer.
pub(crate) fn transfer(
    queue: &Arc<dyn Queue>,
    pinned: &Pinned,
    device_end: DevicePtr,
    is_to_device: bool,
) -> Result<Admission, DriverError> {
    let bytes = pinned.words as u64 * 4;
    if is_to_device {
        // SAFETY: tests wait before they drop either end.
        unsafe { queue.copy_to_device(device_end, pinned.start(), bytes) }
    } else {
        // SAFETY: as above.
        unsafe { queue.copy_to_host(pinned.start(), device_end, bytes) }
    }
}
