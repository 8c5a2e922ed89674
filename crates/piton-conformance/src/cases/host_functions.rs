//! Host functions in a queue's order.

use crate::{
    cases::queues::Gate,
    drive::{copy, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, end, finish},
    subject::Subject,
};
use piton_driver::{Admission, Device, ErrorKind, HostFunction, HostFunctions, Queue, WaitOutcome};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::panic::Location;
use std::sync::Arc;

cases! { "host functions":
    a_host_function_runs_once_in_its_place [HostFunctions HostMemory],
    host_functions_of_one_queue_run_in_order [HostFunctions],
    a_host_function_may_submit [HostFunctions HostMemory],
    a_host_function_may_wait_for_those_of_other_queues [HostFunctions],
    a_panic_in_a_host_function_fails_its_queue_only [HostFunctions],
    a_host_function_behind_a_failure_is_dropped_uncalled [HostFunctions],
    a_full_queue_leaves_the_function [HostFunctions Semaphores],
    a_host_function_on_a_foreign_queue_is_left [HostFunctions],
}

#[track_caller]
fn host(stage: &Stage) -> Result<&dyn HostFunctions, Failure> {
    let missing = || Failure::new("the case says it needs host functions", "it does not");
    stage.device.host_functions().ok_or_else(missing)
}

fn boxed(function: impl FnOnce() + Send + 'static) -> Option<HostFunction> {
    Some(Box::new(function))
}

fn a_host_function_runs_once_in_its_place(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a, b) = (stage.queue()?, stage.buffer(64)?, stage.buffer(64)?);
    let calls = Arc::new(AtomicU64::new(0));
    accepted(fill_word(&queue, &a, 4))?;
    let (counter, watched) = (Arc::clone(&calls), Arc::clone(&queue));
    let mut function = boxed(move || {
        let completed = watched.completed().get();
        counter.fetch_add(10 + completed, Ordering::AcqRel);
    });
    accepted(host(&stage)?.call(&*queue, &mut function, Location::caller()))?;
    ensure(function.is_none(), "an accepted function is taken")?;
    accepted(copy(&queue, (&b, 0), (&a, 0), 64))?;
    finish(&queue)?;
    ensure_eq(
        calls.load(Ordering::Acquire),
        11,
        "once, when exactly one command had ended",
    )?;
    ensure_eq(stage.words(&b, 16)?, vec![4; 16], "commands around it ran")
}

fn host_functions_of_one_queue_run_in_order(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..50_u32 {
        let seen = Arc::clone(&order);
        accepted(host(&stage)?.call(
            &*queue,
            &mut boxed(move || seen.lock().push(n)),
            Location::caller(),
        ))?;
    }
    finish(&queue)?;
    let expected: Vec<u32> = (0..50).collect();
    ensure_eq(order.lock().clone(), expected, "in the order of submission")
}

fn a_host_function_may_submit(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b) = (stage.queue()?, stage.queue()?);
    let calls = Arc::new(AtomicU64::new(0));
    let (inner, own, driver) = (Arc::clone(&b), Arc::clone(&a), Arc::clone(&stage.device));
    let counter = Arc::clone(&calls);
    let mut function = boxed(move || {
        for queue in [&inner, &own] {
            let nested_counter = Arc::clone(&counter);
            let mut nested = boxed(move || {
                nested_counter.fetch_add(1, Ordering::AcqRel);
            });
            if let Some(Ok(Admission::Accepted(_))) = driver
                .host_functions()
                .map(|host| host.call(&**queue, &mut nested, Location::caller()))
            {
                continue;
            }
            counter.fetch_add(1000, Ordering::AcqRel);
        }
    });
    let called = accepted(host(&stage)?.call(&*a, &mut function, Location::caller()))?;
    end(&a, called)?;
    finish(&a)?;
    finish(&b)?;
    ensure_eq(
        calls.load(Ordering::Acquire),
        2,
        "both nested functions were taken and ran",
    )
}

