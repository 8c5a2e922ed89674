//! A plain model of a device with lanes: exact vector clocks, every use of every byte remembered, nothing clever.
//!
//! The pool under test sees the same program. Memory it hands out must be free of every use that is neither complete
//! nor ordered before the taker, by the model's clocks.

#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::HashMap;
use std::sync::Arc;

use piton_alloc::{
    AddressLookup, AllocError, Allocation, DevicePool, MemoryEventKind, MemoryPool,
    MemoryPoolConfig, Planned, Request,
};
use piton_timeline::{Frontier, Lane, Timeline, Timepoint};

use crate::source::Books;

/// Per lane, how much of it is ordered before.
type Clock = Vec<u64>;

/// A use of memory by a submission.
#[derive(Clone, Copy, Debug)]
struct Use {
    start: u64,
    end: u64,
    lane: usize,
    seq: u64,
}

/// How an allocation is used before it is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses {
    /// Bit per lane.
    pub(crate) lanes: u8,
}

pub(crate) struct World {
    pub(crate) source: Arc<Books>,
    pub(crate) pool: Arc<DevicePool>,
    /// Stands around the pool, if it is there.
    pub(crate) planned: Option<Planned>,
    pub(crate) live: Vec<Allocation>,
    /// Whether a look-up by address tells the lane.
    knows_lanes: bool,
    timeline: Arc<Timeline>,
    lanes: Vec<Lane>,
    /// What a lane's next submission is ordered behind.
    seen: Vec<Clock>,
    /// What each submission was ordered behind, itself included; entry 0 is the lane's beginning.
    clocks: Vec<Vec<Clock>>,
    done: Clock,
    uses: Vec<Use>,
}

impl World {
    pub(crate) const LANES: usize = 3;

    pub(crate) fn new(capacity: u64, config: &MemoryPoolConfig) -> Self {
        Self::over(Books::new(capacity), config)
    }

    /// On a device that maps pages.
    pub(crate) fn with_pages(capacity: u64, config: &MemoryPoolConfig) -> Self {
        Self::over(Books::with_pages(capacity), config)
    }

    fn over(source: Books, config: &MemoryPoolConfig) -> Self {
        let source = Arc::new(source);
        let timeline = Timeline::new();
        let pool = DevicePool::new(source.clone(), Arc::clone(&timeline), config)
            .expect("a right configuration");
        let lanes = (0..Self::LANES).map(|_| timeline.register(None).expect("lanes are few"));
        Self {
            source,
            pool: Arc::new(pool),
            planned: None,
            live: Vec::new(),
            knows_lanes: config.address_lookup == AddressLookup::Tables,
            lanes: lanes.collect(),
            timeline,
            seen: vec![vec![0; Self::LANES]; Self::LANES],
            clocks: vec![vec![vec![0; Self::LANES]]; Self::LANES],
            done: vec![0; Self::LANES],
            uses: Vec::new(),
        }
    }

    /// Puts a pool that serves from plans around the pool.
    pub(crate) fn with_plans(mut self) -> Self {
        self.planned = Some(Planned::new(Arc::clone(&self.pool)));
        self
    }

    fn memory(&self) -> &dyn MemoryPool {
        match &self.planned {
            Some(planned) => planned,
            None => &self.pool,
        }
    }

    pub(crate) fn allocate(&mut self, bytes: u64, align: u64, lane: Option<usize>) {
        let mut request = Request::new(bytes).aligned_to(align);
        if let Some(lane) = lane {
            request = request.on(self.lanes[lane].id());
        }
        match self.memory().allocate(request) {
            Ok(allocation) => self.accept(allocation, align, lane),
            Err(AllocError::FullNow(full)) => {
                // Where pages are mapped, a request may straddle one more than it has bytes for.
                let most =
                    2 * crate::source::GRANULE * u64::from(self.pool.has_virtual_addressing());
                let limited = full.held + bytes + most > full.limit || full.recovery.refused > 0;
                assert!(limited, "the source was not asked: {full}");
                assert!(
                    full.largest_hole < full.rounded || align > 512,
                    "a hole was overlooked: {full}"
                );
            }
            Err(AllocError::NeverFits { rounded, limit, .. }) => assert!(rounded > limit),
            Err(AllocError::Driver(error)) => assert!(self.source.has_fired(), "{error}"),
            Err(error) => panic!("{error}"),
        }
        self.audit();
    }

