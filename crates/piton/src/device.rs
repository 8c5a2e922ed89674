//! A device of a runtime.

use crate::{Kernel, RuntimeError};
use piton_alloc::{DevicePool, MemoryPoolConfig, PoolStats};
use piton_buffer::{
    BufferError, DeviceContext, GraphRecorder, LoadedModule, PinnedBuffer, PlannedPool,
    PrivatePool, Stream,
};
use piton_driver::{DeviceId, DeviceInfo, ExportedSemaphore, ModuleImage};
use piton_pinned::{PinnedPool, PinnedStats};
use piton_stream::{Semaphore, StreamOptions};
use piton_trace::DeviceTrace;
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

    /// A counter at `initial`, raised by the host or by streams, that streams of this device and of others of its
    /// driver can wait for.
    ///
    /// # Errors
    /// [`BufferError::Stream`] where the device has none.
    pub fn semaphore(&self, initial: u64) -> Result<Semaphore, BufferError> {
        Ok(Semaphore::new(self.raw(), initial)?)
    }

    /// A semaphore at `initial` that other processes may have too: their streams and these wait for each other by it. In virtual time
    /// there is none.
    ///
    /// # Errors
    /// [`BufferError::Stream`] where the device has none.
    pub fn shared_semaphore(&self, initial: u64) -> Result<Semaphore, BufferError> {
        Ok(Semaphore::shared(self.raw(), initial)?)
    }

    /// A semaphore made for it, on its way to another process.
    ///
    /// # Errors
    /// As [`shared_semaphore`](Self::shared_semaphore), and where it is one of this process's alone.
    pub fn export_semaphore(
        &self,
        semaphore: &Semaphore,
    ) -> Result<ExportedSemaphore, BufferError> {
        Ok(semaphore.export(self.raw())?)
    }

    /// The semaphore that another process sent.
    ///
    /// # Errors
    /// As [`shared_semaphore`](Self::shared_semaphore), and where it is no semaphore.
    pub fn import_semaphore(&self, exported: &ExportedSemaphore) -> Result<Semaphore, BufferError> {
        Ok(Semaphore::import(self.raw(), exported)?)
    }

    /// A page-locked buffer of `len` elements near this device, all bytes zero.
    ///
    /// # Errors
    /// [`BufferError::InvalidLength`], [`BufferError::Pinned`].
    pub fn pinned<T: bytemuck::Pod>(&self, len: usize) -> Result<PinnedBuffer<T>, BufferError> {
        PinnedBuffer::zeroed(&self.0, len)
    }

    /// The module registered under `name`. Loaded the first time; afterwards the same, without asking the driver,
    /// until it is [registered](crate::Runtime::register) anew, [unloaded](Self::unload_modules), or has not been
    /// asked for while [`MAX_MODULES`](piton_buffer::MAX_MODULES) others were.
    ///
    /// # Errors
    /// [`RuntimeError::Module`].
    pub fn load(&self, name: &str) -> Result<Module, RuntimeError> {
        self.load_image(ModuleImage::Registered(name))
    }

    /// The module of this image, as [`load`](Self::load). Source and binaries as they are are refused: launches through a
    /// stream are safe, and nobody has vouched for what their kernels write. Register them with the driver, where that is
    /// done, or load them on [`raw`](Self::raw).
    ///
    /// # Errors
    /// [`RuntimeError::Module`].
    pub fn load_image(&self, image: ModuleImage<'_>) -> Result<Module, RuntimeError> {
        let device = self.id();
        match self.0.load(image) {
            Ok(loaded) => Ok(Module {
                name: image_name(image),
                device,
                loaded,
            }),
            Err(source) => Err(RuntimeError::Module {
                module: image_name(image),
                device,
                source,
            }),
        }
    }

    /// Lets go of all loaded modules. Each is unloaded when nobody holds it nor one of its kernels.
    pub fn unload_modules(&self) {
        self.0.modules().clear();
    }

    pub(crate) fn forget_module(&self, name: &str) {
        self.0.modules().forget(ModuleImage::Registered(name));
    }

    /// Starts to keep a record of each command that ends, at most `capacity` of them. Says whether the device can;
    /// what an earlier trace kept is gone then.
    pub fn start_trace(&self, capacity: usize) -> bool {
        let trace = self.raw().execution_trace();
        trace.map(|trace| trace.start(capacity)).is_some()
    }

    /// Ends the trace: what was kept since its start; `None` where the device cannot trace. Work that has not ended
    /// is not in it: synchronise first. [`write_chrome_trace`](crate::write_chrome_trace) makes a file of it.
    pub fn finish_trace(&self) -> Option<DeviceTrace> {
        let (records, dropped) = self.raw().execution_trace()?.finish();
        Some(DeviceTrace {
            device: self.info().clone(),
            records,
            dropped,
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

    /// Its memory pool: counters, trimming, callbacks, and memory for commands that are submitted past the facade. A handle that is
    /// kept outlives the runtime, and keeps the device open; [`planned_pool`](Self::planned_pool) is for buffers served from plans.
    pub fn memory(&self) -> &Arc<DevicePool> {
        self.0.memory()
    }

    /// A pool within its memory pool, for a part of a program or for graphs: [`PrivatePool`].
    ///
    /// # Errors
    /// [`BufferError::MemoryConfig`] for a configuration that contradicts itself, or the device's pool.
    pub fn private_pool(&self, config: &MemoryPoolConfig) -> Result<PrivatePool, BufferError> {
        PrivatePool::new(&self.0, config)
    }

    /// A pool that records a step of a program and serves later ones from a plan: [`PlannedPool`].
    pub fn planned_pool(&self) -> PlannedPool {
        PlannedPool::new(&self.0)
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

/// How errors call a module.
fn image_name(image: ModuleImage<'_>) -> String {
    match image {
        ModuleImage::Registered(name) => name.to_owned(),
        ModuleImage::Source(text) => format!("source of {} bytes", text.len()),
        ModuleImage::Binary(bytes) => format!("binary of {} bytes", bytes.len()),
        _ => "unknown image".to_owned(),
    }
}

/// Kernels loaded on a device. A cheap handle.
#[derive(Clone, Debug)]
pub struct Module {
    name: String,
    device: DeviceId,
    loaded: LoadedModule,
}

impl Module {
    /// Its kernel of this name; the driver is asked once.
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
