//! A waker that counts, and a poll.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use piton_sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
pub(crate) struct CountingWaker {
    wakes: AtomicU32,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::AcqRel);
    }
}

impl CountingWaker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.wakes.load(Ordering::Acquire)
    }

    pub(crate) fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }
}
