//! The entry points used, looked up by name once.
//!
//! # Invariants
//! 1. Every pointer came from the library beside it, by the name whose type the reference gives it.
//! 2. The library is never closed: the runtime has threads of its own, which may be in its code after the last object was
//!    released. So a table lives for ever ([`Api::open`] leaks it), and handles hold a plain reference.
//!
//! Groups that only a facet needs are optional, each as a whole. Two of them have an older way to the same end, which is
//! taken where they are missing: a binary that is made first and loaded then, and arguments that are appended one by one.

#![expect(
    unsafe_code,
    reason = "a symbol's type is what the reference says, not what the library proves"
)]

use super::declarations::{
    Arguments, Binary, BinaryHandle, Code, Context, Event, Function, MemoryProperties, Notify,
    Pages, Parameter, Stream,
};
use crate::OpenError;
use piton_native::{Ability, Library, MissingAbility, found};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    path::Path,
};

/// Where the library is looked for, in this order, when nobody says otherwise.
pub(crate) const NAMES: &[&str] = &["libascendcl.so", "libascendcl.so.1"];

type Size = usize;
type Place = *mut c_void;

piton_native::entry_points! {
    /// What no device can do without.
    Core {
        init "aclInit" (*const c_char) -> Code;
        device_count "aclrtGetDeviceCount" (*mut c_uint) -> Code;
        soc_name "aclrtGetSocName" () -> *const c_char;
        context_create "aclrtCreateContext" (*mut Context, c_int) -> Code;
        context_destroy "aclrtDestroyContext" (Context) -> Code;
        context_set "aclrtSetCurrentContext" (Context) -> Code;
        context_get "aclrtGetCurrentContext" (*mut Context) -> Code;
        memory_allocate "aclrtMalloc" (*mut Place, Size, c_uint) -> Code;
        memory_free "aclrtFree" (Place) -> Code;
        memory_info "aclrtGetMemInfo" (c_uint, *mut Size, *mut Size) -> Code;
        host_allocate "aclrtMallocHost" (*mut Place, Size) -> Code;
        host_free "aclrtFreeHost" (Place) -> Code;
        copy "aclrtMemcpyAsync" (Place, Size, *const c_void, Size, c_uint, Stream) -> Code;
        fill "aclrtMemsetAsync" (Place, Size, c_int, Size, Stream) -> Code;
        stream_create "aclrtCreateStreamWithConfig" (*mut Stream, c_uint, c_uint) -> Code;
        stream_destroy "aclrtDestroyStream" (Stream) -> Code;
        stream_query "aclrtStreamQuery" (Stream, *mut c_int) -> Code;
        stream_wait "aclrtSynchronizeStream" (Stream) -> Code;
        stream_wait_event "aclrtStreamWaitEvent" (Stream, Event) -> Code;
        event_create "aclrtCreateEventWithFlag" (*mut Event, c_uint) -> Code;
        event_destroy "aclrtDestroyEvent" (Event) -> Code;
        event_record "aclrtRecordEvent" (Event, Stream) -> Code;
        event_status "aclrtQueryEventStatus" (Event, *mut c_int) -> Code;
        event_wait "aclrtSynchronizeEvent" (Event) -> Code;
        binary_function "aclrtBinaryGetFunction" (BinaryHandle, *const c_char, *mut Function) -> Code;
        binary_unload "aclrtBinaryUnLoad" (BinaryHandle) -> Code;
    }
    /// Events that the hardware does not limit.
    UnlimitedEvents {
        create "aclrtCreateEventExWithFlag" (*mut Event, c_uint) -> Code;
    }
    /// Pages mapped at addresses of the caller's choice.
    VirtualMemory {
        reserve "aclrtReserveMemAddress" (*mut Place, Size, Size, Place, u64) -> Code;
        release "aclrtReleaseMemAddress" (Place) -> Code;
        create "aclrtMallocPhysical" (*mut Pages, Size, *const MemoryProperties, u64) -> Code;
        destroy "aclrtFreePhysical" (Pages) -> Code;
        map "aclrtMapMem" (Place, Size, Size, Pages, u64) -> Code;
        unmap "aclrtUnmapMem" (Place) -> Code;
    }
    /// What sizes of pages are best.
    PageGranularity {
        ask "aclrtMemGetAllocationGranularity" (*const MemoryProperties, c_int, *mut Size) -> Code;
    }
    /// Memory of the program's that the device reaches.
    HostRegistration {
        register "aclrtHostRegisterV2" (Place, u64, c_uint) -> Code;
        unregister "aclrtHostUnregister" (Place) -> Code;
        address "aclrtHostGetDevicePointer" (Place, *mut Place, c_uint) -> Code;
    }
    /// Other devices' memory.
    Peers {
        can_access "aclrtDeviceCanAccessPeer" (*mut c_int, c_int, c_int) -> Code;
        enable "aclrtDeviceEnablePeerAccess" (c_int, c_uint) -> Code;
    }
    /// What connects two devices.
    PairTopology {
        pair "aclrtGetDevicesTopo" (c_uint, c_uint, *mut u64) -> Code;
    }
    /// Which priorities there are.
    Priorities {
        range "aclrtDeviceGetStreamPriorityRange" (*mut c_int, *mut c_int) -> Code;
    }
    /// Waits for streams of other devices.
    Notifications {
        create "aclrtCreateNotify" (*mut Notify, u64) -> Code;
        destroy "aclrtDestroyNotify" (Notify) -> Code;
        record "aclrtRecordNotify" (Notify, Stream) -> Code;
        wait "aclrtWaitAndResetNotify" (Notify, Stream, c_uint) -> Code;
    }
    /// Times of the device.
    Timestamps {
        time "aclrtEventGetTimestamp" (Event, *mut u64) -> Code;
    }
    /// Binaries loaded from memory in one call; options may be null.
    BinariesFromMemory {
        load "aclrtBinaryLoadFromData" (*const c_void, Size, *const c_void, *mut BinaryHandle) -> Code;
    }
    /// The older way to the same.
    BinariesInTwoSteps {
        create "aclrtCreateBinary" (*const c_void, Size) -> Binary;
        destroy "aclrtDestroyBinary" (Binary) -> Code;
        load "aclrtBinaryLoad" (Binary, *mut BinaryHandle) -> Code;
    }
    /// Launches whose arguments are a block of host memory; settings and places to be filled in may be null.
    BlockArguments {
        launch "aclrtLaunchKernelWithHostArgs" (
            Function, c_uint, Stream, *const c_void, Place, Size, *const c_void, Size
        ) -> Code;
    }
    /// Launches whose arguments are appended one by one.
    ListArguments {
        init "aclrtKernelArgsInit" (Function, *mut Arguments) -> Code;
        append "aclrtKernelArgsAppend" (Arguments, Place, Size, *mut Parameter) -> Code;
        finalize "aclrtKernelArgsFinalize" (Arguments) -> Code;
        launch "aclrtLaunchKernelWithConfig" (
            Function, c_uint, Stream, *const c_void, Arguments, Place
        ) -> Code;
    }
    /// What the runtime last said of a failure on this thread.
    FailureText {
        recent "aclGetRecentErrMsg" () -> *const c_char;
    }
}

