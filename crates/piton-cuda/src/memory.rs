//! Device memory, as CUDA has it for everybody.
//!
//! CUDA says itself when memory is out; how much there was then is a second question, whose answer other processes may have
//! changed meanwhile.

#![expect(
    unsafe_code,
    reason = "implements the contract, and frees memory of CUDA's"
)]

use crate::{device::CudaDevice, status::Status};
use piton_driver::{DevicePtr, DriverError, ErrorKind, Memory, MemoryUsage, Operation};

/// What sizes are rounded to, and starts are multiples of: what pools above expect of a device. CUDA promises 256 and gives
/// 512; where it should give less, a little more is asked for and the start moved.
const ALIGNMENT: u64 = 512;

impl CudaDevice {
    /// The error for a refusal; what memory there is stands beside one for lack of it.
    pub(crate) fn memory_error(
        &self,
        status: Status,
        operation: Operation,
        requested: u64,
    ) -> DriverError {
        let mut error = self.called(status, operation);
        if error.is_out_of_memory() {
            let (free, capacity) = self
                .context
                .memory_info()
                .unwrap_or((0, self.info.memory_bytes));
            error.kind = ErrorKind::OutOfMemory {
                requested,
                free,
                capacity,
            };
        }
        error
    }

    /// No more is asked for than there is: what CUDA answers to absurd sizes depends on its version.
    pub(crate) fn has_so_much(&self, operation: Operation, bytes: u64) -> Result<(), DriverError> {
        if bytes <= self.info.memory_bytes {
            return Ok(());
        }
        let mut error = self.memory_error(Status::OUT_OF_MEMORY, operation, bytes);
        error.code = None;
        Err(error)
    }

    /// An aligned start, and where CUDA's allocation starts.
    fn aligned(&self, bytes: u64) -> Result<(u64, u64), Status> {
        let address = self.context.allocate(bytes)?;
        if address.is_multiple_of(ALIGNMENT) {
            return Ok((address, address));
        }
        // SAFETY: just allocated, and nobody's yet.
        unsafe { self.context.free(address) }?;
        let address = self.context.allocate(bytes.saturating_add(ALIGNMENT))?;
        Ok((address.next_multiple_of(ALIGNMENT), address))
    }
}

// SAFETY: CUDA hands out memory that overlaps no other and stays until it is freed; every stream and kernel of the context
// reaches it. The books refuse what is not the start of a live allocation.
unsafe impl Memory for CudaDevice {
    fn granularity(&self) -> u64 {
        ALIGNMENT
    }

    fn alignment(&self) -> u64 {
        ALIGNMENT
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        let operation = Operation::AllocateMemory;
        self.alive(operation)?;
        let maximum = self.info.memory_bytes;
        if bytes == 0 {
            let invalid = ErrorKind::InvalidSize { bytes, maximum };
            return Err(DriverError::new(invalid, operation, self.info.id));
        }
        // What cannot be rounded is more than there is.
        let rounded = bytes
            .checked_next_multiple_of(ALIGNMENT)
            .unwrap_or(u64::MAX);
        self.has_so_much(operation, rounded)?;
        let (start, first) = self
            .aligned(rounded)
            .map_err(|status| self.memory_error(status, operation, rounded))?;
        self.memory.insert(start, rounded, first);
        Ok(DevicePtr::new(start))
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<(), DriverError> {
        let operation = Operation::FreeMemory;
        let unknown = ErrorKind::UnknownAddress {
            address: ptr,
            bytes: 1,
        };
        let error = DriverError::new(unknown, operation, self.info.id);
        let (bytes, first) = self.memory.remove(ptr.address(), |_| true).ok_or(error)?;
        // SAFETY: the books had it, so it came from `allocate` and is freed once; that no command uses it is the caller's
        // promise.
        let freed = unsafe { self.context.free(first) };
        freed.map_err(|status| {
            let error = self.called(status, operation);
            if !error.is_device_lost() {
                self.memory.insert(ptr.address(), bytes, first);
            }
            error
        })
    }

    fn usage(&self) -> Result<MemoryUsage, DriverError> {
        let operation = Operation::QueryMemory;
        self.alive(operation)?;
        let (free, capacity) = self
            .context
            .memory_info()
            .map_err(|status| self.called(status, operation))?;
        Ok(MemoryUsage { capacity, free })
    }
}