    fn accept(&mut self, allocation: Allocation, align: u64, lane: Option<usize>) {
        for point in allocation.wait().points().to_vec() {
            let lane = lane.expect("waits need a lane");
            self.wait(lane, point);
        }
        assert!(allocation.ptr().is_aligned_to(align.max(512)));
        let start = allocation.ptr().address();
        let end = start + allocation.rounded_bytes();
        assert!(self.source.backs(start, end), "memory that is not there");
        for other in &self.live {
            let first = other.ptr().address();
            let apart = end <= first || first + other.rounded_bytes() <= start;
            assert!(apart, "two live allocations overlap");
        }
        for past in self
            .uses
            .iter()
            .filter(|past| past.start < end && start < past.end)
        {
            let done = self.done[past.lane] >= past.seq;
            let ordered = lane.is_some_and(|lane| self.seen[lane][past.lane] >= past.seq);
            assert!(
                done || ordered,
                "handed out under {past:?} for lane {lane:?}"
            );
        }
        self.live.push(allocation);
    }

    /// Uses an allocation on some lanes and gives it back.
    pub(crate) fn free(&mut self, pick: usize, uses: Uses) {
        if self.live.is_empty() {
            return;
        }
        let allocation = self.live.swap_remove(pick % self.live.len());
        let home = allocation.lane().map(|lane| lane.index as usize);
        let mut last_uses = Frontier::new();
        for lane in (0..Self::LANES).filter(|lane| uses.lanes & (1 << lane) != 0) {
            if let Some(home) = home.filter(|home| *home != lane) {
                // Another lane's use is ordered behind the lane the memory was handed to, as any program must.
                let handed_over = self.submit(home);
                self.wait(lane, handed_over);
            }
            let point = self.submit(lane);
            last_uses.insert(point);
            self.uses.push(Use {
                start: allocation.ptr().address(),
                end: allocation.ptr().address() + allocation.rounded_bytes(),
                lane,
                seq: point.seq,
            });
        }
        let ptr = allocation.ptr();
        self.memory()
            .free(allocation, last_uses)
            .expect("it is the pool's");
        assert_eq!(self.memory().lookup(ptr), None, "it is nobody's");
        self.audit();
    }

    pub(crate) fn submit(&mut self, lane: usize) -> Timepoint {
        let seq = self.clocks[lane].len() as u64;
        self.seen[lane][lane] = seq;
        self.clocks[lane].push(self.seen[lane].clone());
        self.lanes[lane].submit(seq)
    }

    /// Orders a lane behind what another has submitted so far.
    pub(crate) fn synchronise(&mut self, lane: usize, with: usize) {
        let point = self.lanes[with].now();
        if lane != with {
            self.wait(lane, point);
        }
    }

    fn wait(&mut self, lane: usize, point: Timepoint) {
        let submitted = usize::try_from(point.seq).expect("few submissions");
        let behind = self.clocks[point.lane.index as usize][submitted].clone();
        join(&mut self.seen[lane], &behind);
        let after = self.lanes[lane].now();
        self.lanes[lane].note_wait(point, after);
    }

