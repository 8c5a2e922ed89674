//! What only this backend promises, on the stand-in: missing functions, answers of the library, failures that take the
//! device along, modules held against their declarations, pages that peers reach.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_cuda::{
    Ability, CudaBlock, CudaConfig, CudaDriver, CudaModule, MissingAbility, OpenError, Status,
};
use piton_driver::{
    DeviceId, DevicePtr, ErrorKind, FillPattern, Grid, Launch, LinkClass, Operation, Parameter,
    Placement, Position, Priority, QueueOptions, Signature, VendorCode,
};
use piton_fakecuda::library;
use piton_standin::trial::{
    self, MODULE, Own, adds_one, device, end, kernel, launch, queue, takes,
};
use std::path::Path;

/// PTX as far as the stand-in reads it, with kernels that it has.
const PTX: &str = "
.version 6.0
.target sm_50
.visible .entry conformance_add(.param .u64 values, .param .u32 value) { ret; }
.visible .entry conformance_trap(.param .u64 values, .param .u32 value) { ret; }
";

/// What the names of the stand-in's own functions begin with.
const PREFIX: &str = "fakecuda";

/// The stand-in, for one test alone.
fn own() -> Own {
    Own::copy_of(&library::stand_in().unwrap(), "libcuda.so.1", PREFIX)
}

/// The same without a function.
fn without(symbol: &str) -> Own {
    Own::made(PREFIX, |folder| library::without(symbol, folder))
}

fn open(own: &Own) -> Result<CudaDriver, OpenError> {
    let driver = CudaDriver::open(CudaConfig {
        library: Some(own.path().into()),
        ..CudaConfig::default()
    })?;
    driver.register(module(PTX));
    Ok(driver)
}

/// Whether a device was let into a mapping.
fn has_access(own: &Own, at: DevicePtr, device: i32) -> bool {
    type HasAccess = extern "C" fn(u64, i32) -> u32;
    // SAFETY: the type is the one it is exported with.
    let has_access = unsafe { own.asked().function::<HasAccess>("has_access") };
    has_access.unwrap()(at.address(), device) == 1
}

fn module(ptx: &str) -> CudaModule {
    // SAFETY: the stand-in's kernels keep to their block.
    let module = unsafe { CudaModule::from_ptx(MODULE, ptx) };
    module
        .with("conformance_add", takes(), CudaBlock::linear(64))
        .with("conformance_trap", takes(), CudaBlock::linear(64))
}

#[test]
fn a_function_that_nothing_works_without_is_named() {
    let own = without("cuMemAlloc_v2");
    let error = open(&own).unwrap_err();
    let OpenError::NoSymbol { symbol, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*symbol, "cuMemAlloc_v2");
}

/// What the first device says that it can do, without a function.
fn facets(symbol: &str, of: Ability) -> [bool; 3] {
    let own = without(symbol);
    let driver = open(&own).unwrap();
    let missing = driver.missing();
    let is_it = |one: &MissingAbility| (one.ability, one.symbol) == (of, symbol);
    assert!(missing.iter().any(is_it), "{missing:?}");
    let device = device(&driver, 0);
    let queue = queue(&*device);
    launch(&*device, &queue, "conformance_add");
    end(&*queue);
    assert_eq!(queue.failure(), None);
    [
        device.virtual_memory().is_some(),
        device.peers().is_some(),
        device.priorities().is_some(),
    ]
}

#[test]
fn a_facet_is_absent_where_a_function_of_it_is_missing_and_all_else_works() {
    let pages = facets("cuMemSetAccess", Ability::VirtualMemory);
    assert_eq!(pages, [false, true, true]);
    let peers = facets("cuCtxEnablePeerAccess", Ability::Peers);
    assert_eq!(peers, [true, false, true]);
    let priorities = facets("cuCtxGetStreamPriorityRange", Ability::Priorities);
    assert_eq!(priorities, [true, true, false]);
    let counters = facets("cuStreamWaitValue64_v2", Ability::MemoryCounters);
    assert_eq!(counters, [true; 3]);
    let parameters = facets("cuFuncGetParamInfo", Ability::KernelParameters);
    assert_eq!(parameters, [true; 3]);
}

