//! A device of host memory and nothing else: pages of the system, neither touched nor locked.
//!
//! Reserved pages cost nothing until they are touched, so requests can be served here that exceed the machine.

#![expect(unsafe_code, reason = "maps and unmaps pages")]

use piton_driver::{
    Device, DeviceId, DeviceInfo, DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory,
    HostMemoryOptions, Kernels, Limits, Memory, MemoryUsage, Module, ModuleImage, Operation, Queue,
    QueueOptions, Queues,
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::{
    ptr::{self, NonNull},
    sync::Arc,
};

#[derive(Debug)]
pub(crate) struct HostDevice(DeviceInfo);

impl HostDevice {
    pub(crate) fn new() -> Arc<Self> {
        let limits = Limits {
            queues: 0,
            hardware_queues: 0,
            queue_commands: 0,
            argument_bytes: 0,
            grid_blocks: 0,
            copy_bytes: 0,
        };
        Arc::new(Self(DeviceInfo {
            id: DeviceId(0),
            name: "host memory only".into(),
            memory_bytes: 0,
            pci: None,
            numa_node: None,
            limits,
        }))
    }

    fn refused(&self, kind: ErrorKind, operation: Operation) -> DriverError {
        DriverError::new(kind, operation, self.0.id)
    }

    fn absent(&self, operation: Operation) -> DriverError {
        self.refused(ErrorKind::Vendor, operation)
    }
}

// SAFETY: it has host memory and nothing else.
unsafe impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn status(&self) -> Result<(), DriverError> {
        Ok(())
    }

    fn record_error(&self, _error: DriverError) {}

    fn take_error(&self) -> Option<DriverError> {
        None
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
}

// SAFETY: pages are mapped anew, so zeroed and disjoint from all others, and stay until freed; no device touches them.
unsafe impl HostMemory for HostDevice {
    fn allocate(
        &self,
        bytes: usize,
        _options: HostMemoryOptions,
    ) -> Result<HostAllocation, DriverError> {
        let requested = bytes as u64;
        let refused = || {
            self.refused(
                ErrorKind::OutOfHostMemory { requested },
                Operation::AllocateHost,
            )
        };
        let bytes = bytes.checked_next_multiple_of(4096).ok_or_else(refused)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the system picks a range that nothing uses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast()));
        Ok(HostAllocation {
            start: start.ok_or_else(refused)?,
            bytes,
            is_locked: false,
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        // SAFETY: it was mapped above, and nothing refers to it (the caller).
        let unmapped = unsafe { munmap(allocation.start.as_ptr().cast(), allocation.bytes) };
        unmapped.map_err(|_| self.absent(Operation::FreeHost))
    }

    unsafe fn register(&self, _start: NonNull<u8>, _bytes: usize) -> Result<(), DriverError> {
        Ok(())
    }

    unsafe fn unregister(&self, _start: NonNull<u8>) -> Result<(), DriverError> {
        Ok(())
    }

    fn device_address(&self, _start: NonNull<u8>) -> Option<DevicePtr> {
        None
    }
}

// SAFETY: it never hands out memory.
unsafe impl Memory for HostDevice {
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

impl Queues for HostDevice {
    fn create(&self, _options: &QueueOptions) -> Result<Arc<dyn Queue>, DriverError> {
        Err(self.absent(Operation::CreateQueue))
    }
}

// SAFETY: it has no kernels.
unsafe impl Kernels for HostDevice {
    fn load(&self, _image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        Err(self.absent(Operation::LoadModule))
    }
}
