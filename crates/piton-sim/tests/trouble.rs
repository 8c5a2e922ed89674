//! Aborts, modes behind failures, circles of waits, values in memory, urgency: what keeps queues from running, and what
//! sets them going.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "commands on memory are unsafe")]

mod support;

use piton_driver::{
    Awaited, Command, Comparison, DeviceId, DevicePtr, Driver, ErrorKind, FillPattern, Grid,
    Launch, MemoryWait, MemoryWord, ModuleImage, OnFailure, Operation, Position, Priority, Queue,
    QueueActivity, QueueOptions, SignalledBy, Signature, WaitOutcome,
};
use piton_sim::{
    FaultPlan, KernelDefinition, ScheduleOrder, SimConfig, SimDriver, SimModule, Trigger,
};
use piton_sync::Mutex;
use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};
use support::{accepted, comes, config, ends, fill, kernel, launch, machine, queue, read};

fn every_clock(body: impl Fn(SimConfig)) {
    for workers in [1, 2] {
        body(SimConfig {
            workers: Some(workers),
            ..config(1)
        });
    }
    for seed in 0..4 {
        body(config(1).in_virtual_time(seed, ScheduleOrder::Seeded));
    }
}

fn failed(queue: &Arc<dyn Queue>) -> Option<(u64, ErrorKind)> {
    queue
        .failure()
        .map(|failure| (failure.position.get(), failure.error.kind))
}

fn finish(queue: &Arc<dyn Queue>) {
    let last = queue.submitted();
    assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
}

fn wait_memory(
    queue: &Arc<dyn Queue>,
    at: DevicePtr,
    comparison: Comparison,
    value: MemoryWord,
) -> Position {
    let wait = Command::WaitMemory(MemoryWait {
        at,
        comparison,
        value,
    });
    // SAFETY: tests keep the word until the queue has drained.
    accepted(unsafe { queue.submit(&wait, Location::caller()) })
}

fn write_memory(queue: &Arc<dyn Queue>, at: DevicePtr, value: MemoryWord) -> Position {
    // SAFETY: as above.
    accepted(unsafe { queue.submit(&Command::WriteMemory { at, value }, Location::caller()) })
}

#[test]
fn an_abort_ends_what_has_not_started_and_a_cleared_queue_runs_again() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let (stuck, other) = (queue(&device), queue(&device));
        let memory = device.memory().allocate(1024).unwrap();
        let semaphore = device
            .semaphores()
            .unwrap()
            .create(0, SignalledBy::Anyone)
            .unwrap();
        accepted(fill(&other, memory, 7, 1024));
        finish(&other);
        let first = accepted(stuck.wait_semaphore(&semaphore, 1));
        accepted(fill(&stuck, memory, 9, 1024));
        let met = accepted(other.wait_for(&*stuck, stuck.submitted()));
        assert!(matches!(
            stuck.clear_failure().unwrap_err().kind,
            ErrorKind::NotDrained {
                submitted: 2,
                completed: 0
            }
        ));
        stuck.abort().unwrap();
        finish(&stuck);
        assert_eq!(failed(&stuck), Some((first.get(), ErrorKind::Aborted)));
        finish(&other);
        let (at, kind) = failed(&other).unwrap();
        assert_eq!(at, met.get());
        assert!(matches!(kind, ErrorKind::DependencyFailed { .. }));
        other.clear_failure().unwrap();
        stuck.clear_failure().unwrap();
        assert_eq!((failed(&stuck), failed(&other)), (None, None));
        assert_eq!(read(&device, memory, 256), [7; 256], "the aborted fill ran");
        accepted(fill(&stuck, memory, 8, 1024));
        finish(&stuck);
        assert_eq!(read(&device, memory, 256), [8; 256]);
        // What was waited for failed, cleared or not.
        accepted(other.wait_for(&*stuck, Position::new(2)));
        finish(&other);
        assert!(failed(&other).is_some());
    });
}

#[test]
fn aborting_nothing_is_nothing() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let queue = queue(&device);
        let memory = device.memory().allocate(1024).unwrap();
        queue.abort().unwrap();
        accepted(fill(&queue, memory, 1, 1024));
        finish(&queue);
        queue.abort().unwrap();
        accepted(fill(&queue, memory, 2, 1024));
        finish(&queue);
        assert_eq!(failed(&queue), None);
        assert_eq!(queue.activity(), QueueActivity::Idle);
    });
}

