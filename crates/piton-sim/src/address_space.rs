//! A device's address space and memory: what is reserved, what is mapped, over which pages.
//!
//! # The books
//! - *reservations*: disjoint ranges of offsets. A plain allocation is a reservation with a mapping of its own.
//! - *mappings*: disjoint ranges inside reservations, each showing all pages of one handle.
//! - *handles*: physical memory. Gone when destroyed *and* mapped nowhere.
//!
//! Conservation, asserted by [`AddressSpace::check`]: pages of handles + free pages = all pages; mapped bytes
//! = sum of mappings.
//!
//! Each change first does what may fail, then writes the books, so a failure leaves them as they were.
//! Offsets here are relative to the device's base address.

mod shared;

use crate::{physical::PhysicalPages, physical::Run, shared_pages::SharedPages, window::Window};
use piton_driver::{DevicePtr, DeviceRange, ErrorKind, PhysicalHandle};
use std::{collections::BTreeMap, ptr::NonNull};

#[derive(Debug)]
struct Handle {
    runs: Vec<Run>,
    bytes: u64,
    mappings: u32,
    /// Never mapped yet: nobody can have written it.
    is_fresh: bool,
    is_destroyed: bool,
    /// Where its bytes are, if not in the device's own memfd.
    shared: Option<SharedPages>,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    handle: PhysicalHandle,
}

#[derive(Clone, Copy, Debug)]
struct Reservation {
    bytes: u64,
    /// Made by a plain allocation, which owns the mapping in it.
    is_allocation: bool,
}

/// The sizes of an address space, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) base: u64,
    pub(crate) span: u64,
    pub(crate) page: u64,
    pub(crate) capacity: u64,
}

/// What a device holds, in bytes and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceCounters {
    pub(crate) held: u64,
    pub(crate) peak: u64,
    pub(crate) mappings: u64,
}

/// Address space and memory of one device.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    geometry: Geometry,
    window: Option<Window>,
    poison: Option<u8>,
    pages: PhysicalPages,
    reservations: BTreeMap<u64, Reservation>,
    mappings: BTreeMap<u64, Mapping>,
    handles: BTreeMap<PhysicalHandle, Handle>,
    next_handle: u64,
    peak_pages: u64,
}

impl AddressSpace {
    pub(crate) fn new(geometry: Geometry, window: Option<Window>, poison: Option<u8>) -> Self {
        Self {
            pages: PhysicalPages::new(geometry.capacity / geometry.page),
            geometry,
            window,
            poison,
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            handles: BTreeMap::new(),
            next_handle: 1,
            peak_pages: 0,
        }
    }

    pub(crate) fn counters(&self) -> SpaceCounters {
        let page = self.geometry.page;
        SpaceCounters {
            held: (self.pages.total() - self.pages.free()) * page,
            peak: self.peak_pages * page,
            mappings: self.mappings.len() as u64,
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.pages.free() * self.geometry.page
    }

    /// Reserves addresses: the lowest hole that fits.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<DeviceRange, ErrorKind> {
        self.check_size(bytes)?;
        let offset = self.find_hole(bytes)?;
        self.reservations.insert(
            offset,
            Reservation {
                bytes,
                is_allocation: false,
            },
        );
        Ok(DeviceRange {
            start: self.ptr(offset),
            bytes,
        })
    }

    pub(crate) fn release(&mut self, range: DeviceRange) -> Result<(), ErrorKind> {
        let unknown = ErrorKind::UnknownAddress {
            address: range.start,
            bytes: range.bytes,
        };
        let offset = self.offset(range.start).ok_or(unknown)?;
        match self.reservations.get(&offset) {
            Some(found) if found.bytes == range.bytes && !found.is_allocation => {}
            _ => return Err(unknown),
        }
        if self
            .mappings
            .range(offset..offset + range.bytes)
            .next()
            .is_some()
        {
            return Err(ErrorKind::AlreadyMapped {
                address: range.start,
                bytes: range.bytes,
            });
        }
        self.reservations.remove(&offset);
        Ok(())
    }