    /// Completes a share of a lane's submissions, and whatever they are ordered behind.
    pub(crate) fn complete(&mut self, lane: usize, share: u64) {
        let submitted = self.clocks[lane].len() as u64 - 1;
        let behind = usize::try_from(submitted * share.min(100) / 100).expect("few submissions");
        let clock = self.clocks[lane][behind].clone();
        join(&mut self.done, &clock);
        for (lane, done) in self.lanes.iter().zip(&self.done) {
            lane.complete(*done);
        }
        let done = &self.done;
        self.uses.retain(|past| done[past.lane] < past.seq);
    }

    pub(crate) fn trim(&mut self, keep: u64) {
        let before = self.source.held();
        let returned = self.pool.trim(keep);
        assert_eq!(self.source.held(), before - returned);
        self.audit();
    }

    /// Gives everything back; then nothing may be left.
    pub(crate) fn finish(mut self) {
        self.compare_events();
        while !self.live.is_empty() {
            self.free(0, Uses { lanes: 0 });
        }
        for lane in 0..Self::LANES {
            self.complete(lane, 100);
        }
        // The first may meet a planned fault.
        self.trim(0);
        self.trim(0);
        assert_eq!(self.source.held(), 0);
        let recorded = self.source.errors();
        assert_eq!(self.pool.take_error(), recorded.first().copied());
        self.source.fail_no_call();
        drop((self.planned, self.pool));
        assert_eq!(self.source.reservations(), 0);
    }

    /// What the list of events says to be live is live, if nothing has left the list.
    pub(crate) fn compare_events(&self) {
        let snapshot = match &self.planned {
            Some(planned) => planned.snapshot(),
            None => self.pool.snapshot(),
        };
        let mut told = HashMap::new();
        for event in &snapshot.events {
            match event.kind {
                MemoryEventKind::Allocated => {
                    let before = told.insert(event.ptr, (event.bytes, event.lane));
                    assert_eq!(before, None, "handed out twice: {event:?}");
                }
                MemoryEventKind::Freed => {
                    let before = told.remove(&event.ptr);
                    assert_eq!(before, Some((event.bytes, event.lane)), "{event:?}");
                }
                _ => {}
            }
        }
        let live = self.live.iter();
        let live = live.map(|live| (live.ptr(), (live.bytes(), live.lane())));
        assert_eq!(told, live.collect());
    }

    fn audit(&self) {
        self.pool.check().expect("consistent");
        let stats = self.memory().stats();
        assert_eq!(stats.held_bytes, self.source.held());
        assert!(stats.in_transit_bytes == 0 || self.pool.has_virtual_addressing());
        let live = self.live.iter().map(Allocation::bytes).sum::<u64>();
        assert_eq!(
            (stats.live_bytes, stats.allocations),
            (live, self.live.len() as u64)
        );
        if let Some(planned) = &self.planned {
            assert_eq!(planned.check().ok(), Some(true), "places apart");
        }
        assert_eq!(
            stats.held_bytes,
            stats.live_bytes
                + stats.padding_bytes
                + stats.cached_bytes
                + stats.pending_bytes
                + stats.in_transit_bytes
        );
        for allocation in &self.live {
            let start = allocation.ptr().address();
            assert!(self.source.backs(start, start + allocation.rounded_bytes()));
            self.look_up(allocation);
        }
    }

    /// Any address of an allocation leads to it, and the first one behind it to another or to none.
    fn look_up(&self, allocation: &Allocation) {
        let last = allocation
            .ptr()
            .checked_add(allocation.bytes() - 1)
            .expect("in range");
        let info = self.memory().lookup(last).expect("it is live");
        assert_eq!(
            (info.ptr, info.offset, info.bytes),
            (allocation.ptr(), allocation.bytes() - 1, allocation.bytes())
        );
        let after = allocation.ptr().checked_add(allocation.rounded_bytes());
        let next = after.and_then(|after| self.memory().lookup(after));
        assert!(next.is_none_or(|next| Some(next.ptr) == after));
        assert_eq!(info.id, allocation.id());
        if self.knows_lanes {
            assert_eq!((info.lane, info.tag), (allocation.lane(), allocation.tag()));
        }
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
