//! A waker that counts its calls: the smallest executor there is.

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
