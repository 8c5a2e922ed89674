//! The index alone: free one chunk at random, allocate another, with a given number of chunks live.
//!
//! Baselines in the same run: the `offset-allocator` crate, and best fit over two B-trees. All see the same program.
//! Sizes are log-uniform from 512 bytes to 1 MiB; the range is twice what is live.

#[path = "shared/indexes.rs"]
mod indexes;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use indexes::{BestFit, Index};
use piton_suballoc::{Domain, ExtentId, Tlsf};

const UNIT: u32 = 512;
const LIVE: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Mean of the sizes below, in units, rounded up.
const MEAN_UNITS: u32 = 270;

impl Index for Tlsf {
    type Chunk = ExtentId;

    fn new(units: u32, _chunks: u32) -> Self {
        let unit = u64::from(UNIT);
        let index = Tlsf::new(u64::from(units) * unit, unit);
        index.unwrap_or_else(|error| panic!("{error}"))
    }

    fn allocate(&mut self, units: u32) -> Option<ExtentId> {
        let bytes = u64::from(units) * u64::from(UNIT);
        let chunk = Tlsf::allocate(self, Domain::SHARED, bytes, 1)?;
        Some(chunk.id)
    }

    fn free(&mut self, chunk: ExtentId) {
        let freed = Tlsf::free(self, chunk, Domain::SHARED, 0);
        debug_assert!(freed.is_ok());
    }
}

/// Log-uniform from one unit to 2048.
fn size(random: &mut fastrand::Rng) -> u32 {
    let exponent = random.u32(0..11);
    (1 << exponent) + random.u32(0..1 << exponent)
}

fn churn<I: Index>(criterion: &mut Criterion, name: &str) {
    let mut group = criterion.benchmark_group("suballoc/churn");
    for live in LIVE {
        let mut random = fastrand::Rng::with_seed(1);
        let mut index = I::new(live * MEAN_UNITS * 2, live);
        let fill = (0..live).filter_map(|_| index.allocate(size(&mut random)));
        let mut chunks: Vec<I::Chunk> = fill.collect();
        group.bench_function(BenchmarkId::new(name, live), |bencher| {
            bencher.iter(|| {
                let at = random.usize(..chunks.len());
                index.free(chunks.swap_remove(at));
                chunks.extend(index.allocate(black_box(size(&mut random))));
            });
        });
    }
    group.finish();
}

fn all(criterion: &mut Criterion) {
    churn::<Tlsf>(criterion, "piton");
    churn::<offset_allocator::Allocator<u32>>(criterion, "offset-allocator");
    churn::<BestFit>(criterion, "best-fit-btree");
}

criterion_group!(benches, all);
criterion_main!(benches);
