//! A pool that serves from plans: what is served, what departs, and what comes back.

#![cfg(not(loom))]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod source;

use std::sync::Arc;

use piton_alloc::{
    Allocation, ChunkState, DevicePool, FreeErrorKind, MemoryEventKind, MemoryPool,
    MemoryPoolConfig, Planned, PoolLimit, Request, ServeError, Tag,
};
use piton_plan::PlaceConfig;
use piton_timeline::{Frontier, Lane, Timeline};
use source::{Books, GRANULE};

struct Fixture {
    source: Arc<Books>,
    timeline: Arc<Timeline>,
    pool: Planned,
}

fn fixture(capacity: u64) -> Fixture {
    let source = Arc::new(Books::with_pages(capacity));
    let timeline = Timeline::new();
    let config = MemoryPoolConfig {
        limit: PoolLimit::Device,
        small_below: Some(0),
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &config).unwrap();
    Fixture {
        source,
        timeline,
        pool: Planned::new(Arc::new(pool)),
    }
}

/// Sizes in granules.
fn allocate(pool: &Planned, granules: u64, lane: &Lane) -> Allocation {
    pool.allocate(Request::new(granules * GRANULE).on(lane.id()))
        .expect("there is room")
}

/// Two blocks beside each other and two in the place of one of them.
fn step(pool: &Planned, lane: &Lane) -> Vec<u64> {
    let kept = allocate(pool, 2, lane);
    let large = allocate(pool, 6, lane);
    let places = vec![kept.ptr().address(), large.ptr().address()];
    pool.free(large, Frontier::new()).unwrap();
    let (one, other) = (allocate(pool, 3, lane), allocate(pool, 3, lane));
    let places = places
        .into_iter()
        .chain([one.ptr().address(), other.ptr().address()]);
    let places = places.collect();
    for block in [one, other, kept] {
        pool.free(block, Frontier::new()).unwrap();
    }
    places
}

/// Records what `step` does, twice, and serves it.
fn serve(pool: &Planned, step: impl Fn()) {
    pool.start_recording();
    for _ in 0..2 {
        step();
        pool.begin_step();
    }
    let recorder = pool.take_recording().expect("it was started");
    let plan = recorder.plan(&PlaceConfig::default()).unwrap();
    pool.serve(Arc::new(plan)).expect("there is room");
}

#[test]
fn a_step_that_repeats_is_served_whole_and_asks_the_source_for_nothing() {
    let Fixture {
        source,
        timeline,
        pool,
    } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    assert_eq!(pool.planned_stats().region_bytes, 8 * GRANULE);
    let calls = source.calls();
    let first = step(&pool, &lane);
    for _ in 0..3 {
        pool.begin_step();
        assert_eq!(step(&pool, &lane), first, "the same places each time");
    }
    assert_eq!(source.calls(), calls);
    let stats = pool.planned_stats();
    assert_eq!((stats.served, stats.departed, stats.live_bytes), (16, 0, 0));
    pool.stop_serving();
    assert_eq!(pool.stats().live_bytes, 0, "the region is back");
}

#[test]
fn memory_that_passes_to_another_lane_passes_with_a_wait() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let (one, other) = (
        timeline.register(None).unwrap(),
        timeline.register(None).unwrap(),
    );
    let submitted = std::cell::Cell::new(0);
    let step = || {
        let first = allocate(&pool, 4, &one);
        let place = first.ptr();
        submitted.set(submitted.get() + 1);
        let used = one.submit(submitted.get());
        pool.free(first, Frontier::from(used)).unwrap();
        let second = allocate(&pool, 4, &other);
        let seen = (second.ptr() == place, second.wait().points().to_vec());
        pool.free(second, Frontier::new()).unwrap();
        (seen, used)
    };
    serve(&pool, || {
        let (_, used) = step();
        one.complete(used.seq);
    });
    let ((is_same_place, waits), used) = step();
    assert!(is_same_place);
    assert_eq!(waits, [used]);
    assert_eq!(pool.planned_stats().waits, 1);
}

