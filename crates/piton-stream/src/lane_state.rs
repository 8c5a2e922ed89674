//! What the runtime keeps of one lane: the way to its queue, and why it failed.
//!
//! A stream owns its lane; events and futures hold the state, so they go on answering when the stream is gone
//! and another lane has its slot.

use crate::{
    StreamError, StreamFailure, StreamName, StreamOptions,
    capture::CaptureSlot,
    command_deadline::CommandDeadlines,
    host_function,
    link::{Link, Trouble},
    registry::Registry,
    timestamp::Stamps,
    witness::Witness,
};
use piton_driver::{
    Device, DeviceId, DriverError, ErrorKind, Position, Queue, QueueFailure, QueueId, WaitOutcome,
};
use piton_sync::Mutex;
use piton_timeline::{Lane, LaneId, Timeline, Timepoint};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

pub(crate) struct LaneState {
    /// Weak: the registry holds the states.
    registry: Weak<Registry>,
    timeline: Arc<Timeline>,
    link: Arc<Link>,
    id: LaneId,
    base: u64,
    device: DeviceId,
    /// Weak: an event kept for years must not keep a device.
    opened: Weak<dyn Device>,
    command_deadline: Option<Duration>,
    queue_id: QueueId,
    label: Option<Arc<str>>,
    witness: Option<Arc<Witness>>,
    /// Failures that were told and still are, each as it was told first: later the streams it came from may be gone. A
    /// leaf lock.
    told: Mutex<Vec<Arc<StreamFailure>>>,
    pub(crate) deadlines: CommandDeadlines,
    pub(crate) stamps: Arc<Stamps>,
    pub(crate) capture: CaptureSlot,
}

