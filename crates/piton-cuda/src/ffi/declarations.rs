//! Types and constants of CUDA's driver interface, as far as they are used here.
//!
//! Written from the public *CUDA Driver API* reference ("Data types used by CUDA driver" and the module of each
//! function). Names are NVIDIA's with the prefix left out. Codes are plain integers: a driver that is newer than this file
//! answers with codes that are not in it.

use std::ffi::{c_int, c_uint, c_void};

/// `CUresult`.
pub(crate) type Code = c_uint;
/// `CUdevice`.
pub(crate) type Device = c_int;
/// `CUdeviceptr`.
pub(crate) type DeviceAddress = u64;
/// `CUmemGenericAllocationHandle`.
pub(crate) type MemoryHandle = u64;

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
    Context of ContextTag, "CUcontext";
    Stream of StreamTag, "CUstream";
    Event of EventTag, "CUevent";
    Module of ModuleTag, "CUmodule";
    Function of FunctionTag, "CUfunction";
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLocation {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryProperties {
    pub(crate) kind: c_uint,
    pub(crate) handle_types: c_uint,
    pub(crate) location: MemoryLocation,
    pub(crate) windows_handle: *mut c_void,
    /// `allocFlags`: compression, remote access, usage, reserved.
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    pub(crate) location: MemoryLocation,
    pub(crate) flags: c_uint,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(crate) const LOCATION_DEVICE: c_uint = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub(crate) const ALLOCATION_PINNED: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(crate) const ACCESS_READ_WRITE: c_uint = 3;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(crate) const DESCRIPTOR: c_uint = 1;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(crate) const GRANULARITY_MINIMUM: c_uint = 0;
/// `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
pub(crate) const GRANULARITY_RECOMMENDED: c_uint = 1;

/// `CU_STREAM_NON_BLOCKING`: no order with the stream that has no name.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_BLOCKING_SYNC`: who waits sleeps.
pub(crate) const EVENT_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const EVENT_WITHOUT_TIME: c_uint = 2;
/// `CU_STREAM_WAIT_VALUE_GEQ`.
pub(crate) const WAIT_AT_LEAST: c_uint = 0;
/// `CU_STREAM_WRITE_VALUE_DEFAULT`: what came before in the stream is visible to who sees the value.
pub(crate) const WRITE_DEFAULT: c_uint = 0;
/// `CU_MEMHOSTALLOC_PORTABLE` and `CU_MEMHOSTREGISTER_PORTABLE`: locked for every context.
pub(crate) const HOST_PORTABLE: c_uint = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP` and `CU_MEMHOSTREGISTER_DEVICEMAP`: kernels reach it.
pub(crate) const HOST_MAPPED: c_uint = 2;

/// Questions about a device (`CUdevice_attribute`).
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    MaxGridX = 5,
    PciBus = 33,
    PciDevice = 34,
    UnifiedAddressing = 41,
    PciDomain = 50,
    CapabilityMajor = 75,
    CapabilityMinor = 76,
    StreamPriorities = 78,
    VirtualMemory = 102,
    DescriptorHandles = 103,
    MemoryOperations64 = 122,
    HostNumaNode = 134,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_laid_out_as_the_reference_says() {
        assert_eq!(size_of::<MemoryLocation>(), 8);
        assert_eq!(size_of::<MemoryAccess>(), 12);
        assert_eq!(size_of::<MemoryProperties>(), 32);
        assert_eq!(offset_of!(MemoryProperties, location), 8);
        assert_eq!(offset_of!(MemoryProperties, windows_handle), 16);
        assert_eq!(offset_of!(MemoryProperties, flags), 24);
    }
}
