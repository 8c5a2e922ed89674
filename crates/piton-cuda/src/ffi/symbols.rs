//! The entry points used, looked up by name once.
//!
//! # Invariants
//! 1. Every pointer came from the library beside it, by the name whose type the reference gives it. A name with a suffix
//!    (`_v2`) is one binary interface for ever, so the exact names are asked for; `cuGetProcAddress`, which chooses by a
//!    version that the caller claims, is not needed.
//! 2. The library is never closed: the driver has threads of its own, which may be in its code after the last object was
//!    released. So a table lives for ever ([`Api::open`] leaks it), and handles hold a plain reference.
//!
//! Groups that only a facet needs are optional, each as a whole: a library that lacks one function of a group has not that
//! ability, and [`Api::missing`] says which function it was.

#![expect(
    unsafe_code,
    reason = "a symbol's type is what the reference says, not what the library proves"
)]

use super::declarations::{
    Code, Context, Device, DeviceAddress, Event, Function, MemoryAccess, MemoryHandle,
    MemoryProperties, Module, Stream,
};
use crate::OpenError;
use piton_native::{Ability, Library, MissingAbility, found};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    path::Path,
};

/// Where the library is looked for, in this order, when nobody says otherwise.
#[cfg(windows)]
pub(crate) const NAMES: &[&str] = &["nvcuda.dll"];
/// Where the library is looked for, in this order, when nobody says otherwise. The name with a version is the driver's own;
/// the other may be a stub for linking.
#[cfg(not(windows))]
pub(crate) const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

type Size = usize;
type Text = *mut c_char;

piton_native::entry_points! {
    /// What no device can do without.
    Core {
        init "cuInit" (c_uint) -> Code;
        driver_version "cuDriverGetVersion" (*mut c_int) -> Code;
        device_count "cuDeviceGetCount" (*mut c_int) -> Code;
        device_get "cuDeviceGet" (*mut Device, c_int) -> Code;
        device_name "cuDeviceGetName" (Text, c_int, Device) -> Code;
        device_memory "cuDeviceTotalMem_v2" (*mut Size, Device) -> Code;
        device_attribute "cuDeviceGetAttribute" (*mut c_int, c_int, Device) -> Code;
        context_retain "cuDevicePrimaryCtxRetain" (*mut Context, Device) -> Code;
        context_release "cuDevicePrimaryCtxRelease_v2" (Device) -> Code;
        context_push "cuCtxPushCurrent_v2" (Context) -> Code;
        context_pop "cuCtxPopCurrent_v2" (*mut Context) -> Code;
        memory_allocate "cuMemAlloc_v2" (*mut DeviceAddress, Size) -> Code;
        memory_free "cuMemFree_v2" (DeviceAddress) -> Code;
        memory_info "cuMemGetInfo_v2" (*mut Size, *mut Size) -> Code;
        host_allocate "cuMemHostAlloc" (*mut *mut c_void, Size, c_uint) -> Code;
        host_free "cuMemFreeHost" (*mut c_void) -> Code;
        host_register "cuMemHostRegister_v2" (*mut c_void, Size, c_uint) -> Code;
        host_unregister "cuMemHostUnregister" (*mut c_void) -> Code;
        host_address "cuMemHostGetDevicePointer_v2" (*mut DeviceAddress, *mut c_void, c_uint) -> Code;
        copy_to_device "cuMemcpyHtoDAsync_v2" (DeviceAddress, *const c_void, Size, Stream) -> Code;
        copy_to_host "cuMemcpyDtoHAsync_v2" (*mut c_void, DeviceAddress, Size, Stream) -> Code;
        copy_on_device "cuMemcpyDtoDAsync_v2" (DeviceAddress, DeviceAddress, Size, Stream) -> Code;
        fill_bytes "cuMemsetD8Async" (DeviceAddress, u8, Size, Stream) -> Code;
        fill_halves "cuMemsetD16Async" (DeviceAddress, u16, Size, Stream) -> Code;
        fill_words "cuMemsetD32Async" (DeviceAddress, c_uint, Size, Stream) -> Code;
        stream_create "cuStreamCreateWithPriority" (*mut Stream, c_uint, c_int) -> Code;
        stream_destroy "cuStreamDestroy_v2" (Stream) -> Code;
        stream_query "cuStreamQuery" (Stream) -> Code;
        stream_wait_event "cuStreamWaitEvent" (Stream, Event, c_uint) -> Code;
        event_create "cuEventCreate" (*mut Event, c_uint) -> Code;
        event_destroy "cuEventDestroy_v2" (Event) -> Code;
        event_record "cuEventRecord" (Event, Stream) -> Code;
        event_query "cuEventQuery" (Event) -> Code;
        event_wait "cuEventSynchronize" (Event) -> Code;
        event_elapsed "cuEventElapsedTime" (*mut f32, Event, Event) -> Code;
        module_load "cuModuleLoadDataEx" (*mut Module, *const c_void, c_uint, *mut c_int, *mut *mut c_void) -> Code;
        module_unload "cuModuleUnload" (Module) -> Code;
        module_function "cuModuleGetFunction" (*mut Function, Module, *const c_char) -> Code;
        launch "cuLaunchKernel" (
            Function, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Stream, *mut *mut c_void, *mut *mut c_void
        ) -> Code;
    }
    /// Pages mapped at addresses of the caller's choice.
    VirtualMemory {
        granularity "cuMemGetAllocationGranularity" (*mut Size, *const MemoryProperties, c_uint) -> Code;
        reserve "cuMemAddressReserve" (*mut DeviceAddress, Size, Size, DeviceAddress, u64) -> Code;
        release "cuMemAddressFree" (DeviceAddress, Size) -> Code;
        create "cuMemCreate" (*mut MemoryHandle, Size, *const MemoryProperties, u64) -> Code;
        destroy "cuMemRelease" (MemoryHandle) -> Code;
        map "cuMemMap" (DeviceAddress, Size, Size, MemoryHandle, u64) -> Code;
        unmap "cuMemUnmap" (DeviceAddress, Size) -> Code;
        set_access "cuMemSetAccess" (DeviceAddress, Size, *const MemoryAccess, Size) -> Code;
    }
    /// Pages that other processes map too.
    PageSharing {
        export "cuMemExportToShareableHandle" (*mut c_void, MemoryHandle, c_uint, u64) -> Code;
        import "cuMemImportFromShareableHandle" (*mut MemoryHandle, *mut c_void, c_uint) -> Code;
    }
    /// Other devices' memory.
    Peers {
        can_access "cuDeviceCanAccessPeer" (*mut c_int, Device, Device) -> Code;
        enable "cuCtxEnablePeerAccess" (Context, c_uint) -> Code;
        copy "cuMemcpyPeerAsync" (DeviceAddress, Context, DeviceAddress, Context, Size, Stream) -> Code;
    }
    /// Which priorities there are.
    Priorities {
        range "cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int) -> Code;
    }
    /// Words in memory that streams write and wait for.
    MemoryCounters {
        write "cuStreamWriteValue64_v2" (Stream, DeviceAddress, u64, c_uint) -> Code;
        wait "cuStreamWaitValue64_v2" (Stream, DeviceAddress, u64, c_uint) -> Code;
    }
    /// What a kernel takes.
    KernelParameters {
        info "cuFuncGetParamInfo" (Function, Size, *mut Size, *mut Size) -> Code;
    }
}

