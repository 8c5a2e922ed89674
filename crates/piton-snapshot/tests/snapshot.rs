//! Snapshots read and written, and the histories in them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use piton_snapshot::pickle::{self, Limits, PickleErrorKind, Value};
use piton_snapshot::{
    Action, Block, BlockState, Event, HistoryError, Request, Segment, Snapshot, SnapshotError,
};

fn event(action: Action, address: u64, bytes: u64, stream: u64) -> Event {
    Event {
        action,
        address,
        bytes,
        stream,
        time_us: 17,
    }
}

fn block(bytes: u64, state: BlockState) -> Block {
    Block {
        bytes,
        requested_bytes: bytes - 12,
        state,
    }
}

/// Two streams; one block from before the ring that stays, one that is freed in it.
fn example() -> Snapshot {
    let events = vec![
        event(Action::SegmentAllocate, 0x7f00_0000_0000, 2 << 20, 0),
        event(Action::Allocate, 0x7f00_0000_0000, 500, 0),
        event(
            Action::FreeRequested,
            0x7f00_0000_8000,
            3000,
            94_000_000_000_000,
        ),
        event(Action::Allocate, 0x7f00_0000_0200, 1000, 0),
        event(
            Action::FreeCompleted,
            0x7f00_0000_8000,
            3000,
            94_000_000_000_000,
        ),
        event(Action::FreeRequested, 0x7f00_0000_0000, 500, 0),
        event(Action::FreeCompleted, 0x7f00_0000_0000, 500, 0),
        event(Action::OutOfMemory { device_free: 5 }, 0, 1 << 40, 0),
        event(Action::Allocate, 0x7f00_0000_0000, 100, 0),
    ];
    let blocks = vec![
        block(512, BlockState::Allocated),
        block(1024, BlockState::Allocated),
        block(512, BlockState::PendingFree),
        block((2 << 20) - 6144, BlockState::Free),
        block(4096, BlockState::Allocated),
    ];
    let segment = Segment {
        device: 0,
        address: 0x7f00_0000_0000,
        bytes: 2 << 20,
        stream: 0,
        is_expandable: false,
        blocks,
    };
    Snapshot {
        segments: vec![segment],
        device_events: vec![events, Vec::new()],
    }
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let snapshot = example();
    let read = Snapshot::from_pickle(&snapshot.to_pickle(), &Limits::default());
    assert_eq!(read, Ok(snapshot));
    let nothing = Snapshot::default();
    assert_eq!(
        Snapshot::from_pickle(&nothing.to_pickle(), &Limits::default()),
        Ok(nothing)
    );
}

/// The keys of a dictionary, in order.
/// Found by fuzzing: the address was kept, and not written.
#[test]
fn a_request_that_found_no_memory_has_no_place() {
    let file =
        b"(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nVoom\nsVaddr\nI8192\nsVsize\nI9\nsaas.";
    let read = Snapshot::from_pickle(file, &Limits::default()).unwrap();
    assert_eq!(read.device_events[0][0].address, 0);
    let again = Snapshot::from_pickle(&read.to_pickle(), &Limits::default());
    assert_eq!(again, Ok(read));
}

fn keys<'d>(value: Value<'d, '_>) -> Vec<&'d str> {
    value
        .pairs()
        .unwrap()
        .filter_map(|(key, _)| key.as_text())
        .collect()
}

#[test]
fn the_file_has_the_structure_that_is_documented() {
    let bytes = example().to_pickle();
    let document = pickle::read(&bytes, &Limits::default()).unwrap();
    let root = document.root();
    assert_eq!(
        keys(root),
        [
            "segments",
            "device_traces",
            "allocator_settings",
            "external_annotations"
        ]
    );
    let segment = root
        .get("segments")
        .unwrap()
        .items()
        .unwrap()
        .next()
        .unwrap();
    let expected = [
        "device",
        "address",
        "total_size",
        "allocated_size",
        "active_size",
        "requested_size",
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "frames",
        "blocks",
    ];
    assert_eq!(keys(segment), expected);
    let number = |value: Value<'_, '_>, key| value.get(key).and_then(Value::as_u64);
    assert_eq!(number(segment, "allocated_size"), Some(512 + 1024 + 4096));
    assert_eq!(
        number(segment, "active_size"),
        Some(512 + 1024 + 512 + 4096)
    );
    assert_eq!(
        segment.get("segment_type").and_then(Value::as_text),
        Some("small")
    );
    assert_eq!(
        segment
            .get("segment_pool_id")
            .unwrap()
            .items()
            .unwrap()
            .len(),
        2
    );
    let mut end = number(segment, "address").unwrap();
    for block in segment.get("blocks").unwrap().items().unwrap() {
        assert_eq!(
            keys(block),
            ["address", "size", "requested_size", "state", "frames"]
        );
        assert_eq!(
            number(block, "address"),
            Some(end),
            "blocks follow each other"
        );
        end += number(block, "size").unwrap();
    }
    assert_eq!(
        end,
        number(segment, "address").unwrap() + number(segment, "total_size").unwrap()
    );
}