impl fmt::Debug for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneState")
            .field("id", &self.id)
            .field("label", &self.label)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl LaneState {
    pub(crate) fn new(
        registry: &Arc<Registry>,
        lane: &Lane,
        link: Arc<Link>,
        (device, queue): (&Arc<dyn Device>, &dyn Queue),
        options: &StreamOptions,
    ) -> Self {
        Self {
            registry: Arc::downgrade(registry),
            timeline: Arc::clone(lane.timeline()),
            link,
            id: lane.id(),
            base: lane.base(),
            device: queue.device(),
            opened: Arc::downgrade(device),
            command_deadline: options.command_deadline,
            queue_id: queue.id(),
            label: options.label.clone(),
            witness: registry.witness().cloned(),
            told: Mutex::default(),
            deadlines: CommandDeadlines::default(),
            stamps: Arc::new(Stamps::new(lane.timeline())),
            capture: CaptureSlot::default(),
        }
    }

    pub(crate) fn id(&self) -> LaneId {
        self.id
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    /// Whether its device works, as far as it is open.
    pub(crate) fn device_status(&self) -> Result<(), DriverError> {
        let opened = self.opened.upgrade();
        opened.map_or(Ok(()), |device| device.status())
    }

    /// How long the command at this place may take, if anybody said so of it or of all of its stream.
    pub(crate) fn command_deadline(&self, position: Position) -> Option<Duration> {
        self.deadlines.of(position).or(self.command_deadline)
    }

    pub(crate) fn queue_id(&self) -> QueueId {
        self.queue_id
    }

    pub(crate) fn label(&self) -> Option<&Arc<str>> {
        self.label.as_ref()
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The lane's seq of a place in its queue.
    pub(crate) fn point(&self, position: Position) -> Timepoint {
        Timepoint {
            lane: self.id,
            seq: self.base.saturating_add(position.get()),
        }
    }

    /// The place in the queue of a point of this lane.
    pub(crate) fn position(&self, point: Timepoint) -> Position {
        Position::new(point.seq.saturating_sub(self.base))
    }

    /// Refuses what would take a lock in a fork, where a thread that is not there may hold it.
    pub(crate) fn not_forked(&self) -> Result<(), StreamError> {
        if self.timeline.is_forked() {
            return Err(StreamError::Forked);
        }
        Ok(())
    }

    /// Whether everything up to the point has ended. Does not block: one load if that is known. Takes locks otherwise:
    /// who may be in a fork asks [`not_forked`](Self::not_forked) before.
    pub(crate) fn is_complete(&self, point: Timepoint) -> bool {
        let position = self.position(point);
        if self.link.has_completed(position) {
            return true;
        }
        // The queue is asked here and not through the timeline, which would lock the lane's slot for it.
        let has_ended = self.link.refresh() >= position;
        if has_ended {
            self.learn(point);
        }
        has_ended
    }

    /// Whether a complete point lies where the lane failed.
    pub(crate) fn has_failed(&self, point: Timepoint) -> bool {
        self.link.failure_at(self.position(point)).is_some()
    }

    /// How a complete point ended.
    pub(crate) fn outcome(&self, point: Timepoint) -> Result<(), StreamError> {
        if self.link.has_ended_well(self.position(point)) {
            return Ok(());
        }
        self.not_forked()?;
        match self.link.failure_at(self.position(point)) {
            Some(met) => Err(self.told(met).into()),
            None => Ok(()),
        }
    }

    /// As [`outcome`](Self::outcome), for whoever learns by it that the point has ended.
    pub(crate) fn ended(&self, point: Timepoint) -> Result<(), StreamError> {
        if let Some(witness) = &self.witness {
            self.not_forked()?;
            witness.saw(point);
        }
        self.outcome(point)
    }

    /// Whether the point is known to have ended, and well, and nobody need be told that this was seen. Two loads.
    #[inline]
    pub(crate) fn is_known_well(&self, point: Timepoint) -> bool {
        self.witness.is_none() && self.link.has_ended_well(self.position(point))
    }

    /// Whether the point is complete, as an answer that says if it failed.
    pub(crate) fn query(&self, point: Timepoint) -> Result<bool, StreamError> {
        if !self.link.has_completed(self.position(point)) {
            self.not_forked()?;
            if !self.is_complete(point) {
                return Ok(false);
            }
        }
        self.ended(point).map(|()| true)
    }

    /// Blocks the calling thread until the point is complete or the deadline has passed.
    pub(crate) fn wait(
        self: &Arc<Self>,
        point: Timepoint,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, StreamError> {
        if !self.link.has_completed(self.position(point)) {
            self.not_forked()?;
        }
        if !self.is_complete(point) {
            self.may_block(point)?;
            if let Some(queue) = self.link.queue()
                && queue.wait(self.position(point), deadline)? == WaitOutcome::DeadlinePassed
            {
                return Ok(WaitOutcome::DeadlinePassed);
            }
            self.learn(point);
        }
        self.ended(point).map(|()| WaitOutcome::Reached)
    }

    /// Brings what is known up to date after a point was seen to end, so that later questions are one load.
    pub(crate) fn learn(&self, point: Timepoint) {
        let _is_complete = self.timeline.is_complete(point);
    }

    /// Refuses a wait on the host that would wait for itself.
    pub(crate) fn may_block(self: &Arc<Self>, point: Timepoint) -> Result<(), StreamError> {
        if host_function::is_running(self) {
            return Err(StreamError::WouldDeadlock { point });
        }
        Ok(())
    }

    /// The lane's first failure that was not forgotten, once there is one. A fork is told of none.
    pub(crate) fn failure(&self) -> Option<Arc<StreamFailure>> {
        self.not_forked().ok()?;
        self.link.failure().map(|met| self.told(met))
    }

    /// Forgets the failure, and returns it. Nobody submits meanwhile.
    pub(crate) fn clear_failure(&self) -> Result<Option<Arc<StreamFailure>>, StreamError> {
        self.not_forked()?;
        let forgotten = self.link.forget_failure();
        let forgotten = forgotten.map_err(|trouble| match trouble {
            Trouble::Pending(submitted, completed) => StreamError::NotDrained {
                submitted: submitted.get(),
                completed: completed.get(),
            },
            Trouble::Driver(error) => error.into(),
        })?;
        let forgotten = forgotten.map(|met| self.told(met));
        // As few as the link keeps.
        let kept = self.link.failures();
        let answers = |told: &Arc<StreamFailure>| kept.contains(&self.position(told.timepoint));
        self.told.lock().retain(answers);
        Ok(forgotten)
    }

    /// A failure in words, the same ones each time. Where it is a circle of waits some of whose streams have not ended
    /// yet, the next answer may say more.
    fn told(&self, met: QueueFailure) -> Arc<StreamFailure> {
        let timepoint = self.point(met.position);
        let is_it = |told: &&Arc<StreamFailure>| told.timepoint == timepoint;
        if let Some(told) = self.told.lock().iter().find(is_it) {
            return Arc::clone(told);
        }
        let mut fresh = self.tell(met);
        fresh.root = self.root(met).map(Arc::new);
        let (circle, is_whole) = self.circle(met);
        fresh.circle = circle;
        let fresh = Arc::new(fresh);
        if is_whole {
            let mut told = self.told.lock();
            // Another thread may have told it meanwhile.
            match told.iter().find(is_it) {
                Some(first) => return Arc::clone(first),
                None => told.push(Arc::clone(&fresh)),
            }
        }
        fresh
    }

    /// The streams of a circle of waits, from this one on until one comes again, and whether that one was reached.
    fn circle(&self, met: QueueFailure) -> (Vec<StreamName>, bool) {
        let ErrorKind::DeadlockCycle { mut awaited, .. } = met.error.kind else {
            return (Vec::new(), true);
        };
        let mut circle = vec![self.name()];
        let Some(registry) = self.registry.upgrade() else {
            return (circle, true);
        };
        let lanes = registry.by_queue();
        loop {
            let Some(next) = lanes.get(&awaited) else {
                // A queue that is none of this runtime's streams.
                return (circle, true);
            };
            let comes_again = circle.iter().any(|name| name.lane == next.id);
            circle.push(next.name());
            if comes_again {
                return (circle, true);
            }
            let Some(ErrorKind::DeadlockCycle { awaited: on, .. }) =
                next.link.failure().map(|met| met.error.kind)
            else {
                return (circle, false);
            };
            awaited = on;
        }
    }

    /// What the lane's stream is called.
    pub(crate) fn name(&self) -> StreamName {
        StreamName {
            lane: self.id,
            label: self.label.clone(),
        }
    }

    fn tell(&self, met: QueueFailure) -> StreamFailure {
        StreamFailure {
            timepoint: self.point(met.position),
            label: self.label.clone(),
            place: met.origin,
            error: met.error,
            root: None,
            circle: Vec::new(),
        }
    }

    /// Follows failures of waits to the stream where something else failed. Loops cannot arise, since waits
    /// name what was submitted before; the bound guards against a device that says otherwise.
    fn root(&self, met: QueueFailure) -> Option<StreamFailure> {
        let mut kind = met.error.kind;
        if !matches!(kind, ErrorKind::DependencyFailed { .. }) {
            return None;
        }
        let lanes = self.registry.upgrade()?.by_queue();
        let mut root = None;
        for _ in 0..=lanes.len() {
            let ErrorKind::DependencyFailed { queue, .. } = kind else {
                break;
            };
            let Some(state) = lanes.get(&queue) else {
                break;
            };
            let Some(met) = state.link.failure() else {
                break;
            };
            kind = met.error.kind;
            root = Some(state.tell(met));
        }
        root
    }

    /// Lets the queue go if the stream is gone and everything has ended. What comes back is to be dropped
    /// under no lock.
    pub(crate) fn close_if_drained(&self) -> Option<Arc<dyn Queue>> {
        self.link.close_if_drained()
    }

    /// Asserts what holds between calls.
    pub(crate) fn check(&self) {
        let (completed, submitted) = (self.link.refresh(), self.link.submitted());
        assert!(completed <= submitted, "more has ended than was submitted");
        if let Some(failed) = self.link.failed_at() {
            assert!(failed <= submitted, "a command failed that never was");
        }
    }
}
