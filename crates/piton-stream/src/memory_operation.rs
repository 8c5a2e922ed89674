//! Waits for values in device memory, and writes of them, in a stream's order.
//!
//! A value in memory is what a kernel, a network card or another process can write where none of them could signal a
//! semaphore. What streams order among themselves needs no such value.

#![expect(
    unsafe_code,
    reason = "passes the contract's promises on to callers: memory named by a command stays theirs to keep"
)]

use crate::{Stream, StreamError};
use piton_driver::{Command, DevicePtr, MemoryWait, MemoryWord};
use piton_timeline::Timepoint;

/// The forms that try and that are futures are [`try_submit`](Stream::try_submit) and
/// [`submit_async`](Stream::submit_async) with the same commands.
impl Stream {
    /// Later commands of this stream start when the value in device memory meets the condition. Holds no host
    /// thread. Nothing bounds the wait but an [`abort`](Self::abort).
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission): until the wait has ended, the bytes of
    /// [`MemoryWait::at_range`] are live device memory. Others may write them meanwhile, in whole words.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the device waits for no values; otherwise as
    /// [`submit`](Self::submit).
    #[track_caller]
    pub unsafe fn wait_memory(&self, wait: MemoryWait) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::WaitMemory(wait)) }
    }

    /// Writes a value into device memory when everything submitted before has ended, and sets going what waits for
    /// it. After a failure of the stream it is not written.
    ///
    /// # Safety
    /// See [the safety of submission](#safety-of-submission): until the write has ended, the bytes of `value` at `at`
    /// are live device memory that nothing but waits and writes of whole words uses.
    ///
    /// # Errors
    /// As [`wait_memory`](Self::wait_memory).
    #[track_caller]
    pub unsafe fn write_memory(
        &self,
        at: DevicePtr,
        value: MemoryWord,
    ) -> Result<Timepoint, StreamError> {
        // SAFETY: the caller promised the same.
        unsafe { self.submit(&Command::WriteMemory { at, value }) }
    }
}
