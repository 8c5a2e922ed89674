//! Bad input of any kind is a typed error that names the value and the limit, and changes nothing.

mod support;

use piton::{
    BufferError, DeviceId, Grid, HardwareQueue, Placement, Priority, Runtime, RuntimeConfig,
    RuntimeError, StreamError, StreamOptions,
    sim::{Backing, DeviceConfig, SimConfig},
};
use piton_alloc::AllocError;
use piton_driver::{DriverError, ErrorKind};
use support::{check, runtime, small_devices};

fn kind(result: Result<(), BufferError>) -> ErrorKind {
    match result {
        Err(BufferError::Stream(StreamError::Driver(DriverError { kind, .. }))) => kind,
        other => panic!("expected a driver's refusal, got {other:?}"),
    }
}

#[test]
fn more_than_the_host_has_room_for_is_not_read() {
    // A device that is all books may have more than any machine.
    let bytes = 1 << 40;
    let device = DeviceConfig {
        memory_bytes: bytes,
        backing: Backing::Books,
        ..DeviceConfig::default()
    };
    let runtime = runtime(SimConfig::uniform(1, &device));
    let stream = runtime.device(0).unwrap().stream("s").unwrap();
    let buffer = stream.allocate::<u8>(bytes / 2).unwrap();
    let refused = stream.read(&buffer);
    // Systems that promise any amount of memory have room, and then find no bytes there.
    let is_told = matches!(
        &refused,
        Err(BufferError::Driver(DriverError { kind: ErrorKind::OutOfHostMemory { requested }, .. }))
            if *requested == bytes / 2
    );
    assert!(is_told || matches!(refused, Err(BufferError::Stream(_))));
    check(&runtime);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let runtime = runtime(small_devices(1));
    let stream = runtime.device(0).unwrap().stream("s").unwrap();
    for len in [0, u64::MAX, u64::MAX / 4 + 1] {
        let refused = stream.allocate::<u32>(len);
        let expected = matches!(
            refused,
            Err(BufferError::InvalidLength { elements, element_bytes: 4 }) if elements == len
        );
        assert!(expected, "{len}: {refused:?}");
    }
    let huge = stream.allocate::<u8>(1 << 40);
    let never = matches!(
        huge,
        Err(BufferError::Memory(AllocError::NeverFits { requested, .. })) if requested == 1 << 40
    );
    assert!(never, "{huge:?}");
    assert!(matches!(
        stream.pinned::<u32>(0),
        Err(BufferError::InvalidLength { .. })
    ));
    assert!(stream.pinned::<u64>(usize::MAX).is_err());
    assert!(stream.pinned::<u8>(usize::MAX).is_err());
    assert!(stream.allocate::<()>(8).is_err());
    check(&runtime);
}

#[test]
fn ranges_and_lengths_that_do_not_fit_are_refused() {
    let runtime = runtime(small_devices(1));
    let stream = runtime.device(0).unwrap().stream("s").unwrap();
    let mut buffer = stream.allocate::<u32>(8).unwrap();
    for (start, end) in [(0, 9), (8, 8), (u64::MAX, 0), (3, 2)] {
        let refused = buffer.slice(start..end).map(drop);
        let expected = matches!(
            refused,
            Err(BufferError::OutOfRange { start: s, end: e, len: 8 }) if (s, e) == (start, end)
        );
        assert!(expected, "{start}..{end}: {refused:?}");
    }
    assert!(buffer.split_at_mut(8).is_err() && buffer.split_at_mut(0).is_err());
    assert!(matches!(
        stream.write(&mut buffer, &[1, 2, 3]),
        Err(BufferError::LengthMismatch {
            source_elements: 3,
            destination_elements: 8
        })
    ));
    assert!(matches!(
        stream.fill(&mut stream.allocate::<u64>(1).unwrap(), 7),
        Err(BufferError::FillSize { bytes: 8 })
    ));
    drop(buffer);
    stream.synchronize().unwrap();
    check(&runtime);
}