#[test]
fn a_machine_without_a_device_says_so() {
    let own = own();
    let version = open(&own).unwrap().version();
    assert_eq!(version, Some((12, 8)));
    own.fail("cuInit", 100);
    assert_eq!(open(&own).unwrap_err(), OpenError::NoDevice);
    own.fail("cuInit", 803);
    let (call, status) = ("cuInit", Status(803));
    let error = open(&own).unwrap_err();
    assert_eq!(error, OpenError::Call { call, status });
    assert!(
        error
            .to_string()
            .contains("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)")
    );
}

#[test]
fn what_the_library_answers_becomes_the_contracts_error_with_its_code() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let memory = device.memory();
    own.fail("cuMemAlloc_v2", 2);
    let error = memory.allocate(4096).unwrap_err();
    let ErrorKind::OutOfMemory {
        requested,
        free,
        capacity,
    } = error.kind
    else {
        panic!("{error}");
    };
    assert_eq!((requested, capacity), (4096, 64 << 20));
    assert!(0 < free && free <= capacity);
    assert_eq!(error.code, Some(VendorCode(2)));
    own.fail("cuMemAlloc_v2", 4321);
    let error = memory.allocate(4096).unwrap_err();
    assert_eq!(
        (error.kind, error.code),
        (ErrorKind::Vendor, Some(VendorCode(4321)))
    );
    assert_eq!(error.operation, Operation::AllocateMemory);
    memory.allocate(4096).unwrap();
    device.status().unwrap();
}

#[test]
fn what_cuda_does_not_take_back_stays_live() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let ptr = device.memory().allocate(4096).unwrap();
    own.fail("cuMemFree_v2", 999);
    // SAFETY: nothing uses the memory.
    let error = unsafe { device.memory().free(ptr) }.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Vendor);
    let queue = queue(&*device);
    // SAFETY: the memory is live, as it was not taken back.
    let _admission = unsafe { queue.fill(ptr, FillPattern::Byte(1), 4096) }.unwrap();
    end(&*queue);
    // SAFETY: the fill has ended.
    unsafe { device.memory().free(ptr) }.unwrap();
}

#[test]
fn a_launch_that_cuda_refuses_takes_no_position() {
    let own = own();
    let refusal = ("cuLaunchKernel", 701);
    trial::a_refused_launch_takes_no_position(&own, &open(&own).unwrap(), refusal);
}

/// A kernel fails on device 0; device 1 waits for it.
fn failed_kernel(own: &Own) {
    let driver = open(own).unwrap();
    let (first, second) = (device(&driver, 0), device(&driver, 1));
    let (failing, other, waiting) = (queue(&*first), queue(&*first), queue(&*second));
    launch(&*first, &failing, "conformance_trap");
    let _admission = waiting.wait_for(&*failing, failing.submitted()).unwrap();
    end(&*failing);
    let failure = failing.failure().unwrap();
    assert_eq!(failure.position, Position::new(1));
    assert_eq!(failure.error.kind, ErrorKind::DeviceLost);
    assert_eq!(failure.error.code, Some(VendorCode(719)));
    assert!(first.status().unwrap_err().is_device_lost());
    let refused = first.memory().allocate(64).unwrap_err();
    assert!(refused.is_device_lost());
    end(&*other);
    end(&*waiting);
    let inherited = waiting.failure().unwrap().error.kind;
    assert!(matches!(inherited, ErrorKind::DependencyFailed { .. }));
    second.status().unwrap();
    let after = queue(&*second);
    launch(&*second, &after, "conformance_add");
    end(&*after);
    assert_eq!(after.failure(), None);
}

#[test]
fn a_kernel_that_fails_takes_its_device_along_and_no_other() {
    failed_kernel(&own());
    failed_kernel(&without("cuStreamWriteValue64_v2"));
}

#[test]
fn a_failure_is_noticed_by_who_only_looks() {
    trial::a_failure_is_noticed_by_who_only_looks(&open(&own()).unwrap());
}

#[test]
fn a_module_that_does_not_load_says_what_the_compiler_said() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    driver.register(module("no PTX at all"));
    let error = kernel(&*device, "conformance_add").unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownModule);
    assert_eq!(error.code, Some(VendorCode(218)));
    assert!(
        driver
            .build_log(MODULE)
            .unwrap()
            .contains("missing .version")
    );
}

