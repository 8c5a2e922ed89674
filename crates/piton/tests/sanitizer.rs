//! The facade with a sanitizer: what safe code does is in order, what goes past it is told.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    Devices, Hazard, Response, Runtime, RuntimeConfig, SanitizerConfig, Space, Stream, StreamError,
    sim::ScheduleOrder, sim::SimConfig,
};
use piton_driver::{DevicePtr, FillPattern};
use support::{check, sanitized, small_devices};

/// Two simulated devices that copy to each other through host memory.
fn strangers() -> SimConfig {
    let mut config = small_devices(2);
    for link in &mut config.links {
        link.allows_peer_access = false;
    }
    config
}

#[expect(unsafe_code, reason = "submission is unsafe")]
#[track_caller]
fn fill(stream: &Stream, at: DevicePtr) -> Result<(), StreamError> {
    // SAFETY: the memory lies in a Block of the runtime's pool, which stays mapped; that nothing orders the use is
    // what the test is about, and nobody reads what it writes.
    let submitted = unsafe { stream.raw().fill(at, FillPattern::Byte(7), 64) };
    submitted.map(drop)
}

fn kinds(runtime: &Runtime) -> Vec<Hazard> {
    let reports = runtime.sanitizer().unwrap().reports();
    reports.into_iter().map(|report| report.kind).collect()
}

#[test]
fn a_raw_use_beside_a_buffer_is_reported_with_both_lines() {
    let runtime = sanitized(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (one, two) = (device.stream("one").unwrap(), device.stream("two").unwrap());
    let mut buffer = one.allocate::<u32>(64).unwrap();
    two.wait(&one.record()).unwrap();
    one.fill(&mut buffer, 1).unwrap();
    let first = line!() - 1;
    fill(&two, buffer.ptr()).unwrap();
    let second = line!() - 1;
    let reports = runtime.sanitizer().unwrap().reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].kind, Hazard::WriteWrite);
    assert_eq!(reports[0].space, Space::Device(device.id()));
    let places = [&reports[0].first, &reports[0].second].map(|site| site.origin.unwrap());
    assert_eq!(places.map(|place| place.line()), [first, second]);
    assert!(places.iter().all(|place| place.file() == file!()));
}

#[test]
fn an_address_kept_too_long_is_reported_before_and_after_the_memory_has_another_owner() {
    let runtime = sanitized(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (one, two) = (device.stream("one").unwrap(), device.stream("two").unwrap());
    let buffer = one.allocate_zeroed::<u32>(64).unwrap();
    let allocated = line!() - 1;
    let kept = buffer.ptr();
    drop(buffer);
    fill(&two, kept).unwrap();
    let [report] = &runtime.sanitizer().unwrap().take_reports()[..] else {
        panic!("not one report");
    };
    assert_eq!(report.kind, Hazard::UseAfterFree);
    assert_eq!(report.first.origin.unwrap().line(), allocated);
    let next = one.allocate::<u32>(64).unwrap();
    assert_eq!(next.ptr(), kept, "the stream has its memory again at once");
    fill(&two, kept).unwrap();
    assert!(kinds(&runtime).contains(&Hazard::UseAfterFree));
}

#[test]
fn a_use_that_a_buffer_does_not_know_of_is_reported_when_it_is_dropped() {
    let runtime = sanitized(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (one, two) = (device.stream("one").unwrap(), device.stream("two").unwrap());
    let buffer = one.allocate::<u32>(64).unwrap();
    two.wait(&one.record()).unwrap();
    fill(&two, buffer.ptr()).unwrap();
    assert_eq!(kinds(&runtime), []);
    drop(buffer);
    assert_eq!(kinds(&runtime), [Hazard::FreeWhileUsed]);
}

#[test]
fn a_refusing_runtime_keeps_the_race_from_the_device() {
    let runtime = Runtime::new(RuntimeConfig {
        sanitizer: Some(SanitizerConfig {
            response: Response::Refuse,
            ..SanitizerConfig::default()
        }),
        ..RuntimeConfig::on(Devices::Simulated(small_devices(1)))
    })
    .unwrap();
    let device = runtime.device(0).unwrap();
    let (one, two) = (device.stream("one").unwrap(), device.stream("two").unwrap());
    let mut buffer = one.allocate::<u32>(64).unwrap();
    one.fill(&mut buffer, 1).unwrap();
    let refused = fill(&two, buffer.ptr()).unwrap_err();
    assert!(matches!(refused, StreamError::Hazard(_)), "{refused}");
    assert_eq!(one.read(&buffer).unwrap(), [1; 64]);
}

#[test]
fn copies_between_devices_are_in_order_by_each_route() {
    for config in [small_devices(2), strangers()] {
        let runtime = sanitized(config);
        let devices: Vec<_> = runtime.devices().collect();
        let streams = [0, 1].map(|n: usize| devices[n].stream("stream").unwrap());
        for turn in 0..40 {
            let (from, to) = (&streams[turn % 2], &streams[(turn + 1) % 2]);
            let mut source = from.allocate::<u32>(1 << 10).unwrap();
            from.fill(&mut source, 7).unwrap();
            let mut copy = to.allocate::<u32>(1 << 10).unwrap();
            let by = if turn % 3 == 0 { from } else { to };
            by.copy_peer(&source, &mut copy).unwrap();
            drop(source);
            assert_eq!(to.read(&copy).unwrap(), [7; 1 << 10]);
        }
        check(&runtime);
    }
}

#[test]
fn host_memory_that_staged_one_copy_and_then_another_is_no_race() {
    let runtime = sanitized(strangers().in_virtual_time(7, ScheduleOrder::ByTime));
    let [from, to] = [0, 1].map(|n| runtime.device(n).unwrap());
    let clock = from.stream("clock").unwrap();
    for _ in 0..20 {
        let (from, to) = (from.stream("from").unwrap(), to.stream("to").unwrap());
        let source = from.allocate_zeroed::<u32>(1 << 10).unwrap();
        let mut copy = to.allocate::<u32>(1 << 10).unwrap();
        to.copy_peer(&source, &mut copy).unwrap();
        // Time passes, and the copy ends without anybody waiting for it.
        let mut other = clock.allocate::<u32>(1 << 20).unwrap();
        clock.clear(&mut other).unwrap();
        clock.synchronize().unwrap();
    }
    check(&runtime);
}

#[test]
fn memory_that_is_handed_out_is_poisoned_in_stream_order() {
    let runtime = sanitized(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (one, two) = (device.stream("one").unwrap(), device.stream("two").unwrap());
    for _ in 0..10 {
        let mut buffer = one.allocate::<u8>(64).unwrap();
        assert_eq!(two.read(&buffer).unwrap(), [0xA5; 64]);
        two.fill(&mut buffer, 1).unwrap();
    }
    check(&runtime);
}
