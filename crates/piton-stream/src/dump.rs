//! What every stream is at, told so that a person sees who waits for whom.

use crate::{StreamFailure, StreamName, Streams, lane_state::LaneState, registry::Registry};
use piton_driver::{
    Awaited, DeviceId, DevicePtr, DriverError, Front, Operation, Origin, Position, QueueActivity,
    QueueId,
};
use piton_timeline::Timepoint;
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

/// What one stream is at. A snapshot: it may have changed when it is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneDump {
    /// Which stream. It may have been dropped, with work under way.
    pub name: StreamName,
    /// Its device.
    pub device: DeviceId,
    /// How many commands were submitted.
    pub submitted: u64,
    /// How many have ended.
    pub completed: u64,
    /// What its oldest command that has not ended is at.
    pub activity: LaneActivity,
    /// For how long a [`Watchdog`](crate::Watchdog) has seen its oldest command there; `None` where nobody watches, or it
    /// has nothing left to do.
    pub seen_for: Option<Duration>,
    /// Its failure, if there is one that was not cleared.
    pub failure: Option<Arc<StreamFailure>>,
    /// Why its device works no more, if it does not.
    pub lost: Option<DriverError>,
}

/// What a stream's oldest command that has not ended is at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaneActivity {
    /// The device does not say.
    Unknown,
    /// Nothing is left to do.
    Idle,
    /// It could run and has not been started.
    Ready(Timepoint),
    /// It runs.
    Running(Doing),
    /// It waits.
    Waiting(Doing, WaitsFor),
}

/// A command that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doing {
    /// Where it stands.
    pub timepoint: Timepoint,
    /// What it is.
    pub operation: Operation,
    /// Where in the program it was submitted, as far as the driver knows.
    pub place: Option<Origin>,
}

/// What a command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A place of another stream.
    Stream(StreamName, Timepoint),
    /// A place of a queue that serves no stream of this runtime.
    Queue(QueueId, Position),
    /// A semaphore's value.
    Semaphore {
        /// The value now.
        current: u64,
        /// The value waited for.
        wanted: u64,
    },
    /// A value in device memory.
    Memory(DevicePtr),
    /// Something the driver has a word for that this has not.
    Other,
}

impl Streams {
    /// What every stream with work or a handle left is at, in the order of their lanes. Does not block for long. For
    /// watchdogs and for people. Empty in a fork of the process.
    pub fn dump(&self) -> Vec<LaneDump> {
        let registry = self.registry();
        dump(registry, &registry.open_lanes())
    }
}

/// What these lanes are at, in their order.
pub(crate) fn dump(registry: &Registry, lanes: &[Arc<LaneState>]) -> Vec<LaneDump> {
    let mut names = Names::new(registry);
    lanes
        .iter()
        .map(|lane| dump_lane(&mut names, lane))
        .collect()
}

/// Whose queues are whose, looked up once for a dump and only where somebody waits.
struct Names<'a> {
    registry: &'a Registry,
    by_queue: Option<HashMap<QueueId, Arc<LaneState>>>,
}

impl<'a> Names<'a> {
    fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            by_queue: None,
        }
    }

    fn lane_of(&mut self, queue: QueueId) -> Option<&LaneState> {
        let registry = self.registry;
        let by_queue = self.by_queue.get_or_insert_with(|| registry.by_queue());
        by_queue.get(&queue).map(|lane| &**lane)
    }
}

fn dump_lane(names: &mut Names<'_>, lane: &LaneState) -> LaneDump {
    let activity = match lane.link().queue() {
        None => LaneActivity::Idle,
        Some(queue) => told(names, lane, queue.activity()),
    };
    // In this order no more has ended than was submitted.
    let completed = lane.link().refresh().get();
    LaneDump {
        name: lane.name(),
        device: lane.device(),
        submitted: lane.link().submitted().get(),
        completed,
        activity,
        seen_for: None,
        failure: lane.failure(),
        lost: lane.device_status().err(),
    }
}

fn told(names: &mut Names<'_>, lane: &LaneState, activity: QueueActivity) -> LaneActivity {
    match activity {
        QueueActivity::Idle => LaneActivity::Idle,
        QueueActivity::Ready(position) => LaneActivity::Ready(lane.point(position)),
        QueueActivity::Running(front) => LaneActivity::Running(doing(lane, front)),
        QueueActivity::Waiting(front, awaited) => {
            LaneActivity::Waiting(doing(lane, front), waits_for(names, awaited))
        }
        _ => LaneActivity::Unknown,
    }
}

fn doing(lane: &LaneState, front: Front) -> Doing {
    Doing {
        timepoint: lane.point(front.position),
        operation: front.operation,
        place: front.origin,
    }
}

fn waits_for(names: &mut Names<'_>, awaited: Awaited) -> WaitsFor {
    match awaited {
        Awaited::Queue(queue, position) => match names.lane_of(queue) {
            Some(other) => WaitsFor::Stream(other.name(), other.point(position)),
            None => WaitsFor::Queue(queue, position),
        },
        Awaited::Semaphore { current, wanted } => WaitsFor::Semaphore { current, wanted },
        Awaited::Memory(at) => WaitsFor::Memory(at),
        _ => WaitsFor::Other,
    }
}

impl fmt::Display for LaneDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, completed, submitted) = (&self.name, self.completed, self.submitted);
        write!(
            f,
            "stream {name} on {}: {completed} of {submitted}, ",
            self.device
        )?;
        write!(f, "{}", self.activity)?;
        if let Some(seen_for) = self.seen_for {
            write!(f, ", for {seen_for:?}")?;
        }
        if let Some(lost) = &self.lost {
            write!(f, "; {lost}")?;
        }
        if let Some(failure) = &self.failure {
            write!(f, "; {failure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LaneActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("at what the device does not say"),
            Self::Idle => f.write_str("idle"),
            Self::Ready(at) => write!(f, "not started at {}", at.seq),
            Self::Running(doing) => write!(f, "running {doing}"),
            Self::Waiting(doing, awaited) => write!(f, "at {doing}: waits for {awaited}"),
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        match self.place {
            Some(place) => write!(f, " (enqueued at {place})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(name, point) => write!(f, "stream {name} to end {}", point.seq),
            Self::Queue(queue, position) => write!(f, "{queue} to end {}", position.get()),
            Self::Semaphore { current, wanted } => {
                write!(f, "a semaphore at {current} to reach {wanted}")
            }
            Self::Memory(at) => write!(f, "a value in memory at {at}"),
            Self::Other => f.write_str("something else"),
        }
    }
}
