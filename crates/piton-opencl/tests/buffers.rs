//! Devices without shared virtual memory, as the configuration asks for on those that have it: what only they do.

#![expect(
    unsafe_code,
    reason = "vouches for a kernel written here, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;

use child::{config, in_child};
use piton_driver::{
    Command, Device, DeviceId, DevicePtr, Driver, DriverError, ErrorKind, FillPattern, Grid,
    HostMemoryOptions, Kernel, Launch, Locking, ModuleImage, Parameter, Queue, QueueOptions,
    SignalledBy, Signature,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use std::sync::Arc;

/// Adds to as many words as it is told: the end of a part is not seen by it.
const SOURCE: &str = "__kernel void k(__global uint *a, __global const uint *b, uint n) {
    for (uint i = 0; i < n; i++) a[i] += b[i];
}";

fn open() -> OpenClDriver {
    let driver = OpenClDriver::open(OpenClConfig {
        avoids_shared_memory: true,
        ..config()
    })
    .unwrap();
    // SAFETY: launches here name as many words as their buffers have.
    let module = unsafe { OpenClModule::from_source("m", SOURCE) };
    let takes = [
        Parameter::write::<u32>(),
        Parameter::read::<u32>(),
        Parameter::value::<u32>(),
    ];
    driver.register(module.with("k", Signature::new(takes)));
    driver
}

struct Bench {
    device: Arc<dyn Device>,
    queue: Arc<dyn Queue>,
    kernel: Arc<dyn Kernel>,
}

impl Bench {
    fn new(driver: &OpenClDriver, device: u32) -> Self {
        let device = Driver::open(driver, DeviceId(device)).unwrap();
        let module = device.kernels().load(ModuleImage::Registered("m")).unwrap();
        Self {
            queue: device.queues().create(&QueueOptions::default()).unwrap(),
            kernel: module.kernel("k").unwrap(),
            device,
        }
    }

    fn fill(&self, at: DevicePtr, value: u32, bytes: u64) {
        // SAFETY: the callers' memory, used by this queue alone.
        let _filled = unsafe { self.queue.fill(at, FillPattern::Word(value), bytes) }.unwrap();
    }

    /// Adds `words` of `b` to `a`; with extents where `is_said`.
    fn add(
        &self,
        a: DevicePtr,
        b: DevicePtr,
        words: u32,
        is_said: bool,
    ) -> Result<(), DriverError> {
        let arguments = [
            &a.address().to_ne_bytes()[..],
            &b.address().to_ne_bytes(),
            &words.to_ne_bytes(),
        ]
        .concat();
        let extents = [u64::from(words) * 4; 2];
        let launch = Launch {
            extents: if is_said { &extents } else { &[] },
            ..Launch::new(&self.kernel, Grid::linear(1), &arguments)
        };
        // SAFETY: the callers' memory, used by this queue alone.
        unsafe { self.queue.launch(&launch) }.map(|_| ())
    }

    fn words(&self, at: DevicePtr, count: usize) -> Vec<u32> {
        let options = HostMemoryOptions {
            locking: Locking::Preferred,
            numa_node: None,
        };
        let host = self.device.host_memory().unwrap();
        let host = host.allocate(count * 4, options).unwrap();
        // SAFETY: memory of our own on both sides.
        let _fetched =
            unsafe { self.queue.copy_to_host(host.start, at, count as u64 * 4) }.unwrap();
        let _reached = self.queue.wait(self.queue.submitted(), None).unwrap();
        assert_eq!(self.queue.failure(), None);
        // SAFETY: the queue has ended; so many words, aligned to a page, and zeroed before.
        let words = unsafe { std::slice::from_raw_parts(host.start.as_ptr().cast(), count) };
        words.to_vec()
    }
}

#[test]
fn kernels_reach_places_inside_a_block_as_those_at_its_start() {
    let test = "kernels_reach_places_inside_a_block_as_those_at_its_start";
    in_child(test, |_| {
        let bench = Bench::new(&open(), 0);
        let block = bench.device.memory().allocate(1 << 20).unwrap();
        let alignment = bench.device.memory().alignment();
        let at = |n: u64| block.checked_add(n * alignment).unwrap();
        for is_said in [true, false] {
            bench.fill(block, 7, 1 << 20);
            bench.fill(at(3), 1, 64);
            bench.fill(at(9), 2, 64);
            bench.add(at(3), at(9), 16, is_said).unwrap();
            assert_eq!(bench.words(at(3), 16), [3; 16]);
            assert_eq!(bench.words(at(3).checked_add(64).unwrap(), 4), [7; 4]);
            assert_eq!(bench.words(at(9), 16), [2; 16]);
        }
    });
}

#[test]
fn an_address_that_no_part_can_begin_at_is_refused_before_the_launch() {
    let test = "an_address_that_no_part_can_begin_at_is_refused_before_the_launch";
    in_child(test, |_| {
        let bench = Bench::new(&open(), 0);
        let block = bench.device.memory().allocate(4096).unwrap();
        let odd = block.checked_add(4).unwrap();
        let error = bench.add(odd, block, 1, true).unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::Misaligned { value, .. } if value == odd.address())
        );
        assert_eq!(bench.queue.submitted().get(), 0);
        // Copies and fills go anywhere.
        bench.fill(block, 5, 4096);
        bench.fill(odd, 6, 4);
        assert_eq!(bench.words(block, 3), [5, 6, 5]);
    });
}

#[test]
fn memory_of_another_device_is_copied_and_reached() {
    in_child("memory_of_another_device_is_copied_and_reached", |_| {
        let driver = open();
        if driver.device_count() < 2 {
            return;
        }
        let [near, far] = [0, 1].map(|device| Bench::new(&driver, device));
        near.device.peers().unwrap().enable(DeviceId(1)).unwrap();
        let here = near.device.memory().allocate(4096).unwrap();
        let there = far.device.memory().allocate(4096).unwrap();
        assert_ne!(here, there, "an address means one thing");
        far.fill(there, 40, 4096);
        let _reached = far.queue.wait(far.queue.submitted(), None).unwrap();
        near.fill(here, 2, 4096);
        near.add(here, there, 1024, true).unwrap();
        assert_eq!(near.words(here, 1024), [42; 1024]);
    });
}

#[test]
fn kernels_that_waited_on_the_host_find_their_buffers() {
    let test = "kernels_that_waited_on_the_host_find_their_buffers";
    in_child(test, |_| {
        let bench = Bench::new(&open(), 0);
        let block = bench.device.memory().allocate(4096).unwrap();
        bench.fill(block, 1, 4096);
        let semaphores = bench.device.semaphores().unwrap();
        let gate = semaphores.create(0, SignalledBy::Anyone).unwrap();
        let wait = Command::WaitSemaphore {
            semaphore: &gate,
            value: 1,
        };
        // SAFETY: it names no memory.
        let _held = unsafe { bench.queue.submit(&wait, std::panic::Location::caller()) }.unwrap();
        let half = block.checked_add(2048).unwrap();
        bench.add(block, half, 512, true).unwrap();
        gate.signal(1).unwrap();
        assert_eq!(bench.words(block, 1024), [[2; 512], [1; 512]].concat());
    });
}
