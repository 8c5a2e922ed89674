//! Allocations that give their pages back and keep their addresses.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod source;

use std::sync::Arc;

use piton_alloc::{
    AllocError, Allocation, DevicePool, MemoryPoolConfig, Request, ResumeErrorKind,
    SuspendErrorKind, Suspended,
};
use piton_driver::{DevicePtr, ErrorKind};
use piton_timeline::{Frontier, Lane, Timeline};
use source::{Books, GRANULE};

const CAPACITY: u64 = 64 * GRANULE;

struct Bench {
    source: Arc<Books>,
    pool: DevicePool,
    lane: Lane,
}

impl Bench {
    fn over(source: Books) -> Self {
        let source = Arc::new(source);
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        let config = MemoryPoolConfig::default();
        let pool = DevicePool::new(source.clone(), timeline, &config).unwrap();
        Self { source, pool, lane }
    }

    fn new() -> Self {
        Self::over(Books::with_pages(CAPACITY))
    }

    fn take(&self, bytes: u64) -> Allocation {
        let request = Request::new(bytes).on(self.lane.id());
        self.pool.allocate(request).unwrap()
    }

    fn give(&self, allocation: Allocation) {
        self.pool.free(allocation, Frontier::new()).unwrap();
        self.check();
    }

    fn check(&self) {
        self.pool.check().unwrap();
        assert_eq!(self.pool.stats().held_bytes, self.source.held());
    }

    fn suspend(&self, allocations: Vec<Allocation>) -> Suspended {
        let suspended = self.pool.suspend(allocations, &Frontier::new()).unwrap();
        self.check();
        suspended
    }

    fn backs(&self, ptr: DevicePtr, bytes: u64) -> bool {
        self.source.backs(ptr.address(), ptr.address() + bytes)
    }
}

/// Sizes that share pages with each other and with what is free between them.
const SIZES: [u64; 6] = [5000, 3 * GRANULE, 700, 9 * GRANULE + 100, 512, 2 * GRANULE];

#[test]
fn a_whole_pool_gives_all_its_pages_back_and_has_the_same_addresses_afterwards() {
    let bench = Bench::new();
    let mut live: Vec<Allocation> = SIZES.iter().map(|bytes| bench.take(*bytes)).collect();
    bench.give(live.remove(3));
    bench.give(live.remove(1));
    let before: Vec<(DevicePtr, u64)> = live.iter().map(|one| (one.ptr(), one.bytes())).collect();
    let held = bench.source.held();
    let suspended = bench.suspend(live);
    bench.pool.trim(0);
    assert_eq!(bench.source.held(), 0, "nothing is left of the pool");
    assert!(suspended.released() > 0 && suspended.released() <= held);
    assert_eq!(suspended.error(), None);
    let stats = bench.pool.stats();
    assert_eq!(
        stats.suspended_bytes,
        stats.live_bytes + stats.padding_bytes
    );
    bench.check();
    let live = bench.pool.resume(suspended).unwrap();
    bench.check();
    assert_eq!(bench.pool.stats().suspended_bytes, 0);
    let after: Vec<(DevicePtr, u64)> = live.iter().map(|one| (one.ptr(), one.bytes())).collect();
    assert_eq!(before, after);
    assert!(live.iter().all(|one| bench.backs(one.ptr(), one.bytes())));
    live.into_iter().for_each(|one| bench.give(one));
    bench.pool.trim(0);
    assert_eq!(bench.source.held(), 0);
}

#[test]
fn what_shares_pages_with_others_keeps_them_and_the_others_keep_their_memory() {
    let bench = Bench::new();
    let [first, second] = [3 * GRANULE + 512, 2 * GRANULE].map(|bytes| bench.take(bytes));
    let (ptr, bytes) = (second.ptr(), second.bytes());
    let suspended = bench.suspend(vec![first]);
    assert!(bench.backs(ptr, bytes));
    assert!(suspended.released() <= 3 * GRANULE);
    assert_eq!(suspended.ranges().len(), 1);
    bench.give(second);
    let first = bench.pool.resume(suspended).unwrap();
    bench.check();
    first.into_iter().for_each(|one| bench.give(one));
}

#[test]
fn addresses_of_suspended_memory_are_nobody_elses() {
    let bench = Bench::new();
    let big = bench.take(40 * GRANULE);
    let (start, end) = (big.ptr().address(), big.ptr().address() + big.bytes());
    let suspended = bench.suspend(vec![big]);
    // Their pages serve others meanwhile.
    let others: Vec<Allocation> = (0..7).map(|_| bench.take(7 * GRANULE)).collect();
    for other in &others {
        let at = other.ptr().address();
        assert!(at + other.bytes() <= start || end <= at);
    }
    bench.check();
    let refused = bench.pool.resume(suspended).unwrap_err();
    assert!(
        matches!(refused.kind, ResumeErrorKind::NoRoom { .. }),
        "{refused}"
    );
    bench.check();
    others.into_iter().for_each(|one| bench.give(one));
    let big = bench.pool.resume(*refused.suspended).unwrap();
    bench.check();
    big.into_iter().for_each(|one| bench.give(one));
}

