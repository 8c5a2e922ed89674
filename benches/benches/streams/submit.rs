//! What it costs the submitting thread to hand a task over.
//!
//! - *behind*: the worker does not take tasks meanwhile; the stream waits for a gate that is opened afterwards.
//! - *racing*: the worker takes tasks as they come, and the two share the ring's cache lines.
//! - *writer*: one producer has the queue for itself. *shared*: any thread may submit, through `&Stream`.
//! - *by two*: two threads submit to one shared stream at once, behind.

use crate::{
    device::{Rig, launch, must},
    measure::{Effort, Samples, sample},
    session::Session,
    submit_naive::{Behind, ByTwo, Racing},
    writer,
};
use piton_driver::Kernel;
use piton_stream::Stream;
use piton_sync::thread;
use std::{
    hint::{black_box, spin_loop},
    sync::{Arc, Barrier},
};

pub(crate) const BATCH: u32 = 16;
/// Batches between two openings of the gate: 128 launches of 256 bytes fit into any ring.
pub(crate) const BATCHES: usize = 8;
/// Tasks that go ahead, so that the worker is at work when timing starts.
pub(crate) const AHEAD: u64 = 16;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    by_writer(session, effort);
    let behind = |rig: &Rig| Shared(rig, &rig.takes_16).behind(effort, &[7; 16]);
    let racing = |rig: &Rig| Shared(rig, &rig.takes_16).racing(effort, &[7; 16]);
    let by_two = |rig: &Rig| Shared(rig, &rig.takes_16).by_two(effort, &[7; 16]);
    let case = "enqueue, shared, 16 B, behind";
    session.compare(case, Some(60.0), behind, &Behind::<16>(effort));
    let case = "enqueue, shared, 16 B, racing";
    session.compare(case, None, racing, &Racing::<16>(effort));
    let case = "enqueue, shared, 16 B, by two";
    session.compare(case, None, by_two, &ByTwo::<16>(effort));
}

fn by_writer(session: &mut Session, effort: Effort) {
    session.compare(
        "enqueue, writer, 16 B, behind",
        Some(25.0),
        |rig| writer::behind(rig, &rig.takes_16, &[7; 16], effort),
        &Behind::<16>(effort),
    );
    session.compare(
        "enqueue, writer, 16 B, racing",
        Some(150.0),
        |rig| writer::racing(rig, &rig.takes_16, &[7; 16], effort),
        &Racing::<16>(effort),
    );
    session.compare(
        "enqueue, writer, 256 B, behind",
        Some(45.0),
        |rig| writer::behind(rig, &rig.takes_256, &[7; 256], effort),
        &Behind::<256>(effort),
    );
}

/// Launches through `&Stream`, which any thread may do.
struct Shared<'a>(&'a Rig, &'a Arc<dyn Kernel>);

impl Shared<'_> {
    fn behind(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let (stream, mut gate) = (rig.deep_stream(), rig.gate());
        sample(effort, BATCH, |samples| {
            gate.close();
            gate.hold(&stream);
            for _ in 0..BATCHES {
                samples.time(|| launch(&stream, kernel, black_box(arguments)));
            }
            gate.open();
            must(stream.synchronize());
        })
    }

    fn racing(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let stream = rig.deep_stream();
        sample(effort, BATCH, |samples| {
            go_ahead(&stream, || launch(&stream, kernel, arguments));
            for _ in 0..BATCHES {
                samples.time(|| launch(&stream, kernel, black_box(arguments)));
            }
            must(stream.synchronize());
        })
    }

    fn by_two(&self, effort: Effort, arguments: &[u8]) -> Samples {
        let Self(rig, kernel) = self;
        let (stream, mut gate) = (rig.deep_stream(), rig.gate());
        let submit = || launch(&stream, kernel, black_box(arguments));
        sample(effort, BATCH, |samples| {
            gate.close();
            gate.hold(&stream);
            beside_another(samples, submit);
            gate.open();
            must(stream.synchronize());
        })
    }
}

/// Submits until a worker has begun to take what was submitted.
pub(crate) fn go_ahead(stream: &Stream, mut submit: impl FnMut()) {
    for _ in 0..AHEAD {
        submit();
    }
    must(stream.flush());
    while stream.depth() >= AHEAD {
        spin_loop();
    }
}

/// Times `submit` on this thread while another one does the same.
pub(crate) fn beside_another(samples: &mut Samples, submit: impl Fn() + Sync) {
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