/// What the last of so many queues is given: a function that gives the queue before it one like itself, and waits for it.
fn nested(
    device: &Arc<dyn Device>,
    mut queues: Vec<Arc<dyn Queue>>,
    returned: &Arc<AtomicU64>,
) -> HostFunction {
    let (device, returned) = (Arc::clone(device), Arc::clone(returned));
    Box::new(move || {
        let below = queues.pop();
        let is_good = below.is_none_or(|queue| {
            let mut function = Some(nested(&device, queues, &returned));
            let host = device.host_functions();
            let taken = host.map(|host| host.call(&*queue, &mut function, Location::caller()));
            matches!(taken, Some(Ok(Admission::Accepted(position)))
                if queue.wait(position, None) == Ok(WaitOutcome::Reached))
        });
        returned.fetch_add(if is_good { 1 } else { 1000 }, Ordering::AcqRel);
    })
}

fn a_host_function_may_wait_for_those_of_other_queues(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, returned) = (stage.queue()?, Arc::new(AtomicU64::new(0)));
    let queues = vec![stage.queue()?, stage.queue()?];
    let mut function = Some(nested(&stage.device, queues, &returned));
    accepted(host(&stage)?.call(&*first, &mut function, Location::caller()))?;
    finish(&first)?;
    ensure_eq(
        returned.load(Ordering::Acquire),
        3,
        "each waited until the one below had returned",
    )
}

fn a_panic_in_a_host_function_fails_its_queue_only(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, good, buffer) = (stage.queue()?, stage.queue()?, stage.buffer(64)?);
    let panics = accepted(host(&stage)?.call(&*bad, &mut boxed(fails), Location::caller()))?;
    let after = accepted(fill_word(&bad, &buffer, 1))?;
    end(&bad, after)?;
    let failure = bad
        .failure()
        .map(|failure| (failure.position, failure.error.kind));
    let expected = Some((panics, ErrorKind::HostFunctionPanicked));
    ensure_eq(failure, expected, "the panic is the command's failure")?;
    accepted(host(&stage)?.call(&*good, &mut boxed(|| {}), Location::caller()))?;
    finish(&good)
}

fn a_host_function_behind_a_failure_is_dropped_uncalled(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    accepted(host(&stage)?.call(&*queue, &mut boxed(fails), Location::caller()))?;
    let (calls, token) = (Arc::new(AtomicU64::new(0)), Arc::new(()));
    let (counter, held) = (Arc::clone(&calls), Arc::clone(&token));
    let mut function = boxed(move || {
        let _kept = &held;
        counter.fetch_add(1, Ordering::AcqRel);
    });
    let last = accepted(host(&stage)?.call(&*queue, &mut function, Location::caller()))?;
    end(&queue, last)?;
    ensure_eq(calls.load(Ordering::Acquire), 0, "it was not called")?;
    ensure_eq(
        Arc::strong_count(&token),
        1,
        "what it held is gone when its position has ended",
    )
}

fn a_full_queue_leaves_the_function(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let gate = Gate::close(&stage, &queue)?;
    let limit = queue.capacity();
    let mut function = None;
    for _ in 0..=limit {
        function = boxed(|| {});
        if host(&stage)?.call(&*queue, &mut function, Location::caller())? == Admission::Full {
            break;
        }
    }
    ensure(
        function.is_some(),
        "a full queue does not take the function",
    )?;
    gate.open()?;
    finish(&queue)
}

fn a_host_function_on_a_foreign_queue_is_left(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let (foreign, mut function) = (other.queue()?, boxed(|| {}));
    let result = host(&stage)?.call(&*foreign, &mut function, Location::caller());
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::ForeignObject { .. });
    refused(result, is_reason, "another driver's queue is foreign")?;
    ensure(function.is_some(), "a refused function is left")
}

/// Panics as a host function may, without a message on the terminal.
fn fails() {
    std::panic::resume_unwind(Box::new("on purpose"));
}
