//! What only this backend promises, on the stand-in: missing functions and what takes their place, answers of the library,
//! kernels that fail, waits between devices, fills that are several copies, ways between devices.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_ascend::{
    Ability, AscendConfig, AscendDriver, AscendModule, MemoryPolicy, MissingAbility, OpenError,
    Status,
};
use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, ErrorKind, FillPattern, Grid, HostMemoryOptions, Launch,
    LinkClass, Operation, Position, Priority, Queue, QueueOptions, VendorCode,
};
use piton_fakeascend::{image, library};
use piton_standin::trial::{
    self, MODULE, Own, adds_one, device, end, kernel, launch, queue, takes,
};
use std::sync::Arc;

/// What the names of the stand-in's own functions begin with.
const PREFIX: &str = "fakeascend";

/// The stand-in, for one test alone.
fn own() -> Own {
    Own::copy_of(&library::stand_in().unwrap(), "libascendcl.so", PREFIX)
}

/// The same without a function.
fn without(symbol: &str) -> Own {
    Own::made(PREFIX, |folder| library::without(symbol, folder))
}

fn open(own: &Own) -> Result<AscendDriver, OpenError> {
    let driver = AscendDriver::open(AscendConfig {
        library: Some(own.path().into()),
        memory: MemoryPolicy::PeerHugeFirst,
        ..AscendConfig::default()
    })?;
    driver.register(module(image::IMAGE));
    Ok(driver)
}

fn module(image: &str) -> AscendModule {
    // SAFETY: the stand-in's kernels keep to their block.
    let module = unsafe { AscendModule::from_binary(MODULE, image.as_bytes()) };
    module
        .with("conformance_add", takes())
        .with("conformance_trap", takes())
        .with("nobody", takes())
}

/// What is in memory of the device.
fn content(device: &dyn Device, queue: &Arc<dyn Queue>, at: DevicePtr, bytes: usize) -> Vec<u8> {
    let host = device.host_memory().unwrap();
    let run = host.allocate(bytes, HostMemoryOptions::default()).unwrap();
    // SAFETY: both are live and so long.
    let _admission = unsafe { queue.copy_to_host(run.start, at, bytes as u64) }.unwrap();
    end(&**queue);
    // SAFETY: the copy has ended, and the run is so long.
    let seen = unsafe { std::slice::from_raw_parts(run.start.as_ptr(), bytes) }.to_vec();
    // SAFETY: nobody refers to it any more.
    unsafe { host.free(run) }.unwrap();
    seen
}

#[test]
fn a_function_that_nothing_works_without_is_named() {
    let error = open(&without("aclrtRecordEvent")).unwrap_err();
    let OpenError::NoSymbol { symbol, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*symbol, "aclrtRecordEvent");
}

/// What the first device says that it can do, without a function; what does not need it works.
fn facets(symbol: &str, of: Ability) -> [bool; 4] {
    let own = without(symbol);
    let driver = open(&own).unwrap();
    let missing = driver.missing();
    let is_it = |one: &MissingAbility| (one.ability, one.symbol) == (of, symbol);
    assert!(missing.iter().any(is_it), "{missing:?}");
    let device = device(&driver, 0);
    let queue = queue(&*device);
    let memory = device.memory().allocate(1024).unwrap();
    // SAFETY: the memory is live and so long.
    let _admission = unsafe { queue.fill(memory, FillPattern::Word(7), 1024) }.unwrap();
    let kernel = kernel(&*device, "conformance_add").unwrap();
    let arguments = adds_one(memory);
    let launch = Launch::new(&kernel, Grid::linear(1), &arguments);
    // SAFETY: the memory is live and as long as a block.
    let _admission = unsafe { queue.launch(&launch) }.unwrap();
    let seen = content(&*device, &queue, memory, 1024);
    assert_eq!(seen, 8_u32.to_ne_bytes().repeat(256));
    assert_eq!(queue.failure(), None);
    [
        device.virtual_memory().is_some(),
        device.peers().is_some(),
        device.priorities().is_some(),
        device.timestamps().is_some(),
    ]
}

