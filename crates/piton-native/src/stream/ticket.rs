//! A place on a stream.

use super::{Kept, Stream, VendorEvent, VendorStream};
use crate::backend::{Listener, NativeEvent, Progress};
use piton_sync::hint;
use std::{fmt, sync::Arc};

/// Looks at a stream before a waiter sleeps: a few microseconds, less than waking costs.
const SPINS: u32 = 500;

/// A place on a stream: its command and all before it have ended, or not.
pub struct Ticket<V: VendorStream> {
    stream: Arc<Stream<V>>,
    ordinal: u64,
    /// What may not go before it is over.
    kept: Option<Kept>,
}

impl<V: VendorStream> Ticket<V> {
    pub(super) const fn new(stream: Arc<Stream<V>>, ordinal: u64) -> Self {
        Self {
            stream,
            ordinal,
            kept: None,
        }
    }

    /// The same, which keeps something until it is over and its last handle is gone.
    #[must_use]
    pub fn keeping(mut self, kept: Kept) -> Self {
        self.kept = Some(kept);
        self
    }

    pub(super) const fn stream(&self) -> &Arc<Stream<V>> {
        &self.stream
    }

    pub(super) const fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Whether it is over, well or not.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self.progress(), Progress::Pending)
    }
}

impl<V: VendorStream> NativeEvent for Ticket<V> {
    type Status = V::Status;

    fn progress(&self) -> Progress<V::Status> {
        if self.stream.has_ended(self.ordinal) {
            return Progress::Done;
        }
        let failure = self.stream.vendor.fate().failure();
        failure.map_or(Progress::Pending, Progress::Failed)
    }

    fn wait(&self) -> bool {
        for _ in 0..SPINS {
            if self.stream.ended() >= self.ordinal {
                return true;
            }
            hint::spin_loop();
        }
        if self.is_over() {
            return false;
        }
        let event = self.stream.event_behind(self.ordinal);
        if event.and_then(|event| event.wait()).is_err() {
            self.stream.ask();
        }
        false
    }

    fn tell<L: Listener>(&self, listener: Arc<L>) -> Result<(), V::Status> {
        self.stream
            .listen(self.ordinal, Box::new(move || listener.over()))
    }

    fn times(&self) -> Option<(u64, u64)> {
        None
    }
}

impl<V: VendorStream> Clone for Ticket<V> {
    fn clone(&self) -> Self {
        Self {
            stream: Arc::clone(&self.stream),
            ordinal: self.ordinal,
            kept: self.kept.clone(),
        }
    }
}

impl<V: VendorStream> fmt::Debug for Ticket<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("ordinal", &self.ordinal)
            .finish_non_exhaustive()
    }
}
