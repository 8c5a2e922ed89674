//! OpenCL's status codes, in the contract's words. The only place that knows them.
//!
//! | code | means | becomes |
//! |---|---|---|
//! | -2, -1121 | the device went away, or its context was ended (`cl_khr_terminate_context`) | `DeviceLost` |
//! | -4 | no memory on the device | `OutOfMemory` |
//! | -5 | out of something else on the device | `OutOfResources` |
//! | -6 | no memory on the host | `OutOfHostMemory` |
//! | -42, -45, -47, -49 to -52, -54, -55, -63 | what was given does not fit: checked before, so a slip of this backend or of a kernel's declaration | `Vendor` |
//! | -46 | no such kernel | `UnknownKernel` |
//! | -11, -42, -44, -15 to -17 when a module is loaded | it does not build | `UnknownModule` |
//! | others | what the contract has no word for | `Vendor` |
//!
//! The code stands beside each ([`DriverError::code`]).

use opencl_sys as cl;
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, ResourceKind, VendorCode};
use piton_native::VendorStatus;
use std::fmt;

/// A status code of OpenCL's. An open set: drivers and extensions add to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    /// What is no binary for the device.
    pub(crate) const INVALID_BINARY: Self = Self(cl::CL_INVALID_BINARY);

    /// The error of `operation` on `device` that the code stands for.
    pub fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        DriverError::new(self.kind(), operation, device).with_code(VendorCode(self.0.into()))
    }

    /// The kind of error, where no better numbers are known.
    pub fn kind(self) -> ErrorKind {
        match self.0 {
            cl::CL_DEVICE_NOT_AVAILABLE | cl::CL_CONTEXT_TERMINATED_KHR => ErrorKind::DeviceLost,
            cl::CL_MEM_OBJECT_ALLOCATION_FAILURE => ErrorKind::OutOfMemory {
                requested: 0,
                free: 0,
                capacity: 0,
            },
            cl::CL_OUT_OF_RESOURCES => ErrorKind::OutOfResources {
                resource: ResourceKind::Device,
                limit: 0,
            },
            cl::CL_OUT_OF_HOST_MEMORY => ErrorKind::OutOfHostMemory { requested: 0 },
            cl::CL_INVALID_KERNEL_NAME => ErrorKind::UnknownKernel,
            cl::CL_BUILD_PROGRAM_FAILURE
            | cl::CL_COMPILE_PROGRAM_FAILURE
            | cl::CL_LINKER_NOT_AVAILABLE
            | cl::CL_LINK_PROGRAM_FAILURE
            | cl::CL_COMPILER_NOT_AVAILABLE
            | cl::CL_INVALID_PROGRAM
            | cl::CL_INVALID_BINARY => ErrorKind::UnknownModule,
            _ => ErrorKind::Vendor,
        }
    }

    /// OpenCL's name for it, where it is one of those a runtime meets.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            cl::CL_DEVICE_NOT_FOUND => "CL_DEVICE_NOT_FOUND",
            cl::CL_DEVICE_NOT_AVAILABLE => "CL_DEVICE_NOT_AVAILABLE",
            cl::CL_COMPILER_NOT_AVAILABLE => "CL_COMPILER_NOT_AVAILABLE",
            cl::CL_MEM_OBJECT_ALLOCATION_FAILURE => "CL_MEM_OBJECT_ALLOCATION_FAILURE",
            cl::CL_OUT_OF_RESOURCES => "CL_OUT_OF_RESOURCES",
            cl::CL_OUT_OF_HOST_MEMORY => "CL_OUT_OF_HOST_MEMORY",
            cl::CL_BUILD_PROGRAM_FAILURE => "CL_BUILD_PROGRAM_FAILURE",
            cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST => {
                "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"
            }
            cl::CL_INVALID_VALUE => "CL_INVALID_VALUE",
            cl::CL_INVALID_BINARY => "CL_INVALID_BINARY",
            cl::CL_INVALID_PROGRAM => "CL_INVALID_PROGRAM",
            cl::CL_INVALID_KERNEL_NAME => "CL_INVALID_KERNEL_NAME",
            cl::CL_INVALID_ARG_SIZE => "CL_INVALID_ARG_SIZE",
            cl::CL_INVALID_WORK_GROUP_SIZE => "CL_INVALID_WORK_GROUP_SIZE",
            cl::CL_INVALID_BUFFER_SIZE => "CL_INVALID_BUFFER_SIZE",
            cl::CL_CONTEXT_TERMINATED_KHR => "CL_CONTEXT_TERMINATED_KHR",
            cl::CL_PLATFORM_NOT_FOUND_KHR => "CL_PLATFORM_NOT_FOUND_KHR",
            _ => return None,
        })
    }
}

impl VendorStatus for Status {
    const VENDOR: &'static str = "OpenCL";

    fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        Self::error(self, operation, device)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: i32) -> ErrorKind {
        Status(code).error(Operation::Launch, DeviceId(2)).kind
    }

    #[test]
    fn loss_lack_of_memory_and_lack_of_resources_are_told_apart() {
        for code in [-2, -1121] {
            assert_eq!(kind(code), ErrorKind::DeviceLost);
        }
        assert!(matches!(kind(-4), ErrorKind::OutOfMemory { .. }));
        assert!(matches!(kind(-5), ErrorKind::OutOfResources { .. }));
        assert!(matches!(kind(-6), ErrorKind::OutOfHostMemory { .. }));
    }

    #[test]
    fn a_code_that_nobody_knows_keeps_its_number() {
        let error = Status(-9999).error(Operation::Fill, DeviceId(0));
        assert_eq!(error.kind, ErrorKind::Vendor);
        assert_eq!(error.code, Some(VendorCode(-9999)));
    }
}
