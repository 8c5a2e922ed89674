//! Device memory, host memory, pages at chosen addresses.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

use crate::world::{self, CODES, INVALID};
use piton_driver::{
    DevicePtr, DeviceRange, HostAllocation, HostMemory, HostMemoryOptions, VirtualMemory,
};
use piton_standin::{Answer, Context, Mapping};
use piton_sync::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{c_int, c_uint, c_void},
    ptr,
    ptr::NonNull,
};

/// `aclrtPhysicalMemProp`.
#[repr(C)]
#[derive(Debug)]
pub struct Properties {
    handle_type: c_uint,
    allocation_type: c_uint,
    attribute: c_uint,
    /// A device by its number, or the host.
    location: [c_uint; 2],
    reserved: u64,
}

/// Page-locked memory by start: its bytes, and whether it is the program's.
type Locked = BTreeMap<usize, (usize, bool)>;

// GLOBAL: page-locked memory is known to every context of the process.
static HOST: Mutex<Locked> = Mutex::new(BTreeMap::new());

// GLOBAL: addresses are the process's, and are given back by their start alone.
static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn host(context: &Context) -> Answer<&dyn HostMemory> {
    context.device.host_memory().ok_or(INVALID)
}

fn pages(context: &Context) -> Answer<&dyn VirtualMemory> {
    context.device.virtual_memory().ok_or(INVALID)
}

fn start(host: *mut c_void) -> Answer<NonNull<u8>> {
    NonNull::new(host.cast()).ok_or(INVALID)
}

fn address(place: *mut c_void) -> u64 {
    place.addr() as u64
}

fn place(address: u64) -> Answer<*mut c_void> {
    let address = usize::try_from(address).map_err(|_| INVALID)?;
    Ok(ptr::with_exposed_provenance_mut(address))
}

/// What is asked for must be huge pages of the current device.
fn check(context: &Context, properties: *const Properties) -> Answer<()> {
    // SAFETY: the caller of the entry point gives properties, or null.
    let properties = unsafe { properties.as_ref() }.ok_or(INVALID)?;
    let kind = (properties.handle_type, properties.allocation_type);
    let is_own = properties.location == [context.id.0, 1];
    if kind == (0, 0) && properties.attribute == 4 && is_own {
        Ok(())
    } else {
        Err(INVALID)
    }
}

