//! A pool that serves the steps of a program from a plan, and everything else as usual.
//!
//! # The idea
//! A program that trains or serves a model does the same again and again. One step is *recorded*: what it asks for,
//! on which stream, and when it frees. [`piton_plan`] places that with hindsight. Later steps are *served*: one
//! region as high as the plan is taken from the pool, and the k-th request of a step gets the k-th place in it, by a
//! table. A request *departs* if it is not the expected one or its place is not free. It then goes to the pool, as
//! every request does while no plan is served.
//!
//! # When a step departs for good
//! A region from which little is served is memory that nobody uses. When what departed in a step exceeds one part in
//! [`SPILL`] of the region, or the pool has no memory left, the plan is *let go*: what is free of the region goes
//! back to the pool at once, each live block becomes an allocation of the pool, and the pool serves the rest of the
//! step. A later step takes a region again.
//!
//! # When a region is taken
//! Beside what is live when a step begins, such as gradients of the step before, a region may be more than the
//! program ever needed. So it is taken only if the pool need not hold more for it than it ever held: pages come from
//! holes, and idle Blocks go back. Where those do not suffice, nothing is touched. A plan that finds no such step in
//! [`TRIES`] steps, and was never let go, is served all the same; from then on what is carried over lies in the
//! region itself. Even then, and with nothing live, holes and idle Blocks come first.
//!
//! # Whose memory is whose
//! - No two live blocks overlap, whatever the program does: the cursor looks at each place before it hands it out
//!   ([`PlanCursor`](piton_plan::PlanCursor)). A block that is freed late, or never, keeps its place until then.
//! - Each piece of the region remembers the last uses of the block that had it last. Whoever gets it next is ordered behind
//!   them, waits for them, or departs, by the rules of `reuse.rs` and the pool's [`CrossLane`](crate::CrossLane).
//! - A region is given back with the last uses of its pieces.
//!
//! # What is remembered
//! What is served and freed goes into an event ring beside the pool's; [`Planned::snapshot`] has both, in their
//! order. A region itself appears as a plan that begins and ends, not as memory that the program allocated.
//!
//! # Protocol
//! One lock around the plan's state, never held while the pool is asked for memory, which may call the source and the program's
//! own callback. It is held while parts of a region are given back, which takes the lock of the pool's books and no other: the
//! order is this lock, then the books.

mod letting_go;
mod recording;
mod serving;
mod snapshot;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use piton_driver::DevicePtr;
use piton_plan::{Plan, Recorder};
use piton_sync::Mutex;
use piton_sync::atomic::Ordering;
use piton_timeline::Frontier;

use crate::adaptor::MemoryPool;
use crate::allocation::{Allocation, AllocationInfo, PoolId};
use crate::error::{AllocError, FreeError, FreeErrorKind, ServeError};
use crate::events::{EventRing, MemoryEventKind};
use crate::ladder::Growth;
use crate::pool::DevicePool;
use crate::request::Request;
use crate::reuse;
use crate::stats::PoolStats;
use recording::Recording;
use serving::{Asked, Served, Serving};

/// What departs in a step before the plan is let go: one part in so many of the region.
const SPILL: u64 = 100;

/// Steps that may begin without room for a region before one is taken all the same.
const TRIES: u32 = 2;

