//! Types and constants of the Ascend host runtime, as far as they are used here.
//!
//! Written from the public reference, *Runtime API (C)*, community edition 9.1.0, below
//! <https://www.hiascend.com/document/detail/en/CANNCommunityEdition/910/API/runtimeapi/>; the page stands beside each.
//! Names are the vendor's with the prefix left out. Codes are plain integers: a library that is newer than this file answers
//! with codes that are not in it.

use std::ffi::{c_int, c_uint, c_void};

/// `aclError` (`aclcppdevg_03_6666`).
pub(crate) type Code = c_int;

macro_rules! handles {
    ($($name:ident of $tag:ident, $doc:literal;)*) => {
        $(
            #[doc = concat!("What `", $doc, "` points to.")]
            #[repr(C)]
            #[derive(Debug)]
            pub(crate) struct $tag(c_void);
            #[doc = concat!("`", $doc, "`.")]
            pub(crate) type $name = *mut $tag;
        )*
    };
}

handles! {
    Context of ContextTag, "aclrtContext";
    Stream of StreamTag, "aclrtStream";
    Event of EventTag, "aclrtEvent";
    Notify of NotifyTag, "aclrtNotify";
    Binary of BinaryTag, "aclrtBinary";
    BinaryHandle of BinaryHandleTag, "aclrtBinHandle";
    Function of FunctionTag, "aclrtFuncHandle";
    Arguments of ArgumentsTag, "aclrtArgsHandle";
    Parameter of ParameterTag, "aclrtParamHandle";
    Pages of PagesTag, "aclrtDrvMemHandle";
}

/// `aclrtMemLocation` (`aclcppdevg_03_1400`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLocation {
    pub(crate) id: c_uint,
    pub(crate) kind: c_uint,
}

/// `aclrtPhysicalMemProp` (`aclcppdevg_03_1401`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryProperties {
    pub(crate) handle_type: c_uint,
    pub(crate) allocation_type: c_uint,
    pub(crate) attribute: c_uint,
    pub(crate) location: MemoryLocation,
    pub(crate) reserved: u64,
}

/// `ACL_MEM_HANDLE_TYPE_NONE`: nobody else gets it.
pub(crate) const HANDLE_NONE: c_uint = 0;
/// `ACL_MEM_ALLOCATION_TYPE_PINNED`.
pub(crate) const ALLOCATION_PINNED: c_uint = 0;
/// `ACL_MEM_LOCATION_TYPE_DEVICE`.
pub(crate) const LOCATION_DEVICE: c_uint = 1;
/// `ACL_DDR_MEM` of `aclrtMemAttr` (`aclcppdevg_03_1398`): pages of both kinds, where the device has no other memory.
pub(crate) const MEMORY_DDR: c_uint = 0;
/// `ACL_HBM_MEM`: the same in the device's fast memory.
pub(crate) const MEMORY_HBM: c_uint = 1;
/// `ACL_HBM_MEM_HUGE`: huge pages of 2 MiB in the device's fast memory, known to all versions.
pub(crate) const MEMORY_HBM_HUGE: c_uint = 4;
/// `aclrtReserveMemAddress`'s flag for huge pages (`aclcppdevg_03_0114`).
pub(crate) const RESERVE_HUGE: u64 = 1;
/// `ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM` (`aclrtMemGetAllocationGranularity`).
pub(crate) const GRANULARITY_MINIMUM: c_int = 0;
/// `ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
pub(crate) const GRANULARITY_RECOMMENDED: c_int = 1;

/// `ACL_STREAM_FAST_LAUNCH` (`aclrtCreateStreamWithConfig`, `aclcppdevg_03_0069`): what a stream needs is taken when it is
/// made, not at its first task.
pub(crate) const STREAM_FAST_LAUNCH: c_uint = 1;

/// `ACL_EVENT_SYNC` (`aclrtCreateEventExWithFlag`, `aclcppdevg_03_0081`): streams may wait for it.
pub(crate) const EVENT_SYNC: c_uint = 1;
/// `ACL_EVENT_TIME_LINE`: it keeps the time.
pub(crate) const EVENT_TIME: c_uint = 8;
/// `ACL_EVENT_RECORDED_STATUS_COMPLETE` (`aclrtEventRecordedStatus`, `aclcppdevg_03_1388`). Anything else: not yet, or its
/// stream has failed.
pub(crate) const EVENT_COMPLETE: c_int = 1;

/// `aclrtMemcpyKind` (`aclrtMemcpyAsync`, `aclcppdevg_03_0106`).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    /// `ACL_MEMCPY_HOST_TO_DEVICE`.
    ToDevice = 1,
    /// `ACL_MEMCPY_DEVICE_TO_HOST`.
    ToHost = 2,
    /// `ACL_MEMCPY_DEVICE_TO_DEVICE`: within one, and between two that are peers.
    OnDevice = 3,
}

/// `ACL_HOST_REG_MAPPED` (`aclrtHostRegisterV2`, `aclcppdevg_03_2128`): kernels reach it.
pub(crate) const HOST_MAPPED: c_uint = 0x2;
/// `ACL_HOST_REG_PINNED`: its pages are locked.
pub(crate) const HOST_PINNED: c_uint = 0x1000_0000;

/// `aclrtGetDevicesTopo`'s answers (`aclcppdevg_03_1895`).
pub(crate) mod pair {
    /// `ACL_RT_DEVS_TOPOLOGY_HCCS`.
    pub(crate) const HCCS: u64 = 0x01;
    /// `ACL_RT_DEVS_TOPOLOGY_PIX`.
    pub(crate) const PIX: u64 = 0x02;
    /// `ACL_RT_DEVS_TOPOLOGY_PHB`.
    pub(crate) const PHB: u64 = 0x08;
    /// `ACL_RT_DEVS_TOPOLOGY_SYS`.
    pub(crate) const SYS: u64 = 0x10;
    /// `ACL_RT_DEVS_TOPOLOGY_SIO`.
    pub(crate) const SIO: u64 = 0x20;
    /// `ACL_RT_DEVS_TOPOLOGY_HCCS_SW`.
    pub(crate) const HCCS_SWITCH: u64 = 0x40;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_laid_out_as_the_reference_says() {
        assert_eq!(size_of::<MemoryLocation>(), 8);
        assert_eq!(offset_of!(MemoryLocation, kind), 4);
        assert_eq!(size_of::<MemoryProperties>(), 32);
        assert_eq!(offset_of!(MemoryProperties, location), 12);
        assert_eq!(offset_of!(MemoryProperties, reserved), 24);
    }
}
