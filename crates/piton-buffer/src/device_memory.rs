//! A chunk of device memory with the record of its uses: bytes, no type.

use crate::{BufferError, DeviceContext, uses::Uses};
use piton_alloc::{Allocation, Request};
use piton_driver::DevicePtr;
use piton_timeline::Frontier;
use std::sync::Arc;

/// Memory that is given back, in stream order, when it is dropped.
///
/// # Invariants
/// 1. `allocation` is `Some` until drop. Its memory is nobody else's until the pool has it back.
/// 2. `uses` covers every command that names the memory and may not have ended, and the work that must end
///    before the memory may be used at all.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) context: Arc<DeviceContext>,
    allocation: Option<Allocation>,
    pub(crate) uses: Uses,
}

impl DeviceMemory {
    /// `bytes` bytes for work on `stream`, which is made to wait for what the memory was used for before.
    pub(crate) fn allocate(
        context: &Arc<DeviceContext>,
        stream: &piton_stream::Stream,
        bytes: u64,
    ) -> Result<Self, BufferError> {
        let request = Request::new(bytes).on(stream.id());
        let allocation = context.memory.allocate(request)?;
        let waited = stream.wait_frontier(allocation.wait());
        // The stream is ordered behind the memory's past from here on; another stream that takes the buffer
        // comes after this point and thereby after that past.
        // INVARIANT: (2) the past is what the stream has waited for, or has done itself.
        let mut origin: Frontier = stream.now().into();
        origin.join(allocation.wait());
        let memory = Self {
            context: Arc::clone(context),
            allocation: Some(allocation),
            uses: Uses::after(origin),
        };
        waited?;
        Ok(memory)
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
        let freed = self.context.memory.free(allocation, self.uses.all());
        debug_assert!(
            freed.is_ok(),
            "the pool knows its own allocation: {freed:?}"
        );
    }
}
