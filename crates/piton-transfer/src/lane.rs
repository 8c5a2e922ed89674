//! Streams of the engine's own, each of which one copy has to itself until it is settled.
//!
//! A stream that failed stays failed, so nobody else may be on it; one that ended well goes back and is used again.
//! No more are made than copies are under way at once.

use piton_driver::{Device, Priority};
use piton_stream::{Stream, StreamError, StreamOptions, Streams};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::{sync::Arc, time::Duration};

/// Commands a lane holds. A part of a copy submits fewer, so no submission waits for room.
pub(crate) const LANE_COMMANDS: u32 = 1024;

/// Commands a lane of this device holds.
pub(crate) fn lane_commands(device: &dyn Device) -> u32 {
    LANE_COMMANDS.min(device.info().limits.queue_commands)
}

/// The lanes of one device.
#[derive(Debug)]
pub(crate) struct Lanes {
    device: Arc<dyn Device>,
    streams: Streams,
    idle: Mutex<Vec<Stream>>,
    /// Lanes made so far: each has its number in its label.
    made: AtomicU64,
}

impl Lanes {
    pub(crate) fn new(device: &Arc<dyn Device>, streams: &Streams) -> Self {
        Self {
            device: Arc::clone(device),
            streams: streams.clone(),
            idle: Mutex::default(),
            made: AtomicU64::new(0),
        }
    }

    /// One that nobody else uses, as urgent as said where the device knows such a priority.
    pub(crate) fn take(&self, urgency: Priority) -> Result<Stream, StreamError> {
        let range = self.device.priorities();
        let is_known = range.is_some_and(|range| range.contains(urgency));
        let urgency = if is_known { urgency } else { Priority::DEFAULT };
        loop {
            let mut idle = self.idle.lock();
            let at = idle.iter().rposition(|lane| lane.priority() == urgency);
            let lane = at.map(|at| idle.swap_remove(at));
            drop(idle);
            match lane {
                None => return self.create(urgency),
                Some(lane) if lane.failure().is_none() => return Ok(lane),
                Some(failed) => drop(failed),
            }
        }
    }

    /// Gives one back whose work has ended or will end well; one that failed goes.
    pub(crate) fn give_back(&self, lane: Stream) {
        if lane.failure().is_none() {
            self.idle.lock().push(lane);
        }
    }

    fn create(&self, priority: Priority) -> Result<Stream, StreamError> {
        let info = self.device.info();
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let options = StreamOptions {
            priority,
            commands: Some(lane_commands(&*self.device)),
            // The engine has deadlines of its own, from what it predicts.
            command_deadline: Some(Duration::MAX),
            ..StreamOptions::labelled(&format!("copies of {}, lane {number}", info.id))
        };
        self.streams.create(&self.device, options)
    }
}
