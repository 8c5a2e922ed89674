//! Failures that the host causes, and what is done about them: host functions that panic, aborts, failures forgotten.
//!
//! Devices that have no kernel to fail are held to the contract here.

use crate::{
    cases::queues::Gate,
    drive::{DeviceBuffer, copy, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, end, finish},
    subject::Subject,
};
use piton_driver::{
    ErrorKind, HostFunction, OnFailure, Position, Queue, QueueOptions, SignalledBy,
};
use std::{panic::Location, sync::Arc};

cases! { "recovery":
    a_panic_spreads_to_who_waits_for_it [HostFunctions HostMemory],
    a_wait_that_was_there_before_the_panic_fails_too [HostFunctions Semaphores],
    a_failure_says_where_it_was_submitted [HostFunctions],
    what_only_comes_after_a_panic_runs [HostFunctions HostMemory],
    a_queue_that_panicked_gives_no_signal [HostFunctions Semaphores],
    a_skipped_wait_ends_behind_what_it_waits_for [HostFunctions Semaphores],
    a_queue_that_goes_on_runs_what_comes_behind [HostFunctions HostMemory],
    what_has_not_started_is_aborted [Semaphores HostMemory],
    an_aborted_wait_ends_behind_what_it_waits_for [Semaphores],
    nothing_is_aborted_where_nothing_is_left [],
    a_failure_is_forgotten_when_all_has_ended [HostFunctions HostMemory],
    what_was_spoilt_stays_so [HostFunctions],
}

/// Submits a host function that panics, without a message on the terminal.
#[track_caller]
fn panics(stage: &Stage, queue: &Arc<dyn Queue>) -> Result<Position, Failure> {
    let host = stage.device.host_functions();
    let missing = || Failure::new("the case says it needs host functions", "it does not");
    let fails = || std::panic::resume_unwind(Box::new("on purpose"));
    let mut function: Option<HostFunction> = Some(Box::new(fails));
    accepted(
        host.ok_or_else(missing)?
            .call(&**queue, &mut function, Location::caller()),
    )
}

fn failed_at(queue: &Arc<dyn Queue>) -> Option<(Position, ErrorKind)> {
    let failure = queue.failure()?;
    Some((failure.position, failure.error.kind))
}

/// A queue and a buffer in which it has left this word.
fn written(stage: &Stage, word: u32) -> Result<(Arc<dyn Queue>, DeviceBuffer), Failure> {
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    accepted(fill_word(&queue, &buffer, word))?;
    Ok((queue, buffer))
}

fn a_panic_spreads_to_who_waits_for_it(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, scratch) = written(&stage, 0)?;
    let good = first.submitted();
    let position = panics(&stage, &first)?;
    accepted(fill_word(&first, &scratch, 1))?;
    let mut chain = vec![first];
    for n in 0..5 {
        let next = stage.queue()?;
        accepted(next.wait_for(&*chain[n], chain[n].submitted()))?;
        chain.push(next);
    }
    let (last, buffer) = written(&stage, 3)?;
    let wait = accepted(last.wait_for(&*chain[5], Position::new(1)))?;
    let behind = accepted(fill_word(&last, &buffer, 4))?;
    end(&last, behind)?;
    ensure_eq(
        failed_at(&chain[0]),
        Some((position, ErrorKind::HostFunctionPanicked)),
        "the panic is the command's failure",
    )?;
    let (queue, position) = (chain[5].id(), Position::new(1));
    let expected = Some((wait, ErrorKind::DependencyFailed { queue, position }));
    ensure_eq(failed_at(&last), expected, "the wait is what fails")?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![3; 16],
        "what came before the wait ran, and nothing behind it",
    )?;
    let earlier = stage.queue()?;
    accepted(earlier.wait_for(&*chain[0], good))?;
    finish(&earlier)
}

fn a_failure_says_where_it_was_submitted(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let position = panics(&stage, &queue)?;
    end(&queue, position)?;
    let failure = queue.failure();
    let missing = || Failure::new("the queue failed", "it did not");
    // As far as the driver knows.
    let origin = failure.ok_or_else(missing)?.origin;
    let file = origin.map_or(file!(), |origin| origin.file());
    ensure_eq(file, file!(), "the place is the program's")
}

fn a_wait_that_was_there_before_the_panic_fails_too(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, waiter) = (stage.queue()?, stage.queue()?);
    let gate = Gate::close(&stage, &bad)?;
    let failed = panics(&stage, &bad)?;
    let wait = accepted(waiter.wait_for(&*bad, failed))?;
    gate.open()?;
    end(&waiter, wait)?;
    ensure(
        waiter.failure().is_some(),
        "a wait that was there first fails as well",
    )
}

fn what_only_comes_after_a_panic_runs(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, buffer) = written(&stage, 1)?;
    let failed = panics(&stage, &bad)?;
    let good = stage.queue()?;
    accepted(good.order_after(&*bad, failed))?;
    accepted(fill_word(&good, &buffer, 2))?;
    finish(&good)?;
    ensure(bad.completed() >= failed, "what comes after has waited")?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![2; 16],
        "what only comes after a failure runs",
    )
}

