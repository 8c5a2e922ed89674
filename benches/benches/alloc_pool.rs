//! The pool: allocate and free through the lock, the lanes and the counters, over a source whose calls cost nothing.
//!
//! - `pair`: one allocation given back at once, its last use complete, pending on the same lane, or on another lane.
//! - `churn`: free one at random, allocate another, with a given number live; beside indexes that know no lanes, as others
//!   wrote them. Those get a range twice as large as what is live, the pool takes what it needs.
//! - `lookup`: the allocation around an address somewhere inside it, beside an ordered map under a lock, whose upkeep is not counted.
//! - `threads`: each thread makes pairs on a lane of its own, in one pool.
//!
//! The baseline `mutex-offset-allocator` is a lock around the `offset-allocator` crate: no lanes, no counters.

#[path = "shared/addresses.rs"]
mod addresses;
#[path = "shared/indexes.rs"]
mod indexes;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::RwLock;
use std::time::Instant;

use addresses::Addresses;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use indexes::{BestFit, InPlace, Index};
use piton_alloc::{AddressLookup, Allocation, DevicePool, MemoryPoolConfig, Request};
use piton_driver::DevicePtr;
use piton_sync::{Mutex, thread};
use piton_timeline::{Frontier, Lane, LaneId, Timeline};

/// Finds allocations by address without a lock.
fn with_tables() -> MemoryPoolConfig {
    MemoryPoolConfig {
        address_lookup: AddressLookup::Tables,
        ..MemoryPoolConfig::default()
    }
}

fn pool() -> (DevicePool, Vec<Lane>) {
    configured(&MemoryPoolConfig::default())
}

fn configured(config: &MemoryPoolConfig) -> (DevicePool, Vec<Lane>) {
    let timeline = Timeline::new();
    let lanes = (0..4)
        .filter_map(|_| timeline.register(None).ok())
        .collect();
    let source = Addresses::new();
    let pool = DevicePool::new(source, timeline, config);
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
    let configs = [
        ("pool", MemoryPoolConfig::default()),
        ("pool-with-tables", with_tables()),
    ];
    let lives = [1_000, 10_000, 100_000, 1_000_000];
    for (live, (name, config)) in lives
        .into_iter()
        .flat_map(|live| configs.map(|it| (live, it)))
    {
        let (pool, lanes) = configured(&config);
        let lane = lanes[0].id();
        let mut random = fastrand::Rng::with_seed(1);
        let fill = (0..live).map(|_| take(&pool, size(&mut random), lane));
        let mut allocations: Vec<Allocation> = fill.collect();
        group.bench_function(BenchmarkId::new(name, live), |bencher| {
            bencher.iter(|| {
                let at = random.usize(..allocations.len());
                give(&pool, allocations.swap_remove(at), Frontier::new());
                allocations.push(take(&pool, size(&mut random), lane));
            });
        });
    }
    group.finish();
}

/// Mean of the sizes above in units of 512 bytes, rounded up.
const MEAN_UNITS: u32 = 270;

fn churn_of<I: Index>(criterion: &mut Criterion, name: &str, lives: &[u32]) {
    let mut group = criterion.benchmark_group("alloc/churn");
    for &live in lives {
        let mut random = fastrand::Rng::with_seed(1);
        let units = |random: &mut fastrand::Rng| {
            u32::try_from(size(random).div_ceil(512)).unwrap_or(u32::MAX)
        };
        let mut index = I::new(live * MEAN_UNITS * 2, live);
        let fill = (0..live).filter_map(|_| index.allocate(units(&mut random)));
        let mut chunks: Vec<I::Chunk> = fill.collect();
        group.bench_function(BenchmarkId::new(name, live), |bencher| {
            bencher.iter(|| {
                let at = random.usize(..chunks.len());
                index.free(chunks.swap_remove(at));
                chunks.extend(index.allocate(black_box(units(&mut random))));
            });
        });
    }
    group.finish();
}

fn others(criterion: &mut Criterion) {
    let all = [1_000, 10_000, 100_000, 1_000_000];
    churn_of::<offset_allocator::Allocator<u32>>(criterion, "offset-allocator", &all);
    churn_of::<BestFit>(criterion, "best-fit-btree", &all);
    // A header in each chunk: a million of them touch more of the host's memory than it has.
    churn_of::<InPlace>(criterion, "rlsf", &all[..3]);
    // Walks its holes.
    churn_of::<range_alloc::RangeAllocator<u32>>(criterion, "range-alloc", &all[..2]);
}

/// Starts, with lengths: what a program keeps that has no look-up.
type Map = BTreeMap<u64, u64>;

fn around(map: &Map, address: u64) -> Option<(u64, u64)> {
    let (&start, &bytes) = map.range(..=address).next_back()?;
    (address - start < bytes).then_some((start, bytes))
}

fn lookup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc/lookup");
    for live in [1_000, 10_000, 100_000] {
        let (pool, lanes) = configured(&with_tables());
        let lane = lanes[0].id();
        let mut random = fastrand::Rng::with_seed(1);
        let fill = (0..live).map(|_| take(&pool, size(&mut random), lane));
        let allocations: Vec<Allocation> = fill.collect();
        let starts = allocations.iter();
        let map: Map = starts
            .map(|one| (one.ptr().address(), one.rounded_bytes()))
            .collect();
        let inside = |one: &Allocation| one.ptr().address() + random.u64(..one.bytes());
        let mut addresses: Vec<u64> = allocations.iter().map(inside).collect();
        random.shuffle(&mut addresses);
        let mut next = addresses.iter().copied().cycle();
        let mut address = || black_box(next.next().unwrap_or(0));
        group.bench_function(BenchmarkId::new("pool", live), |bencher| {
            bencher.iter(|| pool.lookup(DevicePtr::new(address())));
        });
        let (locked, shared) = (Mutex::new(map.clone()), RwLock::new(map));
        group.bench_function(BenchmarkId::new("mutex-btree", live), |bencher| {
            bencher.iter(|| around(&locked.lock(), address()));
        });
        group.bench_function(BenchmarkId::new("rwlock-btree", live), |bencher| {
            bencher.iter(|| {
                let map = shared.read();
                map.map(|map| around(&map, address())).unwrap_or(None)
            });
        });
        for allocation in allocations {
            give(&pool, allocation, Frontier::new());
        }
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

criterion_group!(benches, pair, churn, others, lookup, threads);
criterion_main!(benches);
