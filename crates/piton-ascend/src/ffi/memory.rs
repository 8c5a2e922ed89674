//! Memory of a context: device memory, page-locked host memory, pages mapped at chosen addresses.

#![expect(unsafe_code, reason = "calls of the runtime that give and take memory")]

use super::{
    Called, Context,
    declarations::{
        ALLOCATION_PINNED, GRANULARITY_MINIMUM, GRANULARITY_RECOMMENDED, HANDLE_NONE, HOST_MAPPED,
        HOST_PINNED, LOCATION_DEVICE, MEMORY_DDR, MEMORY_HBM, MEMORY_HBM_HUGE, MemoryLocation,
        MemoryProperties, Pages, RESERVE_HUGE,
    },
    pointer, size,
};
use crate::{config::MemoryPolicy, status::Status};
use piton_driver::PageGranularity;
use std::{ptr, ptr::NonNull, sync::Arc};

/// What pages are multiples of where the library does not say: a huge page.
const HUGE_PAGE: u64 = 2 << 20;

/// What registered memory starts at multiples of: "must be 4K-page-aligned" (`aclrtHostRegisterV2`).
const HOST_PAGE: usize = 4096;

/// The start of the page that an address lies in, and how far behind that it is.
fn page_of(start: NonNull<u8>) -> (*mut std::ffi::c_void, usize) {
    let before = start.as_ptr().addr() % HOST_PAGE;
    (start.as_ptr().wrapping_sub(before).cast(), before)
}

/// The runtime's handle of physical memory: a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagesHandle(Pages);

// SAFETY: a handle, which the runtime's functions take from every thread.
unsafe impl Send for PagesHandle {}

impl Context {
    /// Device memory of this size.
    pub(crate) fn allocate(&self, bytes: u64, policy: MemoryPolicy) -> Called<u64> {
        let mut start = ptr::null_mut();
        self.call(|core| {
            // SAFETY: a place of the right type.
            unsafe { (core.memory_allocate)(&raw mut start, size(bytes), policy.number()) }
        })?;
        Ok(start.expose_provenance() as u64)
    }

    /// Gives device memory back.
    ///
    /// # Safety
    /// The address came from [`allocate`](Self::allocate), and no command that has not ended uses it.
    pub(crate) unsafe fn free(&self, start: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        self.call(|core| unsafe { (core.memory_free)(pointer(start)) })
    }

    /// Bytes that are free, and bytes in all: of the fast memory, or of the other where there is none.
    pub(crate) fn memory_info(&self) -> Called<(u64, u64)> {
        let ask = |attribute| {
            let (mut free, mut all) = (0_usize, 0_usize);
            self.call(|core| {
                // SAFETY: two places of the right type.
                unsafe { (core.memory_info)(attribute, &raw mut free, &raw mut all) }
            })?;
            Ok((free as u64, all as u64))
        };
        match ask(MEMORY_HBM) {
            Ok((_, 0)) | Err(_) => ask(MEMORY_DDR),
            fast => fast,
        }
    }

    /// Page-locked host memory.
    pub(crate) fn allocate_host(&self, bytes: usize) -> Called<NonNull<u8>> {
        let mut host = ptr::null_mut();
        // SAFETY: a place of the right type.
        self.call(|core| unsafe { (core.host_allocate)(&raw mut host, bytes) })?;
        NonNull::new(host.cast()).ok_or(Status::INVALID_PARAM)
    }

    /// Gives page-locked host memory back.
    ///
    /// # Safety
    /// It came from [`allocate_host`](Self::allocate_host), and nobody uses it any more.
    pub(crate) unsafe fn free_host(&self, start: NonNull<u8>) -> Called<()> {
        // SAFETY: the caller's promise.
        self.call(|core| unsafe { (core.host_free)(start.as_ptr().cast()) })
    }

    /// Locks the pages that memory of the program's lies in, and says at what address kernels reach it.
    ///
    /// # Safety
    /// The memory is live until [`unregister_host`](Self::unregister_host).
    pub(crate) unsafe fn register_host(&self, start: NonNull<u8>, bytes: usize) -> Called<u64> {
        let api = self.api.host_registration.as_ref();
        let (host, before) = page_of(start);
        let flags = HOST_PINNED | HOST_MAPPED;
        let pages = (before + bytes).next_multiple_of(HOST_PAGE);
        self.call_of(api, |api| {
            // SAFETY: the caller's promise; the rest of its first and last page is mapped as the memory is.
            unsafe { (api.register)(host, pages as u64, flags) }
        })?;
        let mut device = ptr::null_mut();
        let asked = self.call_of(api, |api| {
            // SAFETY: a place of the right type; the memory is mapped for the device.
            unsafe { (api.address)(host, &raw mut device, 0) }
        });
        asked.inspect_err(|_| {
            // SAFETY: just registered.
            let _undone = unsafe { self.unregister_host(start) };
        })?;
        Ok(device.expose_provenance() as u64 + before as u64)
    }

    /// Unlocks memory of the program's.
    ///
    /// # Safety
    /// It was registered, and no command that has not ended uses it.
    pub(crate) unsafe fn unregister_host(&self, start: NonNull<u8>) -> Called<()> {
        let api = self.api.host_registration.as_ref();
        let (host, _) = page_of(start);
        // SAFETY: the caller's promise.
        self.call_of(api, |api| unsafe { (api.unregister)(host) })
    }

