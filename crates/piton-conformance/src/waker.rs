//! A waker that counts its calls, the smallest executor there is; and one that panics.

use piton_sync::atomic::{AtomicU64, Ordering};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

#[derive(Debug, Default)]
pub(crate) struct CountingWaker(AtomicU64);

impl CountingWaker {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (Arc::clone(&count), Waker::from(count))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Panics when it is called, without a message on the terminal, and so does what its panic carries.
#[derive(Debug)]
pub(crate) struct PanickingWaker;

struct Carried;

impl PanickingWaker {
    pub(crate) fn waker() -> Waker {
        Waker::from(Arc::new(Self))
    }
}

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new(Carried));
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}