#[test]
fn a_facet_is_absent_where_a_function_of_it_is_missing_and_all_else_works() {
    let pages = facets("aclrtUnmapMem", Ability::VirtualMemory);
    assert_eq!(pages, [false, true, true, true]);
    let peers = facets("aclrtDeviceEnablePeerAccess", Ability::Peers);
    assert_eq!(peers, [true, false, true, true]);
    let range = "aclrtDeviceGetStreamPriorityRange";
    let priorities = facets(range, Ability::Priorities);
    assert_eq!(priorities, [true, true, false, true]);
    let times = facets("aclrtEventGetTimestamp", Ability::Timestamps);
    assert_eq!(times, [true, true, true, false]);
}

#[test]
fn older_functions_take_the_place_of_newer_ones() {
    let all = [true; 4];
    let of = Ability::BinariesFromMemory;
    assert_eq!(facets("aclrtBinaryLoadFromData", of), all);
    let of = Ability::BlockArguments;
    assert_eq!(facets("aclrtLaunchKernelWithHostArgs", of), all);
    let of = Ability::UnlimitedEvents;
    assert_eq!(facets("aclrtCreateEventExWithFlag", of), all);
    let of = Ability::PageGranularity;
    assert_eq!(facets("aclrtMemGetAllocationGranularity", of), all);
}

#[test]
fn a_machine_without_a_device_says_so_and_who_initialised_the_library_does_not_matter() {
    let own = own();
    let first = open(&own).unwrap();
    let again = open(&own).unwrap();
    assert_eq!(first.device_count(), again.device_count());
    own.fail("aclrtGetDeviceCount", 207_004);
    assert_eq!(open(&own).unwrap_err(), OpenError::NoDevice);
    own.fail("aclInit", 500_000);
    let error = open(&own).unwrap_err();
    let (call, status) = ("aclInit", Status(500_000));
    assert_eq!(error, OpenError::Call { call, status });
    assert!(error.to_string().contains("ACL_ERROR_INTERNAL_ERROR"));
}

#[test]
fn what_the_library_answers_becomes_the_contracts_error_with_its_code() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let memory = device.memory();
    own.fail("aclrtMalloc", 207_001);
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
    assert_eq!(error.code, Some(VendorCode(207_001)));
    own.fail("aclrtMalloc", 4321);
    let error = memory.allocate(4096).unwrap_err();
    let code = Some(VendorCode(4321));
    assert_eq!((error.kind, error.code), (ErrorKind::Vendor, code));
    assert_eq!(error.operation, Operation::AllocateMemory);
    let ptr = memory.allocate(4096).unwrap();
    own.fail("aclrtFree", 500_000);
    // SAFETY: nothing uses the memory.
    let error = unsafe { memory.free(ptr) }.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Vendor);
    // SAFETY: as above: what was not taken back is live.
    unsafe { memory.free(ptr) }.unwrap();
    device.status().unwrap();
}

#[test]
fn a_launch_that_the_library_refuses_takes_no_position() {
    let own = own();
    let refusal = ("aclrtLaunchKernelWithHostArgs", 507_002);
    trial::a_refused_launch_takes_no_position(&own, &open(&own).unwrap(), refusal);
}

/// A kernel fails on device 0; device 1 waits for it.
fn failed_kernel(own: &Own) {
    let driver = open(own).unwrap();
    let (first, second) = (device(&driver, 0), device(&driver, 1));
    let (failing, other, waiting) = (queue(&*first), queue(&*first), queue(&*second));
    launch(&*first, &other, "conformance_add");
    launch(&*first, &failing, "conformance_trap");
    let _admission = waiting.wait_for(&*failing, failing.submitted()).unwrap();
    end(&*failing);
    let failure = failing.failure().unwrap();
    assert_eq!(failure.position, Position::new(1));
    assert_eq!(failure.error.kind, ErrorKind::DeviceLost);
    assert_eq!(failure.error.code, Some(VendorCode(507_015)));
    assert!(first.status().unwrap_err().is_device_lost());
    let refused = first.memory().allocate(64).unwrap_err();
    assert!(refused.is_device_lost());
    end(&*other);
    assert_eq!(other.failure(), None, "what was begun there ended well");
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
    failed_kernel(&without("aclrtWaitAndResetNotify"));
}

#[test]
fn a_failure_is_noticed_by_who_only_looks() {
    trial::a_failure_is_noticed_by_who_only_looks(&open(&own()).unwrap());
}