/// The table. See the module.
#[derive(Debug)]
pub(crate) struct Api {
    _library: Library,
    pub(crate) core: Core,
    pub(crate) virtual_memory: Option<VirtualMemory>,
    pub(crate) page_sharing: Option<PageSharing>,
    pub(crate) peers: Option<Peers>,
    pub(crate) priorities: Option<Priorities>,
    pub(crate) counters: Option<MemoryCounters>,
    pub(crate) parameters: Option<KernelParameters>,
    /// Groups that are not there, each with the first function that is missing.
    pub(crate) missing: Vec<MissingAbility>,
}

impl Api {
    /// Opens the library at `path`, or the usual one, and looks everything up. The table is never freed: see
    /// invariant 2.
    ///
    /// # Errors
    /// [`OpenError::NoLibrary`], [`OpenError::NoSymbol`].
    pub(crate) fn open(path: Option<&Path>) -> Result<&'static Self, OpenError> {
        // SAFETY: the initialisers of NVIDIA's library are those of any system library; whoever names another path
        // vouches for it (`CudaConfig::library`).
        let opened = unsafe { piton_native::open_library_with(path, NAMES, Core::of) };
        let (library, core) = opened?;
        let mut missing = Vec::new();
        Ok(Box::leak(Box::new(Self {
            core,
            virtual_memory: found(
                VirtualMemory::of(&library),
                Ability::VirtualMemory,
                &mut missing,
            ),
            page_sharing: found(
                PageSharing::of(&library),
                Ability::PageSharing,
                &mut missing,
            ),
            peers: found(Peers::of(&library), Ability::Peers, &mut missing),
            priorities: found(Priorities::of(&library), Ability::Priorities, &mut missing),
            counters: found(
                MemoryCounters::of(&library),
                Ability::MemoryCounters,
                &mut missing,
            ),
            parameters: found(
                KernelParameters::of(&library),
                Ability::KernelParameters,
                &mut missing,
            ),
            missing,
            _library: library,
        })))
    }
}