#[test]
fn an_error_for_want_of_memory_tells_what_is_suspended() {
    let bench = Bench::new();
    let suspended = bench.suspend(vec![bench.take(40 * GRANULE)]);
    let kept = bench.take(60 * GRANULE);
    let refused = bench.pool.allocate(Request::new(8 * GRANULE)).unwrap_err();
    let AllocError::FullNow(full) = &refused else {
        panic!("{refused}");
    };
    assert_eq!(full.suspended, bench.pool.stats().suspended_bytes);
    let sum = full.live + full.padding + full.cached + full.pending + full.in_transit;
    assert_eq!(full.held, sum - full.suspended);
    assert!(
        refused.to_string().contains(" - 163840 suspended; "),
        "{refused}"
    );
    bench.give(kept);
    bench.pool.discard(suspended).unwrap();
}

#[test]
fn suspended_memory_can_be_given_back_for_good() {
    let bench = Bench::new();
    let live = SIZES.iter().map(|bytes| bench.take(*bytes)).collect();
    let suspended = bench.suspend(live);
    bench.pool.discard(suspended).unwrap();
    bench.check();
    let stats = bench.pool.stats();
    assert_eq!(
        (stats.live_bytes, stats.allocations, stats.suspended_bytes),
        (0, 0, 0)
    );
    bench.give(bench.take(60 * GRANULE));
}

#[test]
fn memory_that_work_still_uses_is_not_suspended() {
    let bench = Bench::new();
    let one = bench.take(4 * GRANULE);
    let working = bench.lane.submit(1);
    let uses = Frontier::from(working);
    let refused = bench.pool.suspend(vec![one], &uses).unwrap_err();
    assert_eq!(refused.kind, SuspendErrorKind::InUse { pending: working });
    bench.check();
    bench.lane.complete(1);
    let suspended = bench.pool.suspend(refused.allocations, &uses).unwrap();
    assert!(suspended.released() > 0);
    bench.pool.discard(suspended).unwrap();
}

#[test]
fn blocks_and_allocations_of_others_are_refused_and_given_back() {
    let blocks = Bench::over(Books::new(CAPACITY));
    let one = blocks.take(GRANULE);
    let refused = blocks
        .pool
        .suspend(vec![one], &Frontier::new())
        .unwrap_err();
    assert_eq!(refused.kind, SuspendErrorKind::NoVirtualAddressing);
    let (pages, others) = (Bench::new(), Bench::new());
    let refused = pages.pool.suspend(refused.allocations, &Frontier::new());
    let refused = refused.unwrap_err();
    assert!(matches!(refused.kind, SuspendErrorKind::ForeignPool { .. }));
    refused
        .allocations
        .into_iter()
        .for_each(|one| blocks.give(one));
    let suspended = others.suspend(vec![others.take(GRANULE)]);
    let suspended = pages.pool.discard(suspended).unwrap_err();
    let refused = pages.pool.resume(*suspended).unwrap_err();
    assert!(matches!(refused.kind, ResumeErrorKind::ForeignPool { .. }));
    others.pool.discard(*refused.suspended).unwrap();
    others.check();
}

/// Suspends, resumes and gives back; says whether a call failed.
fn run_with_fault(call: u64) -> bool {
    let bench = Bench::new();
    let mut live: Vec<Allocation> = SIZES.iter().map(|bytes| bench.take(*bytes)).collect();
    bench.give(live.remove(3));
    bench.source.fail_call(call);
    let mut suspended = bench.suspend(live);
    if let Some(error) = suspended.error() {
        assert!(matches!(error.kind, ErrorKind::Injected { .. }));
    }
    let live = loop {
        match bench.pool.resume(suspended) {
            Ok(live) => break live,
            Err(refused) => {
                assert!(
                    matches!(refused.kind, ResumeErrorKind::Driver(_)),
                    "{refused}"
                );
                bench.check();
                suspended = *refused.suspended;
            }
        }
    };
    bench.check();
    assert!(live.iter().all(|one| bench.backs(one.ptr(), one.bytes())));
    let fired = bench.source.has_fired();
    bench.source.fail_no_call();
    live.into_iter().for_each(|one| bench.give(one));
    bench.pool.trim(0);
    assert_eq!(bench.source.held(), 0, "after the failure of call {call}");
    fired
}

#[test]
fn a_failing_call_leaks_nothing_and_what_is_suspended_can_be_resumed_or_discarded() {
    let calls = (1..).take_while(|call| run_with_fault(*call)).count();
    assert!(calls >= 6, "only {calls} calls");
}
