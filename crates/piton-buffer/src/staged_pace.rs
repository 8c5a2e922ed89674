//! Which way each chunk of a staged copy goes, and the measurement that a copy makes by the way.
//!
//! # Waits
//! A segment of a measurement ends when the device has it. A write waits for that, and for no longer than [`PATIENCE`], since a write
//! on a stream that is held up must return: somebody else may hold it up meanwhile. Then nothing was measured.

use crate::{BufferError, Stream};
use piton_driver::WaitOutcome;
use piton_pinned::{StagedDirection, StagedWay, Staging, StagingTrial};
use piton_stream::Event;
use std::time::{Duration, Instant};

/// How long a write waits for the end of a segment: many times what one takes.
const PATIENCE: Duration = Duration::from_millis(100);

/// The ways of one copy's chunks.
pub(crate) struct Pace<'a> {
    staging: &'a Staging,
    direction: StagedDirection,
    way: StagedWay,
    trial: Option<Running>,
}

/// A measurement that is being made.
struct Running {
    trial: StagingTrial,
    /// When the segment began; none before the first.
    began: Option<Instant>,
    /// Bytes until it ends.
    left: usize,
}

impl<'a> Pace<'a> {
    /// Of a copy of so many bytes, and so many of them a chunk. One chunk alone is left to the device, as any short copy is;
    /// there is nothing to measure where a stream cannot be held.
    pub(crate) fn new(
        stream: &'a Stream,
        direction: StagedDirection,
        (bytes, chunk): (usize, usize),
    ) -> Self {
        let staging = stream.context().pinned().staging();
        let way = if bytes <= chunk {
            StagedWay::Overlapped
        } else {
            staging.way(direction)
        };
        let mut pace = Self {
            staging,
            direction,
            way,
            trial: None,
        };
        if bytes >= StagingTrial::BYTES && stream.raw().hold().is_some() {
            pace.trial = staging.trial(direction, bytes).map(Running::new);
        }
        pace
    }

    /// The way of the next chunk.
    pub(crate) fn way(&self) -> StagedWay {
        let running = self.trial.as_ref().filter(|trial| trial.began.is_some());
        running
            .and_then(|running| running.trial.next())
            .unwrap_or(self.way)
    }

    /// So many bytes more are under way; says whether a segment ends with them: when they have arrived comes
    /// [`go_on`](Self::go_on), or [`wait`](Self::wait) in place of both.
    pub(crate) fn has_passed(&mut self, bytes: usize) -> bool {
        let Some(running) = &mut self.trial else {
            return false;
        };
        running.left = running.left.saturating_sub(bytes);
        running.left == 0
    }

    /// Waits for the end of a segment.
    #[track_caller]
    pub(crate) fn wait(&mut self, event: &Event) -> Result<(), BufferError> {
        match event.synchronize_until(Instant::now() + PATIENCE)? {
            WaitOutcome::Reached => self.go_on(),
            WaitOutcome::DeadlinePassed => self.give_up(),
        }
        Ok(())
    }

    /// A segment has ended; the next begins.
    pub(crate) fn go_on(&mut self) {
        let Some(running) = &mut self.trial else {
            return;
        };
        running.turn();
        if running.trial.next().is_none() {
            self.staging.settle(self.direction, &running.trial);
            self.trial = None;
            self.way = self.staging.way(self.direction);
        }
    }

    /// A chunk could not go the way whose turn it was: nothing is found out by this copy.
    pub(crate) fn give_up(&mut self) {
        if let Some(running) = self.trial.take() {
            self.staging.settle(self.direction, &running.trial);
        }
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Running {
    fn new(trial: StagingTrial) -> Self {
        Self {
            trial,
            began: None,
            left: StagingTrial::LEAD_BYTES,
        }
    }

    fn turn(&mut self) {
        let now = Instant::now();
        if let Some(began) = self.began.replace(now) {
            self.trial.note(now.saturating_duration_since(began));
        }
        self.left = StagingTrial::SEGMENT_BYTES;
    }
}