/// A pool around a [`DevicePool`] that records a step of a program and serves later steps from its plan.
///
/// All requests of a program go through it, from any thread. A plan pays off where they come in the same order in
/// each step. A request that the plan does not expect is served by the pool, as are all requests while no plan is
/// served.
///
/// ```
/// # use std::sync::Arc;
/// # use piton_alloc::{DevicePool, MemoryPool, Planned, Request};
/// # use piton_plan::PlaceConfig;
/// # use piton_timeline::Frontier;
/// # fn step(pool: &Planned) -> Result<(), Box<dyn std::error::Error>> {
/// #     let (a, b) = (pool.allocate(Request::new(4096))?, pool.allocate(Request::new(512))?);
/// #     pool.free(a, Frontier::new())?;
/// #     Ok(pool.free(b, Frontier::new())?)
/// # }
/// # fn example(pool: Arc<DevicePool>) -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Planned::new(pool);
/// pool.start_recording();
/// step(&pool)?; // the step that is recorded
/// pool.begin_step();
/// step(&pool)?; // when the last blocks of the first one are freed is learned here
/// pool.begin_step();
/// if let Some(recorder) = pool.take_recording() {
///     pool.serve(Arc::new(recorder.plan(&PlaceConfig::default())?))?;
/// }
/// for _ in 0..1000 {
///     pool.begin_step();
///     step(&pool)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Planned {
    pool: Arc<DevicePool>,
    id: PoolId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    recording: Option<Recording>,
    plan: Option<Arc<Plan>>,
    /// Steps that began without room for the plan's region.
    refused: u32,
    /// Was the plan let go?
    was_let_go: bool,
    serving: Option<Serving>,
    /// Blocks that outlived their region, by address.
    detached: HashMap<DevicePtr, Detached>,
    /// Regions taken so far.
    regions: u32,
    /// What was served and given back last, at the clock of the pool's own events.
    events: EventRing,
    stats: PlannedStats,
}

/// A block that outlived its region.
#[derive(Debug)]
struct Detached {
    inside: Allocation,
    asked: Asked,
}

/// What has come of a pool's plans so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedStats {
    /// Requests served from a plan.
    pub served: u64,
    /// Requests that departed from the plan while one was served.
    pub departed: u64,
    /// Requests served with a wait for another lane.
    pub waits: u64,
    /// How often a plan was given up, because a step departed too much or memory ran out.
    pub let_go: u64,
    /// Bytes of the region that is served from; 0 while there is none.
    pub region_bytes: u64,
    /// Bytes of it that blocks have.
    pub live_bytes: u64,
}

impl Planned {
    /// Wraps `pool`, for now without a plan.
    #[must_use]
    pub fn new(pool: Arc<DevicePool>) -> Self {
        let id = PoolId(std::hash::RandomState::new().hash_one(Arc::as_ptr(&pool).addr()));
        let state = State {
            recording: None,
            plan: None,
            refused: 0,
            was_let_go: false,
            serving: None,
            detached: HashMap::new(),
            regions: 0,
            events: EventRing::new(pool.settings.events),
            stats: PlannedStats::default(),
        };
        Self {
            pool,
            id,
            state: Mutex::new(state),
        }
    }

    /// Starts recording a step. The next request is its first. What was recorded before is discarded.
    pub fn start_recording(&self) {
        self.state.lock().recording = Some(Recording::default());
    }

    /// Marks the beginning of a step. It ends the step that is being recorded, whose frees are noted until the next
    /// call. It begins the step that is to be served: a region is taken if there is none, which may call the source.
    /// If there is not enough memory, the pool serves the step as usual.
    pub fn begin_step(&self) {
        let mut state = self.state.lock();
        if let Some(recording) = &mut state.recording {
            recording.begin_step();
        }
        if let Some(serving) = &mut state.serving {
            serving.begin_step();
            return;
        }
        let Some(plan) = state.plan.clone() else {
            return;
        };
        let insists = state.refused >= TRIES && !state.was_let_go;
        state.refused = state.refused.saturating_add(1);
        drop(state);
        // Whoever cares sees in the statistics that nothing is served.
        let _without = self.take_region(plan, insists);
    }

    /// Takes what was recorded, to be [planned](Recorder::plan) on any thread. `None` if no recording was started.
    /// Call it after two [`begin_step`](Self::begin_step): a block whose free was not seen gets no place.
    pub fn take_recording(&self) -> Option<Recorder> {
        let recording = self.state.lock().recording.take();
        recording.map(Recording::into_recorder)
    }

