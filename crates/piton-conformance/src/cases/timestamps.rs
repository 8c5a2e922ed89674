//! The device's clock.

use crate::{
    drive::fill_word,
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{Admission, DeviceId, ErrorKind, Timestamps};

cases! { "timestamps":
    the_clock_never_falls [Timestamps],
    slots_are_empty_until_written [Timestamps],
    times_of_one_queue_are_in_order [Timestamps],
    slots_that_are_not_there_are_refused [Timestamps],
    pools_of_no_slots_are_refused [Timestamps],
    a_full_queue_leaves_the_slot_alone [Timestamps Semaphores],
    a_pool_of_another_driver_is_foreign [Timestamps],
    a_pool_of_another_device_is_foreign [Timestamps Peers],
}

#[track_caller]
fn clock(stage: &Stage) -> Result<&dyn Timestamps, Failure> {
    let missing = || Failure::new("the case says it needs timestamps", "it does not");
    stage.device.timestamps().ok_or_else(missing)
}

fn the_clock_never_falls(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    ensure(clock(&stage)?.resolution() > 0, "the clock has a step")?;
    let mut last = 0;
    for _ in 0..1000 {
        let now = clock(&stage)?.now();
        ensure(now >= last, "the clock never falls")?;
        last = now;
    }
    Ok(())
}

fn slots_are_empty_until_written(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let pool = clock(&stage)?.create(3)?;
    ensure_eq(
        (pool.len(), pool.is_empty()),
        (3, false),
        "a pool has the slots asked for",
    )?;
    accepted(queue.write_timestamp(&pool, 1))?;
    finish(&queue)?;
    let written = [pool.read(0)?, pool.read(1)?, pool.read(2)?].map(|time| time.is_some());
    ensure_eq(written, [false, true, false], "one slot was written")
}

fn times_of_one_queue_are_in_order(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(1 << 16)?);
    let before = clock(&stage)?.now();
    let pool = clock(&stage)?.create(10)?;
    for index in 0..10 {
        accepted(fill_word(&queue, &buffer, index))?;
        accepted(queue.write_timestamp(&pool, index))?;
    }
    finish(&queue)?;
    let mut times = vec![before];
    for index in 0..10 {
        times.extend(pool.read(index)?);
    }
    times.push(clock(&stage)?.now());
    ensure_eq(times.len(), 12, "every slot was written")?;
    ensure(
        times.is_sorted(),
        "times are in order, within the clock before and after",
    )
}

fn slots_that_are_not_there_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let pool = clock(&stage)?.create(3)?;
    for index in [3, u32::MAX] {
        let invalid = ErrorKind::InvalidIndex {
            index: u64::from(index),
            limit: 3,
        };
        refused(
            pool.read(index),
            |kind| *kind == invalid,
            "no such slot to read",
        )?;
        let written = queue.write_timestamp(&pool, index);
        refused(written, |kind| *kind == invalid, "no such slot to write")?;
    }
    ensure_eq(
        queue.submitted().get(),
        0,
        "a refused command takes no position",
    )
}

fn pools_of_no_slots_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { .. });
    for slots in [0, u32::MAX] {
        refused(
            clock(&stage)?.create(slots),
            is_reason,
            "a pool has some slots, and not too many",
        )?;
    }
    Ok(())
}

fn a_full_queue_leaves_the_slot_alone(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    let pool = clock(&stage)?.create(1)?;
    accepted(queue.write_timestamp(&pool, 0))?;
    finish(&queue)?;
    let (blocked, buffer) = (stage.queue()?, stage.buffer(64)?);
    let gate = crate::cases::queues::Gate::close(&stage, &blocked)?;
    let before = pool.read(0)?;
    while let Admission::Accepted(_) = fill_word(&blocked, &buffer, 0)? {}
    let admission = blocked.write_timestamp(&pool, 0)?;
    ensure_eq(admission, Admission::Full, "the queue is full")?;
    ensure_eq(
        pool.read(0)?,
        before,
        "a command that was not taken changes nothing",
    )?;
    gate.open()?;
    finish(&blocked)
}

fn is_foreign(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::ForeignObject { .. })
}

fn a_pool_of_another_driver_is_foreign(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let (queue, foreign_queue) = (stage.queue()?, other.queue()?);
    let (own, foreign) = (clock(&stage)?.create(1)?, clock(&other)?.create(1)?);
    refused(
        queue.write_timestamp(&foreign, 0),
        is_foreign,
        "a foreign pool",
    )?;
    refused(
        foreign_queue.write_timestamp(&own, 0),
        is_foreign,
        "a foreign queue",
    )
}

fn a_pool_of_another_device_is_foreign(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let second = stage.driver.open(DeviceId(1))?;
    let Some(times) = second.timestamps() else {
        return Ok(());
    };
    let (foreign, queue) = (times.create(1)?, stage.queue()?);
    let result = queue.write_timestamp(&foreign, 0);
    refused(result, is_foreign, "another device's pool is foreign")
}