#[test]
fn a_declaration_that_the_kernel_does_not_keep_is_refused() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let (a, n) = (Parameter::write::<u32>(), Parameter::value::<u32>());
    let kind = |takes: &[Parameter]| {
        let signature = Signature::new(takes.iter().copied());
        // SAFETY: nothing is launched.
        let module = unsafe { CudaModule::from_ptx(MODULE, PTX) };
        driver.register(module.with("conformance_add", signature, CudaBlock::linear(64)));
        let found = kernel(&*device, "conformance_add");
        found.map(|_| ()).map_err(|error| error.kind)
    };
    assert_eq!(kind(&[a, n]), Ok(()));
    let wrong: [&[Parameter]; 4] = [&[], &[a], &[a, n, n], &[n, a]];
    for takes in wrong {
        let refused = kind(takes);
        assert!(
            matches!(refused, Err(ErrorKind::InvalidArguments { .. })),
            "{takes:?}"
        );
    }
    assert_eq!(
        kernel(&*device, "nobody").unwrap_err().kind,
        ErrorKind::UnknownKernel
    );
}

#[test]
fn a_module_stays_loaded_while_its_kernels_run() {
    let own = own();
    trial::a_module_stays_loaded_while_its_kernels_run(&own, &open(&own).unwrap());
}

#[test]
fn queues_of_two_priorities_share_a_hardware_queue() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let range = device.priorities().unwrap();
    assert!(range.highest < range.lowest);
    let first = queue(&*device);
    let urgent = device.queues().create(&QueueOptions {
        priority: range.highest,
        placement: Placement::Explicit(first.hardware_queue()),
        ..QueueOptions::default()
    });
    let urgent = urgent.unwrap();
    assert_eq!(urgent.hardware_queue(), first.hardware_queue());
    assert_eq!(
        (first.priority(), urgent.priority()),
        (Priority::DEFAULT, range.highest)
    );
    for one in [&first, &urgent] {
        launch(&*device, one, "conformance_add");
        end(&**one);
    }
}

/// Maps a page of the device, and fills it from the other device's side.
fn reach_pages(enable_first: bool) {
    let own = own();
    let driver = open(&own).unwrap();
    let (first, second) = (device(&driver, 0), device(&driver, 1));
    let peers = first.peers().unwrap();
    assert_eq!(peers.link(DeviceId(0)).unwrap().class, LinkClass::Local);
    assert_eq!(peers.link(DeviceId(7)), None);
    if enable_first {
        peers.enable(DeviceId(1)).unwrap();
    }
    let pages = second.virtual_memory().unwrap();
    let bytes = pages.granularity().minimum;
    let range = pages.reserve(bytes).unwrap();
    let handle = pages.create(bytes).unwrap();
    // SAFETY: no command names the addresses yet.
    unsafe { pages.map(range.start, handle) }.unwrap();
    if !enable_first {
        peers.enable(DeviceId(1)).unwrap();
    }
    assert!(has_access(&own, range.start, 0), "the peer was let in");
    assert!(has_access(&own, range.start, 1), "the device itself was");
    let queue = queue(&*first);
    let kernel = kernel(&*first, "conformance_add").unwrap();
    let arguments = adds_one(range.start);
    let launch = Launch {
        extents: &[1024],
        ..Launch::new(&kernel, Grid::linear(1), &arguments)
    };
    // SAFETY: the page is mapped, and longer than a block.
    let _admission = unsafe { queue.launch(&launch) }.unwrap();
    end(&*queue);
    assert_eq!(queue.failure(), None);
    // SAFETY: the launch has ended.
    unsafe { pages.unmap(range) }.unwrap();
    pages.destroy(handle).unwrap();
    // SAFETY: nothing names the addresses.
    unsafe { pages.release(range) }.unwrap();
}

#[test]
fn a_peer_reaches_pages_mapped_before_and_after_it_was_let_in() {
    reach_pages(true);
    reach_pages(false);
}

#[test]
fn the_stand_in_finds_no_function_that_it_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let missing = library::without("cuNoSuchFunction", Path::new(folder.path()));
    assert!(missing.is_err());
}