#[test]
fn what_is_live_of_a_region_is_what_its_blocks_were_asked_for() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    let idle = pool.stats();
    assert_eq!(
        (idle.live_bytes, idle.allocations, idle.pending_bytes),
        (0, 0, 0)
    );
    let kept = pool
        .allocate(Request::new(2 * GRANULE).on(lane.id()))
        .unwrap();
    let large = allocate(&pool, 6, &lane);
    assert_eq!(pool.planned_stats().served, 2);
    let full = pool.stats();
    assert_eq!((full.live_bytes, full.allocations), (8 * GRANULE, 2));
    let used = lane.submit(1);
    pool.free(large, Frontier::from(used)).unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.live_bytes, stats.pending_bytes),
        (2 * GRANULE, 6 * GRANULE)
    );
    lane.complete(1);
    let stats = pool.stats();
    assert_eq!((stats.live_bytes, stats.pending_bytes), (2 * GRANULE, 0));
    assert_eq!(
        stats.held_bytes,
        stats.live_bytes + stats.padding_bytes + stats.cached_bytes
    );
    pool.free(kept, Frontier::new()).unwrap();
}

#[test]
fn a_step_that_departs_lets_the_plan_go_and_the_next_takes_it_up_again() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    pool.begin_step();
    let kept = allocate(&pool, 2, &lane);
    // Nothing of this size is expected.
    let stranger = allocate(&pool, 7, &lane);
    let stats = pool.planned_stats();
    assert_eq!(
        (
            stats.served,
            stats.departed,
            stats.let_go,
            stats.region_bytes
        ),
        (1, 1, 1, 0)
    );
    // What is live keeps its memory, and can be found and freed; what was free is the pool's.
    assert_eq!(pool.lookup(kept.ptr()).unwrap().ptr, kept.ptr());
    assert_eq!(pool.stats().live_bytes, 9 * GRANULE);
    for block in [kept, stranger] {
        pool.free(block, Frontier::new()).unwrap();
    }
    assert_eq!(pool.stats().live_bytes, 0);
    pool.begin_step();
    step(&pool, &lane);
    assert_eq!(pool.planned_stats().served, 5);
}

#[test]
fn a_block_that_is_not_freed_keeps_its_place() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    let kept = allocate(&pool, 2, &lane);
    // The step is left here, and begun anew.
    pool.begin_step();
    let again = allocate(&pool, 2, &lane);
    assert_ne!(kept.ptr(), again.ptr());
    assert!(pool.check().unwrap());
    for block in [kept, again] {
        pool.free(block, Frontier::new()).unwrap();
    }
}

#[test]
fn memory_is_found_in_a_region_that_serves_little() {
    let Fixture { timeline, pool, .. } = fixture(10 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    // Eight of ten granules are the region's.
    let large = allocate(&pool, 9, &lane);
    let stats = pool.planned_stats();
    assert_eq!((stats.let_go, stats.region_bytes), (1, 0));
    pool.free(large, Frontier::new()).unwrap();
}

#[test]
fn what_cannot_be_served_is_refused() {
    let Fixture { timeline, pool, .. } = fixture(10 * GRANULE);
    let lane = timeline.register(None).unwrap();
    pool.start_recording();
    step(&pool, &lane);
    pool.begin_step();
    let recorder = pool.take_recording().unwrap();
    assert!(pool.take_recording().is_none());
    let fine = PlaceConfig {
        alignment: 32,
        ..PlaceConfig::default()
    };
    let refused = pool.serve(Arc::new(recorder.plan(&fine).unwrap()));
    assert!(matches!(
        refused,
        Err(ServeError::Alignment {
            plan: 32,
            pool: 512
        })
    ));
    let taken = allocate(&pool, 5, &lane);
    let plan = Arc::new(recorder.plan(&PlaceConfig::default()).unwrap());
    let refused = pool.serve(plan);
    assert!(matches!(
        refused,
        Err(ServeError::NoRoom { live, .. }) if live == 5 * GRANULE
    ));
    pool.free(taken, Frontier::new()).unwrap();
    // The next step finds the memory.
    pool.begin_step();
    step(&pool, &lane);
    assert_eq!(pool.planned_stats().served, 4);
}

#[test]
fn a_block_of_a_plan_belongs_to_its_pool_alone() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    let block = allocate(&pool, 2, &lane);
    let refused = pool.inner().free(block, Frontier::new()).unwrap_err();
    assert!(matches!(refused.kind, FreeErrorKind::ForeignPool { .. }));
    pool.free(*refused.allocation, Frontier::new()).unwrap();
}

