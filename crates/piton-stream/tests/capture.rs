//! Captures: what they record, and each call that spoils them.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use piton_driver::{
    Device, DeviceId, DevicePtr, Driver, FillPattern, MemoryWait, Operation, Origin,
};
use piton_sim::{DeviceConfig, SimConfig, SimDriver};
use piton_stream::{
    Capture, CaptureError, Command, Event, Facet, Offence, Semaphore, Stream, StreamError,
    StreamOptions, Streams, Submission, Waited,
};
use piton_timeline::Timeline;
use std::{
    panic::Location,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

struct Bench {
    device: Arc<dyn Device>,
    second: Arc<dyn Device>,
    streams: Streams,
}

impl Bench {
    fn new() -> Self {
        let driver = SimDriver::new(SimConfig::uniform(2, &DeviceConfig::default())).unwrap();
        Self {
            device: driver.open(DeviceId(0)).unwrap(),
            second: driver.open(DeviceId(1)).unwrap(),
            streams: Streams::new(Timeline::new()),
        }
    }

    fn stream(&self, label: &str) -> Stream {
        let options = StreamOptions::labelled(label);
        self.streams.create(&self.device, options).unwrap()
    }

    fn memory(&self) -> DevicePtr {
        self.device.memory().allocate(64).unwrap()
    }
}

#[track_caller]
#[expect(unsafe_code, reason = "submission is unsafe")]
fn fill(stream: &Stream, dst: DevicePtr) -> Result<Origin, StreamError> {
    // SAFETY: tests never free what they fill.
    unsafe { stream.fill(dst, FillPattern::Byte(1), 64)? };
    Ok(Location::caller())
}

/// The call must be refused as this offence, and its place is where `call` was written.
#[track_caller]
fn offends<T: std::fmt::Debug>(result: Result<T, StreamError>, offence: Offence) -> CaptureError {
    match result {
        Err(StreamError::Capture(error)) if error.offence == offence => {
            assert_eq!(error.place.file(), Location::caller().file());
            error
        }
        other => panic!("{offence:?} is refused, not: {other:?}"),
    }
}

/// Runs `call` on a fresh capture: it must be refused, the next submission and the end must say the same, and the
/// stream must work again afterwards.
#[track_caller]
fn spoils<T: std::fmt::Debug>(
    offence: Offence,
    call: impl FnOnce(&Bench, &Stream) -> Result<T, StreamError>,
) {
    let bench = Bench::new();
    let stream = bench.stream("captured");
    let memory = bench.memory();
    let capture = stream.begin_capture().unwrap();
    fill(&stream, memory).unwrap();
    let error = offends(call(&bench, &stream), offence);
    assert_eq!(offends(fill(&stream, memory), offence), error);
    assert_eq!(capture.node_count(), 1, "nothing more is recorded");
    assert_eq!(offends(capture.end(), offence), error);
    assert!(!stream.is_capturing());
    fill(&stream, memory).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(stream.depth(), 0);
}

#[test]
fn a_capture_records_and_runs_nothing() {
    let bench = Bench::new();
    let (stream, memory) = (bench.stream("captured"), bench.memory());
    fill(&stream, memory).unwrap();
    let before = stream.now();
    let capture = stream.begin_capture().unwrap();
    let origins: Vec<Origin> = (0..3).map(|_| fill(&stream, memory).unwrap()).collect();
    assert_eq!((stream.now(), capture.node_count()), (before, 3));
    assert!(stream.is_capturing());
    let captured = capture.end().unwrap();
    let edges: Vec<&[u32]> = captured.nodes.iter().map(|node| &*node.after).collect();
    assert_eq!(edges, [&[][..], &[0], &[1]]);
    let lines = |origins: Vec<Origin>| origins.iter().map(|at| at.file()).collect::<Vec<_>>();
    let seen = captured.nodes.iter().map(|node| node.origin).collect();
    assert_eq!(lines(seen), lines(origins));
    assert!(Arc::ptr_eq(&captured.device, &bench.device));
    stream.synchronize().unwrap();
    assert_eq!(stream.now(), before);
}

#[test]
fn streams_join_by_waiting_and_edges_are_their_waits() {
    let bench = Bench::new();
    let [a, b, c] = ["a", "b", "c"].map(|label| bench.stream(label));
    let memory = bench.memory();
    let capture = a.begin_capture().unwrap();
    fill(&a, memory).unwrap();
    let fork = a.record();
    assert_eq!(b.wait(&fork), Ok(Waited::Recorded));
    assert_eq!(
        c.try_wait(&fork),
        Ok(Submission::Accepted(Waited::Recorded))
    );
    fill(&b, memory).unwrap();
    fill(&c, memory).unwrap();
    fill(&b, memory).unwrap();
    c.wait(&b.record()).unwrap();
    fill(&c, memory).unwrap();
    a.wait(&c.record()).unwrap();
    let captured = capture.end().unwrap();
    let edges: Vec<Vec<u32>> = captured.nodes.into_iter().map(|node| node.after).collect();
    assert_eq!(edges, [vec![], vec![0], vec![0], vec![1], vec![2, 3]]);
    assert!(!b.is_capturing() && !c.is_capturing());
}

#[test]
fn waits_for_what_has_ended_are_no_edges() {
    let bench = Bench::new();
    let [a, b] = ["a", "b"].map(|label| bench.stream(label));
    let memory = bench.memory();
    fill(&b, memory).unwrap();
    let ended = b.record();
    b.synchronize().unwrap();
    let capture = a.begin_capture().unwrap();
    assert_eq!(a.wait(&ended), Ok(Waited::Done));
    assert_eq!(a.wait_timepoint(ended.timepoint()), Ok(Waited::Done));
    fill(&a, memory).unwrap();
    assert!(capture.end().unwrap().nodes[0].after.is_empty());
}

#[test]
fn each_call_that_cannot_be_captured_is_named() {
    use Offence as Is;
    spoils(Is::Synchronize, |_, s| s.synchronize());
    spoils(Is::Synchronize, |_, s| s.synchronize_until(Instant::now()));
    spoils(Is::Query, |_, s| s.query());
    spoils(Is::QueryEvent, |_, s| s.record().query());
    spoils(Is::WaitOnHost, |_, s| {
        s.record().synchronize_until(Instant::now())
    });
    spoils(Is::Completion, |_, s| poll(s.completion()));
    spoils(Is::Completion, |_, s| poll(s.record().completion()));
    spoils(Is::HostFunctionOnce, |_, s| s.call_host(|| {}));
    spoils(Is::BeginAgain, |_, s| s.begin_capture().map(Capture::end));
    spoils(Is::Command(Operation::WriteTimestamp), |_, s| {
        s.record_timed()
    });
    spoils(Is::Command(Operation::WaitSemaphore), |bench, s| {
        s.wait_semaphore(&Semaphore::new(&bench.device, 0)?, 1)
    });
    spoils(Is::Command(Operation::SignalSemaphore), |bench, s| {
        s.signal_semaphore(&Semaphore::new(&bench.device, 0)?, 1)
    });
}

fn poll(completion: piton_stream::Completion) -> Result<(), StreamError> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(completion).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Ok(()),
    }
}

