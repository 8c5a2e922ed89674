//! The streams of a runtime: makes them, and knows by lane which queue to wait on.
//!
//! # Invariants
//! - `slots[i]` is the newest lane of slot i that a stream of this registry had. It stays when the stream is
//!   gone, so a timepoint of it is still known; its queue goes when it has drained.
//! - Open links = streams that live + open detached lanes. A lane is detached from the drop of its stream until its
//!   queue is let go. `detached` may hold lanes whose link was closed since; they leave when they are looked at.

use crate::{
    Completion, Facet, Stream, StreamError, StreamOptions, lane_state::LaneState, link::Link,
    stream::Parts, witness::Witness,
};
use piton_driver::{Device, Priority, PriorityRange, QueueId, WaitOutcome};
use piton_sanitizer::{Author, Sanitizer};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline, Timepoint};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Instant,
};

/// How many detached lanes are looked at for each stream that is made: two, so that they go faster than they come.
const LOOKS: usize = 2;

#[derive(Default)]
struct Lanes {
    slots: Vec<Option<Arc<LaneState>>>,
    /// Their streams are gone; work may still be under way. The oldest first.
    detached: VecDeque<Arc<LaneState>>,
    /// How many of those have a queue.
    open_detached: usize,
    /// How many streams live.
    live: usize,
}

pub(crate) struct Registry {
    timeline: Arc<Timeline>,
    witness: Option<Arc<Witness>>,
    lanes: Mutex<Lanes>,
}

/// The streams of one runtime, over devices of one driver. A cheap handle; clones are the same streams.
#[derive(Clone)]
pub struct Streams {
    registry: Arc<Registry>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.timeline().is_forked() {
            return f.debug_struct("Streams").finish_non_exhaustive();
        }
        let lanes = self.registry.lanes.lock();
        f.debug_struct("Streams")
            .field("live", &lanes.live)
            .field("detached", &lanes.open_detached)
            .finish_non_exhaustive()
    }
}

impl Streams {
    /// No streams yet, on `timeline`. Nothing else should register lanes whose points are waited for here.
    pub fn new(timeline: Arc<Timeline>) -> Self {
        Self::watched(timeline, None)
    }

    /// As [`new`](Self::new), with everything that streams do told to a sanitizer.
    pub fn sanitized(timeline: Arc<Timeline>, sanitizer: Arc<Sanitizer>) -> Self {
        let witness = Witness::new(sanitizer, Arc::clone(&timeline));
        Self::watched(timeline, Some(Arc::new(witness)))
    }

    fn watched(timeline: Arc<Timeline>, witness: Option<Arc<Witness>>) -> Self {
        Self {
            registry: Arc::new(Registry {
                timeline,
                witness,
                lanes: Mutex::new(Lanes::default()),
            }),
        }
    }

    /// The sanitizer that is told of everything, if there is one.
    pub fn sanitizer(&self) -> Option<&Arc<Sanitizer>> {
        self.registry.witness().map(|witness| witness.sanitizer())
    }

    /// On whose behalf this thread acts, to that sanitizer: the program's, or a host function's that it runs.
    pub fn author(&self) -> Author {
        self.registry
            .witness()
            .map_or(Author::Host, |witness| witness.author())
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The timeline that orders them.
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.registry.timeline
    }

    /// Makes a stream on a device. May block shortly.
    ///
    /// # Errors
    /// [`PriorityOutOfRange`](StreamError::PriorityOutOfRange), with the range;
    /// [`Unsupported`](StreamError::Unsupported) for compute units on a device that cannot choose;
    /// [`Timeline`](StreamError::Timeline) when no lane is left; [`Forked`](StreamError::Forked);
    /// [`Driver`](StreamError::Driver) for what [`Queues::create`](piton_driver::Queues::create) refuses.
    pub fn create(
        &self,
        device: &Arc<dyn Device>,
        options: StreamOptions,
    ) -> Result<Stream, StreamError> {
        accepts(&**device, &options)?;
        self.registry.not_forked()?;
        self.registry.prune(LOOKS);
        let queue = device.queues().create(&options.for_queue())?;
        let link = Arc::new(Link::new(Arc::clone(&queue)));
        let lane = self.timeline().register(Some(link.clone()))?;
        if let Some(sanitizer) = self.sanitizer() {
            sanitizer.open(lane.at(0), options.label.clone());
        }
        let state = LaneState::new(&self.registry, &lane, link, (device, &*queue), &options);
        let state = Arc::new(state);
        self.registry.settle(&state);
        Ok(Stream::new(Parts {
            registry: Arc::clone(&self.registry),
            device: Arc::clone(device),
            queue,
            lane,
            state,
            when_full: options.when_full,
        }))
    }

