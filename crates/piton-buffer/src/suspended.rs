//! Buffers whose pages are gone for a while, and whose contents the host keeps.
//!
//! # The idea
//! A server that sleeps gives its pages back and keeps its addresses: [`piton_alloc::DevicePool::suspend`]. Here the contents are
//! copied to the host before the pages go and back after they came, so that buffers, and graphs that name their addresses, are
//! afterwards what they were.
//!
//! # What holds whatever fails
//! - Until the pages go nothing was done but copies *from* the buffers: they come back with the error.
//! - Once they are gone the host's copy is all there is. It is let go only when everything was copied back and that has
//!   ended: until then [`SuspendedBuffers`] comes back with the error, with or without its pages, and can be resumed again, on
//!   another stream if this one has failed.
//!
//! # Whose memory is when
//! The allocations are taken out of the buffers, which nobody else has meanwhile; what is left of the buffers goes back to the program
//! with the allocations in it.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use piton_alloc::{Allocation, DevicePool, SuspendErrorKind, Suspended};
use piton_driver::DriverError;
use piton_timeline::Frontier;
use thiserror::Error;

use crate::{BufferError, DeviceBuffer, PinnedBuffer, Stream, uses::Uses};

/// Where the host keeps contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptIn {
    /// In page-locked memory of the context's pool: the device copies by itself, and at its own speed.
    #[default]
    PinnedMemory,
    /// In ordinary memory, of which there may be more; copies go through page-locked memory in parts.
    OrdinaryMemory,
}

/// Contents of one buffer.
enum Kept<T> {
    Pinned(PinnedBuffer<T>),
    Ordinary(Vec<T>),
}

/// Buffers without their pages. They come back, as they were, with [`Stream::resume`]; dropped, they are given back to the pool.
#[must_use = "buffers that are not resumed are gone"]
pub struct SuspendedBuffers<T: Pod> {
    /// Without their allocations as long as there are `pages`.
    buffers: Vec<DeviceBuffer<T>>,
    /// Of each of them.
    kept: Vec<Kept<T>>,
    /// The allocations; nothing once their pages are back.
    pages: Option<Suspended>,
    pool: Arc<DevicePool>,
}

impl Stream {
    /// Copies the contents of buffers to the host and gives their pages back to the device. Their addresses stay theirs. Blocks until all
    /// work that uses them has ended, on whatever stream.
    ///
    /// A page that also backs somebody else's memory stays: suspend together what was allocated together, as
    /// [bytes](DeviceBuffer::into_bytes) where types differ.
    ///
    /// # Errors
    /// [`SuspendFailed`] with the buffers as they were: [`Suspend`](BufferError::Suspend) where the device maps no pages, or for buffers of a
    /// [`PrivatePool`](crate::PrivatePool); [`OtherDevice`](BufferError::OtherDevice); [`Pinned`](BufferError::Pinned) where the
    /// host has no such memory; and what the stream refuses, or its work before this comes to.
    #[track_caller]
    pub fn suspend<T: Pod>(
        &self,
        mut buffers: Vec<DeviceBuffer<T>>,
        kept_in: KeptIn,
    ) -> Result<SuspendedBuffers<T>, SuspendFailed<T>> {
        let kept = match self.keep(&buffers, kept_in) {
            Ok(kept) => kept,
            Err(error) => return Err(SuspendFailed { buffers, error }),
        };
        let pool = Arc::clone(&self.context().memory);
        let taken = buffers.iter_mut().filter_map(|buffer| buffer.memory.take());
        // All uses have ended: nothing is left to wait for.
        match pool.suspend(taken.collect(), &Frontier::new()) {
            Ok(pages) => Ok(SuspendedBuffers {
                buffers,
                kept,
                pages: Some(pages),
                pool,
            }),
            Err(refused) => {
                put_back(&mut buffers, refused.allocations);
                let error = refused.kind.into();
                Err(SuspendFailed { buffers, error })
            }
        }
    }

    /// Brings pages and contents back: the buffers have the addresses and elements they had. Blocks until they are there.
    ///
    /// # Errors
    /// [`ResumeFailed`] with what is suspended, whose contents the host still has: [`Resume`](BufferError::Resume) where others have the
    /// memory now or the driver refuses; [`OtherDevice`](BufferError::OtherDevice); and what the stream refuses, or comes to.
    #[track_caller]
    pub fn resume<T: Pod>(
        &self,
        mut suspended: SuspendedBuffers<T>,
    ) -> Result<Vec<DeviceBuffer<T>>, ResumeFailed<T>> {
        match suspended.bring_back(self) {
            Ok(()) => Ok(std::mem::take(&mut suspended.buffers)),
            Err(error) => Err(ResumeFailed {
                suspended: Box::new(suspended),
                error,
            }),
        }
    }

