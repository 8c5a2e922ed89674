//! A device of a runtime.

use crate::{Kernel, RuntimeError};
use piton_alloc::{DevicePool, PoolStats};
use piton_buffer::{BufferError, DeviceContext, GraphRecorder, PinnedBuffer, Stream};
use piton_driver::{DeviceId, DeviceInfo, ModuleImage};
use piton_pinned::{PinnedPool, PinnedStats};
use piton_stream::StreamOptions;
use std::sync::Arc;

/// A device with its pools. A cheap handle.
#[derive(Clone, Debug)]
pub struct Device(Arc<DeviceContext>);

impl Device {
    pub(crate) fn new(context: Arc<DeviceContext>) -> Self {
        Self(context)
    }

    /// Which device of the runtime.
    pub fn id(&self) -> DeviceId {
        self.0.id()
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        self.0.device().info()
    }

    /// A stream of the lowest priority, with a name for errors and traces.
    ///
    /// # Errors
    /// [`BufferError::Stream`] where no queue is left or the device is lost.
    pub fn stream(&self, label: &str) -> Result<Stream, BufferError> {
        self.stream_with(StreamOptions::labelled(label))
    }

    /// A stream as `options` say.
    ///
    /// # Errors
    /// [`BufferError::Stream`] for a priority or hardware queue the device has not, and as
    /// [`stream`](Self::stream).
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream, BufferError> {
        Stream::new(&self.0, options)
    }

    /// A page-locked buffer of `len` elements near this device, all bytes zero.
    ///
    /// # Errors
    /// [`BufferError::InvalidLength`], [`BufferError::Pinned`].
    pub fn pinned<T: bytemuck::Pod>(&self, len: usize) -> Result<PinnedBuffer<T>, BufferError> {
        PinnedBuffer::zeroed(&self.0, len)
    }

    /// Loads the module registered under `name`. Load once and keep it.
    ///
    /// # Errors
    /// [`RuntimeError::Module`].
    pub fn load(&self, name: &str) -> Result<Module, RuntimeError> {
        let device = self.id();
        let loaded = self
            .0
            .device()
            .kernels()
            .load(ModuleImage::Registered(name));
        let error = |source| RuntimeError::Module {
            module: name.to_owned(),
            device,
            source,
        };
        Ok(Module {
            name: name.to_owned(),
            device,
            loaded: loaded.map_err(error)?,
        })
    }

    /// An empty graph for this device.
    pub fn graph(&self) -> GraphRecorder {
        GraphRecorder::new(&self.0)
    }

    /// What its memory pool counts.
    pub fn memory_stats(&self) -> PoolStats {
        self.0.memory().stats()
    }

    /// What its pool of page-locked memory counts.
    pub fn pinned_stats(&self) -> PinnedStats {
        self.0.pinned().stats()
    }

    /// Its memory pool.
    pub fn memory(&self) -> &DevicePool {
        self.0.memory()
    }

    /// Its pool of page-locked memory.
    pub fn pinned_pool(&self) -> &PinnedPool {
        self.0.pinned()
    }

    /// The driver's device underneath.
    pub fn raw(&self) -> &Arc<dyn piton_driver::Device> {
        self.0.device()
    }
}

/// Kernels loaded on a device.
#[derive(Clone, Debug)]
pub struct Module {
    name: String,
    device: DeviceId,
    loaded: Arc<dyn piton_driver::Module>,
}

impl Module {
    /// Its kernel of this name. Look up once and keep it.
    ///
    /// # Errors
    /// [`RuntimeError::Kernel`].
    pub fn kernel(&self, kernel: &str) -> Result<Kernel, RuntimeError> {
        self.loaded
            .kernel(kernel)
            .map_err(|source| RuntimeError::Kernel {
                module: self.name.clone(),
                kernel: kernel.to_owned(),
                device: self.device,
                source,
            })
    }
}