fn a_queue_that_panicked_gives_no_signal(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let Some(semaphores) = stage.device.semaphores() else {
        return Ok(());
    };
    let semaphore = semaphores.create(0, SignalledBy::Anyone)?;
    panics(&stage, &queue)?;
    end(&queue, accepted(queue.signal_semaphore(&semaphore, 1))?)?;
    ensure_eq(
        semaphore.value(),
        0,
        "after a failure the signal is not given",
    )
}

fn a_skipped_wait_ends_behind_what_it_waits_for(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (slow, bad) = (stage.queue()?, stage.queue()?);
    let gate = Gate::close(&stage, &slow)?;
    let failed = panics(&stage, &bad)?;
    let wait = accepted(bad.wait_for(&*slow, Position::new(1)))?;
    end(&bad, failed)?;
    ensure(bad.failure().is_some(), "the queue has failed")?;
    ensure(
        bad.completed() < wait,
        "a skipped wait ends only when the position it names has",
    )?;
    gate.open()?;
    end(&bad, wait)?;
    ensure(
        slow.completed() >= Position::new(1),
        "what was waited for has ended",
    )
}

fn a_queue_that_goes_on_runs_what_comes_behind(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let options = QueueOptions {
        on_failure: OnFailure::Continue,
        ..QueueOptions::default()
    };
    let (queue, buffer) = (stage.device.queues().create(&options)?, stage.buffer(64)?);
    let failed = panics(&stage, &queue)?;
    accepted(fill_word(&queue, &buffer, 5))?;
    let second = panics(&stage, &queue)?;
    end(&queue, second)?;
    let expected = Some((failed, ErrorKind::HostFunctionPanicked));
    ensure_eq(failed_at(&queue), expected, "the first failure is kept")?;
    ensure_eq(stage.words(&buffer, 16)?, vec![5; 16], "later commands run")?;
    let waiter = stage.queue()?;
    let wait = accepted(waiter.wait_for(&*queue, second))?;
    end(&waiter, wait)?;
    ensure(
        waiter.failure().is_some(),
        "whoever waits past the failure fails",
    )
}

fn what_has_not_started_is_aborted(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = written(&stage, 1)?;
    finish(&queue)?;
    let _gate = Gate::close(&stage, &queue)?;
    let last = accepted(fill_word(&queue, &buffer, 2))?;
    queue.abort()?;
    // The gate is still closed.
    end(&queue, last)?;
    let kind = failed_at(&queue).map(|(_, kind)| kind);
    ensure_eq(kind, Some(ErrorKind::Aborted), "an abort is a failure")?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![1; 16],
        "what was aborted did not run",
    )
}

fn an_aborted_wait_ends_behind_what_it_waits_for(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (slow, queue) = (stage.queue()?, stage.queue()?);
    let gate = Gate::close(&stage, &slow)?;
    let wait = accepted(queue.wait_for(&*slow, Position::new(1)))?;
    queue.abort()?;
    ensure(
        queue.completed() < wait,
        "an aborted wait ends only when the position it names has",
    )?;
    gate.open()?;
    end(&queue, wait)
}

fn nothing_is_aborted_where_nothing_is_left(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = written(&stage, 1)?;
    finish(&queue)?;
    queue.abort()?;
    accepted(fill_word(&queue, &buffer, 2))?;
    finish(&queue)
}

fn a_failure_is_forgotten_when_all_has_ended(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = written(&stage, 1)?;
    ensure_eq(queue.failure(), None, "nothing has failed")?;
    finish(&queue)?;
    ensure_eq(queue.clear_failure()?, None, "nothing is forgotten")?;
    let failed = panics(&stage, &queue)?;
    end(&queue, accepted(fill_word(&queue, &buffer, 2))?)?;
    let forgotten = queue.clear_failure()?.map(|failure| failure.position);
    ensure_eq(forgotten, Some(failed), "who forgets is told what")?;
    ensure_eq(queue.failure(), None, "it is forgotten")?;
    let b = stage.buffer(64)?;
    accepted(fill_word(&queue, &buffer, 3))?;
    accepted(copy(&queue, (&b, 0), (&buffer, 0), 64))?;
    finish(&queue)?;
    ensure_eq(stage.words(&b, 16)?, vec![3; 16], "later commands run")
}

fn what_was_spoilt_stays_so(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = written(&stage, 1)?;
    let good = queue.submitted();
    let failed = panics(&stage, &queue)?;
    let behind = accepted(fill_word(&queue, &buffer, 2))?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::NotDrained { .. });
    let (held, gate) = (stage.queue()?, stage.device.semaphores());
    if gate.is_some() {
        let gate = Gate::close(&stage, &held)?;
        refused(held.clear_failure(), is_reason, "work is left")?;
        gate.open()?;
        finish(&held)?;
    }
    end(&queue, behind)?;
    queue.clear_failure()?;
    let after = accepted(fill_word(&queue, &buffer, 3))?;
    for (position, is_spoilt) in [
        (good, false),
        (failed, true),
        (behind, true),
        (after, false),
    ] {
        let waiter = stage.queue()?;
        end(&waiter, accepted(waiter.wait_for(&*queue, position))?)?;
        ensure_eq(
            waiter.failure().is_some(),
            is_spoilt,
            "from the failure to where it was forgotten, and no further",
        )?;
    }
    finish(&queue)
}
