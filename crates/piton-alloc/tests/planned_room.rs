//! How much a pool holds for a plan's region: what it held before, as long as that will do.

#![cfg(not(loom))]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod source;

use std::sync::Arc;

use piton_alloc::{
    Allocation, BlockSource, DevicePool, MemoryPool, MemoryPoolConfig, Planned, Request, ServeError,
};
use piton_plan::{PlaceConfig, Plan};
use piton_timeline::{Frontier, Timeline};
use source::{Books, GRANULE};

struct Fixture {
    source: Arc<Books>,
    pool: Planned,
}

fn fixture(source: Books) -> Fixture {
    let source = Arc::new(source);
    let config = MemoryPoolConfig {
        small_below: source.virtual_memory().map(|_| 0),
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(source.clone(), Timeline::new(), &config).unwrap();
    let pool = Planned::new(Arc::new(pool));
    Fixture { source, pool }
}

impl Fixture {
    /// Memory of so many bytes in `parts` parts.
    fn fill(&self, bytes: u64, parts: u64) -> Vec<Allocation> {
        let each = Request::new(bytes / parts);
        let all = (0..parts).map(|_| self.pool.allocate(each));
        all.collect::<Result<_, _>>().expect("there is room")
    }

    /// Gives every `n`-th back and keeps the others.
    fn give_back_each(&self, blocks: Vec<Allocation>, n: usize) -> Vec<Allocation> {
        let mut kept = Vec::new();
        for (number, block) in blocks.into_iter().enumerate() {
            if number % n == 0 {
                self.give_back(vec![block]);
            } else {
                kept.push(block);
            }
        }
        kept
    }

    fn give_back(&self, blocks: Vec<Allocation>) {
        for block in blocks {
            self.pool.free(block, Frontier::new()).unwrap();
        }
    }
}

/// A step that has so many bytes once.
fn plan(bytes: u64) -> Arc<Plan> {
    let mut recorder = piton_plan::Recorder::default();
    let number = recorder.request(bytes, u32::MAX).unwrap().unwrap();
    recorder.free(number).unwrap();
    recorder.end_step();
    Arc::new(recorder.plan(&PlaceConfig::default()).unwrap())
}

#[test]
fn a_region_takes_pages_from_holes_before_the_pool_holds_more_than_ever() {
    let fixture = fixture(Books::with_pages(4096 * GRANULE));
    let blocks = fixture.fill(400 * GRANULE, 20);
    let held = fixture.source.held();
    let kept = fixture.give_back_each(blocks, 2);
    // 200 are live, and the holes have 20 each.
    fixture.pool.serve(plan(200 * GRANULE)).unwrap();
    assert_eq!(fixture.pool.planned_stats().region_bytes, 200 * GRANULE);
    assert_eq!(fixture.source.held(), held);
    fixture.give_back(kept);
}

#[test]
fn a_region_that_has_waited_long_enough_makes_the_pool_hold_what_it_needs_and_no_more() {
    let fixture = fixture(Books::with_pages(4096 * GRANULE));
    let blocks = fixture.fill(400 * GRANULE, 20);
    let kept = fixture.give_back_each(blocks, 2);
    let refused = fixture.pool.serve(plan(230 * GRANULE));
    assert!(matches!(refused, Err(ServeError::NoRoom { .. })));
    for _ in 0..3 {
        assert_eq!(fixture.pool.planned_stats().region_bytes, 0);
        fixture.pool.begin_step();
    }
    assert_eq!(fixture.pool.planned_stats().region_bytes, 230 * GRANULE);
    assert_eq!(fixture.source.held(), 430 * GRANULE);
    fixture.give_back(kept);
}

#[test]
fn where_holes_have_too_few_pages_no_region_is_taken_and_nothing_is_asked_of_the_source() {
    let fixture = fixture(Books::with_pages(4096 * GRANULE));
    let blocks = fixture.fill(400 * GRANULE, 20);
    let large = fixture.fill(160 * GRANULE, 4);
    // Half of each page of the first is live, and two holes have 40 pages each.
    fixture.give_back(blocks);
    let halves = fixture.fill(400 * GRANULE, 800);
    let kept = fixture.give_back_each(halves, 2);
    let large = fixture.give_back_each(large, 2);
    let before = (fixture.source.calls(), fixture.source.held());
    let refused = fixture.pool.serve(plan(100 * GRANULE));
    assert!(matches!(refused, Err(ServeError::NoRoom { .. })));
    assert_eq!((fixture.source.calls(), fixture.source.held()), before);
    fixture.give_back(kept);
    fixture.give_back(large);
}

#[test]
fn where_blocks_are_in_use_no_region_is_taken_and_no_other_block_goes_back() {
    let fixture = fixture(Books::new(4096 * GRANULE));
    let [used, idle] = [400, 400].map(|granules| fixture.fill(granules * GRANULE, 1));
    fixture.give_back(used);
    let kept = fixture.give_back_each(fixture.fill(400 * GRANULE, 2), 2);
    fixture.give_back(idle);
    let before = (fixture.source.calls(), fixture.source.held());
    // 200 are live of 800 that were held, in a Block of 400.
    let refused = fixture.pool.serve(plan(600 * GRANULE));
    assert!(matches!(refused, Err(ServeError::NoRoom { .. })));
    assert_eq!((fixture.source.calls(), fixture.source.held()), before);
    // A region that an idle Block makes room for is taken.
    fixture.pool.serve(plan(400 * GRANULE)).unwrap();
    assert_eq!(fixture.pool.planned_stats().region_bytes, 400 * GRANULE);
    assert_eq!(fixture.source.held(), before.1);
    fixture.give_back(kept);
}
