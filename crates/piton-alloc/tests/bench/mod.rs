//! A pool over a source that keeps the books, and three lanes whose work ends when the test says so.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::sync::Arc;

use piton_alloc::{
    AllocError, Allocation, DevicePool, ExactBlocks, FullNow, MemoryPoolConfig, Request,
};
use piton_timeline::{Lane, Timeline, Timepoint};

use crate::source::Books;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const BLOCK: u64 = 64 * KIB;

/// Small Blocks, none of exact size, no growth.
pub(crate) fn config() -> MemoryPoolConfig {
    MemoryPoolConfig {
        block_bytes: Some(BLOCK),
        growth_percent: 0,
        exact_blocks: ExactBlocks::Never,
        ..MemoryPoolConfig::default()
    }
}

pub(crate) struct Bench {
    pub(crate) source: Arc<Books>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) pool: DevicePool,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) submitted: Vec<u64>,
}

impl Bench {
    pub(crate) fn new(capacity: u64, config: MemoryPoolConfig) -> Self {
        let source = Arc::new(Books::new(capacity));
        let timeline = Timeline::new();
        let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), &config).unwrap();
        Self::over(source, timeline, pool)
    }

    pub(crate) fn over(source: Arc<Books>, timeline: Arc<Timeline>, pool: DevicePool) -> Self {
        let lanes: Vec<Lane> = (0..3).map(|_| timeline.register(None).unwrap()).collect();
        Self {
            source,
            timeline,
            pool,
            submitted: vec![0; lanes.len()],
            lanes,
        }
    }

    pub(crate) fn on(&self, lane: usize, bytes: u64) -> Allocation {
        let request = Request::new(bytes).on(self.lanes[lane].id());
        self.pool.allocate(request).unwrap()
    }

    /// Work on the lane that is not complete.
    pub(crate) fn work(&mut self, lane: usize) -> Timepoint {
        self.submitted[lane] += 1;
        self.lanes[lane].submit(self.submitted[lane])
    }

    pub(crate) fn complete(&self, lane: usize) {
        self.lanes[lane].complete(self.submitted[lane]);
    }

    pub(crate) fn free(&self, allocation: Allocation, uses: impl IntoIterator<Item = Timepoint>) {
        self.pool
            .free(allocation, uses.into_iter().collect())
            .unwrap();
        self.pool.check().unwrap();
    }

    pub(crate) fn full_now(&self, request: Request) -> FullNow {
        match self.pool.allocate(request) {
            Err(AllocError::FullNow(full)) => *full,
            other => panic!("expected FullNow, got {other:?}"),
        }
    }
}