#[test]
fn a_hung_kernel_is_ended_by_an_abort() {
    every_clock(|config| {
        let (driver, device) = machine(config);
        driver.set_faults(FaultPlan::new().with(Trigger::HangKernel(1)));
        let queue = queue(&device);
        let memory = device.memory().allocate(1024).unwrap();
        let hung = accepted(launch(&queue, &kernel(&device, "add"), 1, memory, 1));
        let now = Some(std::time::Instant::now());
        assert_eq!(queue.wait(hung, now), Ok(WaitOutcome::DeadlinePassed));
        queue.abort().unwrap();
        finish(&queue);
        assert_eq!(failed(&queue), Some((hung.get(), ErrorKind::Aborted)));
    });
}

#[test]
fn a_queue_told_to_go_on_runs_what_stands_behind_a_failure() {
    every_clock(|config| {
        let (driver, device) = machine(config);
        driver.set_faults(FaultPlan::new().with(Trigger::TrapKernel(1, 5)));
        let options = QueueOptions {
            on_failure: OnFailure::Continue,
            ..QueueOptions::default()
        };
        let queue = device.queues().create(&options).unwrap();
        let memory = device.memory().allocate(1024).unwrap();
        let trapped = accepted(launch(&queue, &kernel(&device, "add"), 1, memory, 1));
        accepted(fill(&queue, memory, 4, 1024));
        finish(&queue);
        assert_eq!(failed(&queue).unwrap().0, trapped.get());
        assert_eq!(read(&device, memory, 256), [4; 256]);
    });
}

#[test]
fn queues_that_wait_in_a_circle_fail_and_the_others_run_on() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let semaphores = device.semaphores().unwrap();
        let queues: Vec<_> = (0..3).map(|_| queue(&device)).collect();
        let bystander = queue(&device);
        let memory = device.memory().allocate(1024).unwrap();
        let gates: Vec<_> = (0..3)
            .map(|_| semaphores.create(0, SignalledBy::Queues).unwrap())
            .collect();
        for n in 0..3 {
            accepted(queues[n].wait_semaphore(&gates[n], 1));
            accepted(queues[n].signal_semaphore(&gates[(n + 1) % 3], 1));
        }
        accepted(fill(&bystander, memory, 6, 1024));
        for queue in &queues {
            finish(queue);
        }
        finish(&bystander);
        assert_eq!(failed(&bystander), None);
        for n in 0..3 {
            // Queue n waits for its gate, which the queue before it would open.
            let awaited = queues[(n + 2) % 3].id();
            let circle = ErrorKind::DeadlockCycle { awaited, length: 3 };
            assert_eq!(failed(&queues[n]), Some((1, circle)));
        }
    });
}

#[test]
fn a_circle_is_found_when_its_last_signal_is_submitted() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let semaphores = device.semaphores().unwrap();
        let queues: Vec<_> = (0..3).map(|_| queue(&device)).collect();
        let gates: Vec<_> = (0..3)
            .map(|_| semaphores.create(0, SignalledBy::Queues).unwrap())
            .collect();
        for n in 0..3 {
            accepted(queues[n].wait_semaphore(&gates[n], 1));
        }
        for queue in &queues {
            wait_until_it_waits(queue);
            assert_eq!(failed(queue), None, "anybody may still signal");
        }
        for n in 0..3 {
            accepted(queues[n].signal_semaphore(&gates[(n + 1) % 3], 1));
        }
        for n in 0..3 {
            finish_soon(&queues[n]);
            let awaited = queues[(n + 2) % 3].id();
            let circle = ErrorKind::DeadlockCycle { awaited, length: 3 };
            assert_eq!(failed(&queues[n]), Some((1, circle)));
        }
    });
}

/// As `finish`, where a circle that nobody finds would last for ever.
fn finish_soon(queue: &Arc<dyn Queue>) {
    let soon = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let waited = queue.wait(queue.submitted(), Some(soon));
    assert_eq!(waited, Ok(WaitOutcome::Reached), "the circle is not found");
}

/// Runs what can be run, and returns when the queue's front waits.
fn wait_until_it_waits(queue: &Arc<dyn Queue>) {
    while !matches!(queue.activity(), QueueActivity::Waiting(..)) {
        // Long enough for whoever waits to run what there is.
        let soon = std::time::Instant::now() + std::time::Duration::from_millis(1);
        let waited = queue.wait(queue.submitted(), Some(soon));
        assert_ne!(waited, Ok(WaitOutcome::Reached));
    }
}

