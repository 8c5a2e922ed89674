//! Priorities, on a library that claims for the system's that its devices have them: no driver that runs everywhere has.

#![expect(
    unsafe_code,
    reason = "asks the library in between, and submits commands"
)]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/apart.rs"]
mod apart;

use apart::{apart, folder};
use libloading::Library;
use piton_driver::{
    DeviceId, Driver, ErrorKind, FillPattern, HardwareQueue, Placement, Priority, QueueOptions,
    WaitOutcome,
};
use piton_opencl::{OpenClConfig, OpenClDriver, OpenError};
use std::{path::PathBuf, process::Command};

const HIGH: u32 = 1;
const LOW: u32 = 4;

/// The library in between; says `skipped:` where it cannot be made.
#[expect(clippy::print_stdout, reason = "what was skipped is printed")]
fn library() -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/child/hints.c");
    let path = folder("hints").join("libhints.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
        .arg(&path)
        .args([source, "-l:libOpenCL.so.1", "-ldl"])
        .output();
    let is_made = made.is_ok_and(|output| output.status.success());
    if !is_made {
        println!("skipped: no C compiler, or no libOpenCL.so.1 to put a library in front of");
    }
    is_made.then_some(path)
}

/// What queues were asked for with since the last call.
fn asked(library: &Library) -> u32 {
    // SAFETY: the type is the one that the function has in its source.
    let asked = unsafe { library.get::<unsafe extern "C" fn() -> u32>(b"piton_asked\0") }.unwrap();
    // SAFETY: it takes nothing, and one thread of this process calls the library.
    unsafe { asked() }
}

#[test]
fn queues_are_as_urgent_as_the_driver_can_be_told() {
    apart("queues_are_as_urgent_as_the_driver_can_be_told", || {
        let Some(path) = library() else { return };
        let config = OpenClConfig {
            library: Some(path.clone()),
            memory_bytes: Some(1 << 20),
            ..OpenClConfig::default()
        };
        let driver = match OpenClDriver::open(config) {
            Ok(driver) => driver,
            Err(OpenError::NoPlatform | OpenError::NoDevice { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        // SAFETY: the library was made above, and has nothing to initialise.
        let library = unsafe { Library::new(&path) }.unwrap();
        let device = Driver::open(&driver, DeviceId(0)).unwrap();
        let range = device.priorities().unwrap();
        assert_eq!((range.highest, range.lowest), (Priority(-1), Priority(1)));
        let memory = device.memory().allocate(1024).unwrap();
        // On one hardware queue: each priority has a queue of the driver's there.
        for (number, hint) in [(-1, HIGH), (0, 0), (1, LOW), (-1, 0)] {
            let options = QueueOptions {
                priority: Priority(number),
                placement: Placement::Explicit(HardwareQueue(3)),
                ..QueueOptions::default()
            };
            let queue = device.queues().create(&options).unwrap();
            assert_eq!(asked(&library), hint, "priority {number}");
            assert_eq!(queue.priority(), Priority(number));
            // SAFETY: live memory of that size, which nobody else uses.
            let _filled = unsafe { queue.fill(memory, FillPattern::Byte(1), 1024) }.unwrap();
            let reached = queue.wait(queue.submitted(), None);
            assert_eq!(reached, Ok(WaitOutcome::Reached));
        }
        let options = QueueOptions {
            priority: Priority(-2),
            ..QueueOptions::default()
        };
        let refused = device.queues().create(&options).unwrap_err();
        let [given, highest, lowest] = [-2, -1, 1];
        let invalid = ErrorKind::InvalidPriority {
            given,
            highest,
            lowest,
        };
        assert_eq!(refused.kind, invalid);
    });
}
