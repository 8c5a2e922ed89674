//! The index alone: free one chunk at random, allocate another, with a given number of chunks live.
//!
//! Baselines in the same run: the `offset-allocator` crate, and best fit over two B-trees. All see the same program.
//! Sizes are log-uniform from 512 bytes to 1 MiB; the range is twice what is live.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use piton_suballoc::{Domain, ExtentId, Tlsf};

const UNIT: u32 = 512;
const LIVE: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Mean of the sizes below, in units, rounded up.
const MEAN_UNITS: u32 = 270;

/// One way to place chunks.
trait Index {
    type Chunk;
    fn new(units: u32, chunks: u32) -> Self;
    fn allocate(&mut self, units: u32) -> Option<Self::Chunk>;
    fn free(&mut self, chunk: Self::Chunk);
}

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

impl Index for offset_allocator::Allocator<u32> {
    type Chunk = offset_allocator::Allocation<u32>;

    fn new(units: u32, chunks: u32) -> Self {
        Self::with_max_allocs(units, 4 * chunks)
    }

    fn allocate(&mut self, units: u32) -> Option<Self::Chunk> {
        Self::allocate(self, units)
    }

    fn free(&mut self, chunk: Self::Chunk) {
        Self::free(self, chunk);
    }
}

/// Best fit as one writes it first: holes by size and by offset.
struct BestFit {
    by_size: BTreeSet<(u32, u32)>,
    by_offset: BTreeMap<u32, u32>,
}

impl BestFit {
    fn take_hole(&mut self, offset: u32, units: u32) {
        self.by_size.remove(&(units, offset));
        self.by_offset.remove(&offset);
    }

    fn add_hole(&mut self, offset: u32, units: u32) {
        self.by_size.insert((units, offset));
        self.by_offset.insert(offset, units);
    }
}

impl Index for BestFit {
    type Chunk = (u32, u32);

    fn new(units: u32, _chunks: u32) -> Self {
        let mut index = Self {
            by_size: BTreeSet::new(),
            by_offset: BTreeMap::new(),
        };
        index.add_hole(0, units);
        index
    }

    fn allocate(&mut self, units: u32) -> Option<(u32, u32)> {
        let &(length, offset) = self.by_size.range((units, 0)..).next()?;
        self.take_hole(offset, length);
        if length > units {
            self.add_hole(offset + units, length - units);
        }
        Some((offset, units))
    }

    fn free(&mut self, (mut offset, mut units): (u32, u32)) {
        let below = self.by_offset.range(..offset).next_back();
        if let Some((&start, &length)) = below.filter(|&(&start, &length)| start + length == offset)
        {
            self.take_hole(start, length);
            offset = start;
            units += length;
        }
        if let Some(&length) = self.by_offset.get(&(offset + units)) {
            self.take_hole(offset + units, length);
            units += length;
        }
        self.add_hole(offset, units);
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
