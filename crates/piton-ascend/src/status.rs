//! The runtime's codes, in the contract's words. The only place that knows them.
//!
//! From the public reference, "aclError" (<https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/API/runtimeapi/aclcppdevg_03_6666.html>):
//! 1xxxxx are mistakes of the caller's, 2xxxxx lack of something or no support, 3xxxxx a service's state, 5xxxxx failures
//! within software and hardware. `meaning` says what the reference says of each in a few words.
//!
//! | code | becomes |
//! |---|---|
//! | 200000, 207001, 207018 | `OutOfMemory`; `OutOfHostMemory` where host memory was asked for |
//! | 200001, 200006, 207000 | `Unsupported` |
//! | 207005, 207007 to 207012, 207014, 507002, 507032 | `OutOfResources` |
//! | 100003, 100005, 100006; 100000 and 107000 where a module was loaded | `UnknownModule` |
//! | 100024, 507027; 107000 and 107017 where a kernel was looked up | `UnknownKernel` |
//! | 107001, 207004, 200002 | `DeviceLost`: no such device any more |
//! | 507000 and above, but for those, and for what says "not yet", "took too long to wait for", "no such thing", "registered" or "not registered" | `DeviceLost` |
//!
//! That a failed kernel is its device's loss is a decision of this backend's and not of the reference's: by default the
//! runtime lets later tasks run, and does not say what of the device can still be trusted. So nothing new is begun, and what
//! was begun is waited for.

use piton_driver::{DeviceId, DriverError, ErrorKind, Operation, ResourceKind, VendorCode};
use piton_native::{VendorStatus, stream::StreamStatus};
use std::fmt;

