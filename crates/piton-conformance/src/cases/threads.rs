//! Many host threads at once.

use crate::{
    cases::wakers::join,
    drive::{DeviceBuffer, HostBuffer, fetch, fill_word, launch},
    outcome::{Checked, accepted, ensure, ensure_eq},
    stage::{Stage, end, finish},
    subject::{Subject, TestKernels},
};
use piton_driver::{Admission, Grid, Position, Queue};
use piton_sync::{Mutex, thread};
use std::sync::Arc;

const THREADS: u32 = 4;

cases! { "threads":
    threads_with_queues_of_their_own_do_not_disturb_each_other [HostMemory],
    threads_share_a_queue_and_every_position_is_given_once [HostMemory],
    threads_order_their_queues_on_each_other [HostMemory],
    threads_allocate_and_free_at_once [],
}

fn threads_with_queues_of_their_own_do_not_disturb_each_other(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let mut threads = Vec::new();
    for n in 0..THREADS {
        let (device, queue) = (Arc::clone(&stage.device), stage.queue()?);
        let add = stage.kernel(TestKernels::ADD)?;
        threads.push(thread::spawn(move || -> Checked {
            let (buffer, host) = (
                DeviceBuffer::new(&device, 1024)?,
                HostBuffer::new(&device, &[0; 256])?,
            );
            for round in 0..20 {
                accepted(fill_word(&queue, &buffer, n * 1000))?;
                for _ in 0..5 {
                    accepted(launch(&queue, &add, Grid::linear(1), &[&buffer], round))?;
                }
                accepted(fetch(&queue, &buffer, 0, &host, 1024))?;
                finish(&queue)?;
                let expected = vec![n * 1000 + 5 * round; 256];
                ensure_eq(host.words()?, expected, "each thread sees its own work")?;
            }
            Ok(())
        }));
    }
    join(threads)
}

/// Submits until taken: waits for the front when the queue is full.
fn insist(
    queue: &Arc<dyn Queue>,
    submit: impl Fn() -> Result<Admission, piton_driver::DriverError>,
) -> Result<Position, crate::Failure> {
    loop {
        match submit()? {
            Admission::Accepted(position) => return Ok(position),
            // All of it may have ended since: then there is room, and nothing to wait for.
            Admission::Full => {
                let next = Position::new(queue.completed().get() + 1);
                end(queue, next.min(queue.submitted()))?;
            }
        }
    }
}

fn threads_share_a_queue_and_every_position_is_given_once(subject: &Subject) -> Checked {
    const EACH: u64 = 600;
    let stage = Stage::open(subject)?;
    let (queue, add) = (stage.queue()?, stage.kernel(TestKernels::ADD)?);
    let total = stage.buffer(1024)?;
    accepted(fill_word(&queue, &total, 0))?;
    let positions = Arc::new(Mutex::new(vec![queue.submitted().get()]));
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let (device, queue, add) = (
            Arc::clone(&stage.device),
            Arc::clone(&queue),
            Arc::clone(&add),
        );
        let (positions, start, bytes) = (Arc::clone(&positions), total.start(), total.bytes());
        threads.push(thread::spawn(move || -> Checked {
            let buffer = DeviceBuffer::at_mapping(&device, start, bytes);
            for _ in 0..EACH {
                let position = insist(&queue, || {
                    launch(&queue, &add, Grid::linear(1), &[&buffer], 1)
                })?;
                positions.lock().push(position.get());
            }
            Ok(())
        }));
    }
    join(threads)?;
    finish(&queue)?;
    let mut given = positions.lock().clone();
    given.sort_unstable();
    let count = 1 + u64::from(THREADS) * EACH;
    let expected: Vec<u64> = (1..=count).collect();
    ensure(given == expected, "every position was given once")?;
    let sum = THREADS * u32::try_from(EACH).unwrap_or(0);
    ensure_eq(
        stage.words(&total, 256)?,
        vec![sum; 256],
        "every command ran once",
    )
}

fn threads_order_their_queues_on_each_other(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let mut queues = Vec::new();
    for _ in 0..THREADS {
        queues.push(stage.queue()?);
    }
    let mut threads = Vec::new();
    for n in 0..THREADS as usize {
        let (device, queues) = (Arc::clone(&stage.device), queues.clone());
        threads.push(thread::spawn(move || -> Checked {
            let (own, next) = (&queues[n], &queues[(n + 1) % queues.len()]);
            let buffer = DeviceBuffer::new(&device, 64)?;
            for round in 0..200 {
                insist(own, || own.wait_for(&**next, next.submitted()))?;
                insist(own, || fill_word(own, &buffer, round))?;
            }
            finish(own)
        }));
    }
    join(threads)
}

fn threads_allocate_and_free_at_once(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let before = crate::drive::free_bytes(&*stage.device)?;
    let threads = (0..THREADS).map(|_| {
        let device = Arc::clone(&stage.device);
        thread::spawn(move || -> Checked {
            let queue = device
                .queues()
                .create(&piton_driver::QueueOptions::default())?;
            for word in 0..50 {
                let (a, b) = (
                    DeviceBuffer::new(&device, 64)?,
                    DeviceBuffer::new(&device, 64)?,
                );
                ensure(!a.range().overlaps(b.range()), "allocations are disjoint")?;
                accepted(fill_word(&queue, &a, word))?;
                accepted(fill_word(&queue, &b, word))?;
                finish(&queue)?;
                a.free()?;
                b.free()?;
            }
            Ok(())
        })
    });
    join(threads.collect())?;
    let after = crate::drive::free_bytes(&*stage.device)?;
    ensure_eq(after, before, "everything came back")
}
