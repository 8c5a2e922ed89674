//! Capture: what is submitted to a stream is written down as a graph instead of being run.
//!
//! # The idea
//! From [`Stream::begin_capture`] on, each command submitted to the stream becomes a node, and its edges are what a
//! stream's order means: it comes after the stream's last node, and after what the stream has waited for. A stream
//! that waits for an event recorded in the capture *joins* it, and its commands become nodes too; before
//! [`Capture::end`] the first stream must have waited for the last node of each that joined, since a replay ends
//! when the graph does.
//!
//! Nothing runs and no number of a lane grows: timepoints returned meanwhile are places before the capture.
//!
//! # What cannot be captured
//! Whatever needs work to run now (waiting on the host, asking), whatever reaches outside (a wait for other work
//! that has not ended, semaphores, values that others wait for), and whatever works once only. Such a call is refused
//! with [`CaptureError`], which names it and its place, and the capture is spoilt: later calls and its end say the
//! same. When it ends, or its guard is dropped, its streams work as before.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `CaptureSlot::is_on` | whoever puts a recording into the slot or takes it out, under the slot's lock | Relaxed: it only says whether to look under the lock |
//! | `CaptureSlot::recording` | the same | the lock |
//! | `Recording::state` | any stream of the capture | its lock; a leaf, taken under none and holding none |
//!
//! A thread that submits to a stream while another begins or ends a capture of it has its command run or recorded,
//! whichever came first; which one is the program's affair, as it is with any two submissions.

mod offence;
mod recording;
mod stream;

pub use offence::{CaptureError, Offence};
pub use stream::{Capture, Captured};

pub(crate) use recording::Recording;

use piton_sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::{fmt, sync::Arc};

/// Where a lane keeps the capture it takes part in.
#[derive(Default)]
pub(crate) struct CaptureSlot {
    is_on: AtomicBool,
    recording: Mutex<Option<Arc<Recording>>>,
}

impl fmt::Debug for CaptureSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CaptureSlot").field(&self.is_on()).finish()
    }
}

impl CaptureSlot {
    /// Whether the lane takes part in a capture. One load.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// The capture it takes part in.
    pub(crate) fn get(&self) -> Option<Arc<Recording>> {
        if !self.is_on() {
            return None;
        }
        self.recording.lock().clone()
    }

    /// Takes part from now on; the other capture if it takes part in one.
    pub(crate) fn put(&self, recording: &Arc<Recording>) -> Result<(), Arc<Recording>> {
        let mut slot = self.recording.lock();
        if let Some(other) = &*slot {
            return Err(Arc::clone(other));
        }
        *slot = Some(Arc::clone(recording));
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes part no more.
    pub(crate) fn clear(&self) {
        let mut slot = self.recording.lock();
        self.is_on.store(false, Ordering::Relaxed);
        let recording = slot.take();
        drop(slot);
        drop(recording);
    }
}

/// The place of an event that was recorded in a capture.
#[derive(Debug)]
pub(crate) struct CapturedPlace {
    pub(crate) recording: Arc<Recording>,
    /// The nodes that everything before the event ends with.
    pub(crate) tips: Vec<u32>,
}
