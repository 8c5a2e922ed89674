//! The smallest executor.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

/// A thread, and whether it was woken.
struct Thread(thread::Thread, AtomicBool);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Polls when woken, until there is an answer.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let thread = Arc::new(Thread(thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&thread));
    loop {
        if thread.1.swap(false, Ordering::SeqCst)
            && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return output;
        }
        thread::park();
    }
}
