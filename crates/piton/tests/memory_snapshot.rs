//! What pools hold, in the structure of PyTorch's memory snapshots.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton::MemorySnapshot;
use piton::crates::piton_snapshot::{Action, BlockState, pickle::Limits};
use support::{check, runtime, small_devices};

#[test]
fn each_devices_memory_comes_back_from_its_file() {
    let runtime = runtime(small_devices(2));
    let streams: Vec<_> = runtime
        .devices()
        .map(|device| device.stream("s").unwrap())
        .collect();
    let kept = streams[1].allocate::<u8>(1000).unwrap();
    drop(streams[1].allocate::<u8>(5000).unwrap());
    let file = runtime.memory_snapshot().to_pickle();
    let read = MemorySnapshot::from_pickle(&file, &Limits::default()).unwrap();
    assert!(!read.segments.is_empty());
    assert!(read.segments.iter().all(|segment| segment.device == 1));
    let (address, mut live) = (kept.ptr().address(), Vec::new());
    for segment in &read.segments {
        let mut at = segment.address;
        for block in &segment.blocks {
            if block.state == BlockState::Allocated {
                live.push((at, block.requested_bytes));
            }
            at += block.bytes;
        }
    }
    assert_eq!(live, [(address, 1000)]);
    let of = |action| {
        let events = read.device_events[1].iter();
        events.filter(|event| event.action == action).count()
    };
    assert_eq!((of(Action::Allocate), of(Action::FreeCompleted)), (2, 1));
    assert!(read.device_events[0].is_empty());
    check(&runtime);
}
