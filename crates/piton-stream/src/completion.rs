//! Waiting for a place in the order of work without holding a thread.

use crate::{CaptureError, StreamError, lane_state::LaneState, relay::Watch};
use piton_timeline::Timepoint;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A future that ends when everything up to a place has ended: with `Ok`, or with the failure that poisoned it.
///
/// Needs no particular executor: the device's completion wakes whatever polled last. It owns no work; dropping
/// it changes nothing but that nobody is woken. Once ready it goes on giving the same answer.
///
/// Blocking on it inside a host function of the same stream waits for ever, as nothing here can tell a block
/// from a poll; [`Event::synchronize`](crate::Event::synchronize) is refused there.
#[must_use = "a future does nothing unless polled"]
#[derive(Debug)]
pub struct Completion {
    /// `None` for a lane long gone, whose points are all complete.
    state: Option<Arc<LaneState>>,
    point: Timepoint,
    watch: Watch,
    /// What the future ends with if it was asked for in a capture.
    refused: Option<CaptureError>,
}

impl Completion {
    pub(crate) fn new(state: Option<Arc<LaneState>>, point: Timepoint) -> Self {
        let position = state.as_ref().map(|state| state.position(point));
        Self {
            state,
            point,
            watch: Watch::new(position.unwrap_or_default()),
            refused: None,
        }
    }

    /// The future, which ends with an error if there is one.
    pub(crate) fn unless(mut self, refused: Result<(), CaptureError>) -> Self {
        self.refused = refused.err();
        self
    }

    /// What is waited for.
    pub fn point(&self) -> Timepoint {
        self.point
    }
}

impl Future for Completion {
    type Output = Result<(), StreamError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(refused) = this.refused {
            return Poll::Ready(Err(refused.into()));
        }
        let Some(state) = &this.state else {
            return Poll::Ready(Ok(()));
        };
        if !state.link().has_completed(state.position(this.point)) {
            state.not_forked()?;
        }
        if !state.is_complete(this.point)
            && let Some(queue) = state.link().queue()
        {
            match this.watch.poll((&*queue, state.timeline()), cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(reached) => reached?,
            }
            state.learn(this.point);
        }
        Poll::Ready(state.ended(this.point))
    }
}