#[test]
fn arguments_are_checked_before_a_launch() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let (stream, module) = (device.stream("s").unwrap(), device.load("test").unwrap());
    let (add, scale) = (
        module.kernel("add").unwrap(),
        module.kernel("scale").unwrap(),
    );
    let mut words = stream.allocate::<u32>(64).unwrap();
    let mut bytes = stream.allocate::<u8>(64).unwrap();
    let other = stream.allocate::<u32>(64).unwrap();
    let grid = Grid::linear(1);
    assert!(matches!(
        stream.launch(&add, grid).write(&mut words).submit(),
        Err(BufferError::ArgumentCount {
            expected: 2,
            given: 1
        })
    ));
    assert!(matches!(
        stream
            .launch(&add, grid)
            .write(&mut bytes)
            .read(&other)
            .submit(),
        Err(BufferError::ArgumentMismatch { index: 0, .. })
    ));
    assert!(matches!(
        stream.launch(&add, grid).read(&words).read(&other).submit(),
        Err(BufferError::ArgumentMismatch { index: 0, .. })
    ));
    assert!(matches!(
        stream
            .launch(&scale, grid)
            .write(&mut words)
            .value(1_u64)
            .submit(),
        Err(BufferError::ArgumentMismatch { index: 1, .. })
    ));
    assert!(matches!(
        stream
            .launch(&scale, grid)
            .write(&mut words)
            .read(&other)
            .submit(),
        Err(BufferError::ArgumentMismatch { index: 1, .. })
    ));
    stream.synchronize().unwrap();
    check(&runtime);
}

#[test]
fn grids_that_cannot_be_are_refused() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    let scale = device.load("test").unwrap().kernel("scale").unwrap();
    let mut words = stream.allocate::<u32>(64).unwrap();
    for (grid, blocks) in [
        (Grid::linear(0), 0),
        (
            Grid {
                x: u32::MAX,
                y: u32::MAX,
                z: u32::MAX,
            },
            u64::MAX,
        ),
        (
            Grid {
                x: u32::MAX,
                y: 2,
                z: 1,
            },
            u64::from(u32::MAX) * 2,
        ),
    ] {
        let refused = stream
            .launch(&scale, grid)
            .write(&mut words)
            .value(1_u32)
            .submit();
        let expected = ErrorKind::InvalidGrid {
            blocks,
            maximum: u64::from(u32::MAX),
        };
        assert_eq!(kind(refused), expected);
    }
    stream.synchronize().unwrap();
    check(&runtime);
}

#[test]
fn what_belongs_elsewhere_is_refused() {
    let (runtime, stranger) = (runtime(small_devices(2)), runtime(small_devices(2)));
    let (near, far) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (here, there) = (near.stream("here").unwrap(), far.stream("there").unwrap());
    let foreign = stranger.device(0).unwrap().stream("foreign").unwrap();
    let scale = near.load("test").unwrap().kernel("scale").unwrap();
    let mut mine = here.allocate_zeroed::<u32>(64).unwrap();
    let mut theirs = there.allocate_zeroed::<u32>(64).unwrap();
    let mut strange = foreign.allocate_zeroed::<u32>(64).unwrap();

    let launched = here
        .launch(&scale, Grid::linear(1))
        .write(&mut theirs)
        .value(2_u32)
        .submit();
    assert!(matches!(
        launched,
        Err(BufferError::OtherDevice {
            stream: DeviceId(0),
            object: DeviceId(1)
        })
    ));
    let launched = there
        .launch(&scale, Grid::linear(1))
        .write(&mut theirs)
        .value(2_u32)
        .submit();
    assert_eq!(
        kind(launched),
        ErrorKind::ForeignObject { given: DeviceId(0) }
    );
    assert!(matches!(
        here.copy(&mine, &mut strange),
        Err(BufferError::OtherRuntime)
    ));
    assert!(matches!(
        here.copy_peer(&strange, &mut mine),
        Err(BufferError::OtherRuntime)
    ));
    let third = runtime.device(0).unwrap().stream("third").unwrap();
    drop(third);
    assert!(matches!(
        here.wait(&foreign.record()),
        Err(BufferError::Stream(StreamError::ForeignEvent { .. }))
    ));
    let pinned = foreign.pinned::<u32>(64).unwrap();
    assert!(matches!(
        here.copy_to_device(pinned, &mut mine),
        Err(BufferError::OtherRuntime)
    ));
    check(&runtime);
    check(&stranger);
}

