//! Priorities, hardware queues, cores: what a queue is made with.

use crate::{
    drive::{fill_word, launch},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{
    ComputeUnitSet, ErrorKind, Grid, HardwareQueue, Placement, Priority, Queue, QueueOptions,
    ResourceKind,
};
use std::sync::Arc;

cases! { "placement":
    priorities_outside_the_range_are_refused [],
    every_priority_of_the_range_works [Priorities],
    a_queue_stays_where_it_is_put [],
    a_hardware_queue_that_is_not_there_is_refused [],
    least_loaded_spreads_queues [],
    an_exclusive_queue_is_alone_until_it_is_dropped [],
    exclusive_hardware_queues_run_out [],
    a_device_has_all_the_cores_it_counts [ComputeUnits],
    cores_that_are_not_there_are_refused [ComputeUnits],
    a_queue_limited_to_one_core_computes_the_same [ComputeUnits HostMemory],
}

fn create(stage: &Stage, options: &QueueOptions) -> Result<Arc<dyn Queue>, Failure> {
    Ok(stage.device.queues().create(options)?)
}

fn placed(placement: Placement) -> QueueOptions {
    QueueOptions {
        placement,
        ..QueueOptions::default()
    }
}

fn priorities_outside_the_range_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (highest, lowest) = match stage.device.priorities() {
        Some(range) => (range.highest.0, range.lowest.0),
        None => (0, 0),
    };
    ensure(highest <= lowest, "smaller is higher")?;
    for given in [i32::MIN, highest - 1, lowest + 1, i32::MAX] {
        let options = QueueOptions {
            priority: Priority(given),
            ..QueueOptions::default()
        };
        let invalid = ErrorKind::InvalidPriority {
            given,
            highest,
            lowest,
        };
        let result = stage.device.queues().create(&options);
        refused(
            result,
            |kind| *kind == invalid,
            "priorities are never clamped",
        )?;
    }
    Ok(())
}

fn every_priority_of_the_range_works(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let range = stage.device.priorities();
    let range =
        range.ok_or_else(|| Failure::new("facets do not change", "priorities went away"))?;
    ensure(
        range.contains(Priority::DEFAULT),
        "the default is in the range",
    )?;
    let buffer = stage.buffer(64)?;
    for number in range.highest.0..=range.lowest.0 {
        let priority = Priority(number);
        let queue = create(
            &stage,
            &QueueOptions {
                priority,
                ..QueueOptions::default()
            },
        )?;
        ensure_eq(
            queue.priority(),
            priority,
            "a queue has the priority it was made with",
        )?;
        accepted(fill_word(&queue, &buffer, 1))?;
        finish(&queue)?;
    }
    Ok(())
}

fn a_queue_stays_where_it_is_put(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let buffer = stage.buffer(64)?;
    for number in 0..stage.device.info().limits.hardware_queues.min(16) {
        let hardware = HardwareQueue(number);
        let queue = create(&stage, &placed(Placement::Explicit(hardware)))?;
        ensure_eq(
            queue.hardware_queue(),
            hardware,
            "a queue is where it was put",
        )?;
        accepted(fill_word(&queue, &buffer, 1))?;
        finish(&queue)?;
    }
    Ok(())
}

fn a_hardware_queue_that_is_not_there_is_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let count = stage.device.info().limits.hardware_queues;
    for number in [count, u32::MAX] {
        let invalid = ErrorKind::InvalidIndex {
            index: u64::from(number),
            limit: u64::from(count),
        };
        let options = placed(Placement::Explicit(HardwareQueue(number)));
        let result = stage.device.queues().create(&options);
        refused(
            result,
            |kind| *kind == invalid,
            "there is no such hardware queue",
        )?;
    }
    Ok(())
}