    /// Copies contents to the host, and waits for everybody else who uses the buffers.
    #[track_caller]
    fn keep<T: Pod>(
        &self,
        buffers: &[DeviceBuffer<T>],
        kept_in: KeptIn,
    ) -> Result<Vec<Kept<T>>, BufferError> {
        let pool = &self.context().memory;
        if !pool.has_virtual_addressing() {
            return Err(SuspendErrorKind::NoVirtualAddressing.into());
        }
        for buffer in buffers {
            self.context().same_device(&buffer.memory.context)?;
            let asked = pool.id();
            if let Some(belongs) = buffer.memory.pool().filter(|belongs| *belongs != asked) {
                return Err(SuspendErrorKind::ForeignPool { belongs, asked }.into());
            }
        }
        let kept = match kept_in {
            KeptIn::PinnedMemory => self.keep_pinned(buffers)?,
            KeptIn::OrdinaryMemory => {
                let read = |buffer| self.read(buffer).map(Kept::Ordinary);
                buffers.iter().map(read).collect::<Result<_, _>>()?
            }
        };
        for buffer in buffers {
            self.raw().order_after(&buffer.memory.uses.all())?;
        }
        self.synchronize()?;
        Ok(kept)
    }

    /// All copies are under way at once.
    #[track_caller]
    fn keep_pinned<T: Pod>(
        &self,
        buffers: &[DeviceBuffer<T>],
    ) -> Result<Vec<Kept<T>>, BufferError> {
        let mut transfers = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            let invalid = BufferError::InvalidLength {
                elements: buffer.len(),
                element_bytes: size_of::<T>() as u64,
            };
            let host = self.pinned(usize::try_from(buffer.len()).map_err(|_| invalid)?)?;
            transfers.push(self.copy_to_host(buffer, host)?);
        }
        let landed = transfers
            .into_iter()
            .map(|transfer| Ok(Kept::Pinned(transfer.wait()?)));
        landed.collect()
    }
}

impl<T: Pod> SuspendedBuffers<T> {
    /// Bytes of pages that the device got back. Less than the buffers have where they share pages with others.
    pub fn released(&self) -> u64 {
        self.pages.as_ref().map_or(0, Suspended::released)
    }

    /// The driver's call that cut the suspension short, if one failed: some pages are still held, and nothing is lost.
    pub fn error(&self) -> Option<DriverError> {
        self.pages.as_ref().and_then(Suspended::error)
    }

    #[track_caller]
    fn bring_back(&mut self, stream: &Stream) -> Result<(), BufferError> {
        for buffer in &self.buffers {
            stream.context().same_device(&buffer.memory.context)?;
        }
        if let Some(pages) = self.pages.take() {
            match self.pool.resume(pages) {
                Ok(allocations) => put_back(&mut self.buffers, allocations),
                Err(refused) => {
                    self.pages = Some(*refused.suspended);
                    return Err(refused.kind.into());
                }
            }
        }
        for (buffer, kept) in self.buffers.iter_mut().zip(&self.kept) {
            // A copy that failed in an earlier attempt has ended before this one; its failure is nobody's business any more.
            stream.raw().order_after(&buffer.memory.uses.all())?;
            buffer.memory.uses = Uses::after(stream.raw().now().into());
            match kept {
                Kept::Pinned(host) => stream.upload(host, buffer.into())?,
                Kept::Ordinary(host) => stream.write(buffer, host)?,
            }
        }
        stream.synchronize()
    }
}

/// As many as there are buffers, in their order.
fn put_back<T: Pod>(buffers: &mut [DeviceBuffer<T>], allocations: Vec<Allocation>) {
    debug_assert_eq!(buffers.len(), allocations.len());
    for (buffer, allocation) in buffers.iter_mut().zip(allocations) {
        buffer.memory.put_back(allocation);
    }
}

/// Addresses go back to the pool.
impl<T: Pod> Drop for SuspendedBuffers<T> {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take()
            && !self.pool.is_forked()
        {
            let discarded = self.pool.discard(pages);
            debug_assert!(discarded.is_ok(), "they are this pool's");
        }
    }
}

impl<T: Pod> fmt::Debug for SuspendedBuffers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuspendedBuffers")
            .field("buffers", &self.buffers.len())
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// Buffers that were not suspended.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct SuspendFailed<T: Pod> {
    /// All of them, as they were.
    pub buffers: Vec<DeviceBuffer<T>>,
    /// Why.
    #[source]
    pub error: BufferError,
}

/// Buffers that were not resumed.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct ResumeFailed<T: Pod> {
    /// What is suspended still, its contents with the host.
    pub suspended: Box<SuspendedBuffers<T>>,
    /// Why.
    #[source]
    pub error: BufferError,
}
