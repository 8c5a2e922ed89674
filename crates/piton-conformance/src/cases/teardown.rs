//! Handles that go away in any order, with work under way.

use crate::{
    cases::queues::Gate,
    drive::{copy, fill_word},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{Grid, HostFunction, QueueOptions};
use piton_sync::{
    atomic::{AtomicU64, Ordering},
    thread,
};
use std::panic::Location;
use std::sync::Arc;

cases! { "teardown":
    a_dropped_queue_runs_what_was_submitted [HostFunctions],
    a_queue_may_be_dropped_while_another_waits_for_it [Semaphores HostMemory],
    a_queue_outlives_its_driver_and_device [HostMemory],
    a_kernel_outlives_its_module [HostMemory],
    a_driver_goes_with_work_waiting_and_nothing_breaks [Semaphores],
}

fn a_dropped_queue_runs_what_was_submitted(subject: &Subject) -> Checked {
    /// Looks before the case gives up; each yields the processor.
    const LOOKS: u32 = 1_000_000;
    let stage = Stage::open(subject)?;
    let Some(host) = stage.device.host_functions() else {
        return Ok(());
    };
    let (queue, calls) = (stage.queue()?, Arc::new(AtomicU64::new(0)));
    for _ in 0..10 {
        let counter = Arc::clone(&calls);
        let mut function: Option<HostFunction> = Some(Box::new(move || {
            counter.fetch_add(1, Ordering::AcqRel);
        }));
        accepted(host.call(&*queue, &mut function, Location::caller()))?;
    }
    drop(queue);
    for _ in 0..LOOKS {
        if calls.load(Ordering::Acquire) == 10 {
            return Ok(());
        }
        thread::yield_now();
    }
    Err(Failure::new(
        "a dropped queue is detached, not cut off",
        "its work did not run",
    ))
}

fn a_queue_may_be_dropped_while_another_waits_for_it(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (second, b) = (stage.queue()?, stage.buffer(64)?);
    let first = stage.queue()?;
    let gate = Gate::close(&stage, &first)?;
    let a = stage.buffer(64)?;
    let sent = {
        // Through a view that forgets its users, so that nothing holds the queue's handle.
        let view = crate::drive::DeviceBuffer::at_mapping(&stage.device, a.start(), a.bytes());
        crate::drive::fill_detached(&first, &view, 5)
    };
    accepted(second.wait_for(&*first, accepted(sent)?))?;
    drop(first);
    accepted(copy(&second, (&b, 0), (&a, 0), 64))?;
    gate.open()?;
    finish(&second)?;
    ensure_eq(
        stage.words(&b, 16)?,
        vec![5; 16],
        "the dropped queue's work came first",
    )
}

fn a_queue_outlives_its_driver_and_device(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let (buffer, back) = (stage.buffer(1024)?, stage.host(&[0; 256])?);
    drop(stage);
    accepted(fill_word(&queue, &buffer, 1))?;
    accepted(crate::drive::launch(
        &queue,
        &add,
        Grid::linear(1),
        &[&buffer],
        1,
    ))?;
    accepted(crate::drive::fetch(&queue, &buffer, 0, &back, 1024))?;
    finish(&queue)?;
    ensure_eq(
        back.words()?,
        vec![2; 256],
        "what is held keeps the rest open",
    )
}

fn a_kernel_outlives_its_module(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let module = subject.load(&*stage.device)?;
    let add = module.kernel(TestKernels::ADD)?;
    drop(module);
    let (queue, buffer) = (stage.queue()?, stage.buffer(1024)?);
    accepted(fill_word(&queue, &buffer, 1))?;
    accepted(crate::drive::launch(
        &queue,
        &add,
        Grid::linear(1),
        &[&buffer],
        1,
    ))?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&buffer, 256)?,
        vec![2; 256],
        "a kernel keeps its module loaded",
    )
}

fn a_driver_goes_with_work_waiting_and_nothing_breaks(subject: &Subject) -> Checked {
    for order in 0..3 {
        let stage = Stage::open(subject)?;
        let queue = stage.queue()?;
        let gate = Gate::close(&stage, &queue)?;
        let other = stage.device.queues().create(&QueueOptions::default())?;
        accepted(other.wait_for(&*queue, queue.submitted()))?;
        match order {
            0 => {
                drop(stage);
                drop(queue);
                drop(other);
                drop(gate);
            }
            1 => {
                drop(gate);
                drop(other);
                drop(queue);
                drop(stage);
            }
            _ => {
                drop(other);
                drop(stage);
                gate.open()?;
                finish(&queue)?;
            }
        }
    }
    let again = Stage::open(subject)?;
    ensure(
        again.device.status().is_ok(),
        "a driver opened afterwards works",
    )
}