    pub(crate) fn create(&mut self, bytes: u64) -> Result<PhysicalHandle, ErrorKind> {
        self.check_size(bytes)?;
        let full = ErrorKind::OutOfMemory {
            requested: bytes,
            free: self.free_bytes(),
            capacity: self.geometry.capacity,
        };
        let runs = self.pages.take(bytes / self.geometry.page).ok_or(full)?;
        self.peak_pages = self.peak_pages.max(self.pages.total() - self.pages.free());
        Ok(self.note(Handle {
            runs,
            bytes,
            mappings: 0,
            is_fresh: true,
            is_destroyed: false,
            shared: None,
        }))
    }

    /// Notes a handle, by a number that no other had.
    fn note(&mut self, made: Handle) -> PhysicalHandle {
        let handle = PhysicalHandle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(handle, made);
        handle
    }

    pub(crate) fn destroy(&mut self, handle: PhysicalHandle) -> Result<(), ErrorKind> {
        let found = self
            .handles
            .get_mut(&handle)
            .filter(|found| !found.is_destroyed);
        let found = found.ok_or(ErrorKind::UnknownHandle { handle: handle.0 })?;
        found.is_destroyed = true;
        self.collect(handle)
    }

    /// Maps all of `handle` at `at`.
    pub(crate) fn map(&mut self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), ErrorKind> {
        let found = self
            .handles
            .get(&handle)
            .filter(|found| !found.is_destroyed);
        let bytes = found
            .ok_or(ErrorKind::UnknownHandle { handle: handle.0 })?
            .bytes;
        let unknown = ErrorKind::UnknownAddress { address: at, bytes };
        let offset = self.offset(at).ok_or(unknown)?;
        if !offset.is_multiple_of(self.geometry.page) {
            return Err(ErrorKind::Misaligned {
                value: at.address(),
                alignment: self.geometry.page,
            });
        }
        let (start, inside) = self
            .reservations
            .range(..=offset)
            .next_back()
            .ok_or(unknown)?;
        if inside.is_allocation || offset + bytes > start + inside.bytes {
            return Err(unknown);
        }
        if self.is_mapped_somewhere(offset, bytes) {
            return Err(ErrorKind::AlreadyMapped { address: at, bytes });
        }
        self.show(offset, handle)
    }

    /// Undoes the mappings in `range`, which covers whole ones.
    pub(crate) fn unmap(&mut self, range: DeviceRange) -> Result<(), ErrorKind> {
        let unknown = ErrorKind::UnknownAddress {
            address: range.start,
            bytes: range.bytes,
        };
        let offset = self.offset(range.start).ok_or(unknown)?;
        let end = offset.checked_add(range.bytes).ok_or(unknown)?;
        if end > self.geometry.span || self.holds_allocation(offset, end) {
            return Err(unknown);
        }
        self.unmap_offsets(offset, end, unknown)
    }

    /// Whether a plain allocation lies there: it owns its mapping, which goes with it.
    fn holds_allocation(&self, offset: u64, end: u64) -> bool {
        let touching = self.reservations.range(..end).rev();
        touching
            .take_while(|(start, reservation)| *start + reservation.bytes > offset)
            .any(|(_, reservation)| reservation.is_allocation)
    }

    fn unmap_offsets(
        &mut self,
        offset: u64,
        end: u64,
        unknown: ErrorKind,
    ) -> Result<(), ErrorKind> {
        let cuts_first = self
            .mappings
            .range(..offset)
            .next_back()
            .is_some_and(|(start, mapping)| start + mapping.bytes > offset);
        let inside: Vec<(u64, Mapping)> = self
            .mappings
            .range(offset..end)
            .map(|(start, mapping)| (*start, *mapping))
            .collect();
        let cuts_last = inside
            .last()
            .is_some_and(|(start, mapping)| start + mapping.bytes > end);
        if cuts_first || cuts_last || inside.is_empty() {
            return Err(unknown);
        }
        self.hide(offset, end - offset)?;
        for (start, mapping) in inside {
            self.mappings.remove(&start);
            if let Some(handle) = self.handles.get_mut(&mapping.handle) {
                handle.mappings -= 1;
            }
            self.collect(mapping.handle)?;
        }
        Ok(())
    }

