//! Order, positions, room.

use crate::{
    drive::{copy, fetch, fill_word, launch, send},
    outcome::{Checked, Failure, accepted, ensure, ensure_eq, refused},
    stage::{Stage, end, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{Admission, ErrorKind, Grid, Position, QueueOptions, SignalledBy, WaitOutcome};
use std::time::Instant;

cases! { "queues":
    a_fresh_queue_is_at_the_start [],
    positions_count_from_one [],
    queues_have_names_of_their_own [],
    commands_of_one_queue_run_in_order [HostMemory],
    kernels_and_copies_of_one_queue_run_in_order [HostMemory],
    completed_grows_and_never_passes_submitted [],
    what_has_ended_stays_ended [],
    a_position_never_given_out_is_unknown [],
    a_wait_gives_up_at_its_deadline [Semaphores],
    a_full_queue_says_so_and_has_room_again [Semaphores],
    a_queue_holds_as_many_commands_as_it_was_asked_to [],
    more_commands_than_a_device_allows_are_refused [],
    a_queue_nobody_waits_for_runs_by_itself [],
    flushing_starts_and_does_not_wait [Semaphores],
}

fn a_fresh_queue_is_at_the_start(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let queue = stage.queue()?;
    ensure_eq(queue.submitted(), Position::START, "nothing was submitted")?;
    ensure_eq(queue.completed(), Position::START, "nothing has ended")?;
    ensure_eq(queue.failure().is_none(), true, "nothing has failed")?;
    ensure_eq(
        queue.device(),
        stage.device.info().id,
        "a queue knows its device",
    )?;
    let hardware = queue.hardware_queue().0;
    ensure(
        hardware < stage.device.info().limits.hardware_queues,
        "a queue is on hardware there is",
    )?;
    ensure_eq(
        queue.wait(Position::START, None)?,
        WaitOutcome::Reached,
        "the start is reached",
    )
}

fn positions_count_from_one(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (a, b, buffer) = (stage.queue()?, stage.queue()?, stage.buffer(64)?);
    for n in 1..=5 {
        for queue in [&a, &b] {
            let position = accepted(fill_word(queue, &buffer, 0))?;
            ensure_eq(
                position,
                Position::new(n),
                "the n-th command has position n",
            )?;
            ensure_eq(
                queue.submitted(),
                position,
                "submitted is the last position",
            )?;
            end(queue, position)?;
        }
    }
    Ok(())
}

fn queues_have_names_of_their_own(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let mut ids = Vec::new();
    for _ in 0..10 {
        // Dropped at once: a name is not used again.
        ids.push(stage.queue()?.id());
    }
    ids.sort_unstable();
    ids.dedup();
    ensure_eq(ids.len(), 10, "no two queues have one name")
}

fn commands_of_one_queue_run_in_order(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, a, b) = (stage.queue()?, stage.buffer(4096)?, stage.buffer(4096)?);
    for word in 0..100 {
        accepted(fill_word(&queue, &a, word))?;
        accepted(copy(&queue, (&b, u64::from(word) * 4), (&a, 0), 4))?;
    }
    finish(&queue)?;
    let expected: Vec<u32> = (0..100).collect();
    ensure_eq(
        stage.words(&b, 100)?,
        expected,
        "each copy saw the fill before it",
    )
}

fn kernels_and_copies_of_one_queue_run_in_order(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let add = stage.kernel(TestKernels::ADD)?;
    let words = TestKernels::BLOCK as usize;
    let (queue, buffer) = (stage.queue()?, stage.buffer(words as u64 * 4)?);
    let (host, back) = (stage.host(&vec![5; words])?, stage.host(&vec![0; words])?);
    for _ in 0..10 {
        accepted(send(&queue, &host, &buffer, 0, words as u64 * 4))?;
        accepted(launch(&queue, &add, Grid::linear(1), &[&buffer], 3))?;
        accepted(fetch(&queue, &buffer, 0, &back, words as u64 * 4))?;
        accepted(launch(&queue, &add, Grid::linear(1), &[&buffer], 100))?;
    }
    finish(&queue)?;
    ensure_eq(
        back.words()?,
        vec![8; words],
        "a copy, a kernel, a copy, a kernel",
    )
}

fn completed_grows_and_never_passes_submitted(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let mut last = Position::START;
    for _ in 0..100 {
        accepted(fill_word(&queue, &buffer, 1))?;
        let now = queue.completed();
        ensure(now >= last, "completed never falls")?;
        ensure(
            now <= queue.submitted(),
            "completed does not pass submitted",
        )?;
        last = now;
    }
    finish(&queue)?;
    ensure_eq(
        queue.completed(),
        queue.submitted(),
        "in the end all has ended",
    )
}

fn what_has_ended_stays_ended(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    for _ in 0..3 {
        accepted(fill_word(&queue, &buffer, 1))?;
    }
    finish(&queue)?;
    let past = Some(Instant::now());
    for n in 0..=3 {
        let outcome = queue.wait(Position::new(n), past)?;
        ensure_eq(
            outcome,
            WaitOutcome::Reached,
            "an ended position beats a passed deadline",
        )?;
    }
    Ok(())
}

fn a_position_never_given_out_is_unknown(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let submitted = accepted(fill_word(&queue, &buffer, 1))?;
    for position in [Position::new(2), Position::new(u64::MAX)] {
        let unknown = ErrorKind::UnknownPosition {
            position,
            submitted,
        };
        let is_reason = |kind: &ErrorKind| *kind == unknown;
        refused(
            queue.wait(position, None),
            is_reason,
            "waiting for it is refused",
        )?;
        let waker = std::task::Waker::noop();
        refused(
            queue.notify(position, waker),
            is_reason,
            "asking to be woken is refused",
        )?;
        refused(
            stage.queue()?.wait_for(&*queue, position),
            is_reason,
            "ordering on it is refused",
        )?;
    }
    finish(&queue)
}

fn a_wait_gives_up_at_its_deadline(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let gate = Gate::close(&stage, &queue)?;
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    let outcome = queue.wait(position, Some(Instant::now()))?;
    ensure_eq(
        outcome,
        WaitOutcome::DeadlinePassed,
        "the deadline came first",
    )?;
    ensure(queue.completed() < position, "a deadline ends nothing")?;
    gate.open()?;
    finish(&queue)
}

fn a_full_queue_says_so_and_has_room_again(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let limit = queue.capacity();
    let gate = Gate::close(&stage, &queue)?;
    let mut last = queue.submitted();
    while let Admission::Accepted(position) = fill_word(&queue, &buffer, 1)? {
        ensure_eq(position.get(), last.get() + 1, "positions have no holes")?;
        ensure(
            position.get() <= limit,
            "a queue holds no more than it says",
        )?;
        last = position;
    }
    ensure_eq(last.get(), limit, "a queue holds as many as it says")?;
    ensure_eq(
        queue.submitted(),
        last,
        "a refused command takes no position",
    )?;
    gate.open()?;
    end(&queue, Position::new(1))?;
    let position = accepted(fill_word(&queue, &buffer, 2))?;
    ensure_eq(position.get(), limit + 1, "positions go on")?;
    finish(&queue)
}

fn holding(commands: u32) -> QueueOptions {
    QueueOptions {
        commands: Some(commands),
        ..QueueOptions::default()
    }
}

fn a_queue_holds_as_many_commands_as_it_was_asked_to(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let most = stage.device.info().limits.queue_commands;
    for commands in [1, 5, most] {
        let queue = stage.device.queues().create(&holding(commands))?;
        let at_most = u64::from(commands).next_power_of_two();
        ensure(
            queue.capacity() >= commands.into(),
            "there is room for them",
        )?;
        ensure(queue.capacity() <= at_most, "up to a power of two")?;
    }
    let usual = stage.queue()?.capacity();
    ensure(
        (1..=u64::from(most)).contains(&usual),
        "a queue that says nothing is within the limit",
    )
}

fn more_commands_than_a_device_allows_are_refused(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let most = stage.device.info().limits.queue_commands;
    let too_many = most.checked_add(1);
    for commands in [Some(0), too_many, Some(u32::MAX)].into_iter().flatten() {
        if commands == most {
            continue;
        }
        let (bytes, maximum) = (commands.into(), most.into());
        let invalid = ErrorKind::InvalidSize { bytes, maximum };
        refused(
            stage.device.queues().create(&holding(commands)),
            |kind| *kind == invalid,
            "a number of commands is never clamped",
        )?;
    }
    Ok(())
}

fn a_queue_nobody_waits_for_runs_by_itself(subject: &Subject) -> Checked {
    /// Polls before the case gives up; each yields the processor.
    const POLLS: u32 = 1_000_000;
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    for _ in 0..POLLS {
        if queue.completed() >= position {
            return Ok(());
        }
        piton_sync::thread::yield_now();
    }
    Err(Failure::new(
        "work runs although nobody waits",
        "it did not end",
    ))
}

fn flushing_starts_and_does_not_wait(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (queue, buffer) = (stage.queue()?, stage.buffer(64)?);
    queue.flush()?;
    let gate = Gate::close(&stage, &queue)?;
    let position = accepted(fill_word(&queue, &buffer, 1))?;
    queue.flush()?;
    ensure(queue.completed() < position, "a flush does not open a gate")?;
    gate.open()?;
    finish(&queue)
}

/// A semaphore that a queue waits for: nothing behind it runs before it is opened.
pub(crate) struct Gate(std::sync::Arc<dyn piton_driver::Semaphore>);

impl Gate {
    #[track_caller]
    pub(crate) fn close(
        stage: &Stage,
        queue: &std::sync::Arc<dyn piton_driver::Queue>,
    ) -> Result<Self, Failure> {
        let semaphores = stage.device.semaphores();
        let missing = || Failure::new("the case says it needs semaphores", "it does not");
        let semaphores = semaphores.ok_or_else(missing)?;
        let semaphore = semaphores.create(0, SignalledBy::Anyone)?;
        accepted(queue.wait_semaphore(&semaphore, 1))?;
        Ok(Self(semaphore))
    }

    #[track_caller]
    pub(crate) fn open(&self) -> Checked {
        Ok(self.0.signal(1)?)
    }
}

impl Drop for Gate {
    /// A case that fails must not leave a queue waiting for ever: buffers wait for it.
    fn drop(&mut self) {
        if self.0.value() == 0 {
            let _ = self.0.signal(1);
        }
    }
}