    /// What physical memory of this device is asked for with.
    fn properties(&self) -> MemoryProperties {
        MemoryProperties {
            handle_type: HANDLE_NONE,
            allocation_type: ALLOCATION_PINNED,
            attribute: MEMORY_HBM_HUGE,
            location: MemoryLocation {
                id: self.device().unsigned_abs(),
                kind: LOCATION_DEVICE,
            },
            reserved: 0,
        }
    }

    /// What sizes and addresses of mappings are multiples of. Where the library does not tell, a huge page.
    pub(crate) fn granularity(&self) -> PageGranularity {
        let properties = self.properties();
        let ask = |which| {
            let mut bytes = 0_usize;
            let asked = self.call_of(self.api.page_granularity.as_ref(), |api| {
                // SAFETY: a place of the right type, and properties that live through the call.
                unsafe { (api.ask)(&raw const properties, which, &raw mut bytes) }
            });
            asked.ok().map(|()| bytes as u64).filter(|bytes| *bytes > 0)
        };
        let minimum = ask(GRANULARITY_MINIMUM).unwrap_or(HUGE_PAGE);
        let recommended = ask(GRANULARITY_RECOMMENDED).unwrap_or(minimum);
        PageGranularity {
            minimum,
            recommended,
        }
    }

    /// Addresses that nothing backs.
    pub(crate) fn reserve(&self, bytes: u64) -> Called<u64> {
        let mut start = ptr::null_mut();
        self.call_of(self.api.virtual_memory.as_ref(), |api| {
            // SAFETY: a place of the right type; no alignment and no wish for an address, as the reference demands.
            unsafe {
                (api.reserve)(
                    &raw mut start,
                    size(bytes),
                    0,
                    ptr::null_mut(),
                    RESERVE_HUGE,
                )
            }
        })?;
        Ok(start.expose_provenance() as u64)
    }

    /// Gives addresses back.
    ///
    /// # Safety
    /// They were reserved as a whole, nothing is mapped there, and no command that has not ended names them.
    pub(crate) unsafe fn release_addresses(&self, start: u64) -> Called<()> {
        let api = self.api.virtual_memory.as_ref();
        // SAFETY: the caller's promise.
        self.call_of(api, |api| unsafe { (api.release)(pointer(start)) })
    }

    /// Physical memory that is mapped nowhere.
    pub(crate) fn create_pages(&self, bytes: u64) -> Called<PagesHandle> {
        let (mut handle, properties) = (ptr::null_mut(), self.properties());
        self.call_of(self.api.virtual_memory.as_ref(), |api| {
            // SAFETY: a place of the right type, and properties that live through the call.
            unsafe { (api.create)(&raw mut handle, size(bytes), &raw const properties, 0) }
        })?;
        Ok(PagesHandle(handle))
    }

    /// Gives physical memory back.
    ///
    /// # Safety
    /// It came from [`create_pages`](Self::create_pages), goes once, and is mapped nowhere.
    pub(crate) unsafe fn destroy_pages(&self, pages: PagesHandle) -> Called<()> {
        let api = self.api.virtual_memory.as_ref();
        // SAFETY: the caller's promise.
        self.call_of(api, |api| unsafe { (api.destroy)(pages.0) })
    }

    /// Maps all of a handle.
    ///
    /// # Safety
    /// The addresses are reserved and nothing is mapped there; no command that has not ended names them.
    pub(crate) unsafe fn map_pages(
        &self,
        start: u64,
        bytes: u64,
        pages: PagesHandle,
    ) -> Called<()> {
        self.call_of(self.api.virtual_memory.as_ref(), |api| {
            // SAFETY: the caller's promise.
            unsafe { (api.map)(pointer(start), size(bytes), 0, pages.0, 0) }
        })
    }

    /// Undoes a mapping.
    ///
    /// # Safety
    /// It starts here, and no command that has not ended names an address of it.
    pub(crate) unsafe fn unmap_pages(&self, start: u64) -> Called<()> {
        let api = self.api.virtual_memory.as_ref();
        // SAFETY: the caller's promise.
        self.call_of(api, |api| unsafe { (api.unmap)(pointer(start)) })
    }
}

/// A page of page-locked host memory that nobody writes once it is made, given back when dropped.
#[derive(Debug)]
pub(crate) struct HostPage {
    context: Arc<Context>,
    start: NonNull<u8>,
}

// SAFETY: memory that is only read.
unsafe impl Send for HostPage {}
// SAFETY: as for `Send`.
unsafe impl Sync for HostPage {}

impl HostPage {
    /// A page with this in it.
    pub(crate) fn new(context: &Arc<Context>, content: &[u8]) -> Called<Self> {
        let start = context.allocate_host(content.len())?;
        // SAFETY: fresh memory of that size, and nobody else's.
        unsafe { ptr::copy_nonoverlapping(content.as_ptr(), start.as_ptr(), content.len()) };
        Ok(Self {
            context: Arc::clone(context),
            start,
        })
    }

    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HostPage {
    fn drop(&mut self) {
        // SAFETY: ours; tickets of copies from it hold it until they are over.
        let _freed = unsafe { self.context.free_host(self.start) };
    }
}
