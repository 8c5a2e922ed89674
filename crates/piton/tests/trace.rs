//! What ran when, and modules that are loaded once, as a program sees them.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Comparison, DeviceTrace, Grid, ModuleImage, Operation, sim::SimModule, write_chrome_trace,
};
use piton_driver::{ErrorKind, Operation as Call};
use piton_trace::{Place, waits};
use std::sync::Arc;
use support::{module, runtime, small_devices};

#[test]
fn a_trace_of_two_streams_shows_kernels_under_their_labels_and_the_wait_between_them() {
    let runtime = runtime(small_devices(1).in_virtual_time(1, piton::sim::ScheduleOrder::ByTime));
    let device = runtime.device(0).unwrap();
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    let (upload, compute) = (
        device.stream("upload").unwrap(),
        device.stream("compute").unwrap(),
    );
    assert!(device.start_trace(1000));
    let mut buffer = upload.allocate::<u32>(1024).unwrap();
    upload.fill(&mut buffer, 2).unwrap();
    let launch = compute.launch(&scale, Grid::linear(16));
    launch.write(&mut buffer).value(3_u32).submit().unwrap();
    assert_eq!(compute.read(&buffer).unwrap(), [6; 1024]);
    let trace = device.finish_trace().unwrap();
    let launch = trace
        .records
        .iter()
        .find(|record| record.operation == Operation::Launch);
    let launch = launch.unwrap();
    assert_eq!(
        (launch.label.as_deref(), launch.kernel.as_deref()),
        (Some("compute"), Some("scale"))
    );
    assert!(launch.origin.unwrap().file().ends_with("trace.rs"));
    let mut file = Vec::new();
    let written = write_chrome_trace(&mut file, &[trace]).unwrap();
    assert_eq!((written.arrows, written.dropped), (1, 0));
    assert!(
        device.finish_trace().unwrap().records.is_empty(),
        "it was finished"
    );
}

/// The arrow of each wait, as the labels of the streams it leads from and to.
fn arrows(traces: &[DeviceTrace]) -> Vec<(String, String)> {
    let label = |place: Place| {
        let record = &traces[place.device].records[place.record];
        record.label.as_deref().unwrap_or_default().to_owned()
    };
    let found = waits(traces);
    let labels = found.iter().map(|it| (label(it.awaited), label(it.wait)));
    labels.collect()
}

#[test]
fn a_trace_shows_whose_signal_and_whose_write_a_wait_was_for_in_either_time() {
    let in_virtual_time = small_devices(1).in_virtual_time(7, piton::sim::ScheduleOrder::ByTime);
    for config in [small_devices(1), in_virtual_time] {
        let runtime = runtime(config);
        let device = runtime.device(0).unwrap();
        let (tells, waiting) = (
            device.stream("tells").unwrap(),
            device.stream("waits").unwrap(),
        );
        let counter = device.semaphore(0).unwrap();
        let mut flags = waiting.allocate_zeroed::<u32>(4).unwrap();
        waiting.synchronize().unwrap();
        assert!(device.start_trace(1000));
        waiting.wait_semaphore(&counter, 3).unwrap();
        waiting.wait_value(&flags, 1, Comparison::Equal, 9).unwrap();
        tells.signal_semaphore(&counter, 2).unwrap();
        tells.signal_semaphore(&counter, 5).unwrap();
        tells.write_value(&mut flags, 1, 9).unwrap();
        waiting.synchronize().unwrap();
        tells.synchronize().unwrap();
        let traces = [device.finish_trace().unwrap()];
        let from_one_to_the_other = ("tells".to_owned(), "waits".to_owned());
        assert_eq!(arrows(&traces), vec![from_one_to_the_other; 2]);
        let written = write_chrome_trace(Vec::new(), &traces).unwrap();
        assert_eq!(written.arrows, 2);
    }
}

#[test]
fn a_module_is_loaded_once_until_it_is_registered_anew_or_unloaded() {
    let runtime = runtime(small_devices(2));
    let device = runtime.device(0).unwrap();
    let kernel = |name| device.load("test").unwrap().kernel(name).unwrap();
    let first = kernel("add");
    assert!(Arc::ptr_eq(first.raw(), kernel("add").raw()));
    let other = runtime.device(1).unwrap().load("test").unwrap();
    assert!(
        !Arc::ptr_eq(first.raw(), other.kernel("add").unwrap().raw()),
        "each device has its own"
    );
    runtime.register(module()).unwrap();
    let second = kernel("add");
    assert!(!Arc::ptr_eq(first.raw(), second.raw()));
    device.unload_modules();
    assert!(!Arc::ptr_eq(second.raw(), kernel("add").raw()));
    runtime.register(SimModule::new("test")).unwrap();
    assert!(
        device.load("test").unwrap().kernel("add").is_err(),
        "the new one has no kernels"
    );
}

#[test]
fn a_module_that_cannot_be_loaded_is_named_by_the_error() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    for (image, name) in [
        (ModuleImage::Registered("missing"), "missing"),
        (ModuleImage::Source("kernel"), "source of 6 bytes"),
        (ModuleImage::Binary(&[1, 2]), "binary of 2 bytes"),
    ] {
        let piton::RuntimeError::Module { module, source, .. } =
            device.load_image(image).unwrap_err()
        else {
            panic!("a module could not be loaded");
        };
        assert_eq!(
            (module.as_str(), source.operation),
            (name, Call::LoadModule)
        );
        assert_eq!(source.kind, ErrorKind::UnknownModule);
    }
}
