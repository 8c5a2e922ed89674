//! Queues that stall and are woken take nothing from the heap, counted on all threads.
//!
//! Threads ask for memory of their own once, when they like; a wait that allocated would do so each time. So it is
//! enough that one round of many waits takes nothing.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(unsafe_code, reason = "submission is unsafe")]

mod support;

use piton_driver::{Command, Position, Queue, QueueActivity, Semaphore, SignalledBy, WaitOutcome};
use piton_sim::SimConfig;
use piton_sync::thread;
use std::{panic::Location, sync::Arc};
use support::{accepted, config, machine, queue};

fn submit(queue: &dyn Queue, command: &Command<'_>) -> Position {
    // SAFETY: waits name no memory.
    accepted(unsafe { queue.submit(command, Location::caller()) })
}

/// Three queues wait for a fourth, which the host holds back until all of them have stalled.
fn stall(first: &dyn Queue, others: &[Arc<dyn Queue>; 3], gate: &Arc<dyn Semaphore>, value: u64) {
    let semaphore = gate;
    let position = submit(first, &Command::WaitSemaphore { semaphore, value });
    let wait = Command::WaitQueue {
        queue: first,
        position,
        inherits: true,
    };
    let ends = others.each_ref().map(|other| submit(&**other, &wait));
    for other in others {
        other.flush().unwrap();
        while !matches!(other.activity(), QueueActivity::Waiting(..)) {
            thread::yield_now();
        }
    }
    gate.signal(value).unwrap();
    for (other, end) in others.iter().zip(ends) {
        assert_eq!(other.wait(end, None), Ok(WaitOutcome::Reached));
    }
}

#[test]
fn waits_that_stall_allocate_nothing() {
    const ROUNDS: u64 = 20;
    const WAITS: u64 = 20;
    let (_driver, device) = machine(SimConfig {
        workers: Some(1),
        ..config(1)
    });
    let first = queue(&device);
    let others = [queue(&device), queue(&device), queue(&device)];
    let semaphores = device.semaphores().unwrap();
    let gate = semaphores.create(0, SignalledBy::Anyone).unwrap();
    let allocations = |round: u64| {
        let before = piton_heap::by_all_threads();
        for wait in 1..=WAITS {
            stall(&*first, &others, &gate, round * WAITS + wait);
        }
        piton_heap::by_all_threads() - before
    };
    let each: Vec<_> = (0..ROUNDS).map(allocations).collect();
    assert!(each.contains(&0), "in {WAITS} waits each: {each:?}");
}
