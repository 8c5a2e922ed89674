//! Memory that the program keeps, lent to devices for a scope.
//!
//! # The idea
//! What a copy takes by value it can give back when it has ended ([`PinnedBuffer`](crate::PinnedBuffer)); what is only borrowed it
//! cannot, since a future that would give it back can be forgotten. So borrowed memory is had by a closure: whatever
//! becomes of the view of it in there, the scope around it waits for every copy before the borrow ends.
//!
//! A view names its copies' order itself: one that writes the memory comes behind all copies before it, one that reads it
//! behind those that write, on whatever streams they are.

#![expect(
    unsafe_code,
    reason = "submits copies whose ends it has checked and ordered"
)]

use crate::{
    BufferError, DeviceContext, DeviceSlice, DeviceSliceMut, Stream, copy::check_lengths,
    stream::Use,
};
use bytemuck::Pod;
use piton_driver::Command;
use piton_pinned::LentMemory;
use piton_sync::thread;
use piton_timeline::Frontier;
use std::sync::Arc;

/// The program's own memory in a scope of [`Stream::lend`], which devices copy from and to by themselves.
///
/// A view: it cannot leave the scope, and dropping or forgetting it does nothing.
#[derive(Debug)]
pub struct LentBuffer<'scope, T> {
    context: Arc<DeviceContext>,
    memory: LentMemory<'scope, T>,
    len: usize,
}

impl Stream {
    /// Lends memory to devices for as long as `act` runs: page-locked where it is, without a copy of it. It is the program's again
    /// when this returns, behind every copy of it that was submitted in `act`, also where `act` panics. For memory that
    /// cannot be given away meanwhile, as [`register`](Self::register) asks for.
    ///
    /// Blocks on the driver, and at the end on those copies. What they wait for must not depend on what this thread would
    /// do next, and this must not be called in a host function of a stream that they are on: it would not return.
    ///
    /// # Errors
    /// [`Pinned`](BufferError::Pinned) for no memory, and where the driver refuses to lock it; `act` was not called then.
    /// That a copy failed is its stream's to say.
    ///
    /// # Example
    /// The view does not leave the scope:
    /// ```compile_fail
    /// fn escape(stream: &piton_buffer::Stream, memory: &mut [u8]) {
    ///     let lent = stream.lend(memory, |lent| lent);
    /// }
    /// ```
    pub fn lend<T: Pod, R>(
        &self,
        memory: &mut [T],
        act: impl FnOnce(LentBuffer<'_, T>) -> R,
    ) -> Result<R, BufferError> {
        let (context, len) = (self.context(), memory.len());
        let wait = |pending: &Frontier| {
            // What failed has ended too. What cannot be waited for is asked about again.
            if context.streams.wait_frontier(pending, None).is_err() {
                thread::yield_now();
            }
        };
        let lent = context.pinned().lend(memory, wait, |memory| {
            if let Some(sanitizer) = context.streams.sanitizer() {
                sanitizer.forget_host(memory.as_ptr(), (len * size_of::<T>()) as u64);
            }
            let context = Arc::clone(context);
            act(LentBuffer {
                context,
                memory,
                len,
            })
        });
        Ok(lent?)
    }
}

impl<T: Pod> LentBuffer<'_, T> {
    /// How many elements it has; never zero.
    #[expect(
        clippy::len_without_is_empty,
        reason = "memory without elements is not lent"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies it to a device, in the order of `stream`.
    ///
    /// # Errors
    /// [`LengthMismatch`](BufferError::LengthMismatch), [`OtherDevice`](BufferError::OtherDevice),
    /// [`OtherRuntime`](BufferError::OtherRuntime), and what the stream refuses; nothing was copied.
    #[track_caller]
    pub fn copy_to<'a>(
        &self,
        stream: &Stream,
        dst: impl Into<DeviceSliceMut<'a, T>>,
    ) -> Result<(), BufferError> {
        let dst = dst.into();
        stream.context().same_runtime(&self.context)?;
        check_lengths(self.len as u64, dst.len())?;
        let command = Command::CopyToDevice {
            dst: dst.ptr(),
            src: self.memory.as_ptr(),
            bytes: dst.bytes(),
        };
        let uses = [Use::write(dst.memory)];
        let ordered = stream.order(&uses)?.and_behind(self.memory.writes());
        // SAFETY: the host memory is registered, of that length (checked), and stays so until the scope has waited for the
        // use noted below. Both ends are ordered, and the device's is kept alive by the use noted in it.
        let point = unsafe { stream.submit_ordered(ordered, &command)? };
        self.memory.record_read(point);
        Ok(())
    }

    /// Copies to it from a device, in the order of `stream`.
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to).
    #[track_caller]
    pub fn copy_from<'a>(
        &mut self,
        stream: &Stream,
        src: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<(), BufferError> {
        let src = src.into();
        stream.context().same_runtime(&self.context)?;
        check_lengths(src.len(), self.len as u64)?;
        let command = Command::CopyToHost {
            dst: self.memory.as_ptr(),
            src: src.ptr(),
            bytes: src.bytes(),
        };
        let uses = [Use::read(src.memory)];
        let ordered = stream.order(&uses)?.and_behind(&self.memory.uses());
        // SAFETY: as in `copy_to`; the view is borrowed exclusively, so no reference to the memory exists.
        let point = unsafe { stream.submit_ordered(ordered, &command)? };
        self.memory.record_write(point);
        Ok(())
    }

    /// The elements. Blocks until the copies to it have ended.
    ///
    /// # Errors
    /// [`Stream`](BufferError::Stream) if one of them failed, or inside a host function of its stream.
    #[track_caller]
    pub fn as_slice(&self) -> Result<&[T], BufferError> {
        self.wait(self.memory.writes())?;
        Ok(self.memory.try_as_slice()?)
    }

    /// The elements, to write. Blocks until all copies of it have ended.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice), of any copy.
    #[track_caller]
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], BufferError> {
        self.wait(&self.memory.uses())?;
        Ok(self.memory.try_as_mut_slice()?)
    }

    #[track_caller]
    fn wait(&self, uses: &Frontier) -> Result<(), BufferError> {
        Ok(self.context.streams.wait_frontier(uses, None).map(drop)?)
    }
}
