//! What buffers and streams of one device have in common.

use crate::BufferError;
use piton_alloc::DevicePool;
use piton_driver::{Device, DeviceId};
use piton_pinned::PinnedPool;
use piton_stream::Streams;
use piton_transfer::Transfers;
use std::sync::Arc;

/// One device of a runtime, with its pools. Everything made from it keeps it alive.
#[derive(Debug)]
pub struct DeviceContext {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) memory: DevicePool,
    pub(crate) pinned: Arc<PinnedPool>,
    pub(crate) streams: Streams,
    pub(crate) transfers: Arc<Transfers>,
}

/// What a [`DeviceContext`] is made of. All parts are on one timeline, and `streams` and `transfers` are the
/// runtime's own, shared by its devices.
#[derive(Debug)]
pub struct ContextParts {
    /// The open device.
    pub device: Arc<dyn Device>,
    /// The pool of its memory.
    pub memory: DevicePool,
    /// The pool of page-locked memory for it.
    pub pinned: Arc<PinnedPool>,
    /// The runtime's streams.
    pub streams: Streams,
    /// The runtime's copies between devices.
    pub transfers: Arc<Transfers>,
}

impl DeviceContext {
    /// A context of these parts.
    pub fn new(parts: ContextParts) -> Arc<Self> {
        let ContextParts {
            device,
            memory,
            pinned,
            streams,
            transfers,
        } = parts;
        Arc::new(Self {
            device,
            memory,
            pinned,
            streams,
            transfers,
        })
    }

    /// The open device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Which device.
    pub fn id(&self) -> DeviceId {
        self.device.info().id
    }

    /// The pool of its memory.
    pub fn memory(&self) -> &DevicePool {
        &self.memory
    }

    /// The pool of page-locked memory for it.
    pub fn pinned(&self) -> &PinnedPool {
        &self.pinned
    }

    /// The runtime's copies between devices.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// Whether two contexts belong to one runtime: only then do their timepoints compare.
    pub(crate) fn same_runtime(&self, other: &Self) -> Result<(), BufferError> {
        if Arc::ptr_eq(self.streams.timeline(), other.streams.timeline()) {
            return Ok(());
        }
        Err(BufferError::OtherRuntime)
    }

    /// Whether work on this context's streams may use `other`'s memory: the same device of the same runtime.
    pub(crate) fn same_device(&self, other: &Self) -> Result<(), BufferError> {
        self.same_runtime(other)?;
        if self.id() != other.id() {
            return Err(BufferError::OtherDevice {
                stream: self.id(),
                object: other.id(),
            });
        }
        Ok(())
    }
}