#[test]
fn a_circle_that_two_threads_close_at_once_is_found() {
    for workers in [1, 2] {
        let (_driver, device) = machine(SimConfig {
            workers: Some(workers),
            ..config(1)
        });
        let semaphores = device.semaphores().unwrap();
        for _ in 0..300 {
            let gates = [0, 1].map(|_| semaphores.create(0, SignalledBy::Queues).unwrap());
            let queues = [0, 1].map(|_| queue(&device));
            let start = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                for n in 0..2 {
                    let (queue, gates, start) = (&queues[n], &gates, &start);
                    scope.spawn(move || {
                        start.wait();
                        accepted(queue.wait_semaphore(&gates[n], 1));
                        accepted(queue.signal_semaphore(&gates[1 - n], 1));
                    });
                }
            });
            for queue in &queues {
                finish_soon(queue);
                assert!(matches!(
                    failed(queue),
                    Some((1, ErrorKind::DeadlockCycle { length: 2, .. }))
                ));
            }
        }
    }
}

#[test]
fn a_circle_that_somebody_outside_can_break_is_none() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let semaphores = device.semaphores().unwrap();
        let (a, b) = (queue(&device), queue(&device));
        let inner = semaphores.create(0, SignalledBy::Queues).unwrap();
        let outer = semaphores.create(0, SignalledBy::Anyone).unwrap();
        accepted(a.wait_semaphore(&inner, 1));
        accepted(a.signal_semaphore(&outer, 1));
        accepted(b.wait_semaphore(&outer, 1));
        accepted(b.signal_semaphore(&inner, 1));
        let now = Some(std::time::Instant::now());
        assert_eq!(
            a.wait(Position::new(2), now),
            Ok(WaitOutcome::DeadlinePassed)
        );
        assert_eq!((failed(&a), failed(&b)), (None, None));
        assert!(inner.signal(1).is_err(), "the host may not");
        outer.signal(1).unwrap();
        finish(&a);
        finish(&b);
        assert_eq!((failed(&a), failed(&b)), (None, None));
    });
}

#[test]
fn a_wait_that_nobody_is_left_to_end_fails() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        let semaphores = device.semaphores().unwrap();
        let queue = queue(&device);
        let semaphore = semaphores.create(3, SignalledBy::Anyone).unwrap();
        accepted(queue.wait_semaphore(&semaphore, 5));
        let now = Some(std::time::Instant::now());
        let waited = queue.wait(Position::new(1), now);
        assert_eq!(waited, Ok(WaitOutcome::DeadlinePassed));
        drop(semaphore);
        finish(&queue);
        let never = ErrorKind::NeverSignalled {
            current: 3,
            wanted: 5,
        };
        assert_eq!(failed(&queue), Some((1, never)));
    });
}

#[test]
fn a_queue_waits_for_a_value_that_another_writes() {
    every_clock(|config| {
        let (_driver, device) = machine(config);
        assert!(device.memory_operations());
        let (waiter, writer, add) = (queue(&device), queue(&device), kernel(&device, "add"));
        let memory = device.memory().allocate(1024).unwrap();
        let data = device.memory().allocate(1024).unwrap();
        accepted(fill(&writer, memory, 0, 1024));
        accepted(fill(&writer, data, 1, 1024));
        finish(&writer);
        let wide = memory.checked_add(8).unwrap();
        wait_memory(&waiter, memory, Comparison::AtLeast, MemoryWord::U32(2));
        wait_memory(&waiter, wide, Comparison::Equal, MemoryWord::U64(1 << 40));
        accepted(fill(&waiter, data, 3, 1024));
        // Written by a kernel, then by the queue itself.
        accepted(launch(&writer, &add, 1, data, 4));
        accepted(launch(&writer, &add, 1, memory, 2));
        write_memory(&writer, wide, MemoryWord::U64(1 << 40));
        finish(&waiter);
        finish(&writer);
        assert_eq!(read(&device, data, 256), [3; 256]);
        assert_eq!((failed(&waiter), failed(&writer)), (None, None));
    });
}

