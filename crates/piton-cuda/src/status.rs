//! CUDA's status codes, in the contract's words. The only place that knows them.
//!
//! | code | means | becomes |
//! |---|---|---|
//! | 2 | no memory | `OutOfMemory` |
//! | 4, 46, 101, 214, 220, 226, 709, 810, 911 | the device, its context or the driver is gone for this process | `DeviceLost` |
//! | 700, 702, 710, 714 to 719, 721 | a kernel failed, and with it the context for good | `DeviceLost` |
//! | 200, 209, 218, 221 to 223, 300 | the module is none for this device | `UnknownModule` |
//! | 500 | no such kernel in the module | `UnknownKernel` |
//! | 217, 711 | no access to the other device | `Unsupported`, `OutOfResources` |
//! | 701, 720, 808, 809 | the launch wants more than the device has, or the service that shares it out | `OutOfResources` |
//! | 304 | the system said no | `OutOfHostMemory` where host memory was asked for, else `Vendor` |
//! | 801 | the device cannot do it | `Unsupported` |
//! | others | checked before, or what the contract has no word for | `Vendor` |
//!
//! A kernel's failure is the device's loss because CUDA says so: the error stays with the context, and every later call
//! answers it. The code stands beside each ([`DriverError::code`]), so who looks can tell a wild pointer (700) from a
//! device that fell off its bus.

use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, ResourceKind, VendorCode};
use piton_native::{VendorStatus, stream::StreamStatus};
use std::fmt;

/// A status code of CUDA's driver interface (`CUresult`). An open set: each version adds to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

impl Status {
    /// All went well.
    pub(crate) const SUCCESS: Self = Self(0);
    /// Something does not fit; for some questions, the end of a list.
    pub(crate) const INVALID_VALUE: Self = Self(1);
    /// The library is there, and no device.
    pub(crate) const NO_DEVICE: Self = Self(100);
    /// No such device: nothing is lost by it.
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    /// Text that does not compile.
    pub(crate) const INVALID_SOURCE: Self = Self(300);
    /// PTX of a version that the driver does not know yet.
    pub(crate) const UNSUPPORTED_PTX: Self = Self(222);
    /// The system said no.
    #[cfg(unix)]
    pub(crate) const OPERATING_SYSTEM: Self = Self(304);
    /// No such handle.
    #[cfg(unix)]
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    /// Nothing of that name.
    pub(crate) const NOT_FOUND: Self = Self(500);
    /// What was asked about has not ended.
    pub(crate) const NOT_READY: Self = Self(600);
    /// Done already.
    pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Self = Self(704);
    /// The device or its driver cannot do it.
    pub(crate) const NOT_SUPPORTED: Self = Self(801);

