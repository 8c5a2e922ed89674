//! Where the pool's memory comes from and goes back to: the device's host memory.
//!
//! All driver calls of this crate are made here, and none of them under a lock: they may block.

#![expect(
    unsafe_code,
    reason = "giving memory back to the driver is the driver contract's unsafe operation"
)]

use crate::{
    HostPages, PinnedError,
    node::{Binding, Node},
    pages::Mapping,
};
use piton_driver::{
    Device, DevicePtr, DriverError, ErrorKind, HostAllocation, HostMemory, HostMemoryOptions,
    Locking, Operation,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use rustix::mm::Advice;
use std::{collections::BTreeMap, ptr::NonNull, sync::Arc};

/// How often the driver was asked, and what was lost to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceCalls {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) leaked_bytes: u64,
}

/// The host memory of one device, as the pool asks for it.
#[derive(Debug)]
pub(crate) struct Source {
    device: Arc<dyn Device>,
    options: HostMemoryOptions,
    /// Whether pages are mapped here and registered, or the driver's own.
    are_own: bool,
    allocations: AtomicU64,
    frees: AtomicU64,
    /// Where pages that are mapped here are to come from.
    node: Option<Node>,
    /// Where the memory starts that was mapped here, and bytes of it that are bound to the node.
    mapped: Mutex<BTreeMap<usize, u64>>,
    leaked_bytes: AtomicU64,
}

