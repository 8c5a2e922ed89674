//! Page-locked host memory: anonymous pages, locked with mlock, known to the machine.
//!
//! All devices of a machine share the list of regions, as portable pinned memory is shared on real drivers. Their kernels
//! reach it in place, under the addresses it has on the host: no device's own addresses lie among those.

#![expect(unsafe_code, reason = "maps, locks and unmaps host pages")]

use crate::{config::Backing, device::SimDevice, window::system};
use piton_driver::{
    Device, DeviceId, DevicePtr, DeviceRange, DriverError, ErrorKind, HostAllocation, HostMemory,
    HostMemoryOptions, Locking, Operation,
};
use rustix::{
    mm::{MapFlags, ProtFlags},
    process::{Resource, getrlimit},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ptr::{self, NonNull},
};

const HOST_PAGE: usize = 4096;

/// How memory came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Allocated,
    Registered,
    /// For copies alone, and not locked.
    Admitted,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    bytes: usize,
    kind: Kind,
    /// Who made it known: it is near that device.
    home: DeviceId,
}

/// The host memory that copies may name: start address to length.
#[derive(Debug, Default)]
pub(crate) struct HostRegions(BTreeMap<usize, Region>);

impl HostRegions {
    /// The region that all of the bytes lie in.
    fn around(&self, start: usize, bytes: usize) -> Option<&Region> {
        let end = start.checked_add(bytes).filter(|_| bytes > 0)?;
        let (first, region) = self.0.range(..=start).next_back()?;
        (end <= first + region.bytes).then_some(region)
    }

    /// Whether the bytes lie in one region.
    pub(crate) fn covers(&self, start: usize, bytes: usize) -> bool {
        self.around(start, bytes).is_some()
    }

    /// As [`covers`](Self::covers), in one that kernels may reach.
    fn is_in_place(&self, start: usize, bytes: usize) -> bool {
        let around = self.around(start, bytes);
        around.is_some_and(|region| region.kind != Kind::Admitted)
    }

    /// Where bytes of one region lie, named by their device address: the host's own.
    pub(crate) fn resolve(&self, range: DeviceRange) -> Option<NonNull<u8>> {
        let start = usize::try_from(range.start.address()).ok()?;
        let bytes = usize::try_from(range.bytes).ok()?;
        let is_known = self.is_in_place(start, bytes);
        // Exposed when the address was asked for.
        let at = || NonNull::new(ptr::with_exposed_provenance_mut(start));
        is_known.then(at).flatten()
    }

    /// The device that an address in one of them is near.
    pub(crate) fn home(&self, address: usize) -> Option<DeviceId> {
        self.around(address, 1).map(|region| region.home)
    }

    fn overlaps(&self, start: usize, end: usize) -> bool {
        let before = self.0.range(..end).next_back();
        before.is_some_and(|(first, region)| first + region.bytes > start)
    }
}

// SAFETY: `allocate` maps fresh anonymous pages (zeroed, disjoint from all others) and keeps them until `free`.
// Only commands touch them.
unsafe impl HostMemory for SimDevice {
    fn allocate(
        &self,
        bytes: usize,
        options: HostMemoryOptions,
    ) -> Result<HostAllocation, DriverError> {
        let operation = Operation::AllocateHost;
        let error = |kind| self.error(kind, operation);
        let maximum = isize::MAX as u64;
        let invalid = ErrorKind::InvalidSize {
            bytes: bytes as u64,
            maximum,
        };
        let rounded = bytes
            .checked_next_multiple_of(HOST_PAGE)
            .ok_or(error(invalid))?;
        if bytes == 0 || rounded as u64 > maximum {
            return Err(error(invalid));
        }
        self.gate(operation)?;
        let start = map(rounded).map_err(error)?;
        let locked = lock(start, rounded);
        if let (Err(kind), Locking::Required) = (locked, options.locking) {
            if let Err(kind) = unmap(start, rounded) {
                self.record_error(error(kind));
            }
            return Err(error(kind));
        }
        let region = Region {
            bytes: rounded,
            kind: Kind::Allocated,
            home: self.id(),
        };
        self.machine()
            .host
            .lock()
            .0
            .insert(start.as_ptr().addr(), region);
        Ok(HostAllocation {
            start,
            bytes: rounded,
            is_locked: locked.is_ok(),
        })
    }

    unsafe fn free(&self, allocation: HostAllocation) -> Result<(), DriverError> {
        let operation = Operation::FreeHost;
        self.gate_even_if_lost(operation)?;
        let address = allocation.start.as_ptr().addr();
        let found = self.machine().host.lock().0.remove(&address);
        match found {
            Some(region) if region.kind == Kind::Allocated => {
                unmap(allocation.start, region.bytes).map_err(|kind| self.error(kind, operation))
            }
            other => {
                if let Some(region) = other {
                    self.machine().host.lock().0.insert(address, region);
                }
                let bytes = allocation.bytes as u64;
                let kind = ErrorKind::NotPageLocked {
                    address: address as u64,
                    bytes,
                };
                Err(self.error(kind, operation))
            }
        }
    }