#[test]
fn the_place_is_the_line_of_the_call() {
    let bench = Bench::new();
    let stream = bench.stream("captured");
    let capture = stream.begin_capture().unwrap();
    let here = Location::caller().line() + 1;
    let refused = stream.synchronize();
    let error = offends(refused, Offence::Synchronize);
    assert_eq!(error.place.line(), here);
    let again = offends(stream.query(), Offence::Synchronize);
    assert_eq!(again, error, "the first offence stays");
    assert_eq!(offends(capture.end(), Offence::Synchronize), error);
}

#[test]
fn a_wait_for_unfinished_work_outside_is_refused() {
    let bench = Bench::new();
    let [a, b] = ["a", "b"].map(|label| bench.stream(label));
    let gate = Semaphore::new(&bench.device, 0).unwrap();
    b.wait_semaphore(&gate, 1).unwrap();
    let outside = b.record();
    let point = outside.timepoint();
    for call in [
        |a: &Stream, event: &Event| a.wait(event),
        |a: &Stream, event: &Event| a.wait_timepoint(event.timepoint()),
    ] {
        let capture = a.begin_capture().unwrap();
        let offence = Offence::WorkOutside { point };
        offends(call(&a, &outside), offence);
        offends(capture.end(), offence);
    }
    gate.signal(1).unwrap();
    b.synchronize().unwrap();
}

#[test]
fn events_of_two_captures_do_not_mix() {
    let bench = Bench::new();
    let [a, b, c] = ["a", "b", "c"].map(|label| bench.stream(label));
    let (first, second) = (a.begin_capture().unwrap(), b.begin_capture().unwrap());
    let event = a.record();
    offends(b.wait(&event), Offence::OtherCapture);
    offends(second.end(), Offence::OtherCapture);
    first.end().unwrap();
    offends(c.wait(&event), Offence::OtherCapture);
    assert!(!c.is_capturing());
    offends(event.query(), Offence::QueryEvent);
}