piton_standin::entry_points! {
    [world::answer, INVALID]

    /// `aclrtMalloc`.
    aclrtMalloc(at: *mut *mut c_void, bytes: usize, policy: c_uint) fills(at) {
        if policy > 5 || bytes == 0 {
            return Err(INVALID);
        }
        let context = world::current()?;
        let allocated = context.device.memory().allocate(bytes as u64);
        let allocated = allocated.map_err(|error| CODES.of(&error))?.address();
        context.content.lock().allocations.insert(allocated);
        Ok((place(allocated)?,))
    }

    /// `aclrtFree`.
    aclrtFree(at: *mut c_void) fills() {
        let context = world::current()?;
        if !context.content.lock().allocations.remove(&address(at)) {
            return Err(INVALID);
        }
        // SAFETY: the caller promises that no command uses it.
        let freed = unsafe { context.device.memory().free(DevicePtr::new(address(at))) };
        freed.map_err(|error| CODES.of(&error))
    }

    /// `aclrtGetMemInfo`: of the fast memory alone; there is no other.
    aclrtGetMemInfo(attribute: c_uint, free: *mut usize, all: *mut usize) fills(free, all) {
        if attribute != 1 {
            return Err(INVALID);
        }
        let usage = world::current()?.device.memory().usage();
        let usage = usage.map_err(|error| CODES.of(&error))?;
        let size = |bytes| usize::try_from(bytes).map_err(|_| INVALID);
        Ok((size(usage.free)?, size(usage.capacity)?))
    }

    /// `aclrtMallocHost`.
    aclrtMallocHost(at: *mut *mut c_void, bytes: usize) fills(at) {
        let context = world::current()?;
        let allocated = host(&context)?.allocate(bytes, HostMemoryOptions::default());
        let allocated = allocated.map_err(|error| CODES.of(&error))?;
        let start = allocated.start.as_ptr();
        HOST.lock().insert(start.addr(), (allocated.bytes, false));
        // The real memory holds what was in it before.
        // SAFETY: fresh memory of that size.
        unsafe { start.write_bytes(0x5a, allocated.bytes) };
        Ok((start.cast(),))
    }

    /// `aclrtFreeHost`.
    aclrtFreeHost(at: *mut c_void) fills() {
        let context = world::current()?;
        let (bytes, is_registered) = HOST.lock().remove(&at.addr()).ok_or(INVALID)?;
        if is_registered {
            return Err(INVALID);
        }
        let allocation = HostAllocation {
            start: start(at)?,
            bytes,
            is_locked: true,
        };
        // SAFETY: the caller promises that nobody uses it.
        let freed = unsafe { host(&context)?.free(allocation) };
        freed.map_err(|error| CODES.of(&error))
    }

    /// `aclrtHostRegisterV2`: whole pages, locked and mapped.
    aclrtHostRegisterV2(at: *mut c_void, bytes: u64, flags: c_uint) fills() {
        let context = world::current()?;
        if flags != 0x1000_0002 || !at.addr().is_multiple_of(4096) {
            return Err(INVALID);
        }
        let bytes = usize::try_from(bytes).map_err(|_| INVALID)?;
        // SAFETY: the caller keeps the memory until it is unregistered.
        let registered = unsafe { host(&context)?.register(start(at)?, bytes) };
        registered.map_err(|error| CODES.of(&error))?;
        HOST.lock().insert(at.addr(), (bytes, true));
        Ok(())
    }

    /// `aclrtHostUnregister`.
    aclrtHostUnregister(at: *mut c_void) fills() {
        let context = world::current()?;
        let known = HOST.lock().remove(&at.addr());
        known.filter(|(_, is_registered)| *is_registered).ok_or(INVALID)?;
        // SAFETY: the caller promises that no command uses it.
        let undone = unsafe { host(&context)?.unregister(start(at)?) };
        undone.map_err(|error| CODES.of(&error))
    }

    /// `aclrtHostGetDevicePointer`: of what is registered.
    aclrtHostGetDevicePointer(at: *mut c_void, device: *mut *mut c_void, flag: c_uint) fills(device) {
        let _context = world::current()?;
        let known = HOST.lock().get(&at.addr()).copied();
        known.filter(|(_, is_registered)| *is_registered && flag == 0).ok_or(INVALID)?;
        Ok((at,))
    }

    /// `aclrtMemGetAllocationGranularity`.
    aclrtMemGetAllocationGranularity(properties: *const Properties, which: c_int, bytes: *mut usize) fills(bytes) {
        let context = world::current()?;
        check(&context, properties)?;
        let granularity = pages(&context)?.granularity();
        let bytes = if which == 0 { granularity.minimum } else { granularity.recommended };
        Ok((usize::try_from(bytes).map_err(|_| INVALID)?,))
    }

    /// `aclrtReserveMemAddress`: for huge pages, where the system likes.
    aclrtReserveMemAddress(
        at: *mut *mut c_void, bytes: usize, alignment: usize, wish: *mut c_void, flags: u64
    ) fills(at) {
        if alignment != 0 || !wish.is_null() || flags != 1 {
            return Err(INVALID);
        }
        let reserved = pages(&*world::current()?)?.reserve(bytes as u64);
        let reserved = reserved.map_err(|error| CODES.of(&error))?;
        RESERVED.lock().insert(reserved.start.address(), reserved.bytes);
        Ok((place(reserved.start.address())?,))
    }

    /// `aclrtReleaseMemAddress`.
    aclrtReleaseMemAddress(at: *mut c_void) fills() {
        let context = world::current()?;
        let start = address(at);
        let bytes = RESERVED.lock().get(&start).copied().ok_or(INVALID)?;
        let within = start..start.saturating_add(bytes);
        if context.content.lock().mappings.range(within).next().is_some() {
            return Err(INVALID);
        }
        let range = DeviceRange { start: DevicePtr::new(start), bytes };
        // SAFETY: nothing is mapped there; the caller promises that no command names the addresses.
        let released = unsafe { pages(&context)?.release(range) };
        released.map_err(|error| CODES.of(&error))?;
        RESERVED.lock().remove(&start);
        Ok(())
    }

    /// `aclrtMallocPhysical`.
    aclrtMallocPhysical(handle: *mut usize, bytes: usize, properties: *const Properties, flags: u64) fills(handle) {
        let context = world::current()?;
        check(&context, properties)?;
        if flags != 0 {
            return Err(INVALID);
        }
        let created = pages(&context)?.create(bytes as u64);
        let created = created.map_err(|error| CODES.of(&error))?;
        let handle = created.0.wrapping_add(0x1000);
        context.content.lock().pages.insert(handle, (created, bytes as u64));
        Ok((usize::try_from(handle).map_err(|_| INVALID)?,))
    }

    /// `aclrtFreePhysical`: what is mapped nowhere.
    aclrtFreePhysical(handle: usize) fills() {
        let context = world::current()?;
        let mut content = context.content.lock();
        let known = content.pages.get(&(handle as u64)).copied();
        let (pages_of, _) = known.ok_or(INVALID)?;
        if content.mappings.values().any(|mapping| mapping.pages == pages_of) {
            return Err(INVALID);
        }
        content.pages.remove(&(handle as u64));
        let destroyed = pages(&context)?.destroy(pages_of);
        destroyed.map_err(|error| CODES.of(&error))
    }

    /// `aclrtMapMem`: the whole handle.
    aclrtMapMem(at: *mut c_void, bytes: usize, offset: usize, handle: usize, flags: u64) fills() {
        let context = world::current()?;
        let mut content = context.content.lock();
        let known = content.pages.get(&(handle as u64)).copied();
        let (pages_of, whole) = known.ok_or(INVALID)?;
        if (offset, flags, bytes as u64) != (0, 0, whole) {
            return Err(INVALID);
        }
        let start = address(at);
        // SAFETY: the caller promises that no command names the addresses.
        let mapped = unsafe { pages(&context)?.map(DevicePtr::new(start), pages_of) };
        mapped.map_err(|error| CODES.of(&error))?;
        let mapping = Mapping {
            bytes: whole,
            pages: pages_of,
            readers: BTreeSet::new(),
        };
        content.mappings.insert(start, mapping);
        Ok(())
    }

    /// `aclrtUnmapMem`: the mapping that starts here.
    aclrtUnmapMem(at: *mut c_void) fills() {
        let context = world::current()?;
        let mut content = context.content.lock();
        let mapping = content.mappings.get(&address(at)).ok_or(INVALID)?;
        let range = DeviceRange { start: DevicePtr::new(address(at)), bytes: mapping.bytes };
        // SAFETY: the caller promises that no command names the addresses.
        let undone = unsafe { pages(&context)?.unmap(range) };
        undone.map_err(|error| CODES.of(&error))?;
        content.mappings.remove(&address(at));
        Ok(())
    }
}
