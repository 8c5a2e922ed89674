//! What it costs the submitting thread to hand a task over.
//!
//! - *behind*: the worker does not take tasks meanwhile; the stream waits for a gate that is opened afterwards.
//! - *racing*: the worker takes tasks as they come, and the two share the ring's cache lines.
//! - *by two*: two threads submit to one stream at once, behind.

use crate::{
    device::{Rig, launch},
    measure::{Effort, Samples, sample},
    naive::{Lane, Measured, Runtime},
    session::Session,
};
use piton_driver::Kernel;
use piton_stream::Stream;
use piton_sync::thread;
use std::{
    hint::{black_box, spin_loop},
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
};

const BATCH: u32 = 16;
/// Batches between two openings of the gate: 128 launches of 256 bytes fit into any ring.
const BATCHES: usize = 8;
/// Tasks that go ahead, so that the worker is at work when timing starts.
const AHEAD: u64 = 16;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    session.compare(
        "enqueue, 16 B, worker behind",
        Some(25.0),
        |rig| Shared(rig, &rig.takes_16).behind(effort, &[7; 16]),
        &Behind::<16>(effort),
    );
    session.compare(
        "enqueue, 16 B, worker racing",
        Some(150.0),
        |rig| Shared(rig, &rig.takes_16).racing(effort, &[7; 16]),
        &Racing::<16>(effort),
    );
    session.compare(
        "enqueue, 256 B, worker behind",
        Some(45.0),
        |rig| Shared(rig, &rig.takes_256).behind(effort, &[7; 256]),
        &Behind::<256>(effort),
    );
    session.compare(
        "enqueue, shared stream",
        Some(60.0),
        |rig| Shared(rig, &rig.takes_16).behind(effort, &[7; 16]),
        &Behind::<16>(effort),
    );
    session.compare(
        "enqueue, shared by two threads",
        None,
        |rig| Shared(rig, &rig.takes_16).by_two(effort, &[7; 16]),
        &ByTwo::<16>(effort),
    );
}

/// Launches through `&Stream`, which any thread may do.
struct Shared<'a>(&'a Rig, &'a Arc<dyn Kernel>);

impl Shared<'_> {
    fn behind(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let (stream, mut gate) = (rig.stream(), rig.gate());
        sample(effort, BATCH, |samples| {
            gate.hold([&stream]);
            for _ in 0..BATCHES {
                samples.time(|| launch(&stream, kernel, black_box(arguments)));
            }
            gate.open();
            crate::device::must(stream.synchronize());
        })
    }

    fn racing(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let stream = rig.stream();
        sample(effort, BATCH, |samples| {
            go_ahead(&stream, || launch(&stream, kernel, arguments));
            for _ in 0..BATCHES {
                samples.time(|| launch(&stream, kernel, black_box(arguments)));
            }
            crate::device::must(stream.synchronize());
        })
    }

    fn by_two(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let (stream, mut gate) = (rig.stream(), rig.gate());
        let submit = || launch(&stream, kernel, black_box(arguments));
        sample(effort, BATCH, |samples| {
            gate.hold([&stream]);
            beside_another(samples, submit);
            gate.open();
            crate::device::must(stream.synchronize());
        })
    }
}

/// Submits until a worker has begun to take what was submitted.
fn go_ahead(stream: &Stream, mut submit: impl FnMut()) {
    for _ in 0..AHEAD {
        submit();
    }
    crate::device::must(stream.flush());
    while stream.depth() >= AHEAD {
        spin_loop();
    }
}

/// Times `submit` on this thread while another one does the same.
fn beside_another(samples: &mut Samples, submit: impl Fn() + Sync) {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for _ in 0..BATCHES * BATCH as usize {
                submit();
            }
        });
        start.wait();
        for _ in 0..BATCHES {
            samples.time(&submit);
        }
    });
}

/// A task with so many bytes of arguments, not taken meanwhile.
struct Behind<const BYTES: usize>(Effort);

impl<const BYTES: usize> Measured for Behind<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        Some(sample(self.0, BATCH, |samples| {
            let gate = runtime.hold(&lane);
            for _ in 0..BATCHES {
                samples.time(|| spawn_with(&lane, black_box(arguments)));
            }
            gate.set();
            lane.synchronize();
        }))
    }
}

/// The same, taken as it comes.
struct Racing<const BYTES: usize>(Effort);

impl<const BYTES: usize> Measured for Racing<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        let taken = Arc::new(AtomicU64::new(0));
        Some(sample(self.0, BATCH, |samples| {
            taken.store(0, Ordering::Relaxed);
            for _ in 0..AHEAD {
                let taken = Arc::clone(&taken);
                lane.spawn(move || {
                    taken.fetch_add(1, Ordering::Relaxed);
                });
            }
            while taken.load(Ordering::Relaxed) == 0 {
                spin_loop();
            }
            for _ in 0..BATCHES {
                samples.time(|| spawn_with(&lane, black_box(arguments)));
            }
            lane.synchronize();
        }))
    }
}

/// The same from two threads.
struct ByTwo<const BYTES: usize>(Effort);

impl<const BYTES: usize> Measured for ByTwo<BYTES> {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        let arguments = [7_u8; BYTES];
        Some(sample(self.0, BATCH, |samples| {
            let gate = runtime.hold(&lane);
            beside_another(samples, || spawn_with(&lane, black_box(arguments)));
            gate.set();
            lane.synchronize();
        }))
    }
}

fn spawn_with<const BYTES: usize>(lane: &impl Lane, arguments: [u8; BYTES]) {
    lane.spawn(move || {
        black_box(arguments);
    });
}
