//! What buffers and streams of one device have in common.

use crate::{BufferError, LoadedModule, ModuleCache};
use piton_alloc::{DevicePool, MemoryPoolConfig};
use piton_driver::{Device, DeviceId, DriverError, ErrorKind, ModuleImage, Operation};
use piton_pinned::{PinnedPool, PinnedPoolConfig};
use piton_sanitizer::Sanitizer;
use piton_stream::{LaneDump, OnExpiry, Streams, Watchdog};
use piton_timeline::Timeline;
use piton_transfer::{Roads, TransferDevice, Transfers};
use std::{sync::Arc, time::Duration};

/// One device of a runtime, with its pools. Everything made from it keeps it alive.
#[derive(Debug)]
pub struct DeviceContext {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) memory: Arc<DevicePool>,
    pub(crate) pinned: Arc<PinnedPool>,
    pub(crate) streams: Streams,
    pub(crate) transfers: Arc<Transfers>,
    modules: ModuleCache,
}

impl DeviceContext {
    /// A context for each of these devices, on one timeline of their own, with pools as configured and copies
    /// between them as `roads` says. A sanitizer is told of all that is done with them.
    ///
    /// All parts are made here, together: the safety of everything in this crate rests on pools, streams and
    /// copies agreeing on one timeline, so no caller gets to put them together.
    ///
    /// # Errors
    /// [`MemoryConfig`](BufferError::MemoryConfig), [`Pinned`](BufferError::Pinned),
    /// [`Transfer`](BufferError::Transfer): a configuration that cannot be, or what a driver refused.
    pub fn open(
        devices: &[Arc<dyn Device>],
        roads: Roads<'_>,
        memory: &MemoryPoolConfig,
        pinned: &PinnedPoolConfig,
        sanitizer: Option<&Arc<Sanitizer>>,
    ) -> Result<Vec<Arc<Self>>, BufferError> {
        let timeline = Timeline::new();
        let streams = match sanitizer {
            Some(sanitizer) => Streams::sanitized(Arc::clone(&timeline), Arc::clone(sanitizer)),
            None => Streams::new(Arc::clone(&timeline)),
        };
        let mut ends = Vec::new();
        for device in devices {
            let (of, on) = (Arc::clone(device), Arc::clone(&timeline));
            let pinned = Arc::new(PinnedPool::new(of, on, *pinned)?);
            ends.push(TransferDevice {
                device: Arc::clone(device),
                pinned,
            });
        }
        let transfers = Arc::new(Transfers::new(&streams, roads, &ends)?);
        let context = |TransferDevice { device, pinned }| {
            let (of, on) = (Arc::clone(&device), Arc::clone(&timeline));
            Ok(Arc::new(Self {
                memory: Arc::new(DevicePool::on_device(of, on, memory)?),
                device,
                pinned,
                streams: streams.clone(),
                transfers: Arc::clone(&transfers),
                modules: ModuleCache::default(),
            }))
        };
        ends.into_iter().map(context).collect()
    }

    /// The open device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Which device.
    pub fn id(&self) -> DeviceId {
        self.device.info().id
    }

    /// The pool of its memory. Whoever keeps a handle of it keeps the device open, and nothing else.
    pub fn memory(&self) -> &Arc<DevicePool> {
        &self.memory
    }

    /// The pool of page-locked memory for it.
    pub fn pinned(&self) -> &PinnedPool {
        &self.pinned
    }

    /// The module of this image; loaded the first time, the same afterwards. Of those that were registered: launches of this
    /// crate are safe, so somebody must have vouched for the kernels, and nobody has for source or a binary as it is.
    ///
    /// # Errors
    /// As [`Kernels::load`](piton_driver::Kernels::load); [`UnknownModule`](ErrorKind::UnknownModule) for source and binaries.
    pub fn load(&self, image: ModuleImage<'_>) -> Result<LoadedModule, DriverError> {
        if !matches!(image, ModuleImage::Registered(_)) {
            let (kind, operation) = (ErrorKind::UnknownModule, Operation::LoadModule);
            return Err(DriverError::new(kind, operation, self.device.info().id));
        }
        self.modules.load(self.device.kernels(), image)
    }

    /// The modules that are loaded.
    pub fn modules(&self) -> &ModuleCache {
        &self.modules
    }

    /// What every stream of the runtime with work or a handle left is at. Does not block for long.
    pub fn dump_streams(&self) -> Vec<LaneDump> {
        self.streams.dump()
    }

    /// A watchdog over every stream of the runtime: a command may take `deadline`, or as long as
    /// [its stream says](piton_stream::StreamOptions::command_deadline).
    pub fn watchdog(&self, deadline: Duration, on_expiry: OnExpiry) -> Watchdog {
        Watchdog::new(&self.streams, deadline, on_expiry)
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