    /// The error of `operation` on `device` that the code stands for.
    pub fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        let kind = match (self.0, operation) {
            (2 | 304, Operation::AllocateHost | Operation::RegisterHost) => {
                ErrorKind::OutOfHostMemory { requested: 0 }
            }
            _ => self.kind(),
        };
        DriverError::new(kind, operation, device).with_code(VendorCode(self.0.into()))
    }

    /// The kind of error, where no better numbers are known.
    pub const fn kind(self) -> ErrorKind {
        match self.0 {
            2 => ErrorKind::OutOfMemory {
                requested: 0,
                free: 0,
                capacity: 0,
            },
            4 | 46 | 101 | 214 | 220 | 226 | 709 | 810 | 911 => ErrorKind::DeviceLost,
            // These stay with the context for ever.
            700 | 702 | 710 | 714..=719 | 721 => ErrorKind::DeviceLost,
            200 | 209 | 218 | 221..=223 | 300 => ErrorKind::UnknownModule,
            500 => ErrorKind::UnknownKernel,
            701 | 711 | 720 | 808 | 809 => ErrorKind::OutOfResources {
                resource: ResourceKind::Device,
                limit: 0,
            },
            217 | 801 => ErrorKind::Unsupported,
            _ => ErrorKind::Vendor,
        }
    }

    /// CUDA's name for it, where it is one of those a runtime meets.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "CUDA_SUCCESS",
            1 => "CUDA_ERROR_INVALID_VALUE",
            2 => "CUDA_ERROR_OUT_OF_MEMORY",
            3 => "CUDA_ERROR_NOT_INITIALIZED",
            4 => "CUDA_ERROR_DEINITIALIZED",
            34 => "CUDA_ERROR_STUB_LIBRARY",
            46 => "CUDA_ERROR_DEVICE_UNAVAILABLE",
            100 => "CUDA_ERROR_NO_DEVICE",
            101 => "CUDA_ERROR_INVALID_DEVICE",
            102 => "CUDA_ERROR_DEVICE_NOT_LICENSED",
            200 => "CUDA_ERROR_INVALID_IMAGE",
            201 => "CUDA_ERROR_INVALID_CONTEXT",
            209 => "CUDA_ERROR_NO_BINARY_FOR_GPU",
            214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
            217 => "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
            218 => "CUDA_ERROR_INVALID_PTX",
            220 => "CUDA_ERROR_NVLINK_UNCORRECTABLE",
            221 => "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
            222 => "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            223 => "CUDA_ERROR_JIT_COMPILATION_DISABLED",
            226 => "CUDA_ERROR_CONTAINED",
            300 => "CUDA_ERROR_INVALID_SOURCE",
            304 => "CUDA_ERROR_OPERATING_SYSTEM",
            400 => "CUDA_ERROR_INVALID_HANDLE",
            500 => "CUDA_ERROR_NOT_FOUND",
            600 => "CUDA_ERROR_NOT_READY",
            700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
            701 => "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            702 => "CUDA_ERROR_LAUNCH_TIMEOUT",
            704 => "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
            705 => "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
            709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
            710 => "CUDA_ERROR_ASSERT",
            711 => "CUDA_ERROR_TOO_MANY_PEERS",
            712 => "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            713 => "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
            714 => "CUDA_ERROR_HARDWARE_STACK_ERROR",
            715 => "CUDA_ERROR_ILLEGAL_INSTRUCTION",
            716 => "CUDA_ERROR_MISALIGNED_ADDRESS",
            717 => "CUDA_ERROR_INVALID_ADDRESS_SPACE",
            718 => "CUDA_ERROR_INVALID_PC",
            719 => "CUDA_ERROR_LAUNCH_FAILED",
            720 => "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
            721 => "CUDA_ERROR_TENSOR_LEAK",
            800 => "CUDA_ERROR_NOT_PERMITTED",
            801 => "CUDA_ERROR_NOT_SUPPORTED",
            802 => "CUDA_ERROR_SYSTEM_NOT_READY",
            803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
            805 => "CUDA_ERROR_MPS_CONNECTION_FAILED",
            806 => "CUDA_ERROR_MPS_RPC_FAILURE",
            807 => "CUDA_ERROR_MPS_SERVER_NOT_READY",
            808 => "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
            809 => "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
            810 => "CUDA_ERROR_MPS_CLIENT_TERMINATED",
            911 => "CUDA_ERROR_EXTERNAL_DEVICE",
            999 => "CUDA_ERROR_UNKNOWN",
            _ => return None,
        })
    }
}

impl VendorStatus for Status {
    const VENDOR: &'static str = "CUDA";

    fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        Self::error(self, operation, device)
    }
}

impl StreamStatus for Status {
    const UNAVAILABLE: Self = Self::NOT_READY;

    fn code(self) -> u32 {
        self.0
    }

    fn from_code(code: u32) -> Self {
        Self(code)
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

    fn kind(code: u32) -> ErrorKind {
        Status(code).error(Operation::Launch, DeviceId(2)).kind
    }

    #[test]
    fn loss_lack_of_memory_and_lack_of_resources_are_told_apart() {
        let gone = [4, 46, 214, 226, 810, 911];
        let failed = [700, 702, 710, 714, 716, 719, 721];
        for code in gone.into_iter().chain(failed) {
            assert_eq!(kind(code), ErrorKind::DeviceLost, "{code}");
        }
        assert!(matches!(kind(2), ErrorKind::OutOfMemory { .. }));
        for code in [701, 711, 720, 808, 809] {
            assert!(matches!(kind(code), ErrorKind::OutOfResources { .. }));
        }
        assert_eq!(kind(801), ErrorKind::Unsupported);
    }

    #[test]
    fn memory_of_the_host_is_not_the_devices() {
        let kind = Status(2).error(Operation::AllocateHost, DeviceId(0)).kind;
        assert!(matches!(kind, ErrorKind::OutOfHostMemory { .. }));
    }

    #[test]
    fn a_module_and_a_kernel_that_are_not_there_are_told_apart() {
        assert_eq!(kind(218), ErrorKind::UnknownModule);
        assert_eq!(kind(500), ErrorKind::UnknownKernel);
    }

    #[test]
    fn a_code_that_nobody_knows_keeps_its_number() {
        let error = Status(4321).error(Operation::Fill, DeviceId(0));
        assert_eq!(error.kind, ErrorKind::Vendor);
        assert_eq!(error.code, Some(VendorCode(4321)));
        assert_eq!(Status(4321).to_string(), "status 4321");
    }
}
