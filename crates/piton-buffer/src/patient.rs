//! Memory of a device that is full now: waiting for what is pending.
//!
//! # The idea
//! The pool never waits. Where it has too little it says which places of streams let memory go when they are reached
//! ([`FullNow::frees_at`](piton_alloc::FullNow::frees_at)); here somebody waits for those and asks again. What is free then
//! need not be in one piece, so that it may take several waits. Each is for work that had not ended, and none is
//! repeated: without progress the pool's refusal stands.

use crate::{BufferError, DeviceBuffer, Stream};
use bytemuck::Pod;
use piton_alloc::AllocError;
use piton_stream::StreamError;
use piton_timeline::Frontier;

/// What was waited for last.
#[derive(Default)]
struct Patience(Frontier);

impl Patience {
    /// What to wait for before the next try, or the refusal if no wait helps.
    fn after(&mut self, refused: BufferError) -> Result<&Frontier, BufferError> {
        match refused {
            BufferError::Memory(AllocError::FullNow(full))
                if !full.frees_at.is_empty() && full.frees_at != self.0 =>
            {
                self.0 = full.frees_at;
                Ok(&self.0)
            }
            final_one => Err(final_one),
        }
    }
}

/// Whether a wait is over: what failed has ended too.
fn is_over<T>(waited: Result<T, StreamError>) -> Result<(), BufferError> {
    match waited {
        Ok(_) | Err(StreamError::Poisoned(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Stream {
    /// As [`allocate`](Self::allocate), but where the device is full and memory that was freed is still in use by work that
    /// has not ended, blocks until enough of that has. For programs that run far ahead of a device that they fill.
    ///
    /// What it waits for must not depend on what this thread would do next. It tries again after each wait, and each try that
    /// fails counts as out of memory in the pool's statistics and asks the
    /// [program's callback](piton_alloc::DevicePool::on_out_of_memory).
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), where nothing pending is left to wait for; [`Stream`](BufferError::Stream) where waiting
    /// is refused, in a host function of a stream that would be waited for or in a fork. That work failed is its stream's to
    /// say.
    #[track_caller]
    pub fn allocate_waiting<T: Pod>(&self, len: u64) -> Result<DeviceBuffer<T>, BufferError> {
        let mut patience = Patience::default();
        loop {
            let refused = match self.allocate(len) {
                Err(refused) => refused,
                served => return served,
            };
            let awaited = patience.after(refused)?;
            is_over(self.context().streams.wait_frontier(awaited, None))?;
        }
    }

    /// As [`allocate_waiting`](Self::allocate_waiting), as a future that holds no thread while it waits. Needs no particular
    /// executor; dropped before it ends, it has allocated nothing. Reports of a [sanitizer](piton_sanitizer::Sanitizer)
    /// cannot tell where it was called.
    ///
    /// # Errors
    /// As [`allocate_waiting`](Self::allocate_waiting).
    pub async fn allocate_async<T: Pod>(&self, len: u64) -> Result<DeviceBuffer<T>, BufferError> {
        let mut patience = Patience::default();
        loop {
            let refused = match self.allocate(len) {
                Err(refused) => refused,
                served => return served,
            };
            for point in patience.after(refused)?.points() {
                is_over(self.context().streams.completion(*point)?.await)?;
            }
        }
    }
}