#[test]
fn a_stream_of_another_device_does_not_join() {
    let bench = Bench::new();
    let a = bench.stream("a");
    let other = bench
        .streams
        .create(&bench.second, StreamOptions::labelled("other"));
    let other = other.unwrap();
    let capture = a.begin_capture().unwrap();
    let device = DeviceId(1);
    offends(other.wait(&a.record()), Offence::OtherDevice { device });
    assert!(!other.is_capturing());
    offends(capture.end(), Offence::OtherDevice { device });
}

#[test]
fn a_stream_that_is_not_joined_back_is_named_with_its_last_node() {
    let bench = Bench::new();
    let [a, b] = ["a", "b"].map(|label| bench.stream(label));
    let memory = bench.memory();
    let capture = a.begin_capture().unwrap();
    b.wait(&a.record()).unwrap();
    fill(&b, memory).unwrap();
    a.wait(&b.record()).unwrap();
    fill(&b, memory).unwrap();
    let offence = Offence::NotJoined { lane: b.id() };
    offends(capture.end(), offence);
    assert!(!b.is_capturing());
}

#[test]
fn a_stream_dropped_in_a_capture_spoils_it() {
    let bench = Bench::new();
    let [a, b] = ["a", "b"].map(|label| bench.stream(label));
    let capture = a.begin_capture().unwrap();
    b.wait(&a.record()).unwrap();
    let offence = Offence::StreamDropped { lane: b.id() };
    drop(b);
    offends(fill(&a, bench.memory()), offence);
    offends(capture.end(), offence);
    bench.streams.prune();
    bench.streams.check();
}

#[test]
fn a_capture_that_is_given_up_leaves_the_streams_as_they_were() {
    let bench = Bench::new();
    let [a, b] = ["a", "b"].map(|label| bench.stream(label));
    let memory = bench.memory();
    let capture = a.begin_capture().unwrap();
    b.wait(&a.record()).unwrap();
    fill(&b, memory).unwrap();
    drop(capture);
    assert!(!a.is_capturing() && !b.is_capturing());
    let at = fill(&b, memory).map(|_| b.record()).unwrap();
    assert_eq!(at.synchronize(), Ok(()));
    a.begin_capture().unwrap().end().unwrap();
}

#[test]
fn an_asynchronous_submission_is_recorded_too() {
    let bench = Bench::new();
    let (a, memory) = (bench.stream("a"), bench.memory());
    let capture = a.begin_capture().unwrap();
    let command = Command::Fill {
        dst: memory,
        pattern: FillPattern::Byte(1),
        bytes: 64,
    };
    #[expect(unsafe_code, reason = "submission is unsafe")]
    // SAFETY: the memory stays.
    let submitting = unsafe { a.submit_async(command) };
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(submitting).poll(&mut context).is_ready());
    #[expect(unsafe_code, reason = "submission is unsafe")]
    // SAFETY: the memory stays.
    let tried = unsafe { a.try_submit(&command) };
    assert!(matches!(tried, Ok(Submission::Accepted(_))));
    assert_eq!(capture.end().unwrap().nodes.len(), 2);
}

#[test]
fn a_host_function_that_works_again_is_recorded_and_runs_at_once_otherwise() {
    let bench = Bench::new();
    let a = bench.stream("a");
    let calls = Arc::new(AtomicU32::new(0));
    let counting = |calls: &Arc<AtomicU32>| {
        let calls = Arc::clone(calls);
        move || {
            calls.fetch_add(1, Ordering::AcqRel);
        }
    };
    let capture = a.begin_capture().unwrap();
    a.call_host_each_time(counting(&calls)).unwrap();
    assert_eq!(capture.end().unwrap().nodes.len(), 1);
    assert_eq!(calls.load(Ordering::Acquire), 0);
    a.call_host_each_time(counting(&calls)).unwrap();
    a.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::Acquire), 1);
}

#[test]
fn a_memory_wait_is_a_command_that_has_no_place() {
    let wait = MemoryWait {
        at: DevicePtr::new(16),
        comparison: piton_driver::Comparison::Equal,
        value: piton_driver::MemoryWord::U32(1),
    };
    let bench = Bench::new();
    let a = bench.stream("a");
    let capture = a.begin_capture().unwrap();
    #[expect(unsafe_code, reason = "submission is unsafe")]
    // SAFETY: it must be refused.
    let refused = unsafe { a.submit(&Command::WaitMemory(wait)) };
    match refused {
        // A device without such waits says that first, which spoils nothing.
        Err(StreamError::Unsupported {
            facet: Facet::MemoryOperations,
            ..
        }) => drop(capture.end().unwrap()),
        refused => {
            offends(refused, Offence::Command(Operation::WaitMemory));
        }
    }
}
