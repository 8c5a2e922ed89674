//! How long from one thread to the next: launch to start, launch and synchronize, a hop from stream to stream.

use crate::{
    device::{Rig, Stamp, launch, must},
    measure::{Effort, Samples, sample, spin_for},
    naive::{Event, Lane, Measured, Runtime},
    session::Session,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Long enough for a worker to fall asleep and its core to halt.
const IDLE: Duration = Duration::from_micros(100);
/// Again at once.
const WARM: Duration = Duration::ZERO;
/// Hops in one chain.
const HOPS: u32 = 64;

pub(crate) fn measure(session: &mut Session) {
    let (often, seldom) = (session.effort, session.effort.fewer(4));
    session.compare(
        "enqueue, everybody asleep",
        None,
        |rig| asleep(rig, seldom),
        &Asleep(seldom),
    );
    session.compare(
        "launch to start, warm",
        Some(600.0),
        |rig| start(rig, often, WARM),
        &Start(often, WARM),
    );
    session.compare(
        "launch to start, after 100 us",
        None,
        |rig| start(rig, seldom, IDLE),
        &Start(seldom, IDLE),
    );
    session.compare(
        "launch + synchronize, warm",
        Some(1000.0),
        |rig| round_trip(rig, often, WARM),
        &RoundTrip(often, WARM),
    );
    session.compare(
        "launch + synchronize, after 100 us",
        Some(1000.0),
        |rig| round_trip(rig, seldom, IDLE),
        &RoundTrip(seldom, IDLE),
    );
    session.compare(
        "dependent hop across streams",
        Some(250.0),
        |rig| hop(rig, seldom),
        &Hop(seldom),
    );
}

/// What a launch costs its thread when nothing has run for a while: whether it pays for waking somebody.
fn asleep(rig: &Rig, effort: Effort) -> Samples {
    let stream = rig.stream();
    sample(effort, 1, |samples| {
        must(stream.synchronize());
        spin_for(IDLE);
        samples.time(|| launch(&stream, &rig.empty, &[]));
    })
}

fn start(rig: &Rig, effort: Effort, idle: Duration) -> Samples {
    let stream = rig.stream();
    sample(effort, 1, |samples| {
        spin_for(idle);
        samples.push(rig.stamp.latency_of(|| {
            launch(&stream, &rig.stamps, &[]);
            must(stream.flush());
        }));
    })
}

fn round_trip(rig: &Rig, effort: Effort, idle: Duration) -> Samples {
    let stream = rig.stream();
    sample(effort, 1, |samples| {
        spin_for(idle);
        samples.time(|| {
            launch(&stream, &rig.empty, &[]);
            must(stream.synchronize());
        });
    })
}

/// Two streams that wait for each other in turn, from the opening of the gate to the end of the last.
fn hop(rig: &Rig, effort: Effort) -> Samples {
    let (streams, mut gate) = ([rig.stream(), rig.stream()], rig.gate());
    sample(effort, HOPS, |samples| {
        gate.close();
        gate.hold(&streams[0]);
        launch(&streams[0], &rig.empty, &[]);
        for turn in 0..HOPS as usize {
            let (from, to) = (&streams[turn % 2], &streams[(turn + 1) % 2]);
            must(to.wait(&from.record()));
            launch(to, &rig.empty, &[]);
        }
        let started = Instant::now();
        gate.open();
        must(streams[HOPS as usize % 2].synchronize());
        samples.push(started.elapsed());
    })
}

struct Asleep(Effort);

impl Measured for Asleep {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        Some(sample(self.0, 1, |samples| {
            lane.synchronize();
            spin_for(IDLE);
            samples.time(|| lane.spawn(|| ()));
        }))
    }
}

struct Start(Effort, Duration);

impl Measured for Start {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let (lane, stamp) = (runtime.lane(), Arc::new(Stamp::new()));
        Some(sample(self.0, 1, |samples| {
            spin_for(self.1);
            let own = Arc::clone(&stamp);
            samples.push(stamp.latency_of(|| lane.spawn(move || own.started())));
        }))
    }
}

struct RoundTrip(Effort, Duration);

impl Measured for RoundTrip {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lane = runtime.lane();
        Some(sample(self.0, 1, |samples| {
            spin_for(self.1);
            samples.time(|| lane.synchronize());
        }))
    }
}

/// With order: two lanes, each blocks on the other's event. Without: each task spawns the next.
struct Hop(Effort);

impl Measured for Hop {
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples> {
        let lanes = [runtime.lane(), runtime.lane()];
        Some(sample(self.0, HOPS, |samples| {
            let gate = Arc::new(Event::default());
            let last = Arc::new(Event::default());
            if R::IS_ORDERED {
                take_turns(&lanes, &gate, &last);
            } else {
                let (lane, start, end) = (lanes[0].clone(), gate.clone(), last.clone());
                lanes[0].spawn(move || {
                    start.wait();
                    chain(lane, HOPS, end);
                });
            }
            let started = Instant::now();
            gate.set();
            last.wait();
            samples.push(started.elapsed());
        }))
    }
}

fn take_turns<L: Lane>(lanes: &[L; 2], gate: &Arc<Event>, last: &Arc<Event>) {
    let mut before = Arc::clone(gate);
    for turn in 0..=HOPS as usize {
        let lane = &lanes[turn % 2];
        let after = if turn == HOPS as usize {
            Arc::clone(last)
        } else {
            Arc::default()
        };
        lane.spawn(move || before.wait());
        before = Arc::clone(&after);
        lane.spawn(move || after.set());
    }
}

fn chain(lane: impl Lane, left: u32, last: Arc<Event>) {
    let next = lane.clone();
    lane.spawn(move || match left {
        0 => last.set(),
        _ => chain(next, left - 1, last),
    });
}