#[test]
fn things_that_are_not_there_are_named() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    assert!(matches!(
        runtime.device(7),
        Err(RuntimeError::UnknownDevice {
            device: DeviceId(7),
            devices: 1
        })
    ));
    let missing = device.load("nothing").unwrap_err();
    assert_eq!(
        missing.to_string(),
        "module `nothing` could not be loaded on device 0"
    );
    let missing = device.load("test").unwrap().kernel("nothing").unwrap_err();
    assert_eq!(
        missing.to_string(),
        "module `test` has no kernel `nothing` on device 0"
    );
    let none = Runtime::new(RuntimeConfig::on(piton::Devices::Simulated(
        SimConfig::default(),
    )));
    assert!(matches!(none, Err(RuntimeError::NoDevices)));
    for (priority, placement) in [
        (Priority(1), Placement::LeastLoaded),
        (Priority(-3), Placement::LeastLoaded),
        (Priority(i32::MIN), Placement::LeastLoaded),
        (
            Priority::DEFAULT,
            Placement::Explicit(HardwareQueue(u32::MAX)),
        ),
    ] {
        let options = StreamOptions {
            priority,
            placement,
            ..StreamOptions::default()
        };
        assert!(
            device.stream_with(options).is_err(),
            "{priority:?} {placement:?}"
        );
    }
}

#[test]
fn a_dropped_runtime_leaves_its_handles_working() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    drop((runtime, device));
    let mut buffer = stream.allocate::<u32>(64).unwrap();
    stream.fill(&mut buffer, 7).unwrap();
    assert_eq!(stream.read(&buffer).unwrap(), [7; 64]);
}

#[test]
fn a_failure_names_the_stream_the_call_and_the_place() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("doomed").unwrap();
    let trap = device.load("test").unwrap().kernel("trap").unwrap();
    let mut buffer = stream.allocate::<u32>(64).unwrap();
    stream
        .launch(&trap, Grid::linear(1))
        .write(&mut buffer)
        .value(42_u32)
        .submit()
        .unwrap();
    let message = stream.synchronize().unwrap_err().to_string();
    for part in [
        "doomed",
        "launching a kernel",
        "bad_input.rs",
        "trapped with code 42",
    ] {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    // What depends on the failure fails too; nothing hangs, nothing is lost.
    let dependent = device.stream("dependent").unwrap();
    let read = dependent.read(&buffer).unwrap_err().to_string();
    assert!(read.contains("doomed"), "{read}");
    drop((buffer, stream, dependent));
    let healthy = device.stream("healthy").unwrap();
    let mut buffer = healthy.allocate::<u32>(64).unwrap();
    healthy.fill(&mut buffer, 3).unwrap();
    assert_eq!(healthy.read(&buffer).unwrap(), [3; 64]);
    check(&runtime);
}

#[test]
fn more_devices_than_a_machine_can_have_are_refused_before_they_take_memory() {
    for devices in [65, u32::MAX] {
        let refused = Runtime::new(RuntimeConfig::simulated(devices)).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with(&format!("{devices} devices are more than the 64 that")),
            "{refused}"
        );
    }
}

#[test]
fn a_lost_device_is_not_said_to_be_opened() {
    let runtime = runtime(small_devices(1));
    let device = runtime.device(0).unwrap();
    let stream = device.stream("s").unwrap();
    runtime.sim().unwrap().lose(DeviceId(0));
    let refused = stream
        .pinned::<u32>(1 << 20)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(!refused.contains("opening the device"), "{refused}");
}