    unsafe fn register(&self, start: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        let operation = Operation::RegisterHost;
        let error = |kind| self.error(kind, operation);
        let address = start.as_ptr().addr();
        let maximum = isize::MAX as u64;
        let invalid = ErrorKind::InvalidSize {
            bytes: bytes as u64,
            maximum,
        };
        let end = address.checked_add(bytes).ok_or(error(invalid))?;
        if bytes == 0 || bytes as u64 > maximum {
            return Err(error(invalid));
        }
        self.gate(operation)?;
        let mut host = self.machine().host.lock();
        if host.overlaps(address, end) {
            let (address, bytes) = (DevicePtr::new(address as u64), bytes as u64);
            return Err(error(ErrorKind::AlreadyMapped { address, bytes }));
        }
        lock(start, bytes).map_err(error)?;
        host.0.insert(
            address,
            Region {
                bytes,
                kind: Kind::Registered,
                home: self.id(),
            },
        );
        Ok(())
    }

    unsafe fn unregister(&self, start: NonNull<u8>) -> Result<(), DriverError> {
        let operation = Operation::UnregisterHost;
        self.gate_even_if_lost(operation)?;
        let address = start.as_ptr().addr();
        let mut host = self.machine().host.lock();
        let Some(region) = host
            .0
            .get(&address)
            .copied()
            .filter(|region| region.kind == Kind::Registered)
        else {
            let kind = ErrorKind::NotPageLocked {
                address: address as u64,
                bytes: 0,
            };
            return Err(self.error(kind, operation));
        };
        // Under the lock, so that nobody registers the same pages before they are unlocked. A refusal changes nothing.
        unlock(start, region.bytes).map_err(|kind| self.error(kind, operation))?;
        host.0.remove(&address);
        Ok(())
    }

    unsafe fn admit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        let address = start.as_ptr().addr();
        let Some(end) = address.checked_add(bytes).filter(|_| bytes > 0) else {
            return false;
        };
        let machine = self.machine();
        // In virtual time nobody carries out a copy that he has just submitted.
        let is_carried_out =
            self.core().config.backing == Backing::Pages && !machine.engine.is_virtual();
        if !is_carried_out || machine.fork.is_fork() {
            return false;
        }
        let mut host = machine.host.lock();
        let is_new = !host.overlaps(address, end);
        if is_new {
            let region = Region {
                bytes,
                kind: Kind::Admitted,
                home: self.id(),
            };
            host.0.insert(address, region);
        }
        is_new
    }

    unsafe fn dismiss(&self, start: NonNull<u8>) {
        let address = start.as_ptr().addr();
        let mut host = self.machine().host.lock();
        if let Entry::Occupied(known) = host.0.entry(address)
            && known.get().kind == Kind::Admitted
        {
            known.remove();
        }
    }

    fn device_address(&self, start: NonNull<u8>) -> Option<DevicePtr> {
        let address = start.as_ptr().expose_provenance();
        let is_known = self.machine().host.lock().is_in_place(address, 1);
        let is_reached = is_known && self.core().config.reaches_host_memory;
        is_reached.then(|| DevicePtr::new(address as u64))
    }
}

fn map(bytes: usize) -> Result<NonNull<u8>, ErrorKind> {
    let refused = ErrorKind::OutOfHostMemory {
        requested: bytes as u64,
    };
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the kernel picks a range that nothing uses.
    let start =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, prot, MapFlags::PRIVATE) };
    start
        .ok()
        .and_then(|start| NonNull::new(start.cast()))
        .ok_or(refused)
}

fn unmap(start: NonNull<u8>, bytes: usize) -> Result<(), ErrorKind> {
    // SAFETY: the range was mapped by `map` and is unmapped once: its region has just been taken off the list
    // (or never put on it), and the caller of `free` promised that nobody uses it.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    unmapped.map_err(|errno| {
        // Memory that stays is lost; it need not stay locked.
        unlock(start, bytes).unwrap_or_default();
        system(errno)
    })
}

fn lock(start: NonNull<u8>, bytes: usize) -> Result<(), ErrorKind> {
    // SAFETY: locking changes no content; the range is mapped (by `map`, or by the promise of `register`).
    let locked = unsafe { rustix::mm::mlock(start.as_ptr().cast(), bytes) };
    locked.map_err(|_| {
        // A refusal may come when a part is locked already.
        unlock(start, bytes).unwrap_or_default();
        ErrorKind::LockRefused {
            requested: bytes as u64,
            limit: getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
        }
    })
}

fn unlock(start: NonNull<u8>, bytes: usize) -> Result<(), ErrorKind> {
    // SAFETY: as for `lock`.
    unsafe { rustix::mm::munlock(start.as_ptr().cast(), bytes) }.map_err(system)
}
