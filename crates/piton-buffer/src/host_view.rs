//! Page-locked memory that kernels read and write where it is.
//!
//! # The idea
//! A kernel that passes once over memory that the host filled need not have it copied first: where the device reaches host
//! memory, its address is an argument like any other. A [`PinnedBuffer`] becomes a [`HostView`], which launches name as they
//! name buffers, and which remembers its uses as buffers do: so kernels of several streams are ordered by it. It becomes a
//! `PinnedBuffer` again behind all of them ([`Stream::take_back`]), and while it is a view the host has no reference to it.
//!
//! # Invariants
//! 1. `uses` covers every command that names the memory and may not have ended.
//! 2. They are recorded in the buffer before anybody else has it, its pool included.

use crate::{
    BufferError, DeviceContext, PinnedBuffer, Stream, Transfer,
    arguments::{Holder, Named},
    stream::{Memory, Use},
    uses::{UseKind, Uses},
};
use bytemuck::Pod;
use piton_driver::DeviceRange;
use piton_pinned::{PinnedError, Refused};
use piton_sanitizer::Space;
use piton_timeline::Frontier;
use std::{fmt, sync::Arc};

/// `len` elements of `T` in page-locked host memory that kernels of its device reach in place.
///
/// A launch names it with [`KernelLaunch::read_host`](crate::KernelLaunch::read_host) and
/// [`write_host`](crate::KernelLaunch::write_host), and so do [launches of graphs](crate::GraphLaunch::read_host) and their
/// [replays](crate::Replay::read_host). [`Stream::take_back`] makes it a [`PinnedBuffer`] again; dropped, it goes
/// where that would have gone, when the device is done with it.
pub struct HostView<T: Pod> {
    /// Absent once it was taken back.
    buffer: Option<PinnedBuffer<T>>,
    memory: HostMemory,
}

/// Where kernels find it, whose kernels use it, and when.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(crate) range: DeviceRange,
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) uses: Uses,
}

impl<T: Pod> PinnedBuffer<T> {
    /// The elements as an argument of kernels of this buffer's device, which read and write them across the bus: worth it for
    /// what is used once. Costs nothing; no element moves.
    ///
    /// # Errors
    /// [`PinnedError::NotReachable`] where kernels of the device do not reach host memory. The buffer comes back with the error.
    #[expect(
        clippy::result_large_err,
        reason = "a refusal hands the buffer itself back, and is rare"
    )]
    pub fn into_view(self) -> Result<HostView<T>, Refused<Self>> {
        let context = Arc::clone(self.context());
        let Some(address) = self.device_address() else {
            let device = context.id();
            return Err(Refused {
                memory: self,
                error: PinnedError::NotReachable { device },
            });
        };
        let range = DeviceRange {
            start: address,
            bytes: (self.len() * size_of::<T>()) as u64,
        };
        if let Some(sanitizer) = context.streams.sanitizer() {
            // Uses of an earlier view are over: that is the promise of whoever had the memory.
            sanitizer.forget(Space::Device(context.id()), range);
        }
        Ok(HostView {
            buffer: Some(self),
            memory: HostMemory {
                range,
                context,
                uses: Uses::after(Frontier::new()),
            },
        })
    }
}

impl<T: Pod> HostView<T> {
    /// How many elements it has; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a view is never empty")]
    pub fn len(&self) -> u64 {
        self.memory.range.bytes / size_of::<T>().max(1) as u64
    }

    pub(crate) fn named(&self) -> Named<'_> {
        Named {
            holder: Holder::Host(&self.memory),
            address: self.memory.range.start.address(),
            bytes: self.memory.range.bytes,
        }
    }

    /// A use of it.
    pub(crate) fn used(&self, kind: UseKind) -> Use<'_> {
        let memory = Memory::Host(&self.memory);
        Use { memory, kind }
    }

    /// Takes the buffer out. Its pool, or whoever asks for its content, waits for the uses from here on.
    fn take(&mut self) -> Option<PinnedBuffer<T>> {
        let mut buffer = self.buffer.take()?;
        for point in self.memory.uses.all().points() {
            buffer.note_write(*point);
        }
        Some(buffer)
    }
}

impl Stream {
    /// Makes a view a buffer again, which comes back behind all work that uses it, on whatever streams. As with a copy, what is
    /// submitted to this stream later comes behind that work too.
    ///
    /// # Errors
    /// [`OtherRuntime`](BufferError::OtherRuntime), and what the stream refuses. The memory goes back to its pool then, when the
    /// device is done with it.
    #[track_caller]
    pub fn take_back<T: Pod>(
        &self,
        mut view: HostView<T>,
    ) -> Result<Transfer<PinnedBuffer<T>>, BufferError> {
        self.context().same_runtime(&view.memory.context)?;
        let uses = &view.memory.uses;
        // What was to be written is worth nothing if it failed; that a reader failed is its own stream's to say.
        self.raw().wait_frontier(&uses.before(UseKind::Read))?;
        self.raw().order_after(&uses.all())?;
        let buffer = view.take().ok_or(BufferError::AlreadyTaken)?;
        Ok(Transfer::new(buffer, self.raw().record()))
    }
}

impl<T: Pod> Drop for HostView<T> {
    fn drop(&mut self) {
        // In a fork locks may be held for ever, and nothing goes back.
        if !self.memory.context.streams.timeline().is_forked() {
            drop(self.take());
        }
    }
}

impl<T: Pod> fmt::Debug for HostView<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostView")
            .field("address", &self.memory.range.start)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
