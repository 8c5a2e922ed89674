//! Memory of a context: device memory, page-locked host memory, pages mapped at chosen addresses.

#![expect(unsafe_code, reason = "calls of CUDA that give and take memory")]

use super::{
    Called, Context,
    declarations::{
        ACCESS_READ_WRITE, ALLOCATION_PINNED, Device, DeviceAddress, GRANULARITY_MINIMUM,
        GRANULARITY_RECOMMENDED, HOST_MAPPED, HOST_PORTABLE, LOCATION_DEVICE, MemoryAccess,
        MemoryHandle, MemoryLocation, MemoryProperties,
    },
    succeeded,
    symbols::VirtualMemory,
};
use crate::status::Status;
use std::{ffi::c_uint, ptr, ptr::NonNull};

/// Sizes as CUDA takes them. What does not fit is refused by it.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Context {
    /// Device memory of this size.
    pub(crate) fn allocate(&self, bytes: u64) -> Called<DeviceAddress> {
        let mut address = 0;
        self.call(|core| {
            // SAFETY: a place of the right type.
            unsafe { (core.memory_allocate)(&raw mut address, size(bytes)) }
        })?;
        Ok(address)
    }

    /// Gives device memory back. May synchronise the device.
    ///
    /// # Safety
    /// The address came from [`allocate`](Self::allocate), and no command that has not ended uses it.
    pub(crate) unsafe fn free(&self, address: DeviceAddress) -> Called<()> {
        // SAFETY: the caller's promise.
        self.call(|core| unsafe { (core.memory_free)(address) })
    }

    /// Bytes that are free, and bytes in all.
    pub(crate) fn memory_info(&self) -> Called<(u64, u64)> {
        let (mut free, mut all) = (0_usize, 0_usize);
        // SAFETY: two places of the right type.
        self.call(|core| unsafe { (core.memory_info)(&raw mut free, &raw mut all) })?;
        Ok((free as u64, all as u64))
    }

    /// Page-locked host memory that every context of the process reaches, with the address that kernels use.
    pub(crate) fn allocate_host(&self, bytes: usize) -> Called<(NonNull<u8>, DeviceAddress)> {
        let mut host = ptr::null_mut();
        self.call(|core| {
            // SAFETY: a place of the right type.
            unsafe { (core.host_allocate)(&raw mut host, bytes, HOST_PORTABLE | HOST_MAPPED) }
        })?;
        let start = NonNull::new(host.cast()).ok_or(Status::INVALID_VALUE)?;
        match self.device_address(start) {
            Ok(address) => Ok((start, address)),
            Err(status) => {
                // SAFETY: just made, and nobody else's yet.
                let _freed = unsafe { self.free_host(start) };
                Err(status)
            }
        }
    }

    /// Gives page-locked host memory back.
    ///
    /// # Safety
    /// It came from [`allocate_host`](Self::allocate_host), and nobody uses it any more.
    pub(crate) unsafe fn free_host(&self, start: NonNull<u8>) -> Called<()> {
        // SAFETY: the caller's promise.
        self.call(|core| unsafe { (core.host_free)(start.as_ptr().cast()) })
    }

    /// Locks memory of the program's, and says at what address kernels reach it.
    ///
    /// # Safety
    /// The memory is live until [`unregister_host`](Self::unregister_host).
    pub(crate) unsafe fn register_host(
        &self,
        start: NonNull<u8>,
        bytes: usize,
    ) -> Called<DeviceAddress> {
        let flags = HOST_PORTABLE | HOST_MAPPED;
        self.call(|core| {
            // SAFETY: the caller's promise.
            unsafe { (core.host_register)(start.as_ptr().cast(), bytes, flags) }
        })?;
        self.device_address(start).inspect_err(|_| {
            // SAFETY: just registered.
            let _undone = unsafe { self.unregister_host(start) };
        })
    }

    /// Unlocks memory of the program's.
    ///
    /// # Safety
    /// It was registered, and no command that has not ended uses it.
    pub(crate) unsafe fn unregister_host(&self, start: NonNull<u8>) -> Called<()> {
        // SAFETY: the caller's promise.
        self.call(|core| unsafe { (core.host_unregister)(start.as_ptr().cast()) })
    }

    fn device_address(&self, start: NonNull<u8>) -> Called<DeviceAddress> {
        let mut address = 0;
        self.call(|core| {
            // SAFETY: a place of the right type; the memory is mapped for devices.
            unsafe { (core.host_address)(&raw mut address, start.as_ptr().cast(), 0) }
        })?;
        Ok(address)
    }

    /// What physical memory of this device is asked for with; `handle_types` is what of it other processes may be sent.
    fn properties(&self, handle_types: c_uint) -> MemoryProperties {
        MemoryProperties {
            kind: ALLOCATION_PINNED,
            handle_types,
            location: location(self.device()),
            windows_handle: ptr::null_mut(),
            flags: [0; 8],
        }
    }

    fn pages(&self, call: impl FnOnce(&VirtualMemory) -> super::declarations::Code) -> Called<()> {
        let api = self.api.virtual_memory.as_ref();
        let api = api.ok_or(Status::NOT_SUPPORTED)?;
        let _entered = self.enter()?;
        succeeded(call(api)).inspect_err(|status| self.note(*status))
    }

    /// What sizes and addresses of mappings are multiples of: the least that works, and what is recommended.
    pub(crate) fn granularity(&self) -> Called<(u64, u64)> {
        let properties = self.properties(0);
        let ask = |which| {
            let mut bytes = 0_usize;
            self.pages(|api| {
                // SAFETY: a place of the right type, and properties that live through the call.
                unsafe { (api.granularity)(&raw mut bytes, &raw const properties, which) }
            })
            .map(|()| bytes as u64)
        };
        Ok((ask(GRANULARITY_MINIMUM)?, ask(GRANULARITY_RECOMMENDED)?))
    }

    /// Addresses that nothing backs.
    pub(crate) fn reserve(&self, bytes: u64) -> Called<DeviceAddress> {
        let mut address = 0;
        self.pages(|api| {
            // SAFETY: a place of the right type; no alignment beyond the granularity, no wish for an address.
            unsafe { (api.reserve)(&raw mut address, size(bytes), 0, 0, 0) }
        })?;
        Ok(address)
    }

    /// Gives addresses back.
    ///
    /// # Safety
    /// They were reserved as a whole, nothing is mapped there, and no command that has not ended names them.
    pub(crate) unsafe fn release_addresses(
        &self,
        address: DeviceAddress,
        bytes: u64,
    ) -> Called<()> {
        // SAFETY: the caller's promise.
        self.pages(|api| unsafe { (api.release)(address, size(bytes)) })
    }

    /// Physical memory that is mapped nowhere.
    pub(crate) fn create_pages(&self, bytes: u64) -> Called<MemoryHandle> {
        self.create_pages_for(bytes, 0)
    }

    /// The same, of which other processes may be sent handles of these types.
    pub(super) fn create_pages_for(
        &self,
        bytes: u64,
        handle_types: c_uint,
    ) -> Called<MemoryHandle> {
        let (mut handle, properties) = (0, self.properties(handle_types));
        self.pages(|api| {
            // SAFETY: a place of the right type, and properties that live through the call.
            unsafe { (api.create)(&raw mut handle, size(bytes), &raw const properties, 0) }
        })?;
        Ok(handle)
    }

    /// Gives physical memory up; it goes when it is mapped nowhere.
    pub(crate) fn destroy_pages(&self, handle: MemoryHandle) -> Called<()> {
        // SAFETY: a handle that is none is refused.
        self.pages(|api| unsafe { (api.destroy)(handle) })
    }

    /// Maps all of a handle, and lets these devices read and write it.
    ///
    /// # Safety
    /// The addresses are reserved and nothing is mapped there; no command that has not ended names them.
    pub(crate) unsafe fn map_pages(
        &self,
        address: DeviceAddress,
        bytes: u64,
        handle: MemoryHandle,
        readers: &[Device],
    ) -> Called<()> {
        // SAFETY: the caller's promise.
        self.pages(|api| unsafe { (api.map)(address, size(bytes), 0, handle, 0) })?;
        self.grant(address, bytes, readers).inspect_err(|_| {
            // SAFETY: just mapped, and nobody has used it.
            let _undone = unsafe { self.unmap_pages(address, bytes) };
        })
    }

    /// Lets these devices read and write what is mapped here.
    pub(crate) fn grant(
        &self,
        address: DeviceAddress,
        bytes: u64,
        readers: &[Device],
    ) -> Called<()> {
        let access: Vec<_> = readers
            .iter()
            .map(|device| MemoryAccess {
                location: location(*device),
                flags: ACCESS_READ_WRITE,
            })
            .collect();
        self.pages(|api| {
            // SAFETY: as many descriptions as said.
            unsafe { (api.set_access)(address, size(bytes), access.as_ptr(), access.len()) }
        })
    }

    /// Undoes mappings.
    ///
    /// # Safety
    /// The range covers whole ones, and no command that has not ended names an address of it.
    pub(crate) unsafe fn unmap_pages(&self, address: DeviceAddress, bytes: u64) -> Called<()> {
        // SAFETY: the caller's promise.
        self.pages(|api| unsafe { (api.unmap)(address, size(bytes)) })
    }
}

const fn location(device: Device) -> MemoryLocation {
    MemoryLocation {
        kind: LOCATION_DEVICE,
        id: device,
    }
}
