//! What only this backend promises: modules held against their declarations, build logs, kept binaries, tiling data by
//! value, host functions that wait for each other.
//!
//! Each test runs in a process of its own: what a driver is told by the environment must be there before it is opened, and
//! a driver that crashes takes its process along and not the other tests.

#![expect(
    unsafe_code,
    reason = "vouches for kernels written here, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/process.rs"]
mod child;

use bytemuck::{Pod, Zeroable};
use child::{apart::folder, config, in_child};
use piton_driver::{
    Device, DeviceId, Driver, DriverError, ErrorKind, Grid, HostFunction, HostMemoryOptions,
    Kernel, Launch, Locking, Module, ModuleImage, Parameter, Queue, QueueOptions, Signature,
    VendorCode,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenClModule};
use std::{
    fs,
    panic::Location,
    path::PathBuf,
    sync::{Arc, mpsc},
};

/// A module of this source with one kernel `k`.
fn module(source: &str, takes: impl IntoIterator<Item = Parameter>) -> OpenClModule {
    // SAFETY: the kernels in this file write their own element, or nothing.
    let module = unsafe { OpenClModule::from_source("m", source) };
    module.with("k", Signature::new(takes))
}

fn load(device: &dyn Device) -> Result<Arc<dyn Module>, DriverError> {
    device.kernels().load(ModuleImage::Registered("m"))
}

fn kernel(
    driver: &OpenClDriver,
    source: &str,
    takes: impl IntoIterator<Item = Parameter>,
) -> Result<Arc<dyn Kernel>, DriverError> {
    driver.register(module(source, takes));
    load(&*Driver::open(driver, DeviceId(0)).unwrap())?.kernel("k")
}

#[test]
fn a_module_that_does_not_build_says_what_the_compiler_said() {
    in_child(
        "a_module_that_does_not_build_says_what_the_compiler_said",
        |driver| {
            driver.register(module("__kernel void k( {", []));
            let device = Driver::open(&driver, DeviceId(0)).unwrap();
            let error = load(&*device).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UnknownModule);
            assert_eq!(error.code, Some(VendorCode(-11)));
            assert!(driver.build_log("m").unwrap().contains("error"));
        },
    );
}

#[test]
fn a_declaration_that_the_kernel_does_not_keep_is_refused() {
    in_child(
        "a_declaration_that_the_kernel_does_not_keep_is_refused",
        |driver| {
            let source = "__kernel void k(__global uint *a, uint n) { if (n) a[0] = n; }";
            let (a, n) = (Parameter::write::<u32>(), Parameter::value::<u32>());
            let wide = Parameter::value::<u64>();
            let kind = |takes: &[Parameter]| {
                let result = kernel(&driver, source, takes.iter().copied());
                result.map(|_| ()).map_err(|error| error.kind)
            };
            assert_eq!(kind(&[a, n]), Ok(()));
            let wrong: [&[Parameter]; 5] = [&[], &[a], &[a, n, n], &[n, a], &[a, wide]];
            for takes in wrong {
                let refused = kind(takes);
                let is_reason = matches!(refused, Err(ErrorKind::InvalidArguments { .. }));
                assert!(is_reason, "{takes:?}: {refused:?}");
            }
        },
    );
}

/// Tiling data as kernels of real accelerators have it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Tiling {
    rows: u32,
    scale: f32,
    bias: [f32; 2],
}

#[test]
fn a_struct_of_tiling_data_arrives_as_it_was_packed() {
    in_child(
        "a_struct_of_tiling_data_arrives_as_it_was_packed",
        |driver| {
            let source = "typedef struct { uint rows; float scale; float bias[2]; } Tiling;
            __kernel __attribute__((reqd_work_group_size(4, 1, 1)))
            void k(__global float *out, Tiling t) {
                size_t i = get_global_id(0);
                if (i < t.rows) out[i] = i * t.scale + t.bias[i % 2];
            }";
            let takes = [Parameter::write::<f32>(), Parameter::value::<Tiling>()];
            let kernel = kernel(&driver, source, takes).unwrap();
            let device = Driver::open(&driver, DeviceId(0)).unwrap();
            let tiling = Tiling {
                rows: 6,
                scale: 2.0,
                bias: [0.5, 0.25],
            };
            let out = device.memory().allocate(32).unwrap();
            let mut arguments = out.address().to_ne_bytes().to_vec();
            arguments.extend(bytemuck::bytes_of(&tiling));
            let options = HostMemoryOptions {
                locking: Locking::Preferred,
                numa_node: None,
            };
            let host = device.host_memory().unwrap().allocate(32, options).unwrap();
            let queue = device.queues().create(&QueueOptions::default()).unwrap();
            let launch = Launch {
                extents: &[32],
                ..Launch::new(&kernel, Grid::linear(2), &arguments)
            };
            // SAFETY: 8 floats, used by these two commands in order and then by nobody.
            let _launched = unsafe { queue.launch(&launch) }.unwrap();
            // SAFETY: as above, on both sides.
            let _fetched = unsafe { queue.copy_to_host(host.start, out, 32) }.unwrap();
            let _reached = queue.wait(queue.submitted(), None).unwrap();
            // SAFETY: the queue has ended; 32 bytes, aligned to a page.
            let seen = unsafe { std::slice::from_raw_parts(host.start.as_ptr().cast::<f32>(), 6) };
            assert_eq!(seen, [0.5, 2.25, 4.5, 6.25, 8.5, 10.25]);
        },
    );
}

