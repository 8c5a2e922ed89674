//! What the pool promises where the device maps pages, one example each.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::sync::Arc;

use piton_alloc::{
    AllocError, Allocation, ChunkState, ConfigError, DevicePool, ExactBlocks, MemoryPoolConfig,
    Request, VirtualAddressing,
};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline};
use source::{Books, GRANULE};

const CAPACITY: u64 = 64 * GRANULE;

fn config() -> MemoryPoolConfig {
    MemoryPoolConfig {
        virtual_addressing: VirtualAddressing::On,
        small_below: Some(0),
        ..MemoryPoolConfig::default()
    }
}

struct Bench {
    source: Arc<Books>,
    timeline: Arc<Timeline>,
    pool: DevicePool,
}

impl Bench {
    fn new() -> Self {
        let source = Arc::new(Books::with_pages(CAPACITY));
        let timeline = Timeline::new();
        let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &config()).unwrap();
        Self {
            source,
            timeline,
            pool,
        }
    }

    fn take(&self, pages: u64) -> Allocation {
        self.pool.allocate(Request::new(pages * GRANULE)).unwrap()
    }

    fn free(&self, allocation: Allocation) {
        self.pool.free(allocation, Frontier::new()).unwrap();
        self.pool.check().unwrap();
    }
}

#[track_caller]
fn check_refused(source: Books, config: MemoryPoolConfig, expected: ConfigError) {
    let refused = DevicePool::new(Arc::new(source), Timeline::new(), &config).err();
    assert_eq!(refused, Some(expected));
}

#[test]
fn virtual_addressing_is_chosen_by_the_source_and_forced_by_the_configuration() {
    let automatic = MemoryPoolConfig::default();
    for (source, expected) in [
        (Books::new(CAPACITY), false),
        (Books::with_pages(CAPACITY), true),
    ] {
        let pool = DevicePool::new(Arc::new(source), Timeline::new(), &automatic).unwrap();
        assert_eq!(pool.has_virtual_addressing(), expected);
    }
    let off = MemoryPoolConfig {
        virtual_addressing: VirtualAddressing::Off,
        ..automatic
    };
    let source = Arc::new(Books::with_pages(CAPACITY));
    let pool = DevicePool::new(source.clone(), Timeline::new(), &off).unwrap();
    assert!(!pool.has_virtual_addressing());
    assert_eq!(source.reservations(), 0);
    check_refused(Books::new(CAPACITY), config(), ConfigError::NoVirtualMemory);
}

#[test]
fn settings_that_cannot_take_effect_are_refused() {
    let pages = || Books::with_pages(CAPACITY);
    let refused = ConfigError::BlockSettingsWithoutBlocks;
    for config in [
        MemoryPoolConfig {
            block_bytes: Some(GRANULE),
            ..config()
        },
        MemoryPoolConfig {
            exact_blocks: ExactBlocks::Never,
            ..config()
        },
        MemoryPoolConfig {
            growth_percent: 7,
            ..config()
        },
    ] {
        check_refused(pages(), config, refused);
    }
    let off = MemoryPoolConfig {
        virtual_addressing: VirtualAddressing::Off,
        ..config()
    };
    check_refused(pages(), off, ConfigError::SmallWithoutPages);
    let (given, limit) = (CAPACITY + 1, CAPACITY);
    let too_large = MemoryPoolConfig {
        small_below: Some(given),
        ..config()
    };
    check_refused(pages(), too_large, ConfigError::SmallBelow { given, limit });
}

#[test]
fn pages_of_scattered_holes_serve_one_request() {
    let bench = Bench::new();
    let mut teeth: Vec<_> = (0..16).map(|_| bench.take(4)).collect();
    let kept: Vec<_> = (0..8).map(|at| teeth.remove(at)).collect();
    teeth.into_iter().for_each(|tooth| bench.free(tooth));
    let large = bench.take(32);
    assert_eq!(bench.source.held(), CAPACITY);
    assert!(large.wait().is_empty());
    // The last hole lies beside addresses that nothing backs: it serves where it is.
    let stats = bench.pool.stats();
    assert_eq!((stats.stolen_bytes, stats.cached_bytes), (28 * GRANULE, 0));
    kept.into_iter().for_each(|tooth| bench.free(tooth));
}