fn least_loaded_spreads_queues(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let count = stage.device.info().limits.hardware_queues.min(64);
    let mut queues = Vec::new();
    for round in 0..2 {
        for number in 0..count {
            let queue = stage.queue()?;
            let expected = HardwareQueue(number);
            ensure_eq(
                queue.hardware_queue(),
                expected,
                "the fewest queues, the lowest number",
            )?;
            queues.push(queue);
        }
        ensure_eq(queues.len(), (round + 1) * count as usize, "all were made")?;
    }
    queues.remove(0);
    let queue = stage.queue()?;
    ensure_eq(
        queue.hardware_queue(),
        HardwareQueue(0),
        "a dropped queue leaves its place",
    )
}

fn an_exclusive_queue_is_alone_until_it_is_dropped(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let count = stage.device.info().limits.hardware_queues;
    if count < 2 {
        return Ok(());
    }
    let alone = create(&stage, &placed(Placement::Exclusive))?;
    let hardware = alone.hardware_queue();
    let mut others = Vec::new();
    for _ in 0..count.min(64) {
        let other = stage.queue()?;
        ensure(
            other.hardware_queue() != hardware,
            "nobody is placed beside it",
        )?;
        others.push(other);
    }
    let onto = stage
        .device
        .queues()
        .create(&placed(Placement::Explicit(hardware)));
    let is_held = |kind: &ErrorKind| matches!(kind, ErrorKind::OutOfResources { .. });
    refused(onto, is_held, "nobody is put beside it")?;
    drop(alone);
    let next = create(&stage, &placed(Placement::Explicit(hardware)))?;
    ensure_eq(next.hardware_queue(), hardware, "its place is free again")
}

fn exclusive_hardware_queues_run_out(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let count = stage.device.info().limits.hardware_queues;
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(create(&stage, &placed(Placement::Exclusive))?);
    }
    let exhausted = ErrorKind::OutOfResources {
        resource: ResourceKind::HardwareQueues,
        limit: u64::from(count),
    };
    for placement in [Placement::Exclusive, Placement::LeastLoaded] {
        let result = stage.device.queues().create(&placed(placement));
        refused(
            result,
            |kind| *kind == exhausted,
            "all hardware queues are held",
        )?;
    }
    held.pop();
    create(&stage, &placed(Placement::Exclusive)).map(drop)
}

fn a_device_has_all_the_cores_it_counts(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let units = stage.device.compute_units();
    let units = units.ok_or_else(|| Failure::new("facets do not change", "cores went away"))?;
    let counted: u32 = units.counts().iter().map(|(_, count)| count).sum();
    ensure(counted > 0, "there is a core")?;
    ensure_eq(
        units.all().count(),
        counted,
        "the set of all has as many as are counted",
    )
}

fn cores_that_are_not_there_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let all = stage
        .device
        .compute_units()
        .map_or(0, |units| units.all().0);
    let mut wrong = vec![0];
    if all != u64::MAX {
        wrong.extend([u64::MAX, !all, all | 1 << 63]);
    }
    for set in wrong {
        let options = QueueOptions {
            compute_units: Some(ComputeUnitSet(set)),
            ..QueueOptions::default()
        };
        let result = stage.device.queues().create(&options);
        let is_reason = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidIndex { .. });
        refused(result, is_reason, "a queue runs on cores there are")?;
    }
    Ok(())
}

fn a_queue_limited_to_one_core_computes_the_same(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let options = QueueOptions {
        compute_units: Some(ComputeUnitSet(1)),
        ..QueueOptions::default()
    };
    let (queue, add) = (create(&stage, &options)?, stage.kernel(TestKernels::ADD)?);
    let words = TestKernels::BLOCK as usize * 8;
    let buffer = stage.buffer(words as u64 * 4)?;
    accepted(fill_word(&queue, &buffer, 1))?;
    accepted(launch(&queue, &add, Grid::linear(8), &[&buffer], 2))?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&buffer, words)?,
        vec![3; words],
        "all blocks ran, on one core",
    )
}
