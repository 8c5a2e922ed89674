//! One operation of the timeline at a time: record, ask, leave a wait out, note one, reuse memory, make lanes.
//!
//! Baselines in the same run: events of an `Arc` with a lock and a condition variable, and vector clocks as plain
//! vectors. A pending point's source is a counter behind a trait object, as a queue's is.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use piton_sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};
use piton_timeline::{Frontier, Lane, Progress, Reuse, Timeline, Timepoint, WaitNeed};

/// So many submissions that none of the points below is ever done.
const MANY: u64 = 1 << 40;

struct Counter(AtomicU64);

impl Progress for Counter {
    fn completed(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

fn lane(timeline: &Arc<Timeline>) -> Lane {
    let source = Arc::new(Counter(AtomicU64::new(0)));
    let lane = timeline.register(Some(source));
    let lane = lane.unwrap_or_else(|error| panic!("{error}"));
    lane.submit(MANY);
    lane
}

fn lanes(timeline: &Arc<Timeline>, count: usize) -> Vec<Lane> {
    (0..count).map(|_| lane(timeline)).collect()
}

/// An event as a flag under a lock, which waiters sleep on.
#[derive(Clone, Default)]
struct LockedEvent(Arc<(Mutex<bool>, Condvar)>);

impl LockedEvent {
    fn query(&self) -> bool {
        *self.0.0.lock()
    }

    fn set(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

fn record(c: &mut Criterion) {
    let timeline = Timeline::new();
    let lane = lane(&timeline);
    let mut group = c.benchmark_group("timeline_record");
    group.bench_function("timepoint", |b| {
        b.iter(|| {
            let point = black_box(&lane).now();
            // Word by word: see `query`.
            black_box(point.lane.index);
            black_box(point.lane.generation);
            black_box(point.seq)
        });
    });
    group.bench_function("baseline/event", |b| b.iter(LockedEvent::default));
    group.finish();
}

fn query(c: &mut Criterion) {
    let timeline = Timeline::new();
    let (done, pending) = (timeline.register(None), lane(&timeline));
    let done = done.unwrap_or_else(|error| panic!("{error}"));
    let done_point = done.submit(1);
    done.complete(1);
    let pending_point = pending.at(1);
    let event = LockedEvent::default();
    event.set();

    let mut group = c.benchmark_group("timeline_query");
    // Points are passed by reference: read back in one piece, what was just written in two stalls the processor.
    let is_known = |point: &Timepoint| timeline.is_known_complete(*black_box(point));
    group.bench_function("done/known", |b| b.iter(|| is_known(&done_point)));
    let is_complete = |point: &Timepoint| timeline.is_complete(*black_box(point));
    group.bench_function("done", |b| b.iter(|| is_complete(&done_point)));
    group.bench_function("pending", |b| b.iter(|| is_complete(&pending_point)));
    group.bench_function("baseline/event", |b| b.iter(|| black_box(&event).query()));
    group.finish();
}

fn wait_left_out(c: &mut Criterion) {
    let timeline = Timeline::new();
    let waiter = lane(&timeline);
    // Sixteen lanes in all fit the first table of a clock, the others go to the second.
    let others = lanes(&timeline, 60);
    for (n, other) in (0..).zip(&others) {
        waiter.note_wait(other.at(1000), waiter.at(n));
    }
    let done = timeline.register(None);
    let done = done.unwrap_or_else(|error| panic!("{error}"));
    done.submit(1);
    done.complete(1);

    let mut group = c.benchmark_group("timeline_wait_need");
    let id = waiter.id();
    let (done_point, own, later) = (done.at(1), waiter.at(5), others[3].at(2000));
    let need = |point: &Timepoint| {
        let need = timeline.wait_need(*black_box(&id), *black_box(point));
        matches!(need, WaitNeed::Wait(_))
    };
    group.bench_function("done", |b| b.iter(|| need(&done_point)));
    group.bench_function("own_lane", |b| b.iter(|| need(&own)));
    for (name, other) in [("clock/of_16", &others[14]), ("clock/of_60", &others[59])] {
        let point = other.at(999);
        group.bench_function(name, |b| b.iter(|| need(&point)));
    }
    group.bench_function("needed", |b| b.iter(|| need(&later)));
    let vector: Vec<u64> = vec![1000; 17];
    let vector = Mutex::new(vector);
    group.bench_function("baseline/vector_under_lock", |b| {
        b.iter(|| vector.lock()[black_box(15)] >= black_box(999));
    });
    group.finish();
}

fn note_wait(c: &mut Criterion) {
    let mut group = c.benchmark_group("timeline_note_wait");
    // The waiter knows so many lanes and waits for each in turn; they know nothing.
    for known in [1, 4, 16] {
        let timeline = Timeline::new();
        let waiter = lane(&timeline);
        let others = lanes(&timeline, known);
        let mut n = 0_usize;
        group.bench_function(format!("flat/{known}"), |b| {
            b.iter(|| {
                n += 1;
                let (other, seq) = (&others[n % known], n as u64);
                waiter.note_wait(other.at(seq), waiter.at(seq));
            });
        });
    }
    // Each waits for the next, so that all know of all and each wait tells something of every lane.
    for known in [2, 4, 16] {
        let timeline = Timeline::new();
        let ring = lanes(&timeline, known);
        let mut n = 0_usize;
        group.bench_function(format!("ring/{known}"), |b| {
            b.iter(|| {
                n += 1;
                let (waiter, other) = (&ring[n % known], &ring[(n + 1) % known]);
                let seq = n as u64;
                waiter.note_wait(other.at(seq), waiter.at(seq));
            });
        });
        let empty = || Mutex::new(vec![0_u64; known]);
        let clocks: Vec<_> = (0..known).map(|_| empty()).collect();
        group.bench_function(format!("baseline/vectors/{known}"), |b| {
            b.iter(|| {
                n += 1;
                let (waiter, other) = (n % known, (n + 1) % known);
                // Copied out, so that no two are locked at once.
                let mut joined = clocks[other].lock().clone();
                joined[other] = n as u64;
                let mut clock = clocks[waiter].lock();
                for (seen, told) in clock.iter_mut().zip(&joined) {
                    *seen = (*seen).max(*told);
                }
            });
        });
    }
    group.finish();
}

fn reuse(c: &mut Criterion) {
    let timeline = Timeline::new();
    let taker = lane(&timeline);
    let others = lanes(&timeline, 2);
    for (n, other) in (0..).zip(&others) {
        taker.note_wait(other.at(1000), taker.at(n));
    }
    let done = timeline.register(None);
    let done = done.unwrap_or_else(|error| panic!("{error}"));
    done.submit(1);
    done.complete(1);

    let frontier = |points: &[Timepoint]| points.iter().copied().collect::<Frontier>();
    let mut group = c.benchmark_group("timeline_reuse");
    let cases = [
        ("one/done", frontier(&[done.at(1)])),
        ("one/own_lane", frontier(&[taker.at(9)])),
        ("one/clock", frontier(&[others[0].at(9)])),
        ("one/after_wait", frontier(&[others[0].at(2000)])),
        ("two/done_and_own", frontier(&[done.at(1), taker.at(9)])),
        ("two/clock", frontier(&[others[0].at(9), others[1].at(9)])),
        (
            "two/after_wait",
            frontier(&[others[0].at(2000), others[1].at(2000)]),
        ),
    ];
    for (name, uses) in cases {
        group.bench_function(name, |b| {
            b.iter(|| timeline.reuse(black_box(&uses), black_box(Some(taker.id()))) == Reuse::Now);
        });
    }
    let events = [LockedEvent::default(), LockedEvent::default()];
    events.iter().for_each(LockedEvent::set);
    group.bench_function("baseline/one_event", |b| {
        b.iter(|| black_box(&events)[..1].iter().all(LockedEvent::query));
    });
    group.bench_function("baseline/two_events", |b| {
        b.iter(|| black_box(&events).iter().all(LockedEvent::query));
    });
    group.finish();
}

fn registration(c: &mut Criterion) {
    let mut group = c.benchmark_group("timeline_lanes");
    let timeline = Timeline::new();
    let source: Arc<dyn Progress> = Arc::new(Counter(AtomicU64::new(0)));
    group.bench_function("register_and_retire", |b| {
        b.iter(|| timeline.register(Some(Arc::clone(&source))));
    });
    // Ten thousand at a time, the first time, while as many retired ones still have work under way.
    let pending = Timeline::new();
    drop(lanes(&pending, 10_000));
    group.sample_size(10);
    group.bench_function("register_10000/fresh", |b| {
        b.iter_batched(
            Timeline::new,
            |timeline| lanes(&timeline, 10_000),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("register_and_retire/10000_pending", |b| {
        b.iter(|| pending.register(Some(Arc::clone(&source))));
    });
    group.finish();
}

criterion_group!(
    benches,
    record,
    query,
    wait_left_out,
    note_wait,
    reuse,
    registration
);
criterion_main!(benches);
