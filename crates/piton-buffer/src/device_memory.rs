//! A chunk of device memory with the record of its uses: bytes, no type.

#![expect(
    unsafe_code,
    reason = "vouches for the waits of memory that was handed out"
)]

use crate::{BufferError, DeviceContext, uses::Uses, witness};
use piton_alloc::{
    AllocError, Allocation, DevicePool, FreeError, MemoryPool, Planned, PoolId, Request,
};
use piton_driver::{DevicePtr, DeviceRange};
use piton_timeline::Frontier;
use std::sync::Arc;

/// Where memory comes from and goes back to.
#[derive(Debug)]
pub(crate) enum Origin {
    Pool(Arc<DevicePool>),
    Planned(Arc<Planned>),
}

impl Origin {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        match self {
            Self::Pool(pool) => pool.allocate(request),
            Self::Planned(planned) => planned.allocate(request),
        }
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        match self {
            Self::Pool(pool) => pool.free(allocation, last_uses),
            Self::Planned(planned) => planned.free(allocation, last_uses),
        }
    }
}

/// Memory that is given back, in stream order, when it is dropped.
///
/// # Invariants
/// 1. `allocation` is `Some` until drop, but while the memory is suspended: then nobody but `suspended.rs` has this value. Its
///    memory is nobody else's until the pool has it back.
/// 2. `uses` covers every command that names the memory and may not have ended, and the work that must end
///    before the memory may be used at all.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) context: Arc<DeviceContext>,
    /// Where it came from and goes back to: the context's pool, or a private or planned one of it.
    origin: Origin,
    allocation: Option<Allocation>,
    pub(crate) uses: Uses,
}

impl DeviceMemory {
    /// `bytes` bytes for work on `stream`, which is made to come after what the memory was used for before.
    #[track_caller]
    pub(crate) fn allocate(
        context: &Arc<DeviceContext>,
        stream: &piton_stream::Stream,
        bytes: u64,
    ) -> Result<Self, BufferError> {
        let origin = Origin::Pool(Arc::clone(&context.memory));
        Self::allocate_from(context, origin, stream, bytes)
    }

    /// The same from a pool of this context, or a private or planned one of it.
    #[track_caller]
    pub(crate) fn allocate_from(
        context: &Arc<DeviceContext>,
        origin: Origin,
        stream: &piton_stream::Stream,
        bytes: u64,
    ) -> Result<Self, BufferError> {
        let request = Request::new(bytes).on(stream.id());
        let mut allocation = origin.allocate(request)?;
        let range = allocation.range();
        let prepared = match stream.order_after(allocation.wait()) {
            Ok(()) => {
                // SAFETY: the stream came behind the points just now, so before this place; what it was ordered behind when it
                // was given the memory it was ordered behind before that.
                unsafe { allocation.assume_waited(stream.now()) };
                witness::handed_out(context, stream, range)
            }
            Err(error) => Err(error.into()),
        };
        // The stream is ordered behind the memory's past from here on; another stream that takes the buffer
        // comes after this point and thereby after that past, whose failures are nobody's business here.
        // INVARIANT: (2) the past is what the stream has waited for, or has done itself.
        let mut past: Frontier = stream.now().into();
        if prepared.is_err() {
            past.join(allocation.wait());
        }
        let memory = Self {
            context: Arc::clone(context),
            origin,
            allocation: Some(allocation),
            uses: Uses::after(past),
        };
        prepared?;
        Ok(memory)
    }

    /// Takes the memory out, to be suspended.
    pub(crate) fn take(&mut self) -> Option<Allocation> {
        self.allocation.take()
    }

    /// Puts back what was [taken](Self::take).
    pub(crate) fn put_back(&mut self, allocation: Allocation) {
        self.allocation = Some(allocation);
    }

    /// Whose allocation it is.
    pub(crate) fn pool(&self) -> Option<PoolId> {
        self.allocation.as_ref().map(Allocation::pool)
    }

    /// All of it.
    pub(crate) fn range(&self) -> DeviceRange {
        let nothing = DeviceRange {
            start: DevicePtr::new(0),
            bytes: 0,
        };
        self.allocation.as_ref().map_or(nothing, Allocation::range)
    }

    /// First byte.
    pub(crate) fn ptr(&self) -> DevicePtr {
        self.allocation
            .as_ref()
            .map_or(DevicePtr::new(0), Allocation::ptr)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let Some(allocation) = self.allocation.take() else {
            return;
        };
        if self.context.streams.timeline().is_forked() {
            return;
        }
        let uses = self.uses.all();
        // Before the pool has it and may hand it out again.
        witness::taken_back(&self.context, allocation.range(), &uses);
        let freed = self.origin.free(allocation, uses);
        debug_assert!(
            freed.is_ok(),
            "the pool knows its own allocation: {freed:?}"
        );
    }
}
