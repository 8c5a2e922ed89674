//! What commands may name: ranges, host memory, kernels, checked against the machine's books when a command is
//! submitted or a graph is made.

use crate::{
    command::HostRange, device::SimDevice, kernel::SimKernel, parameters::MAX_ARGUMENT_BYTES,
};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, ErrorKind, FillPattern, Kernel, Launch, Operation,
    ResourceKind,
};
use std::{any::Any, ptr::NonNull, sync::Arc};

impl SimDevice {
    pub(crate) fn device_range(
        &self,
        start: DevicePtr,
        bytes: u64,
        operation: Operation,
    ) -> Result<DeviceRange, DriverError> {
        let range = DeviceRange { start, bytes };
        self.check_range(range)
            .map_err(|kind| self.error(kind, operation))?;
        Ok(range)
    }

    pub(crate) fn host_range(
        &self,
        start: NonNull<u8>,
        bytes: u64,
        operation: Operation,
    ) -> Result<HostRange, DriverError> {
        let address = start.as_ptr().addr();
        let refused = || {
            let address = address as u64;
            self.error(ErrorKind::NotPageLocked { address, bytes }, operation)
        };
        let length = usize::try_from(bytes).map_err(|_| refused())?;
        if !self.machine().host.lock().covers(address, length) {
            return Err(refused());
        }
        Ok(HostRange {
            start,
            bytes: length,
        })
    }

    /// The simulated kernel behind `kernel`, if it is one of this device's.
    pub(crate) fn own_kernel(&self, kernel: &Arc<dyn Kernel>) -> Result<Arc<SimKernel>, ErrorKind> {
        let given = kernel.device();
        let kernel: Arc<dyn Any + Send + Sync> = Arc::clone(kernel) as _;
        let kernel = kernel.downcast::<SimKernel>().ok();
        let own = kernel.filter(|kernel| kernel.device.is(self));
        own.ok_or(ErrorKind::ForeignObject { given })
    }

    /// The two ends of a copy within the device: to, from.
    pub(crate) fn check_copy(
        &self,
        dst: DevicePtr,
        src: DevicePtr,
        bytes: u64,
    ) -> Result<(DeviceRange, DeviceRange), DriverError> {
        let operation = Operation::CopyOnDevice;
        let dst = self.device_range(dst, bytes, operation)?;
        let src = self.device_range(src, bytes, operation)?;
        if dst.overlaps(src) {
            let address = src.start;
            let kind = ErrorKind::AlreadyMapped { address, bytes };
            return Err(self.error(kind, operation));
        }
        Ok((dst, src))
    }

    pub(crate) fn check_fill(
        &self,
        dst: DevicePtr,
        pattern: FillPattern,
        bytes: u64,
    ) -> Result<DeviceRange, DriverError> {
        let alignment = pattern.bytes();
        for value in [dst.address(), bytes] {
            if !value.is_multiple_of(alignment) {
                let kind = ErrorKind::Misaligned { value, alignment };
                return Err(self.error(kind, Operation::Fill));
            }
        }
        self.device_range(dst, bytes, Operation::Fill)
    }
}

/// Whether a launch suits its kernel.
pub(crate) fn launch(kernel: &SimKernel, launch: &Launch<'_>) -> Result<(), ErrorKind> {
    let signature = kernel.definition.signature();
    let (expected, given) = (signature.packed_bytes(), launch.arguments.len() as u64);
    if expected != given {
        return Err(ErrorKind::InvalidArguments { expected, given });
    }
    if !launch.extents.is_empty() && launch.extents.len() != signature.buffers() {
        let (expected, given) = (signature.buffers() as u64, launch.extents.len() as u64);
        return Err(ErrorKind::InvalidArguments {
            expected: expected * 8,
            given: given * 8,
        });
    }
    let limit = u64::from(MAX_ARGUMENT_BYTES);
    if given > limit {
        let resource = ResourceKind::ArgumentBytes;
        return Err(ErrorKind::OutOfResources { resource, limit });
    }
    let maximum = u64::from(u32::MAX);
    match launch.grid.blocks() {
        Some(blocks) if blocks > 0 && blocks <= maximum => Ok(()),
        blocks => Err(ErrorKind::InvalidGrid {
            blocks: blocks.unwrap_or(u64::MAX),
            maximum,
        }),
    }
}
