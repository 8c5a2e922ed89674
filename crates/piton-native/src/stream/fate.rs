//! Whether the thing that a stream fails with, its context or the stream itself, has failed.
//!
//! # Protocol
//! The first code stays. It is stored before the counters of its streams are released, so whoever sees a released counter
//! finds the code.

use super::{Stream, StreamStatus, VendorStream};
use piton_sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};
use std::sync::{Arc, Weak};

/// What several streams fail with, all at once.
#[derive(Debug)]
pub struct Fate<V: VendorStream> {
    /// The answer after which nothing runs any more; zero, which is no failure of any vendor's, if there was none.
    failure: AtomicU32,
    streams: Mutex<Vec<Weak<Stream<V>>>>,
}

impl<V: VendorStream> Default for Fate<V> {
    fn default() -> Self {
        Self {
            failure: AtomicU32::new(0),
            streams: Mutex::default(),
        }
    }
}

impl<V: VendorStream> Fate<V> {
    /// Keeps an answer after which nothing that was handed over is known to end any more, and lets go whoever waits for one
    /// of the streams.
    pub fn give_up(&self, status: V::Status) {
        let code = status.code();
        let first = self
            .failure
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            let streams = self.streams.lock().clone();
            for stream in streams.iter().filter_map(Weak::upgrade) {
                stream.release();
            }
        }
    }

    /// The answer after which nothing runs here any more.
    pub fn failure(&self) -> Option<V::Status> {
        match self.failure.load(Ordering::Acquire) {
            0 => None,
            code => Some(V::Status::from_code(code)),
        }
    }

    /// Remembers a stream for as long as it lives. One that comes after the failure is released at once.
    pub(super) fn note(&self, stream: &Arc<Stream<V>>) {
        let mut streams = self.streams.lock();
        streams.retain(|known| known.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
        drop(streams);
        if self.failure().is_some() {
            stream.release();
        }
    }
}