    /// Serves steps from this plan from now on, including the current one if it has just begun. A plan that is being
    /// served is given up first. May call the source.
    ///
    /// # Errors
    /// [`ServeError::Alignment`] if places of the plan are not aligned as the pool's allocations are;
    /// [`ServeError::NoRoom`] if the pool would hold more than it ever did; [`ServeError::Memory`] if it does not
    /// have as much memory in one piece. After the last two the plan is kept, and the next
    /// [`begin_step`](Self::begin_step) tries again.
    pub fn serve(&self, plan: Arc<Plan>) -> Result<(), ServeError> {
        let unit = self.pool.settings.unit;
        if !plan.alignment().is_multiple_of(unit) {
            let plan = plan.alignment();
            return Err(ServeError::Alignment { plan, pool: unit });
        }
        self.stop_serving();
        let mut state = self.state.lock();
        state.plan = Some(Arc::clone(&plan));
        (state.refused, state.was_let_go) = (0, false);
        drop(state);
        self.take_region(plan, false)
    }

    /// Stops serving from a plan. What is free of the region goes back to the pool at once, in stream order; what is
    /// live goes back when it is freed.
    pub fn stop_serving(&self) {
        let mut state = self.state.lock();
        state.plan = None;
        self.let_go(&mut state);
    }

    /// What has come of the plans so far.
    #[must_use]
    pub fn planned_stats(&self) -> PlannedStats {
        let state = self.state.lock();
        let serving = state.serving.as_ref();
        PlannedStats {
            region_bytes: serving.map_or(0, Serving::bytes),
            live_bytes: serving.map_or(0, Serving::live),
            ..state.stats
        }
    }

    /// The pool inside.
    #[must_use]
    pub fn inner(&self) -> &Arc<DevicePool> {
        &self.pool
    }

    /// Whether the places handed out are inside the region and do not overlap. Checks the pool's own books too. Meant
    /// for tests and debugging.
    ///
    /// # Errors
    /// The first [`Inconsistency`](crate::Inconsistency) of the pool.
    pub fn check(&self) -> Result<bool, crate::Inconsistency> {
        self.pool.check()?;
        let state = self.state.lock();
        Ok(state.serving.as_ref().is_none_or(Serving::check))
    }

    /// Takes a region for a plan, unless somebody else did meanwhile; beside what is live, only who insists makes the pool hold more than
    /// it ever did.
    fn take_region(&self, plan: Arc<Plan>, insists: bool) -> Result<(), ServeError> {
        if plan.height() == 0 {
            return Ok(());
        }
        let stats = self.pool.stats();
        let live = stats.live_bytes + stats.padding_bytes;
        let no_room = || ServeError::NoRoom {
            height: plan.height(),
            live,
            peak_held: stats.peak_held_bytes,
        };
        let is_patient = !insists && live > 0;
        if is_patient && live.saturating_add(plan.height()) > stats.peak_held_bytes {
            return Err(no_room());
        }
        let growth = if is_patient {
            Growth::Within(stats.peak_held_bytes)
        } else {
            Growth::Sparing
        };
        let request = Request::new(plan.height()).aligned_to(self.pool.settings.max_align);
        let region = self.pool.allocate_growing(&request, growth);
        let region = region.map_err(|error| match error {
            AllocError::FullNow(_) if is_patient => no_room(),
            error => ServeError::Memory(error),
        })?;
        let mut state = self.state.lock();
        let is_wanted = state
            .plan
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &plan));
        if state.serving.is_some() || !is_wanted {
            self.give_to_pool(region, Frontier::new());
            return Ok(());
        }
        self.pool.note_plan_begun(&region);
        state.regions = state.regions.wrapping_add(1);
        state.serving = Some(Serving::new(self.id, state.regions, region, plan));
        Ok(())
    }

    fn give_to_pool(&self, allocation: Allocation, uses: Frontier) {
        let freed = self.pool.free(allocation, uses);
        debug_assert!(
            freed.is_ok(),
            "the pool knows its own allocation: {freed:?}"
        );
    }

    /// A place of the plan, if one is served and this request is the one expected.
    fn serve_planned(&self, request: &Request) -> Option<Allocation> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let serving = state.serving.as_mut()?;
        match serving.take(request, &self.pool) {
            Served::Placed(allocation) => {
                self.note(&mut state.events, MemoryEventKind::Allocated, &allocation);
                state.stats.served += 1;
                state.stats.waits += u64::from(!allocation.wait().is_empty());
                if let Some(recording) = &mut state.recording {
                    recording.allocated(&allocation);
                }
                Some(allocation)
            }
            Served::Departed => {
                state.stats.departed += 1;
                if serving.spilled() > serving.bytes() / SPILL {
                    state.stats.let_go += 1;
                    state.was_let_go = true;
                    self.let_go(state);
                }
                None
            }
        }
    }

    /// Remembers what became of a block of a plan. Its memory was the pool's before, and will be: the pool's clock puts that in order.
    #[inline]
    fn note(&self, events: &mut EventRing, kind: MemoryEventKind, block: &Allocation) {
        let clock = self.pool.fronts.pulse.clock.load(Ordering::Relaxed);
        events.push_at(clock, kind, block.range(), block.lane());
    }

    /// Asks the pool, and once more without a region if it has no memory.
    fn ask_pool(&self, request: Request) -> Result<Allocation, AllocError> {
        match self.pool.allocate(request) {
            Err(AllocError::FullNow(full)) => {
                let mut state = self.state.lock();
                if state.serving.is_none() {
                    return Err(AllocError::FullNow(full));
                }
                state.stats.let_go += 1;
                state.was_let_go = true;
                self.let_go(&mut state);
                drop(state);
                self.pool.allocate(request)
            }
            served => served,
        }
    }

    /// Takes a block of a plan back.
    fn free_planned(&self, allocation: Allocation, uses: Frontier) -> Result<(), FreeError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let serving = state.serving.as_mut();
        if serving
            .is_some_and(|serving| serving.give_back(&allocation, &uses, self.pool.timeline()))
        {
            self.note(&mut state.events, MemoryEventKind::Freed, &allocation);
            return Ok(());
        }
        let detached = state.detached.remove(&allocation.ptr());
        drop(guard);
        match detached {
            Some(block) => self.pool.free(block.inside, uses),
            None => Err(FreeError {
                allocation: Box::new(allocation),
                kind: FreeErrorKind::Unknown,
            }),
        }
    }
}

