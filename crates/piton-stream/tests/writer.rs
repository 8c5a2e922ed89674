//! Writers: a stream for one producer alone, with and without a fast path below.

#![cfg(not(loom))]

mod support;

use piton_driver::{Command, DevicePtr, FillPattern};
use piton_stream::{StreamError, StreamOptions, Submission, Waited, WhenFull, Writer};
use piton_sync::Mutex;
use piton_timeline::Timepoint;
use std::sync::Arc;
use support::{
    Bench, FakeDevice, Ran, TRAP,
    simulated::{BYTES, SimBench, machines},
    trap, work,
};

fn fill(dst: DevicePtr, bytes: u64) -> Command<'static> {
    Command::Fill {
        dst,
        pattern: FillPattern::Byte(1),
        bytes,
    }
}

#[track_caller]
#[expect(unsafe_code, reason = "submission is unsafe")]
fn write(writer: &mut Writer<'_>, at: DevicePtr) -> Result<Timepoint, StreamError> {
    // SAFETY: the fake device touches no memory; memory of the simulated one is held to the end.
    unsafe { writer.submit(&fill(at, BYTES)) }
}

#[expect(unsafe_code, reason = "submission is unsafe")]
fn try_write(writer: &mut Writer<'_>, at: DevicePtr) -> Result<Submission, StreamError> {
    // SAFETY: as in `write`.
    unsafe { writer.try_submit(&fill(at, BYTES)) }
}

const AT: DevicePtr = DevicePtr::new(16);

#[test]
fn without_a_fast_path_a_writer_is_the_stream() {
    let bench = Bench::new();
    let mut stream = bench.stream("a");
    let first = work(&stream).unwrap();
    let mut writer = stream.writer();
    let second = write(&mut writer, AT).unwrap();
    assert_eq!(second.seq, first.seq + 1);
    assert_eq!(
        (writer.now(), writer.record().timepoint()),
        (second, second)
    );
    writer.flush().unwrap();
    writer.synchronize().unwrap();
    assert_eq!(bench.streams.query(second), Ok(true));
}

#[test]
fn a_writer_keeps_to_the_streams_policy_of_room() {
    let bench = Bench::over(|device| device.with_capacity(2));
    let mut parks = bench.stream("parks");
    let mut writer = parks.writer();
    for _ in 0..5 {
        write(&mut writer, AT).unwrap();
    }
    assert_eq!(try_write(&mut writer, AT), Ok(Submission::Full));
    let mut refuses = bench.stream_with(StreamOptions {
        when_full: WhenFull::Refuse,
        ..StreamOptions::default()
    });
    let mut writer = refuses.writer();
    write(&mut writer, AT).unwrap();
    write(&mut writer, AT).unwrap();
    let refused = write(&mut writer, AT);
    assert_eq!(refused, Err(StreamError::Full { capacity: 2 }));
}

#[test]
fn a_failure_names_the_line_that_wrote_the_command() {
    let bench = Bench::new();
    let mut stream = bench.stream("a");
    let mut writer = stream.writer();
    let line = line!() + 1;
    write(&mut writer, TRAP).unwrap();
    let Err(StreamError::Poisoned(failure)) = writer.synchronize() else {
        panic!("the stream is poisoned");
    };
    assert_eq!(failure.place.map(|place| place.line()), Some(line));
}

#[test]
fn waits_of_a_writer_are_left_out_made_and_spread_failures() {
    let bench = Bench::new();
    let (other, mut stream) = (bench.stream("other"), bench.stream("a"));
    work(&other).unwrap();
    let event = other.record();
    let mut writer = stream.writer();
    let waited = writer.wait(&event).unwrap();
    assert_eq!(waited, Waited::Enqueued(writer.now()));
    assert_eq!(writer.wait(&event), Ok(Waited::Ordered));
    trap(&other).unwrap();
    writer.wait(&other.record()).unwrap();
    assert!(matches!(
        writer.synchronize(),
        Err(StreamError::Poisoned(_))
    ));
    assert!(bench.machine.trace().contains(&Ran {
        queue: 1,
        position: 2,
        did: false
    }));
}

#[test]
fn written_commands_run_in_order_with_those_of_the_stream_between() {
    for config in machines() {
        let bench = SimBench::new(config);
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let mut stream = bench.stream("a");
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut writer = stream.writer();
        for turn in 0..60 {
            for n in 1..=3 {
                let point = write(&mut writer, at).unwrap();
                assert_eq!(point.seq, turn * 4 + n);
            }
            let log = Arc::clone(&log);
            let call = move || log.lock().push(turn);
            writer.stream().call_host(call).unwrap();
        }
        writer.synchronize().unwrap();
        assert_eq!(*log.lock(), (0..60).collect::<Vec<_>>());
        bench.streams.check();
    }
}

#[test]
fn a_writer_takes_more_than_the_stream_holds() {
    for config in machines() {
        let bench = SimBench::new(config);
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let mut stream = bench.stream_with(StreamOptions {
            commands: Some(8),
            ..StreamOptions::default()
        });
        let mut writer = stream.writer();
        for _ in 0..100 {
            write(&mut writer, at).unwrap();
        }
        writer.synchronize().unwrap();
        assert_eq!(writer.now().seq, 100);
    }
}

/// The other stream's wait hangs on commands that a writer may have left unstarted, and that writer is kept.
#[test]
fn what_a_kept_writer_left_unstarted_starts_for_who_waits_for_it() {
    for config in machines() {
        let bench = SimBench::new(config);
        let at = bench.device.memory().allocate(BYTES).unwrap();
        let (mut stream, waits) = (bench.stream("a"), bench.stream("waits"));
        let mut writer = stream.writer();
        write(&mut writer, at).unwrap();
        waits.wait(&writer.record()).unwrap();
        waits.synchronize().unwrap();
        drop(writer);
        assert_eq!(stream.query(), Ok(true));
    }
}

#[test]
fn a_writer_writes_down_what_a_captured_stream_does() {
    let bench = SimBench::new(machines().remove(2));
    let at = bench.device.memory().allocate(BYTES).unwrap();
    let (first, mut joins) = (bench.stream("first"), bench.stream("joins"));
    let capture = first.begin_capture().unwrap();
    let mut writer = joins.writer();
    assert_eq!(writer.wait(&first.record()), Ok(Waited::Recorded));
    write(&mut writer, at).unwrap();
    first.wait(&writer.record()).unwrap();
    assert_eq!(capture.node_count(), 1);
    let captured = capture.end().unwrap();
    assert_eq!(captured.nodes.len(), 1);
    let bare = Bench::over(FakeDevice::bare);
    assert!(bare.stream("a").writer().flush().is_ok());
}
