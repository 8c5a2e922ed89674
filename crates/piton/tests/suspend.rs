//! Buffers that let the device have their pages for a while: addresses and contents come back, whatever fails in between.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::{
    BufferError, Device, DeviceBuffer, Grid, KeptIn, MemoryPoolConfig, ResumeFailed, Runtime,
    Stream, SuspendFailed,
    sim::{FaultPlan, Trigger},
};
use support::{check, runtime, small_devices};

/// Words of the buffers: of some pages, and of less than one.
const WORDS: [u64; 3] = [1 << 17, 1 << 10, 3 << 15];
const BOTH: [KeptIn; 2] = [KeptIn::PinnedMemory, KeptIn::OrdinaryMemory];

fn word(buffer: usize, at: u64) -> u32 {
    let buffer = u32::try_from(buffer).unwrap();
    buffer * 1_000_003 + u32::try_from(at).unwrap()
}

fn contents(buffer: usize) -> Vec<u32> {
    (0..WORDS[buffer]).map(|at| word(buffer, at)).collect()
}

fn filled(stream: &Stream) -> Vec<DeviceBuffer<u32>> {
    let buffers = (0..WORDS.len()).map(|number| {
        let mut buffer = stream.allocate(WORDS[number]).unwrap();
        stream.write(&mut buffer, &contents(number)).unwrap();
        buffer
    });
    buffers.collect()
}

#[track_caller]
fn check_contents(stream: &Stream, buffers: &[DeviceBuffer<u32>]) {
    for (number, buffer) in buffers.iter().enumerate() {
        assert!(stream.read(buffer).unwrap() == contents(number), "{number}");
    }
}

fn device(runtime: &Runtime) -> Device {
    runtime.device(0).unwrap()
}

#[test]
fn addresses_and_contents_come_back_and_the_device_has_the_pages_meanwhile() {
    for kept_in in BOTH {
        let runtime = runtime(small_devices(1));
        let device = device(&runtime);
        let stream = device.stream("a").unwrap();
        let buffers = filled(&stream);
        let places: Vec<_> = buffers.iter().map(DeviceBuffer::ptr).collect();
        let suspended = stream.suspend(buffers, kept_in).unwrap();
        assert_eq!(suspended.error(), None);
        assert!(suspended.released() >= 4 * WORDS[0]);
        device.memory().trim(0);
        assert_eq!(
            device.memory_stats().held_bytes,
            0,
            "nothing is left on the device"
        );
        // All of the device's memory serves others, with other contents.
        let bytes = device.memory().limit() - (512 << 10);
        let mut other: DeviceBuffer<u32> = stream.allocate(bytes / 4).unwrap();
        stream.fill(&mut other, 0xDEAD_BEEF).unwrap();
        let full = stream.resume(suspended).unwrap_err();
        assert!(matches!(full.error, BufferError::Resume(_)), "{full}");
        drop(other);
        stream.synchronize().unwrap();
        let buffers = stream.resume(*full.suspended).unwrap();
        assert!(buffers.iter().map(DeviceBuffer::ptr).eq(places));
        check_contents(&stream, &buffers);
        drop(buffers);
        check(&runtime);
        assert_eq!(device.memory_stats().live_bytes, 0);
    }
}

#[test]
fn whoever_still_uses_a_buffer_is_waited_for() {
    let runtime = runtime(small_devices(1));
    let device = device(&runtime);
    let (one, other) = (device.stream("a").unwrap(), device.stream("b").unwrap());
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    let mut buffers = filled(&one);
    let grid = Grid::linear(u32::try_from(WORDS[0] / support::BLOCK).unwrap());
    let launch = other.launch(&scale, grid).write(&mut buffers[0]);
    launch.value(3_u32).submit().unwrap();
    // A second reader, which the first stream has no other reason to wait for.
    let mut copy = other.allocate(WORDS[2]).unwrap();
    other.copy(&buffers[2], &mut copy).unwrap();
    let suspended = one.suspend(buffers, KeptIn::PinnedMemory).unwrap();
    assert_eq!(other.read(&copy).unwrap(), contents(2));
    let buffers = other.resume(suspended).unwrap();
    let tripled: Vec<u32> = contents(0)
        .iter()
        .map(|word| word.wrapping_mul(3))
        .collect();
    assert!(one.read(&buffers[0]).unwrap() == tripled);
    check(&runtime);
}