#[test]
fn events_have_the_structure_that_is_documented() {
    let bytes = example().to_pickle();
    let document = pickle::read(&bytes, &Limits::default()).unwrap();
    let root = document.root();
    let traces: Vec<_> = root
        .get("device_traces")
        .unwrap()
        .items()
        .unwrap()
        .collect();
    assert_eq!(traces.len(), 2);
    for event in traces[0].items().unwrap() {
        let is_oom = event.get("action").and_then(Value::as_text) == Some("oom");
        let place = if is_oom { "device_free" } else { "addr" };
        assert_eq!(
            keys(event),
            ["action", place, "size", "stream", "time_us", "frames"]
        );
    }
}

#[test]
fn a_ring_is_told_as_requests() {
    let history = example().history(0).unwrap();
    assert_eq!((history.live_at_start, history.streams), (2, 2));
    let expected = [
        // From before the ring: what is freed in it, and the last block of the segment, which is not in it.
        Request::Allocate {
            id: 0,
            bytes: 3000,
            stream: 1,
        },
        Request::Allocate {
            id: 1,
            bytes: 4084,
            stream: 0,
        },
        Request::Allocate {
            id: 2,
            bytes: 500,
            stream: 0,
        },
        // Its free was not complete at once, so it was used elsewhere.
        Request::Use { id: 0, stream: 0 },
        Request::Free { id: 0, stream: 1 },
        Request::Allocate {
            id: 3,
            bytes: 1000,
            stream: 0,
        },
        Request::Free { id: 2, stream: 0 },
        Request::Allocate {
            id: 4,
            bytes: 100,
            stream: 0,
        },
    ];
    assert_eq!(history.requests, expected);
    assert_eq!(example().history(1).unwrap().requests, []);
    assert_eq!(
        example().history(2),
        Err(HistoryError::NoDevice {
            device: 2,
            devices: 2
        })
    );
}

#[test]
fn an_allocation_where_one_is_live_ends_that_one() {
    let ring = vec![
        event(Action::Allocate, 512, 9, 0),
        event(Action::Allocate, 512, 7, 0),
    ];
    let snapshot = Snapshot {
        segments: Vec::new(),
        device_events: vec![ring],
    };
    let expected = [
        Request::Allocate {
            id: 0,
            bytes: 9,
            stream: 0,
        },
        Request::Free { id: 0, stream: 0 },
        Request::Allocate {
            id: 1,
            bytes: 7,
            stream: 0,
        },
    ];
    assert_eq!(snapshot.history(0).unwrap().requests, expected);
}

#[test]
fn other_files_are_refused_by_kind() {
    let read = |bytes: &[u8]| Snapshot::from_pickle(bytes, &Limits::default()).unwrap_err();
    assert_eq!(read(b"\x80\x04]."), SnapshotError::NotASnapshot);
    assert_eq!(
        read(b"}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_tracesK\x01u."),
        SnapshotError::NotASnapshot
    );
    let segment = read(b"}(X\x08\x00\x00\x00segments(}lX\x0d\x00\x00\x00device_traces]u.");
    assert_eq!(segment, SnapshotError::Segment { segment: 0 });
    let event = read(b"}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces(((K\x01llu.");
    assert!(matches!(event, SnapshotError::Pickle(_)), "{event}");
    let event = read(b"}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces((K\x01llu.");
    assert_eq!(
        event,
        SnapshotError::Event {
            device: 0,
            event: 0
        }
    );
    let SnapshotError::Pickle(error) = read(b"\x80\x02cos\nsystem\n") else {
        panic!("a name is not plain data");
    };
    assert_eq!(
        (error.offset, error.kind),
        (2, PickleErrorKind::Refused { code: b'c' })
    );
}
