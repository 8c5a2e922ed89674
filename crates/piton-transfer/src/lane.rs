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

/// Commands a lane holds, where the device's queues hold so many. What a copy gives a lane in one round is fewer, so no submission
/// waits for room.
pub(crate) const LANE_COMMANDS: u32 = 1024;
/// Lanes of fewer commands cannot carry a guarded copy: a pattern takes six on one lane, its host function one, and that of the
/// round before may not have ended.
pub(crate) const LEAST_COMMANDS: u32 = 8;
/// What a chunk takes of a lane: a wait for its bytes, one for a place to put them, and the copy.
const COMMANDS_A_CHUNK: u32 = 3;
/// What is left beside chunks at least: the wait for the copy's start, the host function at the end, and the one of the round
/// before.
const LEAST_SPARE: u32 = 3;
/// A lane of more commands leaves one of so many.
const SPARE_PART: u32 = 16;

/// Commands a lane of this device holds.
pub(crate) fn lane_commands(device: &dyn Device) -> u32 {
    LANE_COMMANDS.min(device.info().limits.queue_commands)
}

/// How many chunks a lane of so many commands holds at once; 1 at least.
pub(crate) fn lane_chunks(commands: u32) -> u64 {
    let spare = LEAST_SPARE.max(commands / SPARE_PART);
    u64::from(commands.saturating_sub(spare) / COMMANDS_A_CHUNK).max(1)
}

/// How many lanes a leg may have where lanes hold so many commands: whoever comes behind all of them waits for each.
pub(crate) fn most_lanes(commands: u32) -> u16 {
    u16::try_from(commands / 4).unwrap_or(u16::MAX).max(1)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_round_gives_a_lane_fits_into_it() {
        for commands in LEAST_COMMANDS..=LANE_COMMANDS {
            let chunks = lane_chunks(commands) * u64::from(COMMANDS_A_CHUNK);
            assert!(chunks + u64::from(LEAST_SPARE) <= u64::from(commands));
            // Reads of half a lane's commands come behind every lane of a leg, and two host functions.
            let reads = commands / 2 + u32::from(most_lanes(commands)) + 2;
            assert!(reads <= commands, "{commands}");
        }
        assert_eq!([8, 64, 1024].map(lane_chunks), [1, 20, 320]);
    }
}