/// A code of the Ascend host runtime's (`aclError`). An open set: each version adds to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    /// All went well.
    pub(crate) const SUCCESS: Self = Self(0);
    /// Something does not fit.
    pub(crate) const INVALID_PARAM: Self = Self(100_000);
    /// Somebody has initialised the library before.
    pub(crate) const REPEATED_INITIALIZE: Self = Self(100_002);
    /// No such device.
    pub(crate) const INVALID_DEVICE: Self = Self(107_001);
    /// The library or the device cannot do it.
    pub(crate) const UNSUPPORTED: Self = Self(200_006);
    /// The library is there, and no device.
    pub(crate) const NO_DEVICE: Self = Self(207_004);
    /// There is not enough of something.
    pub(crate) const NO_RESOURCE: Self = Self(207_005);

    /// The error of `operation` on `device` that the code stands for.
    pub fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        let kind = match (self.kind(), operation) {
            (ErrorKind::OutOfMemory { .. }, Operation::AllocateHost | Operation::RegisterHost) => {
                ErrorKind::OutOfHostMemory { requested: 0 }
            }
            (ErrorKind::Vendor, Operation::GetKernel) if matches!(self.0, 107_000 | 107_017) => {
                ErrorKind::UnknownKernel
            }
            (ErrorKind::Vendor, Operation::LoadModule) if matches!(self.0, 100_000 | 107_000) => {
                ErrorKind::UnknownModule
            }
            (kind, _) => kind,
        };
        DriverError::new(kind, operation, device).with_code(VendorCode(self.0.into()))
    }

    /// The kind of error, where no better numbers are known.
    pub const fn kind(self) -> ErrorKind {
        match self.0 {
            200_000 | 207_001 | 207_018 => ErrorKind::OutOfMemory {
                requested: 0,
                free: 0,
                capacity: 0,
            },
            200_001 | 200_006 | 207_000 => ErrorKind::Unsupported,
            207_005 | 207_007..=207_012 | 207_014 | 507_002 | 507_032 => {
                ErrorKind::OutOfResources {
                    resource: ResourceKind::Device,
                    limit: 0,
                }
            }
            100_003 | 100_005 | 100_006 => ErrorKind::UnknownModule,
            100_024 | 507_027 => ErrorKind::UnknownKernel,
            107_001 | 200_002 | 207_004 => ErrorKind::DeviceLost,
            // Not yet; of no such kind; nothing there; not yet after the time that was allowed; host memory that is
            // registered already, or is not.
            507_003..=507_006 | 507_008 | 507_009 | 507_046 | 507_047 | 507_910 | 507_911 => {
                ErrorKind::Vendor
            }
            507_000..=507_999 => ErrorKind::DeviceLost,
            _ => ErrorKind::Vendor,
        }
    }

    /// The reference's name for it and what it means, where it is one of those a runtime meets.
    pub const fn meaning(self) -> Option<(&'static str, &'static str)> {
        Some(match self.0 {
            0 => ("ACL_SUCCESS", "all went well"),
            100_000 => ("ACL_ERROR_INVALID_PARAM", "an argument does not fit"),
            100_001 => ("ACL_ERROR_UNINITIALIZE", "the library is not initialised"),
            100_002 => (
                "ACL_ERROR_REPEAT_INITIALIZE",
                "initialised or loaded before",
            ),
            100_003 => ("ACL_ERROR_INVALID_FILE", "no such file, or none to be read"),
            107_000 => ("ACL_ERROR_RT_PARAM_INVALID", "an argument does not fit"),
            107_001 => ("ACL_ERROR_RT_INVALID_DEVICEID", "no such device"),
            107_002 => (
                "ACL_ERROR_RT_CONTEXT_NULL",
                "the thread has no current context",
            ),
            107_003 => (
                "ACL_ERROR_RT_STREAM_CONTEXT",
                "the stream is not of the current context",
            ),
            107_006 => (
                "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID",
                "the event keeps no time",
            ),
            107_008 => ("ACL_ERROR_RT_ADDR_UNALIGNED", "the address is not aligned"),
            107_016 => ("ACL_ERROR_RT_INVALID_MEMORY_TYPE", "no such kind of memory"),
            107_017 => ("ACL_ERROR_RT_INVALID_HANDLE", "no such handle"),
            107_019 => ("ACL_ERROR_RT_WAIT_TIMEOUT", "a wait took too long"),
            200_000 => ("ACL_ERROR_BAD_ALLOC", "no memory"),
            200_001 => ("ACL_ERROR_API_NOT_SUPPORT", "no such function here"),
            200_002 => ("ACL_ERROR_INVALID_DEVICE", "no such device"),
            200_006 => ("ACL_ERROR_FEATURE_UNSUPPORTED", "not supported"),
            207_000 => ("ACL_ERROR_RT_FEATURE_NOT_SUPPORT", "not supported"),
            207_001 => ("ACL_ERROR_RT_MEMORY_ALLOCATION", "no memory"),
            207_004 => ("ACL_ERROR_RT_NO_DEVICE", "no device"),
            207_005 => ("ACL_ERROR_RT_RESOURCE_ALLOC_FAIL", "no more resources"),
            207_006 => ("ACL_ERROR_RT_NO_PERMISSION", "not permitted"),
            207_007 => ("ACL_ERROR_RT_NO_EVENT_RESOURCE", "no more events"),
            207_008 => ("ACL_ERROR_RT_NO_STREAM_RESOURCE", "no more streams"),
            207_009 => ("ACL_ERROR_RT_NO_NOTIFY_RESOURCE", "no more notifications"),
            500_000 => ("ACL_ERROR_INTERNAL_ERROR", "a failure that is not known"),
            _ => return self.internal_meaning(),
        })
    }

    /// The same for failures within software and hardware.
    const fn internal_meaning(self) -> Option<(&'static str, &'static str)> {
        Some(match self.0 {
            507_000 => ("ACL_ERROR_RT_INTERNAL_ERROR", "a failure of the runtime's"),
            507_001 => ("ACL_ERROR_RT_TS_ERROR", "a failure of the task scheduler's"),
            507_002 => ("ACL_ERROR_RT_STREAM_TASK_FULL", "the stream is full"),
            507_004 => (
                "ACL_ERROR_RT_STREAM_NOT_COMPLETE",
                "the stream has not ended",
            ),
            507_006 => (
                "ACL_ERROR_RT_EVENT_NOT_COMPLETE",
                "the event has not passed",
            ),
            507_010 => ("ACL_ERROR_RT_LOST_HEARTBEAT", "the device does not answer"),
            507_013 => ("ACL_ERROR_RT_SYS_DMA", "a copy engine failed"),
            507_014 => ("ACL_ERROR_RT_AICORE_TIMEOUT", "a kernel took too long"),
            507_015 => ("ACL_ERROR_RT_AICORE_EXCEPTION", "a kernel failed"),
            507_016 => ("ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "a kernel trapped"),
            507_018 => ("ACL_ERROR_RT_AICPU_EXCEPTION", "a kernel of the CPU failed"),
            507_027 => ("ACL_ERROR_RT_KERNEL_LOOKUP", "no such kernel"),
            507_034 => (
                "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT",
                "a vector kernel took too long",
            ),
            507_035 => (
                "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION",
                "a vector kernel failed",
            ),
            507_036 => (
                "ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION",
                "a vector kernel trapped",
            ),
            507_046 => (
                "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
                "the stream did not end in time",
            ),
            507_047 => (
                "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT",
                "the event did not pass in time",
            ),
            507_053 => (
                "ACL_ERROR_RT_DEVICE_MEM_ERROR",
                "memory failed beyond repair",
            ),
            507_054 => (
                "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR",
                "several bits of memory failed",
            ),
            507_056 => ("ACL_ERROR_RT_LINK_ERROR", "a link between devices failed"),
            507_899 => (
                "ACL_ERROR_RT_DRV_INTERNAL_ERROR",
                "a failure of the driver's",
            ),
            507_910 => (
                "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
                "the host memory is registered already",
            ),
            507_911 => (
                "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED",
                "the host memory is not registered",
            ),
            _ => return None,
        })
    }
}

