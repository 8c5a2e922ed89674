//! Events and waits: what is a comparison of integers here and an object elsewhere.

use crate::{
    device::{Rig, launch, must},
    measure::{Effort, Samples, sample},
    naive::{Event, Lane, Measured, Runtime},
    session::Session,
};
use piton_stream::{Event as Place, Stream, Waited};
use piton_timeline::{Frontier, Reuse};
use std::{hint::black_box, sync::Arc};

/// Operations of one or two nanoseconds in a sample.
const MANY: u32 = 256;
/// Operations that submit, in a sample.
const FEW: u32 = 16;
/// Samples a gate.
const BATCHES: usize = 4;

pub(crate) fn measure(session: &mut Session) {
    let effort = session.effort;
    events(session, effort);
    waits(session, effort);
    let asked = Query(effort);
    session.compare(
        "can reuse: now",
        Some(5.0),
        |rig| reuse(rig, effort, true),
        &asked,
    );
    session.compare(
        "can reuse: after a wait",
        None,
        |rig| reuse(rig, effort, false),
        &asked,
    );
}

fn events(session: &mut Session, effort: Effort) {
    let two = Some(2.0);
    let recorded = Record(effort);
    session.compare(
        "record, a timepoint",
        two,
        |rig| now(rig, effort),
        &recorded,
    );
    session.compare(
        "record, an event",
        None,
        |rig| event(rig, effort),
        &recorded,
    );
    session.compare("query, done", two, |rig| done(rig, effort), &Query(effort));
}

fn waits(session: &mut Session, effort: Effort) {
    for (name, expected) in [
        ("wait, elided: done", Waited::Done),
        ("wait, elided: ordered", Waited::Ordered),
    ] {
        let measured = |rig: &Rig| elided(rig, effort, expected);
        session.compare(name, Some(5.0), measured, &Wait(effort));
    }
    for (name, lanes) in [
        ("wait, real, 1 lane known", 1),
        ("wait, real, 16 lanes known", 16),
    ] {
        let measured = |rig: &Rig| real(rig, effort, lanes);
        session.compare(name, Some(60.0), measured, &Wait(effort));
    }
    session.compare(
        "wait, real, by a writer",
        Some(60.0),
        |rig| real_by_writer(rig, effort),
        &Wait(effort),
    );
}

fn now(rig: &Rig, effort: Effort) -> Samples {
    let stream = rig.stream();
    sample(effort, MANY, |samples| {
        samples.time(|| black_box(&stream).now());
    })
}

/// Made and dropped.
fn event(rig: &Rig, effort: Effort) -> Samples {
    let stream = rig.stream();
    sample(effort, MANY, |samples| {
        samples.time(|| black_box(&stream).record());
    })
}

fn done(rig: &Rig, effort: Effort) -> Samples {
    let stream = rig.stream();
    launch(&stream, &rig.empty, &[]);
    must(stream.synchronize());
    let event = stream.record();
    sample(effort, MANY, |samples| {
        samples.time(|| black_box(&event).query());
    })
}

fn elided(rig: &Rig, effort: Effort, expected: Waited) -> Samples {
    let (first, second, mut gate) = (rig.stream(), rig.stream(), rig.gate());
    if expected == Waited::Ordered {
        gate.close();
        gate.hold(&first);
    }
    launch(&first, &rig.empty, &[]);
    let event = first.record();
    if expected == Waited::Ordered {
        must(second.wait(&event));
    } else {
        must(first.synchronize());
    }
    assert_eq!(must(second.wait(&event)), expected);
    let quantiles = sample(effort, MANY, |samples| {
        samples.time(|| second.wait(black_box(&event)));
    });
    if expected == Waited::Ordered {
        gate.open();
    }
    quantiles
}

