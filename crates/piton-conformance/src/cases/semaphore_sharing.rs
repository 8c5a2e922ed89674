//! Semaphores between processes, as far as one process can try it: what it exported it imports itself.

use crate::{
    drive::fill_word,
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{ErrorKind, ExportedSemaphore, SemaphoreSharing, SignalledBy};

cases! { "semaphore sharing":
    an_imported_semaphore_is_the_one_that_was_exported [SemaphoreSharing],
    a_queue_waits_for_what_another_process_may_signal [SemaphoreSharing HostMemory],
    queues_meet_at_a_semaphore_that_each_has_its_own_import_of [SemaphoreSharing HostMemory],
    an_import_outlives_what_was_exported_and_is_exported_again [SemaphoreSharing],
    only_semaphores_created_for_it_are_exported [SemaphoreSharing Semaphores],
    what_is_no_semaphore_is_not_imported [SemaphoreSharing],
}

#[track_caller]
fn sharing(stage: &Stage) -> Result<&dyn SemaphoreSharing, Failure> {
    let missing = || Failure::new("facets do not change", "semaphore sharing went away");
    stage.device.semaphore_sharing().ok_or_else(missing)
}

fn an_imported_semaphore_is_the_one_that_was_exported(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let sharing = sharing(&stage)?;
    let own = sharing.create(7)?;
    let imported = sharing.import(&sharing.export(&*own)?)?;
    ensure_eq(
        (own.value(), imported.value()),
        (7, 7),
        "both start where the semaphore was",
    )?;
    imported.signal(9)?;
    ensure_eq(own.value(), 9, "its exporter sees what an import signalled")?;
    own.signal(11)?;
    ensure_eq(imported.value(), 11, "and the other way round")?;
    for (semaphore, given) in [(&own, 11), (&imported, 10)] {
        let expected = ErrorKind::NotMonotonic { current: 11, given };
        refused(
            semaphore.signal(given),
            |kind| *kind == expected,
            "it never falls, whoever signals",
        )?;
    }
    Ok(())
}

fn a_queue_waits_for_what_another_process_may_signal(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let sharing = sharing(&stage)?;
    let own = sharing.create(0)?;
    let other = sharing.import(&sharing.export(&*own)?)?;
    accepted(fill_word(&queue, &buffer, 1))?;
    accepted(queue.wait_semaphore(&own, 5))?;
    let last = accepted(fill_word(&queue, &buffer, 2))?;
    // Nobody here can signal it any more, and that is no deadlock: others can.
    drop(own);
    other.signal(4)?;
    ensure(queue.completed() < last, "four is not five")?;
    other.signal(6)?;
    finish(&queue)?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![2; 16],
        "a higher value lets through",
    )
}

fn queues_meet_at_a_semaphore_that_each_has_its_own_import_of(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b, buffer) = (stage.queue()?, stage.queue()?, stage.buffer(64)?);
    let sharing = sharing(&stage)?;
    let own = sharing.create(0)?;
    let other = sharing.import(&sharing.export(&*own)?)?;
    for turn in 0..20 {
        let word = u32::try_from(turn).unwrap_or(0);
        accepted(a.wait_semaphore(&own, 2 * turn))?;
        accepted(fill_word(&a, &buffer, 2 * word))?;
        accepted(a.signal_semaphore(&own, 2 * turn + 1))?;
        accepted(b.wait_semaphore(&other, 2 * turn + 1))?;
        accepted(fill_word(&b, &buffer, 2 * word + 1))?;
        accepted(b.signal_semaphore(&other, 2 * turn + 2))?;
    }
    finish(&b)?;
    finish(&a)?;
    ensure_eq(
        (own.value(), other.value()),
        (40, 40),
        "all signals were given",
    )?;
    ensure_eq(
        stage.words(&buffer, 16)?,
        vec![39; 16],
        "the last turn wrote last",
    )
}

fn an_import_outlives_what_was_exported_and_is_exported_again(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let sharing = sharing(&stage)?;
    let own = sharing.create(1)?;
    let exported = sharing.export(&*own)?;
    let (first, second) = (sharing.import(&exported)?, sharing.import(&exported)?);
    drop((own, exported));
    first.signal(2)?;
    let third = sharing.import(&sharing.export(&*second)?)?;
    drop(second);
    third.signal(3)?;
    ensure_eq(first.value(), 3, "whoever has it has the same")
}

fn only_semaphores_created_for_it_are_exported(subject: &Subject) -> Checked {
    let (stage, other) = (Stage::open(subject)?, Stage::open(subject)?);
    let semaphores = stage.device.semaphores();
    let semaphores = semaphores.ok_or_else(|| Failure::new("facets do not change", "one did"))?;
    let plain = semaphores.create(0, SignalledBy::Anyone)?;
    refused(
        sharing(&stage)?.export(&*plain),
        |kind| *kind == ErrorKind::PrivateSemaphore,
        "it was not created for that",
    )?;
    let foreign = sharing(&other)?.create(0)?;
    refused(
        sharing(&stage)?.export(&*foreign),
        |kind| matches!(kind, ErrorKind::ForeignObject { .. }),
        "another driver's is its own to export",
    )
}

fn what_is_no_semaphore_is_not_imported(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    refused(
        sharing(&stage)?.import(&stranger()?),
        |kind| *kind == ErrorKind::NotASemaphore,
        "another thing of the system's is no semaphore",
    )
}

/// Something else of the kind that exports are.
#[cfg(unix)]
fn stranger() -> Result<ExportedSemaphore, Failure> {
    let other = std::fs::File::open("/dev/null");
    let other = other.map_err(|error| Failure::new("a file opens", error.to_string()))?;
    Ok(ExportedSemaphore::Descriptor(other.into()))
}

/// Something else of the kind that exports are.
#[cfg(not(unix))]
fn stranger() -> Result<ExportedSemaphore, Failure> {
    Err(Failure::new("exports are descriptors", "there are none"))
}