impl VendorStatus for Status {
    const VENDOR: &'static str = "Ascend";

    fn error(self, operation: Operation, device: DeviceId) -> DriverError {
        Self::error(self, operation, device)
    }
}

impl StreamStatus for Status {
    const UNAVAILABLE: Self = Self::NO_RESOURCE;

    fn code(self) -> u32 {
        self.0.cast_unsigned()
    }

    fn from_code(code: u32) -> Self {
        Self(code.cast_signed())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some((name, meaning)) => write!(f, "{name} ({}: {meaning})", self.0),
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

    fn kind(code: i32, operation: Operation) -> ErrorKind {
        Status(code).error(operation, DeviceId(2)).kind
    }

    #[test]
    fn loss_lack_of_memory_lack_of_resources_and_support_are_told_apart() {
        for code in [507_010, 507_014, 507_015, 507_035, 507_899, 107_001] {
            assert_eq!(
                kind(code, Operation::Launch),
                ErrorKind::DeviceLost,
                "{code}"
            );
        }
        let allocate = Operation::AllocateMemory;
        assert!(matches!(
            kind(207_001, allocate),
            ErrorKind::OutOfMemory { .. }
        ));
        let events = kind(207_007, Operation::Launch);
        assert!(matches!(events, ErrorKind::OutOfResources { .. }));
        assert_eq!(kind(207_000, allocate), ErrorKind::Unsupported);
    }

    #[test]
    fn not_yet_is_no_loss() {
        for code in [507_003, 507_004, 507_006, 507_046, 507_047] {
            assert_eq!(kind(code, Operation::Launch), ErrorKind::Vendor, "{code}");
        }
    }

    #[test]
    fn host_memory_that_is_registered_already_is_no_loss_of_the_device() {
        assert_eq!(kind(507_910, Operation::RegisterHost), ErrorKind::Vendor);
        assert_eq!(kind(507_911, Operation::UnregisterHost), ErrorKind::Vendor);
    }

    #[test]
    fn what_was_asked_decides_where_a_code_does_not() {
        let host = kind(207_001, Operation::AllocateHost);
        assert!(matches!(host, ErrorKind::OutOfHostMemory { .. }));
        let kernel = kind(107_000, Operation::GetKernel);
        assert_eq!(kernel, ErrorKind::UnknownKernel);
        assert_eq!(
            kind(107_000, Operation::LoadModule),
            ErrorKind::UnknownModule
        );
        assert_eq!(kind(107_000, Operation::Fill), ErrorKind::Vendor);
    }

    #[test]
    fn a_code_that_nobody_knows_keeps_its_number() {
        let error = Status(4321).error(Operation::Fill, DeviceId(0));
        assert_eq!(error.kind, ErrorKind::Vendor);
        assert_eq!(error.code, Some(VendorCode(4321)));
        assert_eq!(Status(4321).to_string(), "status 4321");
        let text = Status(507_015).to_string();
        assert_eq!(
            text,
            "ACL_ERROR_RT_AICORE_EXCEPTION (507015: a kernel failed)"
        );
    }
}
