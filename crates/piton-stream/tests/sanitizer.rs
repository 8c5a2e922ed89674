//! Streams over the simulated device, watched by a sanitizer: a missing order is reported on every schedule, and an
//! order that is there by whatever means is not.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests may")]

use piton_driver::{
    Command, Comparison, Device, DeviceId, DevicePtr, Driver, FillPattern, MemoryWait, MemoryWord,
    Operation, SignalledBy, WaitOutcome,
};
use piton_sanitizer::{Action, Hazard, Listener, Report, Response, Sanitizer, SanitizerConfig};
use piton_sim::{DeviceConfig, ScheduleOrder, SimConfig, SimDriver};
use piton_stream::{
    Event, Facet, Semaphore, Stream, StreamError, StreamOptions, Streams, Submission, Waited,
};
use piton_sync::thread;
use piton_timeline::{Timeline, Timepoint};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
};

const BYTES: u64 = 4096;

struct Bench {
    driver: SimDriver,
    device: Arc<dyn Device>,
    streams: Streams,
    at: DevicePtr,
}

impl Bench {
    fn new(sim: SimConfig, config: SanitizerConfig) -> Self {
        let driver = SimDriver::new(sim).unwrap();
        let device = driver.open(DeviceId(0)).unwrap();
        let at = device.memory().allocate(1 << 20).unwrap();
        let sanitizer = Arc::new(Sanitizer::new(config));
        Self {
            driver,
            device,
            streams: Streams::sanitized(Timeline::new(), sanitizer),
            at,
        }
    }

    fn stream(&self, label: &str) -> Stream {
        let options = StreamOptions::labelled(label);
        self.streams.create(&self.device, options).unwrap()
    }

    /// Lets the device work until the point has ended, while the program waits for something else.
    fn let_pass(&self, point: Timepoint) {
        let other = self.stream("other");
        while !self.streams.timeline().is_complete(point) {
            fill(&other, DevicePtr::new(self.at.address() + 8 * BYTES));
            other.synchronize().unwrap();
        }
    }

    fn kinds(&self) -> Vec<Hazard> {
        let sanitizer = self.streams.sanitizer().unwrap();
        sanitizer.check();
        let reports = sanitizer.reports();
        reports.into_iter().map(|report| report.kind).collect()
    }
}

fn config() -> SimConfig {
    let device = DeviceConfig {
        memory_bytes: 8 << 20,
        page_bytes: 64 << 10,
        ..DeviceConfig::default()
    };
    SimConfig::uniform(1, &device)
}

/// Runs a program with a worker, with two, and on seeded schedules.
fn everywhere(program: impl Fn(&Bench)) {
    let workers = [1, 2].map(|workers| SimConfig {
        workers: Some(workers),
        ..config()
    });
    let seeds = (0..5).map(|seed| config().in_virtual_time(seed, ScheduleOrder::Seeded));
    for machine in workers.into_iter().chain(seeds) {
        program(&Bench::new(machine, SanitizerConfig::default()));
    }
}

#[expect(unsafe_code, reason = "submission is unsafe")]
#[track_caller]
fn try_fill(stream: &Stream, at: DevicePtr) -> Result<Timepoint, StreamError> {
    // SAFETY: the memory is the test's. That its uses are in no order is what the tests are about: the simulated
    // device writes equal bytes, and nobody reads them.
    unsafe { stream.fill(at, FillPattern::Byte(1), BYTES) }
}

#[track_caller]
fn fill(stream: &Stream, at: DevicePtr) -> Timepoint {
    try_fill(stream, at).unwrap()
}

#[expect(unsafe_code, reason = "submission is unsafe")]
#[track_caller]
fn submit(stream: &Stream, command: &Command<'_>) -> Timepoint {
    // SAFETY: as in `try_fill`.
    unsafe { stream.submit(command).unwrap() }
}

#[test]
fn a_missing_wait_is_reported_with_both_lines_even_if_the_first_had_long_ended() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        fill(&load, bench.at);
        let first = line!() - 1;
        bench.let_pass(load.now());
        fill(&compute, bench.at);
        let second = line!() - 1;
        let reports = bench.streams.sanitizer().unwrap().reports();
        assert_eq!(reports.len(), 1);
        let report = &reports[0];
        assert_eq!(report.kind, Hazard::WriteWrite);
        let line = |site: &piton_sanitizer::Site| site.origin.unwrap().line();
        assert_eq!((line(&report.first), line(&report.second)), (first, second));
        assert_eq!(report.first.label.as_deref(), Some("load"));
        assert_eq!(report.first.action, Action::Write(Operation::Fill));
        assert_eq!(report.overlap.bytes, BYTES);
        assert!(report.to_string().contains("tests/sanitizer.rs"));
    });
}

