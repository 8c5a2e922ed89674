//! Counters that come from outside: the host signals, streams wait, in either order.
//!
//! Streams need none of these among themselves. They are for what the host, or another program through it,
//! has to say: a wait may be submitted before the signal is given, and holds no thread meanwhile.

#![expect(unsafe_code, reason = "submits commands that name no memory")]

use crate::{Facet, Stream, StreamError, Submission, Submitting, witness::Witness};
use piton_driver::{Command, Device, ExportedSemaphore, SemaphoreSharing, SignalledBy};
use piton_timeline::Timepoint;
use std::sync::{Arc, OnceLock};

/// A number that only grows, signalled by the host or by streams of one driver; or of several processes, if it was
/// [made for that](Self::shared). Clones are the same number.
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: Arc<dyn piton_driver::Semaphore>,
    /// Whom to tell what the host does with it, once a stream of a runtime with a sanitizer has used it.
    witness: Arc<OnceLock<Arc<Witness>>>,
}

impl Semaphore {
    /// A semaphore at `initial`, for streams of this device and of others of its driver.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the device has none;
    /// [`Driver`](StreamError::Driver) for what the device refuses.
    pub fn new(device: &Arc<dyn Device>, initial: u64) -> Result<Self, StreamError> {
        Self::create(device, initial, SignalledBy::Anyone)
    }

    /// As [`new`](Self::new), signalled by streams alone: then streams that wait for each other in a circle are
    /// found and fail, where the device can tell (see [`SignalledBy::Queues`]).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn between_streams(device: &Arc<dyn Device>, initial: u64) -> Result<Self, StreamError> {
        Self::create(device, initial, SignalledBy::Queues)
    }

    fn create(
        device: &Arc<dyn Device>,
        initial: u64,
        signalled_by: SignalledBy,
    ) -> Result<Self, StreamError> {
        let Some(facet) = device.semaphores() else {
            return Err(StreamError::Unsupported {
                device: device.info().id,
                facet: Facet::Semaphores,
            });
        };
        Ok(Self::of(facet.create(initial, signalled_by)?))
    }

    /// A semaphore at `initial` that other processes may have too, once they are sent what [`export`](Self::export) gives. A sanitizer
    /// sees what this process does with it, and no order that another process makes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shared(device: &Arc<dyn Device>, initial: u64) -> Result<Self, StreamError> {
        Ok(Self::of(sharing(device)?.create(initial)?))
    }

    /// The semaphore on its way to another process, as often as one likes.
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) with [`PrivateSemaphore`](piton_driver::ErrorKind::PrivateSemaphore) if it was not
    /// made for that; otherwise as [`new`](Self::new).
    pub fn export(&self, device: &Arc<dyn Device>) -> Result<ExportedSemaphore, StreamError> {
        Ok(sharing(device)?.export(&*self.inner)?)
    }

    /// The semaphore that another process sent. See [`SemaphoreSharing`].
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) with [`NotASemaphore`](piton_driver::ErrorKind::NotASemaphore) if it is none; otherwise as
    /// [`new`](Self::new).
    pub fn import(
        device: &Arc<dyn Device>,
        exported: &ExportedSemaphore,
    ) -> Result<Self, StreamError> {
        Ok(Self::of(sharing(device)?.import(exported)?))
    }

    fn of(inner: Arc<dyn piton_driver::Semaphore>) -> Self {
        Self {
            inner,
            witness: Arc::default(),
        }
    }

    /// The value now. Does not block. Reading n happens after everything that was ordered before the signal of n.
    pub fn value(&self) -> u64 {
        let value = self.inner.value();
        if let Some(witness) = self.witness.get()
            && !witness.is_forked()
        {
            witness.read(&self.inner, value);
        }
        value
    }

    /// Raises the value from the host and wakes what waits for it. Does not block.
    ///
    /// # Errors
    /// [`Driver`](StreamError::Driver) with [`NotMonotonic`](piton_driver::ErrorKind::NotMonotonic) if `value`
    /// is not above the present one.
    pub fn signal(&self, value: u64) -> Result<(), StreamError> {
        // Before it is given: whoever it wakes may rely on it.
        if let Some(witness) = self.witness.get() {
            if witness.is_forked() {
                return Err(StreamError::Forked);
            }
            witness.signals(&self.inner, value);
        }
        Ok(self.inner.signal(value)?)
    }

    /// A stream is about to use it.
    fn used_by(&self, stream: &Stream) -> &Arc<dyn piton_driver::Semaphore> {
        if let Some(witness) = stream.registry().witness()
            && !witness.is_forked()
        {
            self.witness.get_or_init(|| {
                witness.semaphore(&self.inner);
                Arc::clone(witness)
            });
        }
        &self.inner
    }
}

fn sharing(device: &Arc<dyn Device>) -> Result<&dyn SemaphoreSharing, StreamError> {
    device.semaphore_sharing().ok_or(StreamError::Unsupported {
        device: device.info().id,
        facet: Facet::SemaphoreSharing,
    })
}

impl Stream {
    /// Later commands start when the semaphore has reached `value`, which need not have been signalled yet.
    /// Holds no host thread.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the stream's device has no semaphores; otherwise as
    /// every submission.
    #[track_caller]
    pub fn wait_semaphore(
        &self,
        semaphore: &Semaphore,
        value: u64,
    ) -> Result<Timepoint, StreamError> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.submit(&Command::WaitSemaphore { semaphore, value }) }
    }

    /// Raises the semaphore to `value` when everything submitted before has ended. A value not above the
    /// present one then leaves it alone; after a failure of the stream it is not raised.
    ///
    /// # Errors
    /// As [`wait_semaphore`](Self::wait_semaphore).
    #[track_caller]
    pub fn signal_semaphore(
        &self,
        semaphore: &Semaphore,
        value: u64,
    ) -> Result<Timepoint, StreamError> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.submit(&Command::SignalSemaphore { semaphore, value }) }
    }

    /// As [`wait_semaphore`](Self::wait_semaphore), and never blocks.
    ///
    /// # Errors
    /// As [`wait_semaphore`](Self::wait_semaphore), without the two about room.
    #[track_caller]
    pub fn try_wait_semaphore(
        &self,
        semaphore: &Semaphore,
        value: u64,
    ) -> Result<Submission, StreamError> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.try_submit(&Command::WaitSemaphore { semaphore, value }) }
    }

    /// As [`signal_semaphore`](Self::signal_semaphore), and never blocks.
    ///
    /// # Errors
    /// As [`wait_semaphore`](Self::wait_semaphore), without the two about room.
    #[track_caller]
    pub fn try_signal_semaphore(
        &self,
        semaphore: &Semaphore,
        value: u64,
    ) -> Result<Submission, StreamError> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.try_submit(&Command::SignalSemaphore { semaphore, value }) }
    }

    /// As [`wait_semaphore`](Self::wait_semaphore), as a future that waits for room, not for the value.
    #[track_caller]
    pub fn wait_semaphore_async<'a>(
        &'a self,
        semaphore: &'a Semaphore,
        value: u64,
    ) -> Submitting<'a> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.submit_async(Command::WaitSemaphore { semaphore, value }) }
    }

    /// As [`signal_semaphore`](Self::signal_semaphore), as a future that waits for room, not for the signal.
    #[track_caller]
    pub fn signal_semaphore_async<'a>(
        &'a self,
        semaphore: &'a Semaphore,
        value: u64,
    ) -> Submitting<'a> {
        let semaphore = semaphore.used_by(self);
        // SAFETY: the command names no memory.
        unsafe { self.submit_async(Command::SignalSemaphore { semaphore, value }) }
    }
}