#[test]
fn words_that_are_not_there_are_refused() {
    let (_driver, device) = machine(config(1));
    let queue = queue(&device);
    let memory = device.memory().allocate(1024).unwrap();
    let submit = |at: DevicePtr, value| {
        // SAFETY: refused.
        let result =
            unsafe { queue.submit(&Command::WriteMemory { at, value }, Location::caller()) };
        result.unwrap_err().kind
    };
    let odd = memory.checked_add(4).unwrap();
    assert!(matches!(
        submit(odd, MemoryWord::U64(1)),
        ErrorKind::Misaligned { alignment: 8, .. }
    ));
    assert!(matches!(
        submit(DevicePtr::new(4), MemoryWord::U32(1)),
        ErrorKind::UnknownAddress { .. }
    ));
    assert_eq!(queue.submitted(), Position::START);
}

#[test]
fn a_queue_says_what_it_waits_for() {
    let (_driver, device) = machine(config(1).in_virtual_time(0, ScheduleOrder::ByTime));
    let (a, b) = (queue(&device), queue(&device));
    let semaphores = device.semaphores().unwrap();
    let semaphore = semaphores.create(1, SignalledBy::Anyone).unwrap();
    accepted(a.wait_semaphore(&semaphore, 4));
    accepted(b.wait_for(&*a, Position::new(1)));
    assert_eq!(a.activity(), QueueActivity::Ready(Position::new(1)));
    // Runs what can run: time does not pass by itself, so a deadline to come has passed when nothing can.
    let _ = b
        .wait(
            Position::new(1),
            Some(std::time::Instant::now() + std::time::Duration::from_secs(1)),
        )
        .unwrap();
    let QueueActivity::Waiting(front, awaited) = a.activity() else {
        panic!("{:?}", a.activity());
    };
    assert_eq!(front.operation, Operation::WaitSemaphore);
    assert!(front.origin.unwrap().file().ends_with("trouble.rs"));
    let expected = Awaited::Semaphore {
        current: 1,
        wanted: 4,
    };
    assert_eq!(awaited, expected);
    let QueueActivity::Waiting(_, awaited) = b.activity() else {
        panic!("{:?}", b.activity());
    };
    assert_eq!(awaited, Awaited::Queue(a.id(), Position::new(1)));
    semaphore.signal(4).unwrap();
    finish(&b);
}

#[test]
fn an_urgent_queue_lends_its_urgency_to_whom_it_waits_for() {
    for seed in 0..20 {
        let (_driver, device) = machine(config(1).in_virtual_time(seed, ScheduleOrder::Seeded));
        let with = |number| {
            let options = QueueOptions {
                priority: Priority(number),
                ..QueueOptions::default()
            };
            device.queues().create(&options).unwrap()
        };
        let (urgent, usual, patient) = (with(-2), with(-1), with(0));
        let memory = device.memory().allocate(1024).unwrap();
        for _ in 0..20 {
            accepted(fill(&patient, memory, 1, 4));
            accepted(fill(&usual, memory, 1, 4));
        }
        accepted(urgent.wait_for(&*patient, Position::new(20)));
        let trace = device.execution_trace().unwrap();
        trace.start(1000);
        for queue in [&urgent, &usual, &patient] {
            finish(queue);
        }
        let records = trace.finish().0;
        let end = |queue: &Arc<dyn Queue>| {
            let own = records
                .iter()
                .rposition(|record| record.queue == queue.id());
            own.unwrap()
        };
        assert!(end(&patient) < end(&usual), "urgency was not handed on");
    }
}

/// A queue waits for a signal of the least urgent one, submitted before the wait or behind it; a third has much to do.
fn signalled_by_the_patient(seed: u64, signal_first: bool) {
    let (_driver, device) = machine(config(1).in_virtual_time(seed, ScheduleOrder::Seeded));
    let with = |number| {
        let options = QueueOptions {
            priority: Priority(number),
            ..QueueOptions::default()
        };
        device.queues().create(&options).unwrap()
    };
    let (urgent, usual, patient) = (with(-2), with(-1), with(0));
    let memory = device.memory().allocate(1024).unwrap();
    let gate = device
        .semaphores()
        .unwrap()
        .create(0, SignalledBy::Queues)
        .unwrap();
    let signal = || {
        for _ in 0..20 {
            accepted(fill(&patient, memory, 1, 64));
        }
        accepted(patient.signal_semaphore(&gate, 3));
    };
    if signal_first {
        signal();
        accepted(urgent.wait_semaphore(&gate, 2));
    } else {
        accepted(urgent.wait_semaphore(&gate, 2));
        wait_until_it_waits(&urgent);
        signal();
    }
    accepted(fill(&urgent, memory, 2, 64));
    for _ in 0..200 {
        accepted(fill(&usual, memory, 3, 64));
    }
    let trace = device.execution_trace().unwrap();
    trace.start(1000);
    [&urgent, &usual, &patient].into_iter().for_each(finish);
    let records = trace.finish().0;
    let place = |queue: &Arc<dyn Queue>| {
        records
            .iter()
            .rposition(|record| record.queue == queue.id())
    };
    let first_usual = records.iter().position(|record| record.queue == usual.id());
    assert!(place(&urgent) < first_usual, "urgency was not handed on");
}