#[test]
fn an_address_that_is_no_memory_of_the_device_is_no_argument() {
    in_child(
        "an_address_that_is_no_memory_of_the_device_is_no_argument",
        |driver| {
            let source = "__kernel void k(__global uint *a) { }";
            let kernel = kernel(&driver, source, [Parameter::write::<u32>()]).unwrap();
            let device = Driver::open(&driver, DeviceId(0)).unwrap();
            let queue = device.queues().create(&QueueOptions::default()).unwrap();
            let memory = device.memory().allocate(4096).unwrap();
            for (address, extent) in [(0, 4), (64, 4), (memory.address(), 4097)] {
                let arguments = address.to_ne_bytes();
                let launch = Launch {
                    extents: &[extent],
                    ..Launch::new(&kernel, Grid::linear(1), &arguments)
                };
                // SAFETY: it must be refused; the kernel touches nothing.
                let error = unsafe { queue.launch(&launch) }.unwrap_err();
                assert!(matches!(error.kind, ErrorKind::UnknownAddress { .. }));
            }
        },
    );
}

#[test]
fn binaries_are_kept_from_run_to_run_and_rubbish_is_compiled_anew() {
    in_child(
        "binaries_are_kept_from_run_to_run_and_rubbish_is_compiled_anew",
        |_| {
            let binaries = folder("driver-binaries");
            let config = OpenClConfig {
                binaries: Some(binaries.clone()),
                ..config()
            };
            let source = "__kernel void k(__global uint *a) { a[0] = 1; }";
            let files = || -> Vec<PathBuf> {
                let entries = fs::read_dir(&binaries).unwrap();
                entries.map(|entry| entry.unwrap().path()).collect()
            };
            files()
                .iter()
                .for_each(|path| fs::remove_file(path).unwrap());
            let takes = || [Parameter::write::<u32>()];
            let open = || OpenClDriver::open(config.clone()).unwrap();
            kernel(&open(), source, takes()).unwrap();
            let kept = files();
            assert_eq!(kept.len(), 1);
            let content = fs::read(&kept[0]).unwrap();
            kernel(&open(), source, takes()).unwrap();
            // Another source, cut short, of another device: each is known for what it is not.
            let cut = content.len() / 2;
            for rubbish in [&content[..cut], b"", &content[1..]] {
                fs::write(&kept[0], rubbish).unwrap();
                kernel(&open(), source, takes()).unwrap();
                assert_eq!(files().len(), 1);
            }
        },
    );
}

#[test]
fn a_host_function_may_wait_for_one_of_another_queue() {
    in_child(
        "a_host_function_may_wait_for_one_of_another_queue",
        |driver| {
            let device = Driver::open(&driver, DeviceId(0)).unwrap();
            let host = device.host_functions().unwrap();
            let queue = || device.queues().create(&QueueOptions::default()).unwrap();
            let (first, second) = (queue(), queue());
            let (sender, receiver) = mpsc::channel();
            let call = |queue: &Arc<dyn Queue>, function: HostFunction| {
                let mut function = Some(function);
                let _accepted = host
                    .call(&**queue, &mut function, Location::caller())
                    .unwrap();
            };
            call(&first, Box::new(move || receiver.recv().unwrap()));
            call(&second, Box::new(move || sender.send(()).unwrap()));
            let _reached = first.wait(first.submitted(), None).unwrap();
            assert_eq!(first.failure(), None);
        },
    );
}
