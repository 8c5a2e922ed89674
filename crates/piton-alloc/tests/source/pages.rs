//! The source's virtual memory: reservations, handles, mappings, and what nobody may do with them.

use std::collections::BTreeMap;

use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, Operation, PageGranularity, PhysicalHandle,
    VirtualMemory,
};

use super::{Books, GRANULE, error};

/// Addresses of reservations start here, far from those of Blocks.
const BASE: u64 = 1 << 40;

#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Start and length.
    reserved: BTreeMap<u64, u64>,
    /// Length of every handle.
    handles: BTreeMap<u64, u64>,
    /// Start, handle.
    mapped: BTreeMap<u64, u64>,
    next_handle: u64,
}

impl Pages {
    pub(crate) fn held(&self) -> u64 {
        self.handles.values().sum()
    }

    pub(crate) fn reservations(&self) -> usize {
        self.reserved.len()
    }

    pub(crate) fn backs(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            let Some((&first, handle)) = self.mapped.range(..=at).next_back() else {
                return false;
            };
            let next = first + self.handles[handle];
            if next <= at {
                return false;
            }
            at = next;
        }
        true
    }
}

// SAFETY: reservations never overlap, since addresses only count up; no command ever names them.
unsafe impl VirtualMemory for Books {
    fn granularity(&self) -> PageGranularity {
        PageGranularity {
            minimum: GRANULE,
            recommended: GRANULE,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::ReserveAddresses)?;
        let pages = &mut state.pages;
        let last = pages.reserved.last_key_value();
        let start = last.map_or(BASE, |(start, bytes)| start + bytes);
        pages.reserved.insert(start, bytes);
        Ok(DeviceRange {
            start: DevicePtr::new(start),
            bytes,
        })
    }

    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::ReleaseAddresses)?;
        let start = range.start.address();
        let mapped = state.pages.mapped.range(start..start + range.bytes).count();
        assert_eq!(
            mapped, 0,
            "addresses are released while something is mapped"
        );
        let released = state.pages.reserved.remove(&start);
        assert_eq!(released, Some(range.bytes), "a whole reservation");
        Ok(())
    }

    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        assert!(bytes > 0 && bytes.is_multiple_of(GRANULE));
        let mut state = self.state.lock();
        state.count(Operation::CreatePhysical)?;
        let free = self.capacity - state.held();
        if bytes > free {
            let kind = ErrorKind::OutOfMemory {
                requested: bytes,
                free,
                capacity: self.capacity,
            };
            return Err(error(kind, Operation::CreatePhysical));
        }
        let handle = state.pages.next_handle;
        state.pages.next_handle += 1;
        state.pages.handles.insert(handle, bytes);
        Ok(PhysicalHandle(handle))
    }

    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::DestroyPhysical)?;
        let is_mapped = state.pages.mapped.values().any(|other| *other == handle.0);
        assert!(!is_mapped, "a handle is destroyed while it is mapped");
        let destroyed = state.pages.handles.remove(&handle.0);
        assert!(destroyed.is_some(), "a handle is destroyed once");
        Ok(())
    }

    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::Map)?;
        let start = at.address();
        let bytes = state.pages.handles[&handle.0];
        let below = state.pages.reserved.range(..=start).next_back();
        let Some((reserved, length)) = below else {
            panic!("nothing is reserved there");
        };
        assert!(start + bytes <= reserved + length, "inside one reservation");
        let below = state.pages.mapped.range(..start + bytes).next_back();
        let overlaps =
            below.is_some_and(|(&other, handle)| other + state.pages.handles[handle] > start);
        assert!(!overlaps, "something is mapped there already");
        state.pages.mapped.insert(start, handle.0);
        Ok(())
    }

    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
        let mut state = self.state.lock();
        state.count(Operation::Unmap)?;
        let end = range.start.address() + range.bytes;
        let mut at = range.start.address();
        while at < end {
            let Some(handle) = state.pages.mapped.remove(&at) else {
                panic!("an unmap covers whole mappings");
            };
            at += state.pages.handles[&handle];
        }
        assert_eq!(at, end, "whole mappings");
        Ok(())
    }
}
