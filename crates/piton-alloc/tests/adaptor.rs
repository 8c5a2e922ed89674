//! What adaptors promise: alone, stacked, and beside a plain model.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use piton_alloc::{
    AllocError, Allocation, Counted, DevicePool, FailWhen, Failing, Limited, Logged, MemoryPool,
    MemoryPoolConfig, OwnedPool, Planned, Request, Tag, Tagged, VirtualAddressing,
};
use piton_timeline::{Frontier, Lane, Timeline};
use proptest::prelude::*;
use source::Books;

const WEIGHTS: Tag = Tag(1);
const CACHE: Tag = Tag(2);

fn pool() -> DevicePool {
    pool_on(&Timeline::new())
}

fn pool_on(timeline: &Arc<Timeline>) -> DevicePool {
    let (source, timeline) = (Arc::new(Books::new(1 << 20)), Arc::clone(timeline));
    DevicePool::new(source, timeline, &MemoryPoolConfig::default()).unwrap()
}

fn free(pool: &impl MemoryPool, allocation: Allocation) {
    pool.free(allocation, Frontier::new()).unwrap();
}

#[test]
fn a_limit_is_reached_and_what_is_freed_can_be_had_again() {
    let pool = Limited::new(pool(), 1000);
    let first = pool.allocate(Request::new(600)).unwrap();
    let refused = AllocError::LimitReached {
        requested: 401,
        in_use: 600,
        limit: 1000,
    };
    assert_eq!(pool.allocate(Request::new(401)).unwrap_err(), refused);
    assert_eq!(
        refused.to_string(),
        "401 bytes requested with 600 in use of a limit of 1000"
    );
    let second = pool.allocate(Request::new(400)).unwrap();
    free(&pool, first);
    let third = pool.allocate(Request::new(600)).unwrap();
    let usage = pool.usage();
    assert_eq!(
        (usage.live_bytes, usage.peak_live_bytes, usage.refused),
        (1000, 1000, 1)
    );
    free(&pool, second);
    free(&pool, third);
    assert_eq!((pool.usage().live_bytes, pool.usage().allocations), (0, 0));
}

#[test]
fn what_the_pool_refuses_is_not_counted_as_used() {
    let pool = Limited::new(pool(), u64::MAX);
    let request = Request::new(2 << 20);
    assert!(matches!(
        pool.allocate(request),
        Err(AllocError::NeverFits { .. })
    ));
    assert!(matches!(
        pool.allocate(Request::new(0)),
        Err(AllocError::ZeroBytes)
    ));
    assert_eq!((pool.usage().live_bytes, pool.usage().allocations), (0, 0));
}

#[test]
fn an_allocation_of_another_pool_changes_no_count() {
    let (pool, other) = (Limited::new(pool(), 1000), pool());
    let mine = pool.allocate(Request::new(500)).unwrap();
    let foreign = DevicePool::allocate(&other, Request::new(300)).unwrap();
    let error = pool.free(foreign, Frontier::new()).unwrap_err();
    assert_eq!(pool.usage().live_bytes, 500);
    free(&other, *error.allocation);
    free(&pool, mine);
}

#[test]
fn each_tag_has_its_limit_and_the_rest_has_none() {
    let pool = Tagged::new(pool(), [(WEIGHTS, 1000), (CACHE, 500)]);
    let weights = pool.allocate(Request::new(1000).tagged(WEIGHTS)).unwrap();
    let refused = pool.allocate(Request::new(501).tagged(CACHE)).unwrap_err();
    assert_eq!(
        refused,
        AllocError::TagLimitReached {
            tag: CACHE,
            requested: 501,
            in_use: 0,
            limit: 500
        }
    );
    let cache = pool.allocate(Request::new(500).tagged(CACHE)).unwrap();
    let other = pool.allocate(Request::new(5000).tagged(Tag(9))).unwrap();
    let plain = pool.allocate(Request::new(7)).unwrap();
    assert_eq!(pool.other_usage().live_bytes, 5007);
    assert_eq!(pool.usage(Tag(9)), None);
    assert_eq!(cache.tag(), Some(CACHE));
    for allocation in [weights, cache, other, plain] {
        free(&pool, allocation);
    }
    assert!(pool.usages().all(|(_, usage)| usage.live_bytes == 0));
    assert_eq!(pool.other_usage().live_bytes, 0);
}

