//! Streams of the engine's own, each of which one copy has to itself until it is settled.
//!
//! A stream that failed stays failed, so nobody else may be on it; one that ended well goes back and is used again.
//! No more are made than copies are under way at once.

use piton_driver::{Device, Priority};
use piton_stream::{Stream, StreamError, StreamOptions, Streams};
use piton_sync::Mutex;
use std::{sync::Arc, time::Duration};

/// Commands a lane holds. A part of a copy submits fewer, so no submission waits for room.
pub(crate) const LANE_COMMANDS: u32 = 1024;

/// The lanes of one device.
#[derive(Debug)]
pub(crate) struct Lanes {
    device: Arc<dyn Device>,
    streams: Streams,
    idle: Mutex<Vec<Stream>>,
}

impl Lanes {
    pub(crate) fn new(device: &Arc<dyn Device>, streams: &Streams) -> Self {
        Self {
            device: Arc::clone(device),
            streams: streams.clone(),
            idle: Mutex::default(),
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
        let options = StreamOptions {
            priority,
            commands: Some(LANE_COMMANDS.min(info.limits.queue_commands)),
            // The engine has deadlines of its own, from what it predicts.
            command_deadline: Some(Duration::MAX),
            ..StreamOptions::labelled(&format!("copies of {}", info.id))
        };
        self.streams.create(&self.device, options)
    }
}
