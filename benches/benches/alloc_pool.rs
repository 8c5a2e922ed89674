//! The pool: allocate and free through the lock, the lanes and the counters, over a source whose calls cost nothing.
//!
//! - `pair`: one allocation given back at once, its last use complete, pending on the same lane, or on another lane.
//! - `churn`: free one at random, allocate another, with a given number live.
//! - `threads`: each thread makes pairs on a lane of its own, in one pool.
//!
//! The baseline `mutex-offset-allocator` is a lock around the `offset-allocator` crate: no lanes, no counters.

#[path = "shared/addresses.rs"]
mod addresses;

use std::hint::black_box;
use std::time::Instant;

use addresses::Addresses;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use piton_alloc::{Allocation, DevicePool, MemoryPoolConfig, Request};
use piton_sync::{Mutex, thread};
use piton_timeline::{Frontier, Lane, LaneId, Timeline};

fn pool() -> (DevicePool, Vec<Lane>) {
    let timeline = Timeline::new();
    let lanes = (0..4)
        .filter_map(|_| timeline.register(None).ok())
        .collect();
    let source = Addresses::new();
    let pool = DevicePool::new(source, timeline, &MemoryPoolConfig::default());
    (pool.unwrap_or_else(|error| panic!("{error}")), lanes)
}

fn take(pool: &DevicePool, bytes: u64, lane: LaneId) -> Allocation {
    let allocation = pool.allocate(Request::new(bytes).on(lane));
    allocation.unwrap_or_else(|error| panic!("{error}"))
}

fn give(pool: &DevicePool, allocation: Allocation, uses: Frontier) {
    pool.free(allocation, uses)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn pair(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc/pair");
    let (pool, lanes) = pool();
    let (own, other) = (&lanes[0], &lanes[1]);
    group.bench_function("complete", |bencher| {
        bencher.iter(|| {
            give(
                &pool,
                take(&pool, black_box(4096), own.id()),
                Frontier::new(),
            )
        });
    });
    let pending = Frontier::from(own.submit(1));
    group.bench_function("pending-on-own-lane", |bencher| {
        bencher.iter(|| {
            give(
                &pool,
                take(&pool, black_box(4096), own.id()),
                pending.clone(),
            )
        });
    });
    group.bench_function("while-others-are-pending", |bencher| {
        bencher.iter(|| {
            give(
                &pool,
                take(&pool, black_box(4096), other.id()),
                Frontier::new(),
            )
        });
    });
    let baseline = Mutex::new(offset_allocator::Allocator::<u32>::new(1 << 20));
    group.bench_function("mutex-offset-allocator", |bencher| {
        bencher.iter(|| {
            let taken = baseline.lock().allocate(black_box(8));
            if let Some(taken) = taken {
                baseline.lock().free(taken);
            }
        });
    });
    group.finish();
}

/// Log-uniform from 512 bytes to 1 MiB.
fn size(random: &mut fastrand::Rng) -> u64 {
    let exponent = random.u32(9..20);
    (1 << exponent) + random.u64(0..1 << exponent)
}

fn churn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc/churn");
    for live in [1_000, 10_000, 100_000] {
        let (pool, lanes) = pool();
        let lane = lanes[0].id();
        let mut random = fastrand::Rng::with_seed(1);
        let fill = (0..live).map(|_| take(&pool, size(&mut random), lane));
        let mut allocations: Vec<Allocation> = fill.collect();
        group.bench_function(BenchmarkId::new("pool", live), |bencher| {
            bencher.iter(|| {
                let at = random.usize(..allocations.len());
                give(&pool, allocations.swap_remove(at), Frontier::new());
                allocations.push(take(&pool, size(&mut random), lane));
            });
        });
    }
    group.finish();
}

fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc/threads");
    for count in [1_usize, 2] {
        let (pool, lanes) = pool();
        group.bench_function(BenchmarkId::new("pairs-each", count), |bencher| {
            bencher.iter_custom(|pairs| {
                let started = Instant::now();
                thread::scope(|scope| {
                    for lane in &lanes[..count] {
                        let pool = &pool;
                        scope.spawn(move || {
                            for _ in 0..pairs {
                                give(
                                    pool,
                                    take(pool, black_box(4096), lane.id()),
                                    Frontier::new(),
                                );
                            }
                        });
                    }
                });
                started.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pair, churn, threads);
criterion_main!(benches);
