//! A command that fails: how far it spreads, and how far it does not.

use crate::{
    cases::queues::Gate,
    drive::{fill_word, launch},
    outcome::{Checked, accepted, ensure, ensure_eq},
    stage::{Stage, end, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{Admission, ErrorKind, Grid, Position, SignalledBy};

cases! { "failures":
    a_failed_kernel_poisons_its_queue [TrapKernel HostMemory],
    a_failure_names_the_first_and_stays [TrapKernel],
    a_wait_for_a_failure_fails_and_for_what_came_before_does_not [TrapKernel HostMemory],
    what_only_comes_after_a_failure_runs [TrapKernel HostMemory],
    a_failure_spreads_along_a_chain [TrapKernel],
    other_queues_run_on_after_a_failure [TrapKernel HostMemory],
    a_failed_queue_gives_no_signal [TrapKernel Semaphores],
    a_wait_submitted_before_the_failure_fails_too [TrapKernel Semaphores],
}

fn a_failed_kernel_poisons_its_queue(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, trap, buffer) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    accepted(fill_word(&queue, &buffer, 1))?;
    let failed = accepted(launch(&queue, &trap, Grid::linear(3), &[&buffer], 0))?;
    let skipped = accepted(fill_word(&queue, &buffer, 2))?;
    end(&queue, skipped)?;
    let failure = queue.failure().map(|failure| failure.position);
    ensure_eq(failure, Some(failed), "the failure names its command")?;
    let kind = queue.failure().map(|failure| failure.error.kind);
    let is_fault = matches!(kind, Some(ErrorKind::KernelFault(_) | ErrorKind::Vendor));
    ensure(is_fault, "a kernel that fails is a kernel fault")?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![1; 16],
        "later commands are skipped",
    )
}

fn a_failure_names_the_first_and_stays(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, trap, buffer) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    for _ in 0..3 {
        accepted(launch(&queue, &trap, Grid::linear(1), &[&buffer], 0))?;
        end(&queue, queue.submitted())?;
        let failure = queue.failure().map(|failure| failure.position);
        ensure_eq(
            failure,
            Some(Position::new(1)),
            "the first failure is the failure",
        )?;
    }
    ensure_eq(
        stage.device.status(),
        Ok(()),
        "a failed kernel does not lose the device",
    )
}

fn a_wait_for_a_failure_fails_and_for_what_came_before_does_not(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, trap, buffer) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    let good = accepted(fill_word(&bad, &buffer, 1))?;
    let failed = accepted(launch(&bad, &trap, Grid::linear(1), &[&buffer], 0))?;
    let after = accepted(fill_word(&bad, &buffer, 2))?;
    end(&bad, after)?;
    let earlier = stage.queue()?;
    accepted(earlier.wait_for(&*bad, good))?;
    finish(&earlier)?;
    for position in [failed, after] {
        let (waiter, other) = (stage.queue()?, stage.buffer(64)?);
        accepted(fill_word(&waiter, &other, 3))?;
        let wait = accepted(waiter.wait_for(&*bad, position))?;
        let last = accepted(fill_word(&waiter, &other, 4))?;
        end(&waiter, last)?;
        let seen = waiter
            .failure()
            .map(|failure| (failure.position, failure.error.kind));
        let queue = bad.id();
        let expected = Some((wait, ErrorKind::DependencyFailed { queue, position }));
        ensure_eq(seen, expected, "the wait is what fails, and says for whom")?;
        ensure_eq(
            stage.words(&other, 16)?,
            vec![3; 16],
            "what came before the wait ran",
        )?;
    }
    Ok(())
}

fn what_only_comes_after_a_failure_runs(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, good, trap, buffer) = (
        stage.queue()?,
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    accepted(fill_word(&bad, &buffer, 1))?;
    let failed = accepted(launch(&bad, &trap, Grid::linear(1), &[&buffer], 0))?;
    accepted(good.order_after(&*bad, failed))?;
    accepted(fill_word(&good, &buffer, 2))?;
    finish(&good)?;
    ensure_eq(
        bad.completed() >= failed,
        true,
        "what comes after has waited",
    )?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![2; 16],
        "what only comes after a failure runs",
    )
}

fn a_failure_spreads_along_a_chain(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (first, trap, buffer) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    accepted(launch(&first, &trap, Grid::linear(1), &[&buffer], 0))?;
    let mut chain = vec![first];
    for n in 0..10 {
        let next = stage.queue()?;
        accepted(next.wait_for(&*chain[n], chain[n].submitted()))?;
        chain.push(next);
    }
    end(&chain[10], chain[10].submitted())?;
    for queue in &chain {
        ensure(
            queue.failure().is_some(),
            "who waits for a failure fails in its turn",
        )?;
    }
    Ok(())
}

fn other_queues_run_on_after_a_failure(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, trap, scratch) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    let (good, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let buffer = stage.buffer(1024)?;
    accepted(fill_word(&good, &buffer, 0))?;
    for _ in 0..10 {
        let _: Admission = launch(&bad, &trap, Grid::linear(1), &[&scratch], 0)?;
        accepted(launch(&good, &add, Grid::linear(1), &[&buffer], 1))?;
    }
    finish(&good)?;
    end(&bad, bad.submitted())?;
    ensure_eq(
        stage.words(&buffer, 256)?,
        vec![10; 256],
        "a failure is its queue's own",
    )
}

fn a_failed_queue_gives_no_signal(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, trap, buffer) = (
        stage.queue()?,
        stage.kernel(TestKernels::TRAP)?,
        stage.buffer(1024)?,
    );
    let Some(semaphores) = stage.device.semaphores() else {
        return Ok(());
    };
    let semaphore = semaphores.create(0, SignalledBy::Anyone)?;
    accepted(launch(&queue, &trap, Grid::linear(1), &[&buffer], 0))?;
    let last = accepted(queue.signal_semaphore(&semaphore, 1))?;
    end(&queue, last)?;
    ensure_eq(
        semaphore.value(),
        0,
        "after a failure the signal is not given",
    )
}

fn a_wait_submitted_before_the_failure_fails_too(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (bad, waiter) = (stage.queue()?, stage.queue()?);
    let (trap, buffer) = (stage.kernel(TestKernels::TRAP)?, stage.buffer(1024)?);
    let gate = Gate::close(&stage, &bad)?;
    let failed = accepted(launch(&bad, &trap, Grid::linear(1), &[&buffer], 0))?;
    let wait = accepted(waiter.wait_for(&*bad, failed))?;
    gate.open()?;
    end(&waiter, wait)?;
    ensure(
        waiter.failure().is_some(),
        "a wait that was there first fails as well",
    )
}