/// Every wait is for a new place of a stream that is held back. The waiting stream is ordered after `lanes` streams.
fn real(rig: &Rig, effort: Effort, lanes: usize) -> Samples {
    let others: Vec<Stream> = (0..lanes).map(|_| rig.deep_stream()).collect();
    let (waiting, mut gate) = (rig.deep_stream(), rig.gate());
    sample(effort, FEW, |samples| {
        gate.close();
        for stream in others.iter().chain([&waiting]) {
            gate.hold(stream);
        }
        for other in &others {
            launch(other, &rig.empty, &[]);
            must(waiting.wait(&other.record()));
        }
        for _ in 0..BATCHES {
            time_waits(samples, rig, &others[0], |event| must(waiting.wait(event)));
        }
        gate.open();
        must(waiting.synchronize());
    })
}

fn real_by_writer(rig: &Rig, effort: Effort) -> Samples {
    let (other, mut waiting, mut gate) = (rig.deep_stream(), rig.deep_stream(), rig.gate());
    sample(effort, FEW, |samples| {
        gate.close();
        gate.hold(&other);
        gate.hold(&waiting);
        let mut writer = waiting.writer();
        for _ in 0..BATCHES {
            time_waits(samples, rig, &other, |event| must(writer.wait(event)));
        }
        drop(writer);
        gate.open();
        must(waiting.synchronize());
    })
}

/// Waits for new places of `other`, which is held back.
fn time_waits(
    samples: &mut Samples,
    rig: &Rig,
    other: &Stream,
    mut wait: impl FnMut(&Place) -> Waited,
) {
    let place = |_| {
        launch(other, &rig.empty, &[]);
        other.record()
    };
    let events: Vec<_> = (0..FEW).map(place).collect();
    let mut events = events.iter();
    samples.time(|| {
        let waited = events.next().map(&mut wait);
        assert!(matches!(waited, Some(Waited::Enqueued(_))));
    });
}

/// A block last used at one place of another stream, which the taker is or is not ordered after.
fn reuse(rig: &Rig, effort: Effort, is_ordered: bool) -> Samples {
    let (user, taker, mut gate) = (rig.stream(), rig.stream(), rig.gate());
    gate.close();
    gate.hold(&user);
    launch(&user, &rig.empty, &[]);
    if is_ordered {
        must(taker.wait(&user.record()));
    }
    let uses = Frontier::from(user.now());
    let ask = || {
        rig.streams
            .timeline()
            .reuse(black_box(&uses), Some(taker.id()))
    };
    assert_eq!(ask() == Reuse::Now, is_ordered);
    let quantiles = sample(effort, MANY, |samples| {
        samples.time(ask);
    });
    gate.open();
    quantiles
}

/// An event is set by a closure in the lane's order.
struct Record(Effort);

impl Measured for Record {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        R::IS_ORDERED.then(|| {
            sample(self.0, FEW, |samples| {
                let gate = runtime.hold(&lane);
                for _ in 0..BATCHES {
                    samples.time(|| record(&lane));
                }
                gate.set();
                lane.synchronize();
            })
        })
    }
}

struct Query(Effort);

impl Measured for Query {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let event = record(&runtime.lane());
        event.wait();
        Some(sample(self.0, MANY, |samples| {
            samples.time(|| black_box(&event).query());
        }))
    }
}

/// The lane runs a closure that blocks on the event; it is set, but nobody looks before.
struct Wait(Effort);

impl Measured for Wait {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let (first, second) = (runtime.lane(), runtime.lane());
        R::IS_ORDERED.then(|| {
            let event = record(&first);
            sample(self.0, FEW, |samples| {
                let gate = runtime.hold(&second);
                for _ in 0..BATCHES {
                    samples.time(|| {
                        let event = Arc::clone(&event);
                        second.spawn(move || event.wait());
                    });
                }
                gate.set();
                second.synchronize();
            })
        })
    }
}

fn record(lane: &impl Lane) -> Arc<Event> {
    let event = Arc::new(Event::default());
    let own = Arc::clone(&event);
    lane.spawn(move || own.set());
    event
}
