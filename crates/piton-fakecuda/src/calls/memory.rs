//! Device memory, host memory, pages at chosen addresses.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world::{self, CODES, INVALID_VALUE};
use piton_driver::{
    DevicePtr, DeviceRange, ExportedPages, HostAllocation, HostMemory, HostMemoryOptions,
    PageSharing, PhysicalHandle, VirtualMemory,
};
use piton_standin::{Answer, Context, Mapping};
use piton_sync::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{c_int, c_uint, c_void},
    fs::File,
    os::fd::{BorrowedFd, IntoRawFd},
    ptr::NonNull,
};

/// `CUmemLocation`: its kind, which must be a device, and which.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug)]
pub struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    windows_handle: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    location: Location,
    flags: c_uint,
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: c_uint = 1;

// GLOBAL: page-locked memory is known to every context of the process. Sizes by start.
static HOST: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn host(context: &Context) -> Answer<&dyn HostMemory> {
    context.device.host_memory().ok_or(INVALID_VALUE)
}

fn pages(context: &Context) -> Answer<&dyn VirtualMemory> {
    context.device.virtual_memory().ok_or(INVALID_VALUE)
}

fn sharing(context: &Context) -> Answer<&dyn PageSharing> {
    context.device.page_sharing().ok_or(INVALID_VALUE)
}

/// Notes physical memory, by the library's handle.
fn note(context: &Context, pages: PhysicalHandle, bytes: u64) -> u64 {
    let handle = pages.0.wrapping_add(0x1000);
    context.content.lock().pages.insert(handle, (pages, bytes));
    handle
}

fn range(address: u64, bytes: usize) -> DeviceRange {
    DeviceRange {
        start: DevicePtr::new(address),
        bytes: bytes as u64,
    }
}

fn start(host: *mut c_void) -> Answer<NonNull<u8>> {
    NonNull::new(host.cast()).ok_or(INVALID_VALUE)
}

/// What is asked for must be pinned memory of the current device, which goes to other processes not at all or as descriptors:
/// what for.
fn check(context: &Context, properties: *const Properties) -> Answer<c_uint> {
    // SAFETY: the caller of the entry point gives properties, or null.
    let properties = unsafe { properties.as_ref() }.ok_or(INVALID_VALUE)?;
    let is_own = u32::try_from(properties.location.id) == Ok(context.id.0);
    let is_pinned = (properties.kind, properties.location.kind) == (1, 1);
    if is_own && is_pinned && properties.handle_types <= DESCRIPTOR {
        Ok(properties.handle_types)
    } else {
        Err(INVALID_VALUE)
    }
}

/// Lets the current device have what is mapped here. Until then the simulated device knows nothing of it.
fn grant(context: &Context, address: u64, bytes: usize, readers: &[Access]) -> Answer<()> {
    let mut content = context.content.lock();
    let mapping = content.mappings.get_mut(&address).ok_or(INVALID_VALUE)?;
    if mapping.bytes != bytes as u64 {
        return Err(INVALID_VALUE);
    }
    if mapping.readers.is_empty() {
        let at = DevicePtr::new(address);
        // SAFETY: no command names the addresses yet: they have just been mapped.
        let mapped = unsafe { pages(context)?.map(at, mapping.pages) };
        mapped.map_err(|error| CODES.of(&error))?;
    }
    let readers = readers.iter().map(|access| access.location.id);
    mapping.readers.extend(readers);
    Ok(())
}