    /// A plain allocation: reservation, pages and mapping in one, or nothing.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<DevicePtr, ErrorKind> {
        let maximum = self.geometry.capacity;
        if bytes == 0 || bytes > maximum {
            return Err(if bytes == 0 {
                ErrorKind::InvalidSize { bytes, maximum }
            } else {
                ErrorKind::OutOfMemory {
                    requested: bytes,
                    free: self.free_bytes(),
                    capacity: maximum,
                }
            });
        }
        let bytes = bytes.next_multiple_of(self.geometry.page);
        let offset = self.find_hole(bytes)?;
        let handle = self.create(bytes)?;
        if let Err(kind) = self.show(offset, handle) {
            self.destroy(handle)?;
            return Err(kind);
        }
        self.reservations.insert(
            offset,
            Reservation {
                bytes,
                is_allocation: true,
            },
        );
        self.destroy(handle)?;
        Ok(self.ptr(offset))
    }

    pub(crate) fn free(&mut self, ptr: DevicePtr) -> Result<(), ErrorKind> {
        let unknown = ErrorKind::UnknownAddress {
            address: ptr,
            bytes: 0,
        };
        let offset = self.offset(ptr).ok_or(unknown)?;
        let found = self
            .reservations
            .get(&offset)
            .filter(|found| found.is_allocation);
        let bytes = found.ok_or(unknown)?.bytes;
        self.unmap_offsets(offset, offset + bytes, unknown)?;
        self.reservations.remove(&offset);
        Ok(())
    }

    /// Whether every byte of the range is mapped.
    pub(crate) fn covers(&self, range: DeviceRange) -> bool {
        let Some(mut offset) = self.offset(range.start) else {
            return false;
        };
        let Some(end) = offset.checked_add(range.bytes) else {
            return false;
        };
        while offset < end {
            match self.mappings.range(..=offset).next_back() {
                Some((start, mapping)) if start + mapping.bytes > offset => {
                    offset = start + mapping.bytes;
                }
                _ => return false,
            }
        }
        true
    }

    /// Where the range's bytes are in this process, if all of them are mapped.
    pub(crate) fn resolve(&self, range: DeviceRange) -> Result<NonNull<u8>, ErrorKind> {
        if !self.covers(range) {
            return Err(ErrorKind::UnknownAddress {
                address: range.start,
                bytes: range.bytes,
            });
        }
        let window = self.window.as_ref().ok_or(ErrorKind::NotBacked)?;
        let unknown = ErrorKind::UnknownAddress {
            address: range.start,
            bytes: range.bytes,
        };
        self.offset(range.start)
            .and_then(|offset| window.at(offset))
            .ok_or(unknown)
    }

    /// Whether bytes stand behind the addresses.
    pub(crate) fn is_backed(&self) -> bool {
        self.window.is_some()
    }

    /// Whether the conservation equations hold.
    pub(crate) fn check(&self) -> bool {
        let owned: u64 = self
            .handles
            .values()
            .flat_map(|h| &h.runs)
            .map(|run| run.count)
            .sum();
        let mappings = u64::from(self.handles.values().map(|h| h.mappings).sum::<u32>());
        self.pages.check()
            && owned + self.pages.free() == self.pages.total()
            && mappings == self.mappings.len() as u64
            && self
                .handles
                .values()
                .all(|h| !h.is_destroyed || h.mappings > 0)
    }

    fn check_size(&self, bytes: u64) -> Result<(), ErrorKind> {
        if bytes == 0 || bytes > self.geometry.span {
            return Err(ErrorKind::InvalidSize {
                bytes,
                maximum: self.geometry.span,
            });
        }
        if !bytes.is_multiple_of(self.geometry.page) {
            return Err(ErrorKind::Misaligned {
                value: bytes,
                alignment: self.geometry.page,
            });
        }
        Ok(())
    }

    fn find_hole(&self, bytes: u64) -> Result<u64, ErrorKind> {
        let mut at = 0_u64;
        for (start, reservation) in &self.reservations {
            if start - at >= bytes {
                return Ok(at);
            }
            at = start + reservation.bytes;
        }
        if self.geometry.span - at >= bytes {
            return Ok(at);
        }
        Err(ErrorKind::OutOfAddressSpace {
            requested: bytes,
            capacity: self.geometry.span,
        })
    }

    fn is_mapped_somewhere(&self, offset: u64, bytes: u64) -> bool {
        let before = self.mappings.range(..offset).next_back();
        before.is_some_and(|(start, mapping)| start + mapping.bytes > offset)
            || self.mappings.range(offset..offset + bytes).next().is_some()
    }

    /// Makes a handle's pages visible at `offset` and writes the mapping down.
    fn show(&mut self, offset: u64, handle: PhysicalHandle) -> Result<(), ErrorKind> {
        let page = self.geometry.page;
        let found = self
            .handles
            .get_mut(&handle)
            .ok_or(ErrorKind::UnknownHandle { handle: handle.0 })?;
        if let Some(window) = &self.window {
            match &found.shared {
                Some(pages) => show_shared(window, offset, pages)?,
                None => show_runs(window, offset, &found.runs, page)?,
            }
            if let Some(poison) = self.poison
                && found.is_fresh
            {
                poison_bytes(window, offset, found.bytes, poison);
            }
        }
        found.is_fresh = false;
        found.mappings += 1;
        self.mappings.insert(
            offset,
            Mapping {
                bytes: found.bytes,
                handle,
            },
        );
        Ok(())
    }

    fn hide(&self, offset: u64, bytes: u64) -> Result<(), ErrorKind> {
        let Some(window) = &self.window else {
            return Ok(());
        };
        hide_range(window, offset, bytes)
    }

    /// Gives a handle's pages back if it is destroyed and mapped nowhere.
    fn collect(&mut self, handle: PhysicalHandle) -> Result<(), ErrorKind> {
        let is_garbage = self
            .handles
            .get(&handle)
            .is_some_and(|found| found.is_destroyed && found.mappings == 0);
        let Some(found) = is_garbage.then(|| self.handles.remove(&handle)).flatten() else {
            return Ok(());
        };
        self.pages.give(&found.runs);
        let Some(window) = &self.window else {
            return Ok(());
        };
        found
            .runs
            .iter()
            .try_for_each(|run| window.discard(*run, self.geometry.page))
    }

    fn ptr(&self, offset: u64) -> DevicePtr {
        DevicePtr::new(self.geometry.base + offset)
    }

    fn offset(&self, ptr: DevicePtr) -> Option<u64> {
        ptr.address()
            .checked_sub(self.geometry.base)
            .filter(|offset| *offset < self.geometry.span)
    }
}

