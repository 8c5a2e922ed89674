//! What no driver shows that runs everywhere, on a library in front of the system's: priorities, and commands that fail and
//! leave the process alive.

#![expect(unsafe_code, reason = "submits commands")]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "child/apart.rs"]
mod apart;
#[path = "child/between.rs"]
mod library;

use apart::apart;
use library::Between;
use piton_driver::{
    Admission, Device, DeviceId, DevicePtr, Driver, ErrorKind, FillPattern, HardwareQueue,
    Operation, Placement, Position, Priority, Queue, QueueOptions, ResourceKind, VendorCode,
    WaitOutcome,
};
use std::sync::Arc;

const HIGH: u32 = 1;
const LOW: u32 = 4;

/// Runs `body` on the first device behind the library, where both are there.
fn behind(test: &str, body: impl FnOnce(&Between, &Arc<dyn Device>)) {
    apart(test, || {
        let Some(library) = Between::made() else {
            return;
        };
        let Some(driver) = library.driver() else {
            return;
        };
        body(&library, &Driver::open(&driver, DeviceId(0)).unwrap());
    });
}

fn queue(device: &Arc<dyn Device>) -> Arc<dyn Queue> {
    device.queues().create(&QueueOptions::default()).unwrap()
}

fn fill(queue: &Arc<dyn Queue>, memory: DevicePtr) -> Position {
    // SAFETY: live memory of that size, whose content nobody wants.
    let filled = unsafe { queue.fill(memory, FillPattern::Byte(1), 1024) };
    let Admission::Accepted(position) = filled.unwrap() else {
        panic!("a fresh queue has room");
    };
    position
}

fn end(queue: &Arc<dyn Queue>) {
    let reached = queue.wait(queue.submitted(), None);
    assert_eq!(reached, Ok(WaitOutcome::Reached));
}

#[test]
fn queues_are_as_urgent_as_the_driver_can_be_told() {
    let test = "queues_are_as_urgent_as_the_driver_can_be_told";
    behind(test, |library, device| {
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
            assert_eq!(library.asked(), hint, "priority {number}");
            assert_eq!(queue.priority(), Priority(number));
            fill(&queue, memory);
            end(&queue);
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

#[test]
fn a_command_that_the_driver_fails_poisons_what_depends_on_it_and_no_more() {
    let test = "a_command_that_the_driver_fails_poisons_what_depends_on_it_and_no_more";
    behind(test, |library, device| {
        let memory = device.memory().allocate(1024).unwrap();
        let [bad, waiting, apart, later] = [(); 4].map(|()| queue(device));
        fill(&bad, memory);
        library.fail_next_fill(-5);
        let failed = fill(&bad, memory);
        let behind = fill(&bad, memory);
        let wait = waiting.wait_for(&*bad, behind).unwrap();
        let before = later.wait_for(&*bad, Position::new(1)).unwrap();
        for queue in [&bad, &waiting, &later] {
            end(queue);
        }
        let failure = bad.failure().unwrap();
        assert_eq!(failure.position, failed);
        let resource = ResourceKind::Device;
        let lacks = ErrorKind::OutOfResources { resource, limit: 0 };
        assert_eq!(
            (failure.error.kind, failure.error.code),
            (lacks, Some(VendorCode(-5)))
        );
        assert_eq!(failure.error.operation, Operation::Fill);
        // Who waited has failed, who waited for what came before has not, and the device works.
        let inherited = waiting.failure().unwrap();
        assert_eq!(Admission::Accepted(inherited.position), wait);
        let (queue, position) = (bad.id(), behind);
        assert_eq!(
            inherited.error.kind,
            ErrorKind::DependencyFailed { queue, position }
        );
        assert_eq!(
            (later.failure(), before),
            (None, Admission::Accepted(Position::new(1)))
        );
        device.status().unwrap();
        fill(&apart, memory);
        end(&apart);
        assert_eq!(apart.failure(), None);
        // And the queue is usable once the failure is forgotten.
        assert_eq!(bad.clear_failure().unwrap(), Some(failure));
        fill(&bad, memory);
        end(&bad);
        assert_eq!(bad.failure(), None);
    });
}

#[test]
fn lack_of_memory_and_what_nobody_knows_are_failures_of_their_queue() {
    let test = "lack_of_memory_and_what_nobody_knows_are_failures_of_their_queue";
    behind(test, |library, device| {
        let memory = device.memory().allocate(1024).unwrap();
        for (code, is_memory) in [(-4, true), (-9999, false)] {
            let queue = queue(device);
            library.fail_next_fill(code);
            fill(&queue, memory);
            end(&queue);
            let error = queue.failure().unwrap().error;
            assert_eq!(error.is_out_of_memory(), is_memory, "{error}");
            assert_eq!(error.code, Some(VendorCode(code.into())));
        }
        device.status().unwrap();
    });
}

#[test]
fn a_device_that_goes_away_is_lost_to_all_calls_and_its_queues_end() {
    let test = "a_device_that_goes_away_is_lost_to_all_calls_and_its_queues_end";
    behind(test, |library, device| {
        let memory = device.memory().allocate(1024).unwrap();
        let (bad, other) = (queue(device), queue(device));
        fill(&other, memory);
        library.fail_next_fill(-2);
        fill(&bad, memory);
        end(&bad);
        let failure = bad.failure().unwrap();
        assert_eq!(failure.error.kind, ErrorKind::DeviceLost);
        assert!(device.status().unwrap_err().is_device_lost());
        assert!(device.memory().allocate(64).unwrap_err().is_device_lost());
        let refused = device.queues().create(&QueueOptions::default());
        assert!(refused.unwrap_err().is_device_lost());
        end(&other);
    });
}
