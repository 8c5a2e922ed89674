//! Gates: what a program's stream waits for while a copy may still change its way.
//!
//! A gate is a lane at a wait for a semaphore. Its place on the timeline exists when the copy is submitted, so streams
//! and pools can wait for it; it is reached when the copy is settled, whatever that took. A copy has a gate on each of
//! its two devices: where one device is lost, all of its queues end, and the other device's gate still guards the other
//! device's memory.
//!
//! It opens by a signal that is ordered behind all parts. If the copy has failed it is aborted instead, and whoever
//! waits for it fails in turn.

use crate::lane::Lanes;
use piton_driver::{Device, DeviceId, Priority};
use piton_stream::{Semaphore, Stream, StreamError};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timepoint};
use std::sync::Arc;

/// One gate, of one copy at a time.
#[derive(Debug)]
pub(crate) struct Gate {
    lane: Stream,
    opener: Stream,
    semaphore: Semaphore,
    value: u64,
}

impl Gate {
    /// Closes it: the place that is reached when it opens.
    fn close(&mut self) -> Result<Timepoint, StreamError> {
        let next = self.value + 1;
        let point = self.lane.wait_semaphore(&self.semaphore, next)?;
        self.value = next;
        Ok(point)
    }

    /// Opens it behind `parts`, all of which have ended.
    pub(crate) fn open(&self, parts: &Frontier) -> Result<(), StreamError> {
        let ordered = self.opener.order_after(parts);
        let signalled =
            ordered.and_then(|()| self.opener.signal_semaphore(&self.semaphore, self.value));
        match signalled {
            Ok(_) => Ok(()),
            // A device that refuses the command may take the call.
            Err(_) => self.semaphore.signal(self.value),
        }
    }

    /// Ends the wait as a failure.
    pub(crate) fn fail(&self) -> Result<(), StreamError> {
        self.lane.abort()
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.lane.device().info().id
    }

    /// Whether its device is gone: it has ended then, and nothing can or need be done about it.
    pub(crate) fn is_lost(&self) -> bool {
        let status = self.lane.device().status();
        status.is_err_and(|error| error.is_device_lost())
    }
}

/// The gates of one device.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<Vec<Gate>>);

impl Gates {
    /// A closed gate, and the place that is reached when it opens.
    pub(crate) fn close(
        &self,
        lanes: &Lanes,
        device: &Arc<dyn Device>,
    ) -> Result<(Gate, Timepoint), StreamError> {
        let idle = self.0.lock().pop();
        let mut gate = match idle {
            Some(gate) => gate,
            None => Gate {
                semaphore: Semaphore::new(device, 0)?,
                lane: lanes.take(Priority::DEFAULT)?,
                opener: lanes.take(Priority::DEFAULT)?,
                value: 0,
            },
        };
        match gate.close() {
            Ok(point) => Ok((gate, point)),
            Err(error) => {
                self.give_back(gate);
                Err(error)
            }
        }
    }

    /// Gives one back that is open or about to be; one whose device is lost goes.
    pub(crate) fn give_back(&self, gate: Gate) {
        if gate.lane.failure().is_none() && gate.opener.failure().is_none() {
            self.0.lock().push(gate);
        }
    }
}
