//! Virtual memory: CUDA's, with books of its own for what the contract refuses.

#![expect(unsafe_code, reason = "implements the contract over CUDA's mappings")]

use crate::{device::CudaDevice, mappings::Pages, status::Status};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, Operation, PageGranularity, PhysicalHandle,
    VirtualMemory,
};

/// What an address space of a process has at most on the systems that CUDA runs on.
const ADDRESS_SPACE: u64 = 1 << 47;

impl CudaDevice {
    /// A size that fits the granularity.
    fn page_size(&self, bytes: u64, operation: Operation) -> Result<(), DriverError> {
        let error = |kind| DriverError::new(kind, operation, self.info.id);
        let alignment = VirtualMemory::granularity(self).minimum;
        if bytes == 0 {
            let maximum = ADDRESS_SPACE;
            return Err(error(ErrorKind::InvalidSize { bytes, maximum }));
        }
        if !bytes.is_multiple_of(alignment) {
            let value = bytes;
            return Err(error(ErrorKind::Misaligned { value, alignment }));
        }
        Ok(())
    }

    fn in_books<T>(
        &self,
        result: Result<T, ErrorKind>,
        operation: Operation,
    ) -> Result<T, DriverError> {
        result.map_err(|kind| DriverError::new(kind, operation, self.info.id))
    }

    /// Lets devices that have access to this one's memory reach a mapping that is ready.
    fn grant_to_peers(&self, made: DeviceRange) -> Result<(), Status> {
        let readers = self.shared.readers_of(self.info.id);
        if readers.is_empty() {
            return Ok(());
        }
        self.context
            .grant(made.start.address(), made.bytes, &readers)
    }

    /// Undoes one mapping of the books and of CUDA.
    ///
    /// # Safety
    /// As [`VirtualMemory::unmap`].
    unsafe fn undo(&self, mapping: DeviceRange) -> Result<(), Status> {
        // SAFETY: the caller's promise; the books have the whole mapping.
        let undone = unsafe {
            self.context
                .unmap_pages(mapping.start.address(), mapping.bytes)
        };
        self.mappings.end_unmap(mapping, undone.is_ok());
        undone
    }
}

// SAFETY: reservations, handles and mappings are CUDA's, which keeps a handle's memory while it is mapped; the books refuse
// what the contract refuses before CUDA is asked, and hold for commands only what is mapped.
unsafe impl VirtualMemory for CudaDevice {
    fn granularity(&self) -> PageGranularity {
        self.pages.unwrap_or(PageGranularity {
            minimum: 1,
            recommended: 1,
        })
    }

    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
        let operation = Operation::ReserveAddresses;
        self.alive(operation)?;
        self.page_size(bytes, operation)?;
        let (requested, capacity) = (bytes, ADDRESS_SPACE);
        let out = ErrorKind::OutOfAddressSpace {
            requested,
            capacity,
        };
        if bytes > ADDRESS_SPACE {
            return Err(DriverError::new(out, operation, self.info.id));
        }
        let reserved = self.context.reserve(bytes).map_err(|status| {
            let mut error = self.called(status, operation);
            if error.is_out_of_memory() {
                error.kind = out;
            }
            error
        })?;
        let start = DevicePtr::new(reserved);
        let range = DeviceRange { start, bytes };
        self.mappings.reserve(range);
        Ok(range)
    }

    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError> {
        let operation = Operation::ReleaseAddresses;
        self.in_books(self.mappings.release(range), operation)?;
        // SAFETY: the books had it, whole and empty; the rest is the caller's promise.
        let released = unsafe {
            self.context
                .release_addresses(range.start.address(), range.bytes)
        };
        released.map_err(|status| {
            self.mappings.reserve(range);
            self.called(status, operation)
        })
    }

    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        let operation = Operation::CreatePhysical;
        self.alive(operation)?;
        self.page_size(bytes, operation)?;
        self.has_so_much(operation, bytes)?;
        let raw = self
            .context
            .create_pages(bytes)
            .map_err(|status| self.memory_error(status, operation, bytes))?;
        let handle = self.mappings.note_pages(Pages { raw, bytes });
        Ok(PhysicalHandle(handle))
    }

    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError> {
        let operation = Operation::DestroyPhysical;
        let pages = self.in_books(self.mappings.take_pages(handle.0), operation)?;
        let destroyed = self.context.destroy_pages(pages.raw);
        destroyed.map_err(|status| self.called(status, operation))
    }

    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        let operation = Operation::Map;
        self.alive(operation)?;
        let alignment = VirtualMemory::granularity(self).minimum;
        let pages = self.mappings.begin_map(at, handle.0, alignment);
        let pages = self.in_books(pages, operation)?;
        let (start, bytes) = (at, pages.bytes);
        let range = DeviceRange { start, bytes };
        let own = [self.context.device()];
        // SAFETY: the books had the addresses reserved and empty; the rest is the caller's promise.
        let made = unsafe { self.context.map_pages(at.address(), bytes, pages.raw, &own) };
        self.mappings.end_map(range, made.is_ok());
        made.map_err(|status| self.called(status, operation))?;
        // After the mapping is ready: whoever enables access meanwhile finds it, or is found here.
        let granted = self.grant_to_peers(range);
        granted.map_err(|status| self.called(status, operation))
    }

    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
        let operation = Operation::Unmap;
        let mappings = self.in_books(self.mappings.begin_unmap(range), operation)?;
        let mut first_error = None;
        for mapping in mappings {
            // SAFETY: the caller's promise.
            if let Err(status) = unsafe { self.undo(mapping) } {
                first_error.get_or_insert(status);
            }
        }
        first_error.map_or(Ok(()), |status| Err(self.called(status, operation)))
    }
}
