//! A device that has host memory and nothing else: pages of the system behind the contract, with books, a limit and a
//! fault plan. Pages that nobody touches cost nothing, so what is asked for may exceed the machine.

#![expect(unsafe_code, reason = "host memory is mapped and unmapped")]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests may panic as tests may"
)]
#![allow(dead_code, reason = "each test file uses a part of the device")]

use piton_driver::{
    Device, DeviceId, DeviceInfo, DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory,
    HostMemoryOptions, Kernels, Limits, Locking, Memory, MemoryUsage, Module, ModuleImage,
    Operation, Queue, QueueOptions, Queues,
};
use piton_sync::{Condvar, Mutex};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::{
    collections::BTreeMap,
    ptr::{self, NonNull},
    sync::Arc,
};

const PAGE: usize = 4096;

#[derive(Debug, Default)]
struct Books {
    allocations: BTreeMap<usize, usize>,
    registered: BTreeMap<usize, usize>,
    calls: u64,
    fail_at: Option<u64>,
    has_fired: bool,
    error: Option<DriverError>,
    /// Allocations that came to an end well.
    allocated: u64,
    is_holding: bool,
    is_lost: bool,
    held: u64,
}

/// What the device can do and how it behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ability {
    pub(crate) has_host_memory: bool,
    /// Bytes that may be locked.
    pub(crate) lock_limit: u64,
    /// Allocations are rounded up to a multiple of this.
    pub(crate) granularity: usize,
}

impl Default for Ability {
    fn default() -> Self {
        Self {
            has_host_memory: true,
            lock_limit: u64::MAX,
            granularity: PAGE,
        }
    }
}

#[derive(Debug)]
pub(crate) struct FakeDevice {
    info: DeviceInfo,
    ability: Ability,
    books: Mutex<Books>,
    changed: Condvar,
}

impl FakeDevice {
    pub(crate) fn new(ability: Ability) -> Arc<Self> {
        let limits = Limits {
            queues: 0,
            hardware_queues: 0,
            queue_commands: 0,
            argument_bytes: 0,
            grid_blocks: 0,
            copy_bytes: 0,
        };
        Arc::new(Self {
            info: DeviceInfo {
                id: DeviceId(7),
                name: "host memory only".into(),
                memory_bytes: 0,
                pci: None,
                numa_node: None,
                limits,
            },
            ability,
            books: Mutex::new(Books::default()),
            changed: Condvar::new(),
        })
    }

    /// A device near a NUMA node.
    pub(crate) fn on_node(node: Option<u32>) -> Arc<Self> {
        let mut device = Self::new(Ability::default());
        Arc::get_mut(&mut device).unwrap().info.numa_node = node;
        device
    }

    /// Makes the `call`-th driver call from now on fail, counted from 1.
    pub(crate) fn fail_at(&self, call: u64) {
        let mut books = self.books.lock();
        books.fail_at = Some(books.calls + call);
        books.has_fired = false;
    }

    /// Whether the planned failure came, and no more failures.
    pub(crate) fn end_plan(&self) -> bool {
        let mut books = self.books.lock();
        books.fail_at = None;
        std::mem::take(&mut books.has_fired)
    }

    /// Bytes allocated and not freed.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let books = self.books.lock();
        books.allocations.values().map(|bytes| *bytes as u64).sum()
    }

    /// The device is lost from now on.
    pub(crate) fn lose(&self) {
        self.books.lock().is_lost = true;
    }

    /// Allocations from now on wait until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.books.lock().is_holding = true;
    }

    pub(crate) fn release(&self) {
        self.books.lock().is_holding = false;
        self.changed.notify_all();
    }

    /// Waits until an allocation waits.
    pub(crate) fn wait_for_held(&self) {
        let mut books = self.books.lock();
        while books.held == 0 {
            self.changed.wait(&mut books);
        }
    }

    /// Waits until so many allocations have been made.
    pub(crate) fn wait_for_allocations(&self, count: u64) {
        let mut books = self.books.lock();
        while books.allocated < count {
            self.changed.wait(&mut books);
        }
    }

    pub(crate) fn registered_count(&self) -> usize {
        self.books.lock().registered.len()
    }

    fn call(&self, books: &mut Books, operation: Operation) -> Result<(), DriverError> {
        books.calls += 1;
        if books.fail_at != Some(books.calls) {
            return Ok(());
        }
        books.has_fired = true;
        let call = books.calls;
        Err(self.error(ErrorKind::Injected { call }, operation))
    }

    fn error(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.info.id)
    }
}

