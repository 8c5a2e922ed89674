//! A copy under way that owns its host memory.

use crate::BufferError;
use piton_driver::WaitOutcome;
use piton_stream::{Completion, Event, StreamError};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};
use thiserror::Error;

/// A copy between host and device, and the host memory it uses.
///
/// The memory comes back when the copy has ended: by [`wait`](Self::wait), which blocks, or by `.await`, which
/// needs no particular executor. Dropping it, even half way, is fine: the copy goes on, and the memory returns
/// to its pool when the device is done with it.
#[must_use = "the host memory comes back from the transfer"]
pub struct Transfer<H> {
    host: Option<H>,
    event: Event,
    completion: Completion,
}

impl<H> Transfer<H> {
    pub(crate) fn new(host: H, event: Event) -> Self {
        Self {
            host: Some(host),
            completion: event.completion(),
            event,
        }
    }

    /// Blocks until the copy has ended and gives the host memory back.
    ///
    /// # Errors
    /// [`TransferFailed`], with the memory, if the copy or work before it on its stream failed.
    pub fn wait(mut self) -> Result<H, TransferFailed<H>> {
        let outcome = self.event.synchronize();
        settle(self.host.take(), outcome)
    }

    /// Blocks until the copy has ended or `deadline` has passed; then the transfer itself comes back.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_until(self, deadline: Instant) -> Result<Result<H, Self>, TransferFailed<H>> {
        match self.event.synchronize_until(deadline) {
            Ok(WaitOutcome::DeadlinePassed) => Ok(Err(self)),
            _ => self.wait().map(Ok),
        }
    }

    /// Whether the copy has ended. Does not block.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) if it has, and failed.
    pub fn query(&self) -> Result<bool, BufferError> {
        Ok(self.event.query()?)
    }

    /// The place where the copy has ended, for other streams to wait for.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl<H: Unpin> Future for Transfer<H> {
    type Output = Result<H, TransferFailed<H>>;

    /// # Panics
    /// Never; polled again after it was ready, it gives an error without memory.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Poll::Ready(outcome) = Pin::new(&mut this.completion).poll(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(settle(this.host.take(), outcome))
    }
}

/// Host memory is handed out only when the copy has *ended*. A failed copy has ended; a wait that could not be
/// made says nothing, and keeps the memory.
fn settle<H>(host: Option<H>, outcome: Result<(), StreamError>) -> Result<H, TransferFailed<H>> {
    let Some(host) = host else {
        let error = BufferError::AlreadyTaken;
        return Err(TransferFailed { host: None, error });
    };
    match outcome {
        Ok(()) => Ok(host),
        Err(error @ StreamError::Poisoned(_)) => Err(TransferFailed {
            host: Some(host),
            error: error.into(),
        }),
        Err(error) => Err(TransferFailed {
            host: None,
            error: error.into(),
        }),
    }
}

impl<H> fmt::Debug for Transfer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

/// A transfer that failed.
#[derive(Error)]
#[error("{error}")]
pub struct TransferFailed<H> {
    /// The host memory, if the copy is known to have ended. Otherwise its pool has it when the device is done.
    pub host: Option<H>,
    /// Why.
    #[source]
    pub error: BufferError,
}

impl<H> fmt::Debug for TransferFailed<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferFailed")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<H> From<TransferFailed<H>> for BufferError {
    fn from(failed: TransferFailed<H>) -> Self {
        failed.error
    }
}
