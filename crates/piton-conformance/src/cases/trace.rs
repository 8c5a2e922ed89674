//! What ran when.

use crate::{
    drive::{fill_word, launch, send},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{ExecutionTrace, Grid, HostFunction, Operation};
use std::panic::Location;

cases! { "trace":
    records_say_what_ran [ExecutionTrace HostMemory],
    host_functions_are_recorded [ExecutionTrace HostFunctions],
    records_of_one_queue_do_not_overlap [ExecutionTrace],
    a_trace_keeps_as_many_as_it_may [ExecutionTrace],
    nothing_is_kept_outside_a_trace [ExecutionTrace],
}

#[track_caller]
fn trace(stage: &Stage) -> Result<&dyn ExecutionTrace, Failure> {
    let missing = || Failure::new("the case says it needs a trace", "it does not");
    stage.device.execution_trace().ok_or_else(missing)
}

fn records_say_what_ran(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let (buffer, host) = (stage.buffer(1024)?, stage.host(&[1; 16])?);
    trace(&stage)?.start(100);
    accepted(fill_word(&queue, &buffer, 0))?;
    accepted(send(&queue, &host, &buffer, 0, 64))?;
    accepted(launch(&queue, &add, Grid::linear(1), &[&buffer], 1))?;
    finish(&queue)?;
    let (records, dropped) = trace(&stage)?.finish();
    ensure_eq(dropped, 0, "there was room")?;
    let seen: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r.queue,
                r.position.get(),
                r.operation,
                r.bytes,
                r.kernel.as_deref(),
            )
        })
        .collect();
    let id = queue.id();
    let expected = vec![
        (id, 1, Operation::Fill, 1024, None),
        (id, 2, Operation::CopyToDevice, 64, None),
        (id, 3, Operation::Launch, 0, Some(TestKernels::ADD)),
    ];
    ensure_eq(seen, expected, "one record a command")
}

fn host_functions_are_recorded(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let Some(host) = stage.device.host_functions() else {
        return Ok(());
    };
    trace(&stage)?.start(10);
    let mut function: Option<HostFunction> = Some(Box::new(|| {}));
    accepted(host.call(&*queue, &mut function, Location::caller()))?;
    finish(&queue)?;
    let (records, _) = trace(&stage)?.finish();
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.position.get(), r.operation))
        .collect();
    ensure_eq(
        seen,
        vec![(1, Operation::CallHost)],
        "a host function is a command that ended",
    )
}

fn records_of_one_queue_do_not_overlap(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b, buffer) = (stage.queue()?, stage.queue()?, stage.buffer(1 << 16)?);
    trace(&stage)?.start(1000);
    for word in 0..20 {
        accepted(fill_word(&a, &buffer, word))?;
        accepted(b.wait_for(&*a, a.submitted()))?;
    }
    finish(&b)?;
    let (records, _) = trace(&stage)?.finish();
    for queue in [&a, &b] {
        let own: Vec<_> = records.iter().filter(|r| r.queue == queue.id()).collect();
        ensure_eq(own.len(), 20, "every command left a record")?;
        ensure(
            own.iter().all(|r| r.start_ns <= r.end_ns),
            "a command ends after it starts",
        )?;
        let in_order = own.windows(2).all(|w| w[0].end_ns <= w[1].start_ns);
        ensure(in_order, "commands of one queue run one after the other")?;
    }
    Ok(())
}

fn a_trace_keeps_as_many_as_it_may(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    for (capacity, kept) in [(0, 0), (3, 3), (usize::MAX, 5)] {
        trace(&stage)?.start(capacity);
        for _ in 0..5 {
            accepted(fill_word(&queue, &buffer, 1))?;
        }
        finish(&queue)?;
        let (records, dropped) = trace(&stage)?.finish();
        ensure_eq(
            (records.len(), dropped),
            (kept, 5 - kept as u64),
            "kept and dropped",
        )?;
    }
    Ok(())
}

fn nothing_is_kept_outside_a_trace(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    accepted(fill_word(&queue, &buffer, 1))?;
    finish(&queue)?;
    let (records, dropped) = trace(&stage)?.finish();
    ensure_eq((records.len(), dropped), (0, 0), "nobody asked for a trace")
}