// SAFETY: it has host memory and nothing else.
unsafe impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn status(&self) -> Result<(), DriverError> {
        if self.books.lock().is_lost {
            return Err(self.error(ErrorKind::DeviceLost, Operation::AllocateHost));
        }
        Ok(())
    }

    fn record_error(&self, error: DriverError) {
        self.books.lock().error.get_or_insert(error);
    }

    fn take_error(&self) -> Option<DriverError> {
        self.books.lock().error.take()
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
        self.ability.has_host_memory.then_some(self)
    }
}

// SAFETY: pages are mapped anew, so zeroed and disjoint from all others, and stay until freed; no device touches them.
unsafe impl HostMemory for FakeDevice {
    fn allocate(
        &self,
        bytes: usize,
        options: HostMemoryOptions,
    ) -> Result<HostAllocation, DriverError> {
        let mut books = self.books.lock();
        books.held += 1;
        self.changed.notify_all();
        while books.is_holding {
            self.changed.wait(&mut books);
        }
        books.held -= 1;
        self.call(&mut books, Operation::AllocateHost)?;
        let bytes = bytes.next_multiple_of(self.ability.granularity);
        let locked: u64 = books.allocations.values().map(|bytes| *bytes as u64).sum();
        let is_locked = locked + bytes as u64 <= self.ability.lock_limit;
        if !is_locked && options.locking == Locking::Required {
            let kind = ErrorKind::LockRefused {
                requested: bytes as u64,
                limit: self.ability.lock_limit,
            };
            return Err(self.error(kind, Operation::AllocateHost));
        }
        assert!(bytes > 0);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let unreserved = if cfg!(miri) {
            MapFlags::empty()
        } else {
            MapFlags::NORESERVE
        };
        let flags = MapFlags::PRIVATE | unreserved;
        // SAFETY: without MAP_FIXED the system picks a range that nothing uses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags) };
        let start = NonNull::new(start.unwrap().cast::<u8>()).unwrap();
        books.allocations.insert(start.addr().get(), bytes);
        books.allocated += 1;
        self.changed.notify_all();
        Ok(HostAllocation {
            start,
            bytes,
            is_locked,
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        let mut books = self.books.lock();
        self.call(&mut books, Operation::FreeHost)?;
        let bytes = books.allocations.remove(&allocation.start.addr().get());
        assert_eq!(bytes, Some(allocation.bytes));
        // SAFETY: it was mapped here, and nothing refers to it (the caller).
        unsafe { munmap(allocation.start.as_ptr().cast(), allocation.bytes) }.unwrap();
        Ok(())
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        let mut books = self.books.lock();
        self.call(&mut books, Operation::RegisterHost)?;
        let before = books.registered.insert(start.addr().get(), bytes);
        assert_eq!(before, None, "registered once");
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        let mut books = self.books.lock();
        self.call(&mut books, Operation::UnregisterHost)?;
        let bytes = books.registered.remove(&start.addr().get());
        assert!(bytes.is_some(), "unregistered once");
        Ok(())
    }

    /// Kernels of this device would find host memory where the host does.
    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        Some(DevicePtr::new(start.addr().get() as u64))
    }
}

impl FakeDevice {
    fn absent(&self, operation: Operation) -> DriverError {
        self.error(ErrorKind::Vendor, operation)
    }
}

// SAFETY: it never hands out memory.
unsafe impl Memory for FakeDevice {
    fn granularity(&self) -> u64 {
        1
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn allocate(&self, _bytes: u64) -> Result<DevicePtr, DriverError> {
        Err(self.absent(Operation::AllocateMemory))
    }

    unsafe fn free(&self, _ptr: DevicePtr) -> Result<(), DriverError> {
        Err(self.absent(Operation::FreeMemory))
    }

    fn usage(&self) -> Result<MemoryUsage, DriverError> {
        Err(self.absent(Operation::QueryMemory))
    }
}

impl Queues for FakeDevice {
    fn create(&self, _options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        Err(self.absent(Operation::CreateQueue))
    }
}

// SAFETY: it has no kernels.
unsafe impl Kernels for FakeDevice {
    fn load(&self, _image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        Err(self.absent(Operation::LoadModule))
    }
}