#[test]
fn waits_order_whether_they_became_commands_or_not() {
    everywhere(|bench| {
        let streams = [0, 1, 2].map(|_| bench.stream("stream"));
        for turn in 0..60 {
            let (mine, next) = (&streams[turn % 3], &streams[(turn + 1) % 3]);
            fill(mine, bench.at);
            match turn % 4 {
                0 => drop(next.wait(&mine.record()).unwrap()),
                1 => drop(next.wait_timepoint(mine.now()).unwrap()),
                2 => while next.try_wait(&mine.record()).unwrap() == Submission::Full {},
                _ => next.wait_frontier(&mine.now().into()).unwrap(),
            }
        }
        assert_eq!(bench.kinds(), []);
    });
}

#[test]
fn a_wait_that_was_left_out_is_passed_on() {
    everywhere(|bench| {
        let streams = ["a", "b", "c"].map(|label| bench.stream(label));
        let written = fill(&streams[0], bench.at);
        bench.let_pass(written);
        assert_eq!(streams[1].wait_timepoint(written).unwrap(), Waited::Done);
        // Nothing was submitted on it, and its place stands for the wait all the same.
        streams[2].wait(&streams[1].record()).unwrap();
        fill(&streams[2], bench.at);
        assert_eq!(bench.kinds(), []);
    });
}

#[test]
fn a_host_that_waits_or_asks_is_an_order() {
    everywhere(|bench| {
        let streams = [0, 1, 2, 3].map(|_| bench.stream("stream"));
        fill(&streams[0], bench.at);
        streams[0].synchronize().unwrap();
        let written = fill(&streams[1], bench.at);
        let reached = bench.streams.wait(written, None).unwrap();
        assert_eq!(reached, WaitOutcome::Reached);
        fill(&streams[2], bench.at);
        let event = streams[2].record();
        event.synchronize().unwrap();
        assert!(event.query().unwrap());
        fill(&streams[3], bench.at);
        assert_eq!(bench.kinds(), []);
    });
}

#[test]
fn semaphores_order_in_whichever_order_they_are_submitted() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        let semaphore = Semaphore::new(&bench.device, 0).unwrap();
        compute.wait_semaphore(&semaphore, 1).unwrap();
        fill(&compute, bench.at);
        compute.signal_semaphore(&semaphore, 2).unwrap();
        fill(&load, bench.at);
        load.signal_semaphore(&semaphore, 1).unwrap();
        load.wait_semaphore(&semaphore, 2).unwrap();
        fill(&load, bench.at);
        load.synchronize().unwrap();
        assert_eq!(bench.kinds(), []);
        let counts = bench.streams.sanitizer().unwrap().counts();
        assert_eq!((counts.put_by, counts.unseen_signals), (0, 0));
    });
}

#[test]
fn a_host_signal_carries_what_the_host_has_seen_and_no_more() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        let semaphore = Semaphore::new(&bench.device, 0).unwrap();
        compute.wait_semaphore(&semaphore, 1).unwrap();
        fill(&compute, bench.at);
        fill(&load, bench.at);
        let elsewhere = DevicePtr::new(bench.at.address() + BYTES);
        fill(&load, elsewhere);
        semaphore.signal(1).unwrap();
        compute.synchronize().unwrap();
        assert_eq!(bench.kinds(), [Hazard::WriteWrite]);
        fill(&compute, elsewhere);
        assert_eq!(bench.kinds(), [Hazard::WriteWrite; 2]);
        let counts = bench.streams.sanitizer().unwrap().counts();
        assert_eq!(counts.unseen_signals, 0);
    });
}

