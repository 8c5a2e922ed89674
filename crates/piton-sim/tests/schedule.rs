//! Priorities, aging and deadlines, in virtual time, where the order is the schedule's alone.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use piton_driver::{
    Device, ExecutionRecord, Priority, Queue, QueueId, QueueOptions, SignalledBy, WaitOutcome,
};
use piton_sim::{ScheduleOrder, SimConfig};
use std::{sync::Arc, time::Instant};
use support::{accepted, config, fill, kernel, launch, machine, queue};

/// Commands of one queue that run before others are looked at.
const SLICE: usize = 16;
/// How often a ready queue is passed over.
const PATIENCE: usize = 16;

fn seeded(seed: u64) -> SimConfig {
    config(1).in_virtual_time(seed, ScheduleOrder::Seeded)
}

fn with_priority(device: &Arc<dyn Device>, number: i32) -> Arc<dyn Queue> {
    let options = QueueOptions {
        priority: Priority(number),
        commands: Some(1024),
        ..QueueOptions::default()
    };
    device.queues().create(&options).unwrap()
}

fn finish(queues: &[&Arc<dyn Queue>]) {
    for queue in queues {
        assert_eq!(
            queue.wait(queue.submitted(), None),
            Ok(WaitOutcome::Reached)
        );
        assert_eq!(queue.failure(), None);
    }
}

fn places(records: &[ExecutionRecord], queue: QueueId) -> Vec<usize> {
    let all = records.iter().enumerate();
    all.filter(|(_, record)| record.queue == queue)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn the_more_urgent_queue_goes_first_whatever_the_seed() {
    for seed in 0..20 {
        let (_driver, device) = machine(seeded(seed));
        let queues = [0, -1, -2].map(|number| with_priority(&device, number));
        let memory = device.memory().allocate(1024).unwrap();
        let trace = device.execution_trace().unwrap();
        trace.start(1000);
        for queue in &queues {
            for _ in 0..10 {
                accepted(launch(queue, &kernel(&device, "add"), 1, memory, 1));
            }
        }
        finish(&[&queues[0], &queues[1], &queues[2]]);
        let order: Vec<_> = trace.finish().0.iter().map(|record| record.queue).collect();
        let expected = [&queues[2], &queues[1], &queues[0]]
            .map(|queue| [queue.id(); 10])
            .concat();
        assert_eq!(order, expected);
    }
}

#[test]
fn the_least_urgent_queue_is_not_passed_over_for_ever() {
    for seed in 0..20 {
        let (_driver, device) = machine(seeded(seed));
        let (urgent, patient) = (with_priority(&device, -2), with_priority(&device, 0));
        let memory = device.memory().allocate(1024).unwrap();
        let trace = device.execution_trace().unwrap();
        trace.start(2000);
        accepted(fill(&patient, memory, 1, 1024));
        for _ in 0..1000 {
            accepted(fill(&urgent, memory, 2, 1024));
        }
        finish(&[&urgent, &patient]);
        let records = trace.finish().0;
        assert_eq!(records.len(), 1001);
        let place = places(&records, patient.id())[0];
        assert!(place <= (PATIENCE + 1) * SLICE, "it ran as number {place}");
        assert!(place >= SLICE, "urgent work went first");
    }
}

#[test]
fn in_order_of_time_the_earliest_queue_goes_first() {
    let (_driver, device) = machine(config(1).in_virtual_time(1, ScheduleOrder::ByTime));
    let (long, short) = (queue(&device), queue(&device));
    let memory = device.memory().allocate(32 << 20).unwrap();
    let trace = device.execution_trace().unwrap();
    trace.start(1000);
    for _ in 0..5 {
        accepted(fill(&long, memory, 1, 32 << 20));
        accepted(fill(&short, memory, 1, 4));
    }
    finish(&[&long, &short]);
    let records = trace.finish().0;
    for id in [long.id(), short.id()] {
        let own: Vec<_> = records.iter().filter(|record| record.queue == id).collect();
        assert!(
            own.windows(2)
                .all(|pair| pair[0].end_ns <= pair[1].start_ns)
        );
    }
    let end = |id| {
        records
            .iter()
            .filter(|record| record.queue == id)
            .map(|r| r.end_ns)
            .max()
    };
    assert!(
        end(short.id()) < end(long.id()),
        "small fills do not wait for large ones"
    );
}

#[test]
fn a_passed_deadline_ends_a_wait_and_nothing_else() {
    for order in [ScheduleOrder::ByTime, ScheduleOrder::Seeded] {
        let (_driver, device) = machine(config(1).in_virtual_time(1, order));
        let queue = queue(&device);
        let memory = device.memory().allocate(1024).unwrap();
        let past = Some(Instant::now());
        let last = accepted(fill(&queue, memory, 1, 1024));
        assert_eq!(queue.wait(last, past), Ok(WaitOutcome::DeadlinePassed));
        assert!(queue.completed() < last, "nothing ran");
        assert_eq!(queue.wait(last, None), Ok(WaitOutcome::Reached));
        assert_eq!(queue.wait(last, past), Ok(WaitOutcome::Reached));
    }
}

#[test]
fn a_wait_that_nothing_can_end_is_a_deadlock_and_says_how_many_wait() {
    let (_driver, device) = machine(seeded(0));
    let semaphores = device.semaphores().unwrap();
    let semaphore = semaphores.create(0, SignalledBy::Anyone).unwrap();
    let queues: Vec<_> = (0..3).map(|_| queue(&device)).collect();
    for queue in &queues {
        accepted(queue.wait_semaphore(&semaphore, 1));
    }
    let stuck = queues[0].wait(queues[0].submitted(), None).unwrap_err();
    assert_eq!(stuck.kind, piton_driver::ErrorKind::Deadlock { waiting: 3 });
    semaphore.signal(1).unwrap();
    for queue in &queues {
        assert_eq!(
            queue.wait(queue.submitted(), None),
            Ok(WaitOutcome::Reached)
        );
    }
}