/// The table. See the module.
#[derive(Debug)]
pub(crate) struct Api {
    _library: Library,
    pub(crate) core: Core,
    pub(crate) unlimited_events: Option<UnlimitedEvents>,
    pub(crate) virtual_memory: Option<VirtualMemory>,
    pub(crate) page_granularity: Option<PageGranularity>,
    pub(crate) host_registration: Option<HostRegistration>,
    pub(crate) peers: Option<Peers>,
    pub(crate) pair_topology: Option<PairTopology>,
    pub(crate) priorities: Option<Priorities>,
    pub(crate) notifications: Option<Notifications>,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) binaries: Option<BinariesFromMemory>,
    pub(crate) older_binaries: Option<BinariesInTwoSteps>,
    pub(crate) block_arguments: Option<BlockArguments>,
    pub(crate) list_arguments: Option<ListArguments>,
    failure_text: Option<FailureText>,
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
        // SAFETY: the initialisers of the vendor's library are those of any system library; whoever names another path
        // vouches for it (`AscendConfig::library`).
        let opened = unsafe { piton_native::open_library_with(path, NAMES, Core::of) };
        let (library, core) = opened?;
        Ok(Box::leak(Box::new(Self::with_groups(library, core))))
    }

    fn with_groups(library: Library, core: Core) -> Self {
        let (of, mut missing) = (&library, Vec::new());
        let m = &mut missing;
        Self {
            core,
            unlimited_events: found(UnlimitedEvents::of(of), Ability::UnlimitedEvents, m),
            virtual_memory: found(VirtualMemory::of(of), Ability::VirtualMemory, m),
            page_granularity: found(PageGranularity::of(of), Ability::PageGranularity, m),
            host_registration: found(HostRegistration::of(of), Ability::HostRegistration, m),
            peers: found(Peers::of(of), Ability::Peers, m),
            pair_topology: found(PairTopology::of(of), Ability::PairTopology, m),
            priorities: found(Priorities::of(of), Ability::Priorities, m),
            notifications: found(Notifications::of(of), Ability::Notifications, m),
            timestamps: found(Timestamps::of(of), Ability::Timestamps, m),
            binaries: found(BinariesFromMemory::of(of), Ability::BinariesFromMemory, m),
            // The older ways are no abilities of their own.
            older_binaries: BinariesInTwoSteps::of(of).ok(),
            block_arguments: found(BlockArguments::of(of), Ability::BlockArguments, m),
            list_arguments: ListArguments::of(of).ok(),
            failure_text: found(FailureText::of(of), Ability::FailureText, m),
            missing,
            _library: library,
        }
    }

    /// What the processor is called; nothing where the runtime does not say.
    pub(crate) fn soc_name(&self) -> String {
        // SAFETY: takes nothing.
        let name = unsafe { (self.core.soc_name)() };
        // SAFETY: null, or a text of the library's that ends in zero and stays.
        unsafe { text(name) }
    }

    /// What the runtime last said of a failure on this thread. Asking forgets it.
    pub(crate) fn recent_failure(&self) -> String {
        let Some(api) = &self.failure_text else {
            return String::new();
        };
        // SAFETY: takes nothing.
        let said = unsafe { (api.recent)() };
        // SAFETY: null, or a text of the library's that ends in zero and stays until the next question of this thread.
        unsafe { text(said) }
    }
}

/// A text of the library's.
///
/// # Safety
/// Null, or a text that ends in zero and stays for the call.
unsafe fn text(start: *const c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_string_lossy().trim().to_owned()
}