#[test]
fn a_module_that_does_not_load_says_what_the_runtime_said() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let unknown = kernel(&*device, "nobody").unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::UnknownKernel);
    driver.register(module("no binary at all"));
    let error = kernel(&*device, "conformance_add").unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownModule);
    assert_eq!(error.code, Some(VendorCode(107_000)));
    let said = driver.build_log(MODULE).unwrap();
    assert_eq!(said, "the binary is not for this device");
}

#[test]
fn a_binary_stays_loaded_while_its_kernels_run() {
    let own = own();
    trial::a_module_stays_loaded_while_its_kernels_run(&own, &open(&own).unwrap());
}

#[test]
fn priorities_fall_from_the_runtimes_highest_to_what_nobody_asks_for() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let range = device.priorities().unwrap();
    assert!(range.highest < range.lowest);
    assert_eq!(range.lowest, Priority::DEFAULT);
    for priority in [range.highest, range.lowest] {
        let options = QueueOptions {
            priority,
            ..QueueOptions::default()
        };
        let queue = device.queues().create(&options).unwrap();
        launch(&*device, &queue, "conformance_add");
        end(&*queue);
        assert_eq!(queue.failure(), None);
    }
}

#[test]
fn the_way_between_two_devices_is_what_the_runtime_says() {
    let class = |own: Own| {
        let driver = open(&own).unwrap();
        let device = device(&driver, 0);
        let peers = device.peers().unwrap();
        assert_eq!(peers.link(DeviceId(0)).unwrap().class, LinkClass::Local);
        assert_eq!(peers.link(DeviceId(7)), None);
        peers.enable(DeviceId(1)).unwrap();
        peers.enable(DeviceId(1)).unwrap();
        peers.link(DeviceId(1)).unwrap().class
    };
    assert_eq!(class(own()), LinkClass::Link);
    let without = without("aclrtGetDevicesTopo");
    assert_eq!(class(without), LinkClass::Unknown);
}

#[test]
fn a_pattern_fills_any_number_of_bytes_and_no_others() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let queue = queue(&*device);
    let memory = device.memory().allocate(64 << 10).unwrap();
    let word = 0x0403_0201_u32;
    for bytes in [4, 4092, 4096, 4100, 20_000, 40_004] {
        let pattern = FillPattern::Word(word);
        // SAFETY: the memory is live and so long.
        let _all = unsafe { queue.fill(memory, FillPattern::Byte(9), 64 << 10) }.unwrap();
        // SAFETY: the memory is live and longer.
        let _some = unsafe { queue.fill(memory, pattern, bytes) }.unwrap();
        let seen = content(&*device, &queue, memory, 64 << 10);
        let (filled, rest) = seen.split_at(usize::try_from(bytes).unwrap());
        let words = word.to_ne_bytes();
        assert!(filled.chunks(4).all(|four| four == words), "{bytes}");
        assert!(rest.iter().all(|byte| *byte == 9), "{bytes}");
    }
    own.fail("aclrtMemcpyAsync", 207_005);
    let last = queue.submitted();
    // SAFETY: as above.
    let refused = unsafe { queue.fill(memory, FillPattern::Word(word), 20_000) };
    assert!(refused.is_err(), "its first copy was");
    assert_eq!(queue.submitted(), last);
}

#[test]
fn memory_that_is_no_whole_page_is_registered_and_kernels_reach_it() {
    let own = own();
    let driver = open(&own).unwrap();
    let device = device(&driver, 0);
    let host = device.host_memory().unwrap();
    let mut memory = vec![0_u8; 3 * 4096];
    let start = std::ptr::NonNull::from(&mut memory[100]);
    // SAFETY: the memory lives until it is unregistered.
    unsafe { host.register(start, 5000) }.unwrap();
    let address = host.device_address(start).unwrap();
    assert_eq!(address.address(), start.as_ptr().addr() as u64);
    // SAFETY: no command names it.
    unsafe { host.unregister(start) }.unwrap();
    assert_eq!(host.device_address(start), None);
    let own = without("aclrtHostGetDevicePointer");
    let driver = open(&own).unwrap();
    let device = trial::device(&driver, 0);
    let host = device.host_memory().unwrap();
    // SAFETY: as above.
    let refused = unsafe { host.register(start, 5000) }.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
}