    /// Whether everything up to the point is done. Does not block: three loads if that is known and its lane has
    /// not failed.
    ///
    /// # Errors
    /// [`Poisoned`](StreamError::Poisoned) if it has ended and failed, as long as its lane's slot has no new
    /// tenant; [`UnknownTimepoint`](StreamError::UnknownTimepoint).
    pub fn query(&self, point: Timepoint) -> Result<bool, StreamError> {
        if self.registry.has_ended_well(point) {
            self.registry.saw(point);
            return Ok(true);
        }
        match self.registry.resolve(point)? {
            Some(state) => state.query(point),
            None => {
                self.registry.saw(point);
                Ok(true)
            }
        }
    }

    /// Blocks the calling thread until everything up to the point is done or `deadline` has passed.
    ///
    /// # Errors
    /// As [`query`](Self::query); [`WouldDeadlock`](StreamError::WouldDeadlock) inside a host function of the
    /// same stream; [`Driver`](StreamError::Driver) where the device is lost or knows of a deadlock.
    pub fn wait(
        &self,
        point: Timepoint,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, StreamError> {
        match self.registry.resolve(point)? {
            Some(state) => state.wait(point, deadline),
            None => {
                self.registry.saw(point);
                Ok(WaitOutcome::Reached)
            }
        }
    }

    /// As [`wait`](Self::wait), for every point of a frontier. A failure is reported when all have ended, so
    /// that whoever gets one knows the memory to be out of use.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); the first failure met.
    pub fn wait_frontier(
        &self,
        frontier: &Frontier,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, StreamError> {
        let mut failure = None;
        for point in frontier.points() {
            match self.wait(*point, deadline) {
                Ok(WaitOutcome::Reached) => {}
                Err(StreamError::Poisoned(met)) => failure = failure.or(Some(met)),
                other => return other,
            }
        }
        match failure {
            Some(met) => Err(met.into()),
            None => Ok(WaitOutcome::Reached),
        }
    }

    /// A future that ends when everything up to the point has.
    ///
    /// # Errors
    /// [`UnknownTimepoint`](StreamError::UnknownTimepoint).
    pub fn completion(&self, point: Timepoint) -> Result<Completion, StreamError> {
        let state = self.registry.resolve(point)?;
        if state.is_none() {
            self.registry.saw(point);
        }
        Ok(Completion::new(state, point))
    }

    /// Lets go of the queues of dropped streams whose work has ended. Every [`create`](Self::create) does so for
    /// a few, the oldest first.
    pub fn prune(&self) {
        self.registry.prune(usize::MAX);
    }

    /// How many dropped streams still have a queue, since their work had not ended at the last
    /// [`prune`](Self::prune). A fork is told of none.
    pub fn detached(&self) -> usize {
        if self.timeline().is_forked() {
            return 0;
        }
        self.registry.lanes.lock().open_detached
    }

    /// Asserts the invariants of the registry and of each lane. For tests; not while other threads make or
    /// drop streams.
    ///
    /// # Panics
    /// Where one does not hold.
    pub fn check(&self) {
        let lanes = self.registry.lanes.lock();
        // A lane whose slot has another stays among the detached ones if somebody visited its queue just then.
        let is_known = |lane: &&Arc<LaneState>| {
            let slot = lanes.slots.get(lane.id().index as usize);
            slot.and_then(Option::as_ref)
                .is_some_and(|known| Arc::ptr_eq(known, lane))
        };
        let known = lanes.slots.iter().flatten();
        let former = lanes.detached.iter().filter(|lane| !is_known(lane));
        let open = known
            .chain(former)
            .filter(|state| state.link().is_open())
            .count();
        assert_eq!(
            open,
            lanes.live + lanes.open_detached,
            "open links = live streams + open detached lanes"
        );
        for (index, state) in lanes.slots.iter().enumerate() {
            let Some(state) = state else { continue };
            assert_eq!(state.id().index as usize, index, "a lane in another's slot");
            state.check();
        }
    }
}

/// Refuses options the device does not know, before anything is made.
fn accepts(device: &dyn Device, options: &StreamOptions) -> Result<(), StreamError> {
    let range = device.priorities().unwrap_or(PriorityRange {
        highest: Priority::DEFAULT,
        lowest: Priority::DEFAULT,
    });
    if !range.contains(options.priority) {
        return Err(StreamError::PriorityOutOfRange {
            given: options.priority,
            range,
        });
    }
    if options.compute_units.is_some() && device.compute_units().is_none() {
        return Err(StreamError::Unsupported {
            device: device.info().id,
            facet: Facet::ComputeUnits,
        });
    }
    Ok(())
}

impl Registry {
    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    pub(crate) fn witness(&self) -> Option<&Arc<Witness>> {
        self.witness.as_ref()
    }

    /// Refuses what would take a lock in a fork, where a thread that is not there may hold it.
    fn not_forked(&self) -> Result<(), StreamError> {
        if self.timeline.is_forked() {
            return Err(StreamError::Forked);
        }
        Ok(())
    }

    /// This thread learnt that the point has ended.
    fn saw(&self, point: Timepoint) {
        if let Some(witness) = &self.witness
            && !self.timeline.is_forked()
        {
            witness.saw(point);
        }
    }

    /// Whether the point is known to have ended, its lane still has its slot, and nothing up to it failed. Takes no
    /// lock. A point that any lane of the timeline reached will do.
    pub(crate) fn has_ended_well(&self, point: Timepoint) -> bool {
        self.timeline.is_known_complete(point)
            && self.timeline.is_known_submitted(point)
            && !self.timeline.has_failed(point)
    }

    /// The lane of a point, or `None` if the lane is so long gone that its slot has another. The point was
    /// submitted then, and is complete.
    pub(crate) fn resolve(&self, point: Timepoint) -> Result<Option<Arc<LaneState>>, StreamError> {
        self.not_forked()?;
        let lanes = self.lanes.lock();
        let slot = lanes.slots.get(point.lane.index as usize);
        match slot.and_then(Option::as_ref) {
            Some(state)
                if state.id() == point.lane
                    && state.position(point) <= state.link().submitted() =>
            {
                Ok(Some(Arc::clone(state)))
            }
            Some(state) if state.id() != point.lane && point.seq <= state.base() => Ok(None),
            _ => Err(StreamError::UnknownTimepoint { point }),
        }
    }

    /// The lane that a queue serves. Walks all lanes, under the lock: who asks more than once takes
    /// [`by_queue`](Self::by_queue).
    pub(crate) fn lane_of(&self, queue: QueueId) -> Option<Arc<LaneState>> {
        let lanes = self.lanes.lock();
        let mut known = lanes.slots.iter().flatten();
        known.find(|state| state.queue_id() == queue).cloned()
    }

    /// The lanes by the queues that serve them: for who follows queues from lane to lane. Walks all lanes.
    pub(crate) fn by_queue(&self) -> HashMap<QueueId, Arc<LaneState>> {
        let lanes = self.lanes.lock();
        let known = lanes.slots.iter().flatten();
        known
            .map(|state| (state.queue_id(), Arc::clone(state)))
            .collect()
    }

    /// The lanes that have a queue, in their order. A fork is told of none.
    pub(crate) fn open_lanes(&self) -> Vec<Arc<LaneState>> {
        if self.timeline.is_forked() {
            return Vec::new();
        }
        let lanes = self.lanes.lock();
        let known = lanes.slots.iter().flatten();
        known
            .filter(|state| state.link().is_open())
            .cloned()
            .collect()
    }

    /// Gives a new lane its place. Whoever had it has drained, or the timeline would not have reused the slot.
    fn settle(&self, state: &Arc<LaneState>) {
        let index = state.id().index as usize;
        let mut lanes = self.lanes.lock();
        if lanes.slots.len() <= index {
            lanes.slots.resize(index + 1, None);
        }
        let former = lanes.slots[index].replace(Arc::clone(state));
        let queue = former.as_ref().and_then(|former| former.close_if_drained());
        // It stays among the detached ones until it is looked at: finding it there would be a walk.
        lanes.open_detached = lanes
            .open_detached
            .saturating_sub(usize::from(queue.is_some()));
        lanes.live += 1;
        drop(lanes);
        drop((queue, former));
    }

    /// The stream of this lane is gone.
    pub(crate) fn detach(&self, state: &Arc<LaneState>) {
        if let Some(witness) = &self.witness {
            witness.sanitizer().retire(state.id());
        }
        let mut lanes = self.lanes.lock();
        lanes.live = lanes.live.saturating_sub(1);
        let queue = state.close_if_drained();
        if queue.is_none() {
            lanes.detached.push_back(Arc::clone(state));
            lanes.open_detached += 1;
        }
        drop(lanes);
        drop(queue);
    }

    /// Looks at so many detached lanes, if there are as many, and lets go of the queues of those that have drained.
    fn prune(&self, looks: usize) {
        if self.timeline.is_forked() {
            return;
        }
        let mut queues = Vec::new();
        let mut lanes = self.lanes.lock();
        for _ in 0..looks.min(lanes.detached.len()) {
            let Some(lane) = lanes.detached.pop_front() else {
                break;
            };
            if let Some(queue) = lane.close_if_drained() {
                lanes.open_detached = lanes.open_detached.saturating_sub(1);
                queues.push((queue, lane));
            } else if lane.link().is_open() {
                lanes.detached.push_back(lane);
            }
        }
        drop(lanes);
        // Queues and states are dropped under no lock.
        drop(queues);
    }
}