#[test]
fn words_in_memory_order_where_the_device_waits_for_them() {
    everywhere(|bench| {
        if !bench.device.memory_operations() {
            return println!("skipped: the device has no {}", Facet::MemoryOperations);
        }
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        let at = DevicePtr::new(bench.at.address() + 2 * BYTES);
        let value = MemoryWord::U32(0x1234_5678);
        let comparison = Comparison::Equal;
        submit(
            &compute,
            &Command::WaitMemory(MemoryWait {
                at,
                comparison,
                value,
            }),
        );
        fill(&compute, bench.at);
        fill(&load, bench.at);
        submit(&load, &Command::WriteMemory { at, value });
        compute.synchronize().unwrap();
        assert_eq!(bench.kinds(), []);
    });
}

#[test]
fn host_functions_order_their_stream_and_what_they_submit() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), Arc::new(bench.stream("compute")));
        let third = bench.stream("third");
        let at = bench.at;
        let event = third.record();
        fill(&third, DevicePtr::new(at.address() + BYTES));
        let late = third.record();
        fill(&load, at);
        let inside = Arc::clone(&compute);
        load.call_host(move || {
            fill(&inside, at);
            inside.synchronize().unwrap();
            late.synchronize().unwrap();
        })
        .unwrap();
        // After the function, which has seen both ends of what it waited for.
        fill(&load, at);
        fill(&load, DevicePtr::new(at.address() + BYTES));
        load.synchronize().unwrap();
        assert!(event.query().unwrap());
        assert_eq!(bench.kinds(), []);
        assert_eq!(bench.streams.sanitizer().unwrap().counts().put_by, 0);
    });
}

#[test]
fn a_host_function_behind_a_signal_from_outside_comes_after_its_stream() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        let facet = bench.device.semaphores().unwrap();
        let outside = facet.create(0, SignalledBy::Anyone).unwrap();
        let at = bench.at;
        fill(&load, at);
        let (semaphore, value) = (&outside, 1);
        submit(&load, &Command::WaitSemaphore { semaphore, value });
        let called = load
            .call_host(move || {
                fill(&compute, at);
            })
            .unwrap();
        outside.signal(1).unwrap();
        let reached = bench.streams.wait(called, None).unwrap();
        assert_eq!(reached, WaitOutcome::Reached);
        assert_eq!(bench.kinds(), []);
        let counts = bench.streams.sanitizer().unwrap().counts();
        assert_eq!((counts.put_by, counts.unseen_signals), (0, 1));
    });
}

#[test]
fn what_a_host_function_knows_the_program_does_not() {
    everywhere(|bench| {
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        let at = bench.at;
        fill(&load, at);
        let seen = load.record();
        let caller = bench.stream("caller");
        caller.call_host(move || drop(seen.synchronize())).unwrap();
        // Whether the function has run by now is luck.
        fill(&compute, at);
        assert_eq!(bench.kinds(), [Hazard::WriteWrite]);
        // A function that never ran would keep the streams that it names, and they it.
        caller.synchronize().unwrap();
    });
}