impl MemoryPool for Planned {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        self.pool.source.status()?;
        if let Some(planned) = self.serve_planned(&request) {
            return Ok(planned);
        }
        let allocation = self.ask_pool(request)?;
        if let Some(recording) = &mut self.state.lock().recording {
            recording.allocated(&allocation);
        }
        Ok(allocation)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        if let Some(recording) = &mut self.state.lock().recording {
            recording.freed(&allocation);
        }
        if allocation.pool != self.id {
            return self.pool.free(allocation, last_uses);
        }
        let uses = reuse::uses_to_respect(&allocation, last_uses, self.pool.timeline());
        self.free_planned(allocation, uses)
    }

    fn trim(&self, keep: u64) -> u64 {
        self.pool.trim(keep)
    }

    /// The pool's counters, with what blocks of a plan have in place of their region. Costs a step per block of the region
    /// more. Peaks and what the pool served itself count regions whole.
    fn stats(&self) -> PoolStats {
        let state = self.state.lock();
        let mut stats = self.pool.stats();
        if let Some(serving) = &state.serving {
            serving.count_in(&mut stats, self.pool.timeline());
        }
        stats
    }

    fn lookup(&self, address: DevicePtr) -> Option<AllocationInfo> {
        // Before the pool is asked: a region that is let go meanwhile is the pool's in parts that are none of its blocks.
        let state = self.state.lock();
        let found = self.pool.lookup(address)?;
        if let Some(serving) = &state.serving
            && serving.contains(address)
        {
            return serving.lookup(address, &found);
        }
        let detached = state.detached.get(&found.ptr);
        Some(detached.map_or(found, |block| block.asked.tell(&found)))
    }
}

/// Gives the region back. Blocks of plans that are still live stay allocated, as nobody is left who could free them.
impl Drop for Planned {
    fn drop(&mut self) {
        if !self.pool.timeline().is_forked() {
            self.stop_serving();
        }
    }
}
