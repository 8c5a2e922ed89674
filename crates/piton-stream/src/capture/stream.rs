//! The stream's side of a capture: beginning and ending one, and what its calls do meanwhile.

use super::{CaptureError, CapturedPlace, Offence, Recording};
use crate::{Event, Facet, Stream, StreamError, Waited};
use piton_driver::{Command, Device, GraphNode, NodeWork, Origin};
use piton_timeline::Timepoint;
use std::{panic::Location, sync::Arc};

/// A capture that is open on a stream. Dropped without [`end`](Self::end), it is given up: what was recorded is
/// gone and the streams work as before.
#[must_use = "a capture that is dropped is given up"]
#[derive(Debug)]
pub struct Capture<'a> {
    stream: &'a Stream,
    recording: Arc<Recording>,
}

/// What a capture recorded: the nodes, in the order of their submission, for a graph of one device.
#[derive(Debug)]
pub struct Captured {
    /// The nodes; edges point to earlier ones.
    pub nodes: Vec<GraphNode>,
    /// The device whose streams were captured.
    pub device: Arc<dyn Device>,
}

impl Capture<'_> {
    /// How many nodes are recorded: the number of the next one.
    pub fn node_count(&self) -> usize {
        self.recording.node_count()
    }

    /// Ends the capture. Its streams work as before, whatever the answer.
    ///
    /// # Errors
    /// [`Capture`](StreamError::Capture): the first call that could not be captured; a stream that joined and was
    /// not joined back.
    pub fn end(self) -> Result<Captured, StreamError> {
        let nodes = self.recording.end()?;
        Ok(Captured {
            nodes,
            device: Arc::clone(self.stream.device()),
        })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.stream.lane().timeline().is_forked() {
            return;
        }
        let _given_up = self.recording.end();
    }
}

impl Stream {
    /// Begins a capture: what is submitted to this stream from now on is recorded and does not run.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the device has no graphs;
    /// [`Capture`](StreamError::Capture) if the stream takes part in a capture, which is spoilt by this.
    #[track_caller]
    pub fn begin_capture(&self) -> Result<Capture<'_>, StreamError> {
        let origin = Location::caller();
        if self.device().graphs().is_none() {
            return Err(self.lacks(Facet::Graphs));
        }
        self.state().not_forked()?;
        let recording = Recording::begin(self.state(), origin);
        if let Err(other) = self.state().capture.put(&recording) {
            return Err(other.refuse(Offence::BeginAgain, origin).into());
        }
        Ok(Capture {
            stream: self,
            recording,
        })
    }

    /// Whether what is submitted is recorded and does not run. One load.
    pub fn is_capturing(&self) -> bool {
        self.state().capture.is_on()
    }

    /// Records a command if the stream is captured; `None` if it is to be submitted. Asked only where
    /// [`is_capturing`](Self::is_capturing) says so.
    #[cold]
    pub(crate) fn capture(
        &self,
        command: &Command<'_>,
        origin: Origin,
    ) -> Option<Result<Timepoint, StreamError>> {
        let recording = self.state().capture.get()?;
        Some(match NodeWork::of(command) {
            Some(work) => self.capture_work(&recording, work, origin),
            None => {
                let offence = Offence::Command(command.operation());
                Err(recording.refuse(offence, origin).into())
            }
        })
    }

    /// Records work; the place returned is the one before the capture.
    pub(crate) fn capture_work(
        &self,
        recording: &Recording,
        work: NodeWork,
        origin: Origin,
    ) -> Result<Timepoint, StreamError> {
        recording.add(self.id(), work, origin)?;
        Ok(self.now())
    }

    /// Refuses a call on a captured stream.
    pub(crate) fn not_in_capture(
        &self,
        offence: Offence,
        origin: Origin,
    ) -> Result<(), CaptureError> {
        match self.state().capture.get() {
            None => Ok(()),
            Some(recording) => Err(recording.refuse(offence, origin)),
        }
    }

    /// The place of an event recorded now, if the stream is captured.
    pub(crate) fn captured_place(&self) -> Option<Arc<CapturedPlace>> {
        let recording = self.state().capture.get()?;
        let tips = recording.tips(self.id());
        Some(Arc::new(CapturedPlace { recording, tips }))
    }

    /// Waits for an event of a capture: an edge, or the way into the capture.
    pub(crate) fn wait_captured(
        &self,
        place: &CapturedPlace,
        origin: Origin,
    ) -> Result<Waited, StreamError> {
        let CapturedPlace { recording, tips } = place;
        match self.state().capture.put(recording) {
            Ok(()) => {
                if let Err(refused) = recording.join(self.state(), tips, origin) {
                    self.state().capture.clear();
                    return Err(refused.into());
                }
            }
            Err(own) if Arc::ptr_eq(&own, recording) => {
                recording.join(self.state(), tips, origin)?;
            }
            Err(own) => return Err(own.refuse(Offence::OtherCapture, origin).into()),
        }
        Ok(Waited::Recorded)
    }

    /// Waits, in a capture, for work outside: fine if it has ended well, as a replay comes later.
    pub(crate) fn wait_outside(
        &self,
        recording: &Recording,
        has_ended_well: bool,
        point: Timepoint,
        origin: Origin,
    ) -> Result<Waited, StreamError> {
        if has_ended_well {
            return Ok(Waited::Done);
        }
        Err(recording
            .refuse(Offence::WorkOutside { point }, origin)
            .into())
    }
}

impl Event {
    /// Refuses a question about an event of a capture.
    pub(crate) fn not_captured(&self, offence: Offence, place: Origin) -> Result<(), CaptureError> {
        match self.captured() {
            None => Ok(()),
            Some(captured) => Err(captured.recording.refuse(offence, place)),
        }
    }
}