#[test]
fn an_urgent_queue_lends_its_urgency_to_whose_signal_it_waits_for() {
    for seed in 0..10 {
        signalled_by_the_patient(seed, true);
        signalled_by_the_patient(seed, false);
    }
}

/// A writer that is kept holds nobody up who waits for what it has submitted.
#[test]
fn what_a_kept_writer_has_submitted_starts_when_others_wait_for_it() {
    every_clock(|config| {
        let (_driver, device) = machine(config.clone());
        let [written, between, last, told] = [(); 4].map(|()| queue(&device));
        let memory = device.memory().allocate(1024).unwrap();
        let semaphores = device.semaphores().unwrap();
        let semaphore = semaphores.create(0, SignalledBy::Queues).unwrap();
        let mut writer = written.writer().unwrap();
        let fill = Command::Fill {
            dst: memory,
            pattern: FillPattern::Word(1),
            bytes: 1024,
        };
        // SAFETY: nothing else uses the memory, which goes with the machine.
        let position = accepted(unsafe { writer.submit(&fill, Location::caller()) });
        accepted(between.wait_for(&*written, position));
        accepted(last.wait_for(&*between, between.submitted()));
        ends(&config, &last, last.submitted());
        accepted(told.wait_semaphore(&semaphore, 1));
        let signal = Command::SignalSemaphore {
            semaphore: &semaphore,
            value: 1,
        };
        // SAFETY: a signal names no memory.
        accepted(unsafe { writer.submit(&signal, Location::caller()) });
        ends(&config, &told, told.submitted());
        wait_memory(&told, memory, Comparison::Equal, MemoryWord::U32(2));
        let write = Command::WriteMemory {
            at: memory,
            value: MemoryWord::U32(2),
        };
        // SAFETY: as for the fill.
        accepted(unsafe { writer.submit(&write, Location::caller()) });
        ends(&config, &told, told.submitted());
        drop(writer);
        finish(&written);
    });
}

/// The first block aborts its own launch; those that have started by then wait for that.
#[test]
fn blocks_of_an_aborted_launch_that_have_not_started_do_not() {
    every_clock(|config| {
        let units = config.devices[0].compute_units;
        let driver = SimDriver::new(config.clone()).unwrap();
        let own: Arc<Mutex<Option<Arc<dyn Queue>>>> = Arc::default();
        let (ran, aborted) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (queue_of, count, flag) = (Arc::clone(&own), Arc::clone(&ran), Arc::clone(&aborted));
        let aborts = KernelDefinition::new("aborts", Signature::new([]), move |block| {
            count.fetch_add(1, Ordering::AcqRel);
            if block.index().x == 0 {
                let queue = queue_of.lock().take().unwrap();
                queue.abort().unwrap();
                flag.store(true, Ordering::Release);
            }
            assert!(comes(|| flag.load(Ordering::Acquire)));
            assert!(block.is_aborted());
            Ok(())
        });
        driver.register(SimModule::new("m").with(aborts));
        let device = driver.open(DeviceId(0)).unwrap();
        let kernel = device.kernels().load(ModuleImage::Registered("m"));
        let kernel = kernel.unwrap().kernel("aborts").unwrap();
        let queue = queue(&device);
        *own.lock() = Some(Arc::clone(&queue));
        // SAFETY: the kernel names no memory.
        let launch = unsafe { queue.launch(&Launch::new(&kernel, Grid::linear(1000), &[])) };
        ends(&config, &queue, accepted(launch));
        let ran = ran.load(Ordering::Acquire);
        assert!(ran <= units, "{ran} blocks of 1000 ran");
        assert_eq!(failed(&queue), Some((1, ErrorKind::Aborted)));
    });
}