piton_standin::entry_points! {
    [world::answer, INVALID_VALUE]

    /// `cuMemAlloc`.
    cuMemAlloc_v2(address: *mut u64, bytes: usize) fills(address) {
        let context = world::current()?;
        let allocated = context.device.memory().allocate(bytes as u64);
        let allocated = allocated.map_err(|error| CODES.of(&error))?.address();
        context.content.lock().allocations.insert(allocated);
        Ok((allocated,))
    }

    /// `cuMemFree`.
    cuMemFree_v2(address: u64) fills() {
        let context = world::current()?;
        if !context.content.lock().allocations.remove(&address) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller promises that no command uses it.
        let freed = unsafe { context.device.memory().free(DevicePtr::new(address)) };
        freed.map_err(|error| CODES.of(&error))
    }

    /// `cuMemGetInfo`.
    cuMemGetInfo_v2(free: *mut usize, all: *mut usize) fills(free, all) {
        let usage = world::current()?.device.memory().usage();
        let usage = usage.map_err(|error| CODES.of(&error))?;
        let size = |bytes| usize::try_from(bytes).map_err(|_| INVALID_VALUE);
        Ok((size(usage.free)?, size(usage.capacity)?))
    }

    /// `cuMemHostAlloc`.
    cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: c_uint) fills(place) {
        let context = world::current()?;
        // Portable and mapped, or a mistake.
        if flags != 3 {
            return Err(INVALID_VALUE);
        }
        let allocated = host(&context)?.allocate(bytes, HostMemoryOptions::default());
        let allocated = allocated.map_err(|error| CODES.of(&error))?;
        let start = allocated.start.as_ptr();
        HOST.lock().insert(start.addr(), allocated.bytes);
        // The real memory holds what was in it before.
        // SAFETY: fresh memory of that size.
        unsafe { start.write_bytes(0x5a, allocated.bytes) };
        Ok((start.cast(),))
    }

    /// `cuMemFreeHost`.
    cuMemFreeHost(place: *mut c_void) fills() {
        let context = world::current_even_if_dead()?;
        let bytes = HOST.lock().remove(&place.addr()).ok_or(INVALID_VALUE)?;
        let allocation = HostAllocation {
            start: start(place)?,
            bytes,
            is_locked: true,
        };
        // SAFETY: the caller promises that nobody uses it.
        let freed = unsafe { host(&context)?.free(allocation) };
        freed.map_err(|error| CODES.of(&error))
    }

    /// `cuMemHostRegister`.
    cuMemHostRegister_v2(place: *mut c_void, bytes: usize, flags: c_uint) fills() {
        if flags != 3 {
            return Err(INVALID_VALUE);
        }
        let context = world::current()?;
        // SAFETY: the caller keeps the memory until it is unregistered.
        let registered = unsafe { host(&context)?.register(start(place)?, bytes) };
        registered.map_err(|error| CODES.of(&error))
    }

    /// `cuMemHostUnregister`.
    cuMemHostUnregister(place: *mut c_void) fills() {
        let context = world::current_even_if_dead()?;
        // SAFETY: the caller promises that no command uses it.
        let undone = unsafe { host(&context)?.unregister(start(place)?) };
        undone.map_err(|error| CODES.of(&error))
    }

    /// `cuMemHostGetDevicePointer`: one address for everybody.
    cuMemHostGetDevicePointer_v2(address: *mut u64, place: *mut c_void, flags: c_uint) fills(address) {
        let _context = world::current()?;
        if flags != 0 || place.is_null() {
            return Err(INVALID_VALUE);
        }
        Ok((place.expose_provenance() as u64,))
    }

    /// `cuMemGetAllocationGranularity`.
    cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const Properties, which: c_uint) fills(bytes) {
        let context = world::current()?;
        check(&context, properties)?;
        let granularity = pages(&context)?.granularity();
        let bytes = if which == 0 { granularity.minimum } else { granularity.recommended };
        Ok((usize::try_from(bytes).map_err(|_| INVALID_VALUE)?,))
    }

    /// `cuMemAddressReserve`.
    cuMemAddressReserve(address: *mut u64, bytes: usize, _alignment: usize, _wish: u64, flags: u64) fills(address) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let reserved = pages(&*world::current()?)?.reserve(bytes as u64);
        Ok((reserved.map_err(|error| CODES.of(&error))?.start.address(),))
    }

    /// `cuMemAddressFree`.
    cuMemAddressFree(address: u64, bytes: usize) fills() {
        let context = world::current()?;
        let within = context.content.lock();
        if within.mappings.range(address..address.saturating_add(bytes as u64)).next().is_some() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: nothing is mapped there; the caller promises that no command names the addresses.
        let released = unsafe { pages(&context)?.release(range(address, bytes)) };
        released.map_err(|error| CODES.of(&error))
    }

    /// `cuMemCreate`.
    cuMemCreate(handle: *mut u64, bytes: usize, properties: *const Properties, flags: u64) fills(handle) {
        let context = world::current()?;
        let handle_types = check(&context, properties)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let created = match handle_types {
            DESCRIPTOR => sharing(&context)?.create(bytes as u64),
            _ => pages(&context)?.create(bytes as u64),
        };
        let created = created.map_err(|error| CODES.of(&error))?;
        Ok((note(&context, created, bytes as u64),))
    }

    /// `cuMemExportToShareableHandle`: of what was made for it.
    cuMemExportToShareableHandle(place: *mut c_int, handle: u64, kind: c_uint, flags: u64) fills(place) {
        let context = world::current()?;
        let known = context.content.lock().pages.get(&handle).copied();
        let (pages, _) = known.filter(|_| (kind, flags) == (DESCRIPTOR, 0)).ok_or(INVALID_VALUE)?;
        match sharing(&context)?.export(pages) {
            Ok(ExportedPages::Descriptor(descriptor)) => Ok((descriptor.into_raw_fd(),)),
            _ => Err(INVALID_VALUE),
        }
    }

    /// `cuMemImportFromShareableHandle`: the descriptor stays the caller's.
    cuMemImportFromShareableHandle(handle: *mut u64, descriptor: *mut c_void, kind: c_uint) fills(handle) {
        let context = world::current()?;
        if kind != DESCRIPTOR {
            return Err(INVALID_VALUE);
        }
        let descriptor = c_int::try_from(descriptor.addr()).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller has it open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let copy = descriptor.try_clone_to_owned().map_err(|_| INVALID_VALUE)?;
        // How long it is the real one knows of its own memory.
        let file = File::from(copy);
        let bytes = file.metadata().map_err(|_| INVALID_VALUE)?.len();
        let exported = ExportedPages::Descriptor(file.into());
        let imported = sharing(&context)?.import(&exported, bytes);
        let imported = imported.map_err(|error| CODES.of(&error))?;
        Ok((note(&context, imported, bytes),))
    }

    /// `cuMemRelease`.
    cuMemRelease(handle: u64) fills() {
        let context = world::current()?;
        let taken = context.content.lock().pages.remove(&handle);
        let (pages_of, _) = taken.ok_or(INVALID_VALUE)?;
        let destroyed = pages(&context)?.destroy(pages_of);
        destroyed.map_err(|error| CODES.of(&error))
    }

    /// `cuMemMap`. Nobody may use what is there before `cuMemSetAccess`.
    cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) fills() {
        let context = world::current()?;
        let mut content = context.content.lock();
        let known = content.pages.get(&handle).copied();
        let (pages, whole) = known.ok_or(INVALID_VALUE)?;
        let is_whole = (offset, flags, bytes as u64) == (0, 0, whole);
        if !is_whole || content.mappings.contains_key(&address) {
            return Err(INVALID_VALUE);
        }
        let mapping = Mapping {
            bytes: whole,
            pages,
            readers: BTreeSet::new(),
        };
        content.mappings.insert(address, mapping);
        Ok(())
    }

    /// `cuMemUnmap`.
    cuMemUnmap(address: u64, bytes: usize) fills() {
        let context = world::current()?;
        let mut content = context.content.lock();
        let known = content.mappings.get(&address).cloned();
        let mapping = known.filter(|known| known.bytes == bytes as u64);
        let mapping = mapping.ok_or(INVALID_VALUE)?;
        if !mapping.readers.is_empty() {
            // SAFETY: the caller promises that no command names the addresses.
            let undone = unsafe { pages(&context)?.unmap(range(address, bytes)) };
            undone.map_err(|error| CODES.of(&error))?;
        }
        content.mappings.remove(&address);
        Ok(())
    }

    /// `cuMemSetAccess`.
    cuMemSetAccess(address: u64, bytes: usize, access: *const Access, count: usize) fills() {
        let context = world::current()?;
        if access.is_null() || count == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller gives as many descriptions as it says.
        let access = unsafe { std::slice::from_raw_parts(access, count) };
        if access.iter().any(|one| (one.location.kind, one.flags) != (1, 3)) {
            return Err(INVALID_VALUE);
        }
        grant(&context, address, bytes, access)
    }
}