#[test]
fn buffers_of_several_types_sleep_together_as_bytes() {
    let runtime = runtime(small_devices(1));
    let stream = device(&runtime).stream("a").unwrap();
    let mut halves: DeviceBuffer<u16> = stream.allocate(1000).unwrap();
    let mut doubles: DeviceBuffer<f64> = stream.allocate(100).unwrap();
    stream.write(&mut halves, &[7; 1000]).unwrap();
    stream.write(&mut doubles, &[0.5; 100]).unwrap();
    let bytes = vec![halves.into_bytes(), doubles.into_bytes()];
    let suspended = stream.suspend(bytes, KeptIn::default()).unwrap();
    let [halves, doubles] = stream.resume(suspended).unwrap().try_into().unwrap();
    assert_eq!(doubles.into_elements::<f64>().unwrap().len(), 100);
    let odd = halves.into_elements::<[u8; 3]>().unwrap_err();
    let halves = odd.into_elements::<u16>().unwrap();
    assert_eq!(stream.read(&halves).unwrap(), [7; 1000]);
}

#[test]
fn what_cannot_sleep_is_refused_and_comes_back_as_it_was() {
    let runtime = runtime(small_devices(2));
    let devices = [0, 1].map(|number| runtime.device(number).unwrap());
    let [here, there] = devices.each_ref().map(|device| device.stream("a").unwrap());
    let SuspendFailed { buffers, error } =
        there.suspend(filled(&here), KeptIn::default()).unwrap_err();
    assert!(matches!(error, BufferError::OtherDevice { .. }), "{error}");
    check_contents(&here, &buffers);
    let private = devices[0]
        .private_pool(&MemoryPoolConfig::default())
        .unwrap();
    let buffer = here.allocate_from::<u32>(&private, 64).unwrap();
    let refused = here.suspend(vec![buffer], KeptIn::default()).unwrap_err();
    assert!(
        matches!(refused.error, BufferError::Suspend(_)),
        "{refused}"
    );
    let suspended = here.suspend(buffers, KeptIn::default()).unwrap();
    let ResumeFailed { suspended, error } = there.resume(suspended).unwrap_err();
    assert!(matches!(error, BufferError::OtherDevice { .. }), "{error}");
    let live = devices[0].memory_stats().live_bytes;
    drop(suspended);
    let words: u64 = WORDS.iter().sum();
    assert_eq!(devices[0].memory_stats().live_bytes, live - 4 * words);
    check(&runtime);
}

#[test]
fn a_stream_that_has_failed_brings_nothing_back_and_another_does() {
    for kept_in in BOTH {
        let runtime = runtime(small_devices(1));
        let device = device(&runtime);
        let (fails, works) = (device.stream("a").unwrap(), device.stream("b").unwrap());
        let suspended = works.suspend(filled(&works), kept_in).unwrap();
        let trap = device.load("test").unwrap().kernel("trap").unwrap();
        let mut word = works.allocate::<u32>(1).unwrap();
        let launch = fails.launch(&trap, Grid::linear(1)).write(&mut word);
        launch.value(1_u32).submit().unwrap();
        let failed = fails.resume(suspended).unwrap_err();
        assert!(matches!(failed.error, BufferError::Stream(_)), "{failed}");
        let buffers = works.resume(*failed.suspended).unwrap();
        check_contents(&works, &buffers);
        let refused = fails.suspend(buffers, kept_in).unwrap_err();
        check_contents(&works, &refused.buffers);
        drop(refused);
        check(&runtime);
    }
}

/// There and back while one call fails, once more where that was told; whether it failed.
fn round_with_fault(runtime: &Runtime, stream: &Stream, kept_in: KeptIn, call: u64) -> bool {
    let sim = runtime.sim().unwrap();
    let buffers = filled(stream);
    sim.set_faults(FaultPlan::new().with(Trigger::Call(call)));
    let suspended = stream.suspend(buffers, kept_in);
    let suspended = suspended.unwrap_or_else(|failed| {
        check_contents(stream, &failed.buffers);
        stream.suspend(failed.buffers, kept_in).unwrap()
    });
    let buffers = stream.resume(suspended);
    let buffers = buffers.unwrap_or_else(|failed| stream.resume(*failed.suspended).unwrap());
    let has_failed = sim.faults_fired() > 0;
    sim.set_faults(FaultPlan::new());
    check_contents(stream, &buffers);
    drop(buffers);
    stream.synchronize().unwrap();
    device(runtime).memory().trim(0);
    check(runtime);
    has_failed
}

#[test]
fn no_contents_are_lost_whichever_call_to_the_driver_fails() {
    for kept_in in BOTH {
        let runtime = runtime(small_devices(1));
        let stream = device(&runtime).stream("a").unwrap();
        let rounds = (1..).take_while(|call| round_with_fault(&runtime, &stream, kept_in, *call));
        let calls = rounds.count();
        assert!(calls > 10, "only {calls} calls");
    }
}