#[test]
fn requests_fail_when_they_are_to_and_the_pool_is_not_asked() {
    let fails = |when| {
        let pool = Failing::new(pool(), when);
        let ask = |bytes| match pool.allocate(Request::new(bytes)) {
            Ok(allocation) => {
                free(&pool, allocation);
                None
            }
            Err(AllocError::Injected { call }) => Some(call),
            Err(other) => panic!("{other}"),
        };
        let failed: Vec<u64> = (1..=100).filter_map(ask).collect();
        let asked = pool.stats().hits + pool.stats().misses;
        assert_eq!(asked, 100 - failed.len() as u64);
        failed
    };
    assert_eq!(fails(FailWhen::Nth(3)), [3]);
    assert_eq!(fails(FailWhen::Every(40)), [40, 80]);
    assert_eq!(fails(FailWhen::AtLeast(99)), [99, 100]);
    assert!(fails(FailWhen::Nth(0)).is_empty());
    assert!(fails(FailWhen::Every(0)).is_empty());
    let some = FailWhen::PerThousand {
        share: 200,
        seed: 7,
    };
    assert_eq!(fails(some), fails(some));
    assert!((5..40).contains(&fails(some).len()));
    let all = FailWhen::PerThousand {
        share: 1000,
        seed: 7,
    };
    assert_eq!(fails(all).len(), 100);
}

#[test]
fn a_log_says_what_was_asked_in_the_order_of_its_streams() {
    let timeline = Timeline::new();
    let pool = pool_on(&timeline);
    let lanes: Vec<Lane> = (0..2).map(|_| timeline.register(None).unwrap()).collect();
    let before = pool.allocate(Request::new(1)).unwrap();
    let logged = Logged::new(pool, Vec::new());
    let first = logged
        .allocate(Request::new(100).on(lanes[0].id()))
        .unwrap();
    let second = logged
        .allocate(Request::new(200).on(lanes[1].id()))
        .unwrap();
    assert!(logged.allocate(Request::new(0)).is_err());
    let mut uses = Frontier::from(lanes[0].submit(1));
    uses.insert(lanes[1].submit(1));
    logged.free(first, uses).unwrap();
    free(&logged, second);
    // Nothing is known of what was there before the log.
    free(&logged, before);
    let third = logged.allocate(Request::new(300)).unwrap();
    free(&logged, third);
    let (_pool, written) = logged.finish().unwrap();
    let lines = String::from_utf8(written).unwrap();
    assert_eq!(
        lines,
        "a,0,100,0\na,1,200,1\nu,0,1\nf,0,0\nf,1,1\na,2,300,2\nf,2,2\n"
    );
}