#[expect(
    unsafe_code,
    reason = "shows pages where the books say nothing is mapped"
)]
fn show_runs(window: &Window, offset: u64, runs: &[Run], page: u64) -> Result<(), ErrorKind> {
    let mut at = offset;
    for run in runs {
        // SAFETY: the books, under the caller's lock, say that nothing is mapped here, so no command that
        // keeps the contract uses these bytes.
        if let Err(kind) = unsafe { window.map(at, *run, page) } {
            if at > offset {
                hide_range(window, offset, at - offset)?;
            }
            return Err(kind);
        }
        at += run.count * page;
    }
    Ok(())
}

#[expect(
    unsafe_code,
    reason = "shows pages where the books say nothing is mapped"
)]
fn show_shared(window: &Window, offset: u64, pages: &SharedPages) -> Result<(), ErrorKind> {
    // SAFETY: as in `show_runs`.
    unsafe { window.map_shared(offset, pages) }
}

#[expect(unsafe_code, reason = "hides pages that the contract says nobody uses")]
fn hide_range(window: &Window, offset: u64, bytes: u64) -> Result<(), ErrorKind> {
    // SAFETY: whoever frees or unmaps memory promises that no command uses it (`Memory::free`,
    // `VirtualMemory::unmap`); after a failed `show` nobody has learnt of it.
    unsafe { window.unmap(offset, bytes) }
}

#[expect(unsafe_code, reason = "writes fresh memory")]
fn poison_bytes(window: &Window, offset: u64, bytes: u64, poison: u8) {
    let (Some(start), Ok(bytes)) = (window.at(offset), usize::try_from(bytes)) else {
        return;
    };
    // SAFETY: the range was mapped a moment ago under the books' lock and nobody knows of it yet.
    unsafe { start.as_ptr().write_bytes(poison, bytes) };
}