#[test]
fn pages_are_not_unmapped_before_the_host_has_seen_their_last_use() {
    let bench = Bench::new();
    let lane = bench.timeline.register(None).unwrap();
    let used = bench.take(8);
    let start = used.ptr().address();
    bench
        .pool
        .free(used, Frontier::from(lane.submit(1)))
        .unwrap();
    assert_eq!(bench.pool.trim(0), 0);
    assert!(bench.source.backs(start, start + 8 * GRANULE));
    lane.complete(1);
    assert_eq!(bench.pool.trim(0), 8 * GRANULE);
    assert!(!bench.source.backs(start, start + GRANULE));
}

#[test]
fn pending_memory_and_new_pages_serve_one_request_together() {
    let bench = Bench::new();
    let lanes = [(); 2].map(|()| bench.timeline.register(None).unwrap());
    let used = bench.take(8);
    let place = used.ptr();
    let last = lanes[0].submit(1);
    bench.pool.free(used, Frontier::from(last)).unwrap();
    let larger = Request::new(12 * GRANULE).on(lanes[1].id());
    let larger = bench.pool.allocate(larger).unwrap();
    assert_eq!(larger.ptr(), place);
    assert_eq!(larger.wait().points(), [last]);
    assert!(bench.source.held() <= 13 * GRANULE);
}

#[test]
fn an_address_is_translated_where_a_page_is() {
    let bench = Bench::new();
    let taken = bench.take(3);
    let inside = taken.ptr().checked_add(2 * GRANULE + 5).unwrap();
    let first = bench.pool.translate(taken.ptr()).unwrap();
    let third = bench.pool.translate(inside).unwrap();
    // A device this small has handles of one page.
    assert_ne!(third.handle, first.handle);
    assert_eq!((first.offset, third.offset), (0, 5));
    let beyond = taken.ptr().checked_add(CAPACITY).unwrap();
    assert_eq!(bench.pool.translate(beyond), None);
    let snapshot = bench.pool.snapshot();
    let chunks = snapshot.blocks.iter().flat_map(|block| &block.chunks);
    let backed = chunks.filter(|chunk| chunk.state != ChunkState::Unbacked);
    assert_eq!(backed.map(|chunk| chunk.bytes).sum::<u64>(), 3 * GRANULE);
}

#[test]
fn the_callback_may_free_what_is_needed() {
    let bench = Bench::new();
    let spare = Arc::new(Mutex::new(Some(bench.take(40))));
    let pool = Arc::new(bench.pool);
    let (kept, freeing) = (Arc::clone(&spare), Arc::downgrade(&pool));
    pool.on_out_of_memory(move |full| {
        assert_eq!(full.requested, 30 * GRANULE);
        let (Some(pool), Some(allocation)) = (freeing.upgrade(), kept.lock().take()) else {
            return false;
        };
        pool.free(allocation, Frontier::new()).is_ok()
    });
    let first = pool.allocate(Request::new(30 * GRANULE)).unwrap();
    assert!(spare.lock().is_none());
    let second = pool.allocate(Request::new(30 * GRANULE)).unwrap();
    // Nothing is left to free.
    let refused = pool.allocate(Request::new(30 * GRANULE)).unwrap_err();
    assert!(matches!(refused, AllocError::FullNow(full) if full.recovery.callbacks == 0));
    for allocation in [first, second] {
        pool.free(allocation, Frontier::new()).unwrap();
    }
    pool.check().unwrap();
}

/// Four blocks, one of which gives way to two smaller ones.
fn half_of_a_block_is_reused(bench: &Bench) -> u32 {
    let mut errors = 0;
    let mut live = Vec::new();
    let mut allocate = |live: &mut Vec<Allocation>, pages: u64| {
        match bench.pool.allocate(Request::new(pages * GRANULE)) {
            Ok(allocation) => live.push(allocation),
            Err(AllocError::Driver(_)) => errors += 1,
            Err(error) => panic!("{error}"),
        }
        bench.pool.check().unwrap();
    };
    for _ in 0..4 {
        allocate(&mut live, 8);
    }
    let first = live.remove(0);
    bench.free(first);
    for _ in 0..2 {
        allocate(&mut live, 4);
    }
    live.into_iter()
        .for_each(|allocation| bench.free(allocation));
    errors
}

#[test]
fn one_failing_call_costs_one_request_at_most() {
    for call in 1.. {
        let bench = Bench::new();
        bench.source.fail_call(call);
        let errors = half_of_a_block_is_reused(&bench);
        assert!(errors <= 1, "call {call}");
        if !bench.source.has_fired() {
            assert!(call > 8, "the program reaches the source only {call} times");
            return;
        }
    }
}