#[test]
fn what_is_carried_over_is_found_a_place_in_the_region_in_the_third_step() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    // A block of each step is freed when the next has begun.
    let carried = std::cell::RefCell::new(None);
    let step = || {
        let before = carried.borrow_mut().take();
        let large = allocate(&pool, 6, &lane);
        if let Some(before) = before {
            pool.free(before, Frontier::new()).unwrap();
        }
        *carried.borrow_mut() = Some(allocate(&pool, 4, &lane));
        pool.free(large, Frontier::new()).unwrap();
    };
    pool.start_recording();
    for _ in 0..2 {
        step();
        pool.begin_step();
    }
    let recorder = pool.take_recording().unwrap();
    let plan = Arc::new(recorder.plan(&PlaceConfig::default()).unwrap());
    assert!(matches!(pool.serve(plan), Err(ServeError::NoRoom { .. })));
    for _ in 0..4 {
        pool.begin_step();
        step();
    }
    let stats = pool.planned_stats();
    assert_eq!((stats.served, stats.departed), (4, 0));
    let last = carried.take().unwrap();
    pool.free(last, Frontier::new()).unwrap();
}

#[test]
fn what_is_served_is_in_the_list_of_events_and_the_region_is_told_block_by_block() {
    let Fixture { timeline, pool, .. } = fixture(64 * GRANULE);
    let lane = timeline.register(None).unwrap();
    serve(&pool, || drop(step(&pool, &lane)));
    let before = pool.snapshot().events.len();
    let kept = pool
        .allocate(Request::new(2 * GRANULE - 100).on(lane.id()).tagged(Tag(7)))
        .unwrap();
    let large = allocate(&pool, 6, &lane);
    let use_of_large = lane.submit(1);
    let place = large.ptr();
    pool.free(large, Frontier::from(use_of_large)).unwrap();
    let snapshot = pool.snapshot();
    let told: Vec<_> = snapshot.events[before..]
        .iter()
        .map(|event| (event.kind, event.ptr, event.bytes, event.lane))
        .collect();
    let (got, back) = (MemoryEventKind::Allocated, MemoryEventKind::Freed);
    let mine = Some(lane.id());
    assert_eq!(
        told,
        [
            (got, kept.ptr(), 2 * GRANULE - 100, mine),
            (got, place, 6 * GRANULE, mine),
            (back, place, 6 * GRANULE, mine),
        ]
    );
    let chunks = snapshot.blocks.iter().flat_map(|block| &block.chunks);
    let mut region: Vec<_> = chunks
        .filter(|chunk| chunk.ptr == kept.ptr() || chunk.ptr == place)
        .map(|chunk| (chunk.bytes, chunk.state))
        .collect();
    region.sort_by_key(|(bytes, _)| *bytes);
    let pending = ChunkState::Pending { lane: Some(0) };
    assert_eq!(
        region,
        [
            (2 * GRANULE, ChunkState::Live { padding: 100 }),
            (6 * GRANULE, pending),
        ]
    );
    // A region that is let go is told so, and what lives on is the pool's, as large as it was asked for.
    pool.stop_serving();
    assert_eq!(pool.stats().live_bytes, 2 * GRANULE - 100);
    assert_eq!(pool.lookup(kept.ptr()).unwrap().tag, Some(Tag(7)));
    pool.free(kept, Frontier::new()).unwrap();
    let kinds: Vec<_> = pool
        .snapshot()
        .events
        .iter()
        .map(|event| event.kind)
        .collect();
    let begun = kinds
        .iter()
        .filter(|kind| **kind == MemoryEventKind::PlanBegun);
    assert_eq!(begun.count(), 1);
    assert!(kinds.ends_with(&[MemoryEventKind::PlanEnded, back]));
    assert!(pool.check().unwrap());
}