impl Source {
    /// # Errors
    /// [`PinnedError::NoHostMemory`].
    pub(crate) fn new(
        device: Arc<dyn Device>,
        options: HostMemoryOptions,
        pages: HostPages,
    ) -> Result<Self, PinnedError> {
        let asked = options.numa_node.map(|node| (node, Binding::Only));
        let near = device.info().numa_node.map(|node| (node, Binding::Rather));
        let node = asked.or(near);
        let node = node.map(|(number, binding)| Node { number, binding });
        let source = Self {
            device,
            options,
            are_own: pages.are_own(),
            node,
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            mapped: Mutex::new(BTreeMap::new()),
            leaked_bytes: AtomicU64::new(0),
        };
        source.facet()?;
        Ok(source)
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn calls(&self) -> SourceCalls {
        SourceCalls {
            allocations: self.allocations.load(Ordering::Relaxed),
            frees: self.frees.load(Ordering::Relaxed),
            leaked_bytes: self.leaked_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether the device is there.
    ///
    /// # Errors
    /// [`PinnedError::Driver`]: it is lost.
    pub(crate) fn check_alive(&self) -> Result<(), PinnedError> {
        Ok(self.device.status()?)
    }

    /// Asks for `bytes` bytes. May block.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<HostAllocation, PinnedError> {
        let bytes = usize::try_from(bytes).map_err(|_| too_large(bytes))?;
        self.allocations.fetch_add(1, Ordering::Relaxed);
        if !self.are_own {
            return Ok(self.facet()?.allocate(bytes, self.options)?);
        }
        match self.map(bytes) {
            // What may stay unlocked is the driver's to allocate: it knows memory that is not registered.
            Err(PinnedError::Driver(error))
                if matches!(error.kind, ErrorKind::LockRefused { .. })
                    && self.options.locking == Locking::Preferred =>
            {
                Ok(self.facet()?.allocate(bytes, self.options)?)
            }
            mapped => mapped,
        }
    }

    /// Whether pages are mapped here.
    pub(crate) fn are_own(&self) -> bool {
        self.are_own
    }

    /// Maps pages and registers them.
    fn map(&self, bytes: usize) -> Result<HostAllocation, PinnedError> {
        let device = self.device.info().id;
        let refused = |kind| DriverError::new(kind, Operation::AllocateHost, device);
        let requested = bytes as u64;
        let bytes = bytes.checked_next_multiple_of(4096);
        let bytes = bytes.ok_or(refused(ErrorKind::OutOfHostMemory { requested }))?;
        let (mapping, bound) = self.map_pages(bytes, refused)?;
        // SAFETY: it has just been mapped, and stays until it is unregistered.
        if let Err(error) = unsafe { self.register(mapping.start(), bytes) } {
            self.unmap(mapping);
            return Err(error);
        }
        let (start, bytes) = mapping.into_raw();
        let bound = if bound { bytes as u64 } else { 0 };
        self.mapped.lock().insert(start.addr().get(), bound);
        Ok(HostAllocation {
            start,
            bytes,
            is_locked: true,
        })
    }

    /// Pages, and whether they are bound to the node.
    fn map_pages(
        &self,
        bytes: usize,
        refused: impl Fn(ErrorKind) -> DriverError,
    ) -> Result<(Mapping, bool), PinnedError> {
        let advice = Advice::LinuxHugepage;
        let Some(node) = self.node else {
            return Ok((Mapping::new(bytes, advice).map_err(refused)?, false));
        };
        let (mapping, bound) = Mapping::on(node, bytes, advice).map_err(refused)?;
        match bound {
            Err(errno) if node.binding == Binding::Only => Err(PinnedError::NodeRefused {
                node: node.number,
                errno: errno.raw_os_error(),
            }),
            bound => Ok((mapping, bound.is_ok())),
        }
    }

    /// Bytes of the pages mapped here that are bound to a NUMA node.
    pub(crate) fn bound_bytes(&self) -> u64 {
        self.mapped.lock().values().sum()
    }

    /// Gives pages back to the system that the driver does not know, or has let go.
    fn unmap(&self, mapping: Mapping) {
        let bytes = mapping.bytes() as u64;
        if let Err(errno) = mapping.unmap() {
            let (errno, device) = (errno.raw_os_error(), self.device.info().id);
            let kind = ErrorKind::System { errno };
            self.lose(bytes, DriverError::new(kind, Operation::FreeHost, device));
        }
    }

    /// Memory could not be given back. Those who would are in destructors, or on the way to something else.
    fn lose(&self, bytes: u64, error: DriverError) {
        self.leaked_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.device.record_error(error);
    }

    /// Gives memory back. May block. A failure goes to the device's error slot, since those who call this run in
    /// destructors or on the way to something else; the memory is then leaked and counted.
    ///
    /// # Safety
    /// As [`HostMemory::free`]: the allocation came from this source, and nothing refers to its memory.
    pub(crate) unsafe fn free(&self, allocation: HostAllocation) {
        let bytes = allocation.bytes as u64;
        self.frees.fetch_add(1, Ordering::Relaxed);
        let Ok(memory) = self.facet() else { return };
        let own = self.mapped.lock().remove(&allocation.start.addr().get());
        let freed = if own.is_some() {
            // SAFETY: it was registered when it was mapped, and no command names it (the caller).
            let let_go = unsafe { self.unregister(allocation.start) };
            let_go.map(|()| {
                // SAFETY: it came out of a mapping, and nothing refers to it any more (the caller).
                self.unmap(unsafe { Mapping::from_raw(allocation.start, allocation.bytes) });
            })
        } else {
            // SAFETY: the caller's promise is the method's.
            unsafe { memory.free(allocation) }.map_err(PinnedError::from)
        };
        if let Err(PinnedError::Driver(error)) = freed {
            self.lose(bytes, error);
        }
    }

    /// Makes memory the program owns usable in copies. May block.
    ///
    /// # Safety
    /// As [`HostMemory::register`].
    pub(crate) unsafe fn register(
        &self,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), PinnedError> {
        // SAFETY: the caller's promise is the method's.
        Ok(unsafe { self.facet()?.register(start, bytes) }?)
    }

    /// Undoes [`register`](Self::register). May block.
    ///
    /// # Safety
    /// As [`HostMemory::unregister`].
    pub(crate) unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), PinnedError> {
        // SAFETY: the caller's promise is the method's.
        Ok(unsafe { self.facet()?.unregister(start) }?)
    }

    /// What a request in a fork of the process is told: locks may be held there by threads that are not.
    #[cold]
    pub(crate) fn refuse_in_fork(&self) -> PinnedError {
        let device = self.device.info().id;
        DriverError::new(ErrorKind::Forked, Operation::AllocateHost, device).into()
    }

    /// Where kernels of the device read host memory, if they can.
    pub(crate) fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        self.device.host_memory()?.device_address(start)
    }

    /// Keeps an error that a destructor met.
    pub(crate) fn record(&self, error: DriverError) {
        self.device.record_error(error);
    }

    fn facet(&self) -> Result<&dyn HostMemory, PinnedError> {
        let device = self.device.info().id;
        self.device
            .host_memory()
            .ok_or(PinnedError::NoHostMemory { device })
    }
}

fn too_large(given: u64) -> PinnedError {
    PinnedError::InvalidSize {
        given,
        maximum: usize::MAX as u64,
    }
}
