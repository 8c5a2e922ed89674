//! Drivers, open devices, the error slot.

use crate::{
    outcome::{Checked, ensure, ensure_eq, refused},
    stage::Stage,
    subject::Subject,
};
use piton_driver::{DeviceId, DriverError, ErrorKind, Operation};

cases! { "device":
    a_device_past_the_last_is_refused [],
    opening_twice_gives_the_same_device [],
    a_device_says_what_it_is [],
    the_first_recorded_error_stays_until_taken [],
}

fn a_device_past_the_last_is_refused(subject: &Subject) -> Checked {
    let driver = subject.open()?;
    let count = driver.device_count();
    ensure(count > 0, "there is a device")?;
    for id in [count, u32::MAX] {
        let is_reason = |kind: &ErrorKind| {
            let (index, limit) = (u64::from(id), u64::from(count));
            *kind == ErrorKind::InvalidIndex { index, limit }
        };
        refused(
            driver.open(DeviceId(id)),
            is_reason,
            "ids past the last are refused",
        )?;
    }
    Ok(())
}

fn opening_twice_gives_the_same_device(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let again = stage.driver.open(DeviceId(0))?;
    let buffer = stage.buffer(1)?;
    let (here, there) = (stage.device.memory().usage()?, again.memory().usage()?);
    ensure_eq(there, here, "both handles see one memory")?;
    again.record_error(example(1));
    ensure_eq(
        stage.device.take_error(),
        Some(example(1)),
        "both handles see one error slot",
    )?;
    Ok(buffer.free()?)
}

fn a_device_says_what_it_is(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let info = stage.device.info();
    ensure_eq(info.id, DeviceId(0), "a device knows its id")?;
    ensure(!info.name.is_empty(), "a device has a name")?;
    ensure(info.memory_bytes > 0, "a device has memory")?;
    let limits = info.limits;
    let counts = [limits.queues, limits.hardware_queues, limits.queue_commands];
    ensure(
        counts.iter().all(|count| *count > 0),
        "limits are above zero",
    )?;
    ensure(
        limits.grid_blocks > 0 && limits.copy_bytes > 0,
        "limits are above zero",
    )?;
    ensure_eq(stage.device.status(), Ok(()), "a fresh device works")
}

fn the_first_recorded_error_stays_until_taken(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    ensure_eq(
        stage.device.take_error(),
        None,
        "the slot is empty at first",
    )?;
    stage.device.record_error(example(1));
    stage.device.record_error(example(2));
    ensure_eq(
        stage.device.take_error(),
        Some(example(1)),
        "the first error stays",
    )?;
    ensure_eq(stage.device.take_error(), None, "taking empties the slot")
}

fn example(handle: u64) -> DriverError {
    let kind = ErrorKind::UnknownHandle { handle };
    DriverError::new(kind, Operation::DestroyPhysical, DeviceId(0))
}