#[test]
fn a_refusing_sanitizer_keeps_the_race_from_the_device() {
    let refusing = SanitizerConfig {
        response: Response::Refuse,
        ..SanitizerConfig::default()
    };
    let bench = Bench::new(config(), refusing);
    let (load, compute) = (bench.stream("load"), bench.stream("compute"));
    fill(&load, bench.at);
    let before = compute.now();
    let refused = try_fill(&compute, bench.at);
    let Err(StreamError::Hazard(report)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(report.kind, Hazard::WriteWrite);
    assert_eq!(compute.now(), before);
    compute.wait(&load.record()).unwrap();
    fill(&compute, bench.at);
    assert_eq!(bench.kinds(), [Hazard::WriteWrite]);
}

#[test]
fn a_listener_that_panics_keeps_nobody_from_learning_what_was_submitted() {
    for response in [Response::Report, Response::Refuse] {
        let listener: Listener = Arc::new(|_: &Report| panic!("the listener's own"));
        let watched = SanitizerConfig {
            response,
            listener: Some(listener),
            ..SanitizerConfig::default()
        };
        let bench = Bench::new(config(), watched);
        let (load, compute) = (bench.stream("load"), bench.stream("compute"));
        fill(&load, bench.at);
        let submitted = catch_unwind(AssertUnwindSafe(|| try_fill(&compute, bench.at)));
        match submitted.unwrap() {
            Ok(point) => assert_eq!((response, point), (Response::Report, compute.now())),
            Err(error) => {
                assert_eq!(response, Response::Refuse);
                assert!(matches!(error, StreamError::Hazard(_)));
            }
        }
        assert_eq!(bench.kinds(), [Hazard::WriteWrite]);
    }
}

#[test]
fn streams_that_are_dropped_leave_their_uses_behind() {
    everywhere(|bench| {
        fill(&bench.stream("gone"), bench.at);
        bench.streams.prune();
        // Perhaps in the slot of the first, and yet another lane.
        let second = bench.stream("second");
        fill(&second, bench.at);
        assert_eq!(bench.kinds(), [Hazard::WriteWrite]);
    });
}

#[test]
fn threads_that_hand_the_turn_to_each_other_are_in_order() {
    for workers in [1, 2] {
        let machine = SimConfig {
            workers: Some(workers),
            ..config()
        };
        let bench = Bench::new(machine, SanitizerConfig::default());
        let (sender, receiver) = mpsc::channel::<Event>();
        let (back, turn) = mpsc::channel::<Event>();
        let (one, two) = (bench.stream("one"), bench.stream("two"));
        let at = bench.at;
        let other = thread::spawn(move || {
            for event in receiver {
                two.wait(&event).unwrap();
                fill(&two, at);
                if back.send(two.record()).is_err() {
                    return;
                }
            }
        });
        for _ in 0..300 {
            fill(&one, at);
            sender.send(one.record()).unwrap();
            one.wait(&turn.recv().unwrap()).unwrap();
        }
        drop(sender);
        other.join().unwrap();
        assert_eq!(bench.kinds(), []);
    }
}

#[test]
fn threads_that_do_not_are_reported_whatever_they_do_first() {
    let bench = Bench::new(config(), SanitizerConfig::default());
    let streams = ["one", "two"].map(|label| bench.stream(label));
    let at = bench.at;
    let threads = streams.map(|stream| {
        thread::spawn(move || {
            for _ in 0..300 {
                fill(&stream, at);
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let reports = bench.streams.sanitizer().unwrap().reports();
    // The one against the other and the other way round, each many times.
    assert!((1..=2).contains(&reports.len()));
    assert!(
        reports
            .iter()
            .all(|report| report.kind == Hazard::WriteWrite)
    );
}

#[test]
fn host_functions_that_are_skipped_or_refused_hold_nothing() {
    everywhere(|bench| {
        let stream = bench.stream("stream");
        stream.call_host(|| panic!("on purpose")).unwrap();
        for _ in 0..40 {
            stream.call_host(|| ()).unwrap();
            fill(&stream, bench.at);
        }
        assert!(stream.synchronize().is_err());
        let counts = bench.streams.sanitizer().unwrap().counts();
        assert_eq!((counts.put_by, counts.unseen_signals), (0, 0));
        let other = bench.stream("other");
        bench.driver.lose(DeviceId(0));
        assert!(other.call_host(|| ()).is_err());
        assert!(try_fill(&other, bench.at).is_err());
        assert_eq!(bench.kinds(), []);
    });
}

#[expect(unsafe_code, reason = "submission is unsafe")]
#[test]
fn each_form_of_submission_is_told_of() {
    everywhere(|bench| {
        let mut streams = [0, 1, 2, 3].map(|_| bench.stream("stream"));
        let [one, two, three, four] = &mut streams;
        let command = Command::Fill {
            dst: bench.at,
            pattern: FillPattern::Byte(1),
            bytes: BYTES,
        };
        let mut seen = 0;
        let mut told = || {
            let before = std::mem::replace(&mut seen, bench.kinds().len());
            seen > before
        };
        fill(one, bench.at);
        // SAFETY: as in `try_fill`.
        unsafe { two.writer().submit(&command).unwrap() };
        assert!(told(), "a writer");
        // SAFETY: as in `try_fill`.
        let future = unsafe { three.submit_async(command) };
        let mut future = std::pin::pin!(future);
        let waker = std::task::Waker::noop();
        let polled = future
            .as_mut()
            .poll(&mut std::task::Context::from_waker(waker));
        assert!(polled.is_ready());
        assert!(told(), "a future");
        // SAFETY: as in `try_fill`.
        let tried = unsafe { four.try_submit(&command).unwrap() };
        assert!(matches!(tried, Submission::Accepted(_)));
        assert!(told(), "a try");
    });
}