/// Takes a few bytes, then none.
#[derive(Debug)]
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= 1;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_that_cannot_be_written_says_so_in_the_end_and_the_pool_goes_on() {
    let logged = Logged::new(pool(), Full(1));
    for _ in 0..3 {
        let allocation = logged.allocate(Request::new(10)).unwrap();
        free(&logged, allocation);
    }
    let error = logged.finish().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

/// Pools of every kind, each with its name.
fn every_kind() -> Vec<(&'static str, Arc<dyn MemoryPool>)> {
    let over = |source: Books, virtual_addressing| {
        let config = MemoryPoolConfig {
            virtual_addressing,
            ..MemoryPoolConfig::default()
        };
        Arc::new(DevicePool::new(Arc::new(source), Timeline::new(), &config).unwrap())
    };
    let blocks = || over(Books::new(1 << 20), VirtualAddressing::Off);
    let pages = || over(Books::with_pages(1 << 20), VirtualAddressing::On);
    let private = |outside: Arc<DevicePool>| {
        let private = outside.private(&MemoryPoolConfig::default());
        Arc::new(private.unwrap())
    };
    vec![
        ("Blocks", blocks()),
        ("pages", pages()),
        ("private within Blocks", private(blocks())),
        ("private within pages", private(pages())),
        ("planned over Blocks", Arc::new(Planned::new(blocks()))),
        ("planned over pages", Arc::new(Planned::new(pages()))),
        (
            "planned over private",
            Arc::new(Planned::new(private(pages()))),
        ),
        (
            "once of one owner",
            Arc::new(OwnedPool::from(pool()).into_shared()),
        ),
    ]
}

#[test]
fn adaptors_stand_around_pools_of_every_kind() {
    for (kind, pool) in every_kind() {
        let counted = Arc::new(Counted::new(Arc::clone(&pool)));
        let tagged = Tagged::new(Limited::new(Arc::clone(&counted), 10_000), [(CACHE, 4_000)]);
        let logged = Logged::new(Failing::new(tagged, FailWhen::Nth(3)), Vec::new());
        let ask = |bytes, tag| logged.allocate(Request::new(bytes).tagged(tag));
        let refused = |bytes, tag| ask(bytes, tag).unwrap_err();
        let weights = ask(6_000, WEIGHTS).unwrap();
        let of_tag = refused(4_001, CACHE);
        assert!(
            matches!(of_tag, AllocError::TagLimitReached { .. }),
            "{kind}"
        );
        assert_eq!(refused(100, WEIGHTS), AllocError::Injected { call: 3 });
        let of_all = refused(4_001, WEIGHTS);
        assert!(matches!(of_all, AllocError::LimitReached { .. }), "{kind}");
        let cache = ask(4_000, CACHE).unwrap();
        let found = logged.lookup(cache.ptr()).map(|info| info.bytes);
        assert_eq!(found, Some(4_000), "{kind}");
        assert_eq!(counted.counts().usage.live_bytes, 10_000, "{kind}");
        free(&logged, weights);
        free(&logged, cache);
        let counts = counted.counts();
        assert_eq!((counts.usage.live_bytes, counts.served), (0, 2), "{kind}");
        assert_eq!(pool.stats().live_bytes, 0, "{kind}");
        let (_, written) = logged.finish().unwrap();
        let lines = String::from_utf8(written).unwrap();
        assert_eq!(lines, "a,0,6000,0\na,1,4000,0\nf,0,0\nf,1,0\n", "{kind}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Allocate { bytes: u64, tag: u32 },
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0_u64..3000, 0_u32..4).prop_map(|(bytes, tag)| Op::Allocate { bytes, tag }),
        any::<usize>().prop_map(Op::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands around whatever: every count is that of a plain list of what is in use.
    #[test]
    fn a_stack_counts_what_a_plain_list_counts(ops in prop::collection::vec(op(), 1..120)) {
        let (whole, of_cache) = (20_000, 6_000);
        let inside = Arc::new(Counted::new(Limited::new(pool(), whole)));
        let failing = Failing::new(Arc::clone(&inside), FailWhen::Every(7));
        let pool = Tagged::new(failing, [(WEIGHTS, u64::MAX), (CACHE, of_cache)]);
        let mut live: Vec<Allocation> = Vec::new();
        let (mut served, mut bytes_served) = (0, 0);
        for op in ops {
            match op {
                Op::Allocate { bytes, tag } => {
                    let used = |tag: Option<u32>| -> u64 {
                        let of = |it: &&Allocation| tag.is_none_or(|tag| it.tag() == Some(Tag(tag)));
                        live.iter().filter(of).map(Allocation::bytes).sum()
                    };
                    let is_in_tag = tag != CACHE.0 || used(Some(tag)) + bytes <= of_cache;
                    let call = pool.inner().calls() + u64::from(is_in_tag);
                    let is_injected = is_in_tag && call.is_multiple_of(7);
                    let is_expected = bytes > 0 && is_in_tag && !is_injected && used(None) + bytes <= whole;
                    let got = pool.allocate(Request::new(bytes).tagged(Tag(tag)));
                    prop_assert_eq!(got.is_ok(), is_expected, "{:?}", got);
                    if let Ok(allocation) = got {
                        (served, bytes_served) = (served + 1, bytes_served + bytes);
                        live.push(allocation);
                    }
                }
                Op::Free(which) if !live.is_empty() => {
                    let allocation = live.swap_remove(which % live.len());
                    free(&pool, allocation);
                }
                Op::Free(_) => {}
            }
            let mut by_tag: BTreeMap<Tag, u64> = BTreeMap::new();
            for it in &live {
                *by_tag.entry(it.tag().unwrap()).or_default() += it.bytes();
            }
            let of = |tag| by_tag.get(&tag).copied().unwrap_or(0);
            let sum: u64 = by_tag.values().sum();
            prop_assert_eq!(pool.usage(WEIGHTS).unwrap().live_bytes, of(WEIGHTS));
            prop_assert_eq!(pool.usage(CACHE).unwrap().live_bytes, of(CACHE));
            prop_assert_eq!(pool.other_usage().live_bytes, of(Tag(0)) + of(Tag(3)));
            prop_assert_eq!(inside.inner().usage().live_bytes, sum);
            let counts = inside.counts();
            prop_assert_eq!((counts.usage.live_bytes, counts.served, counts.served_bytes), (sum, served, bytes_served));
            prop_assert_eq!(counts.by_size.iter().sum::<u64>(), counts.served + counts.failed);
            prop_assert_eq!(pool.stats().live_bytes, sum);
        }
        for allocation in live {
            free(&pool, allocation);
        }
        inside.inner().inner().check().unwrap();
    }
}
