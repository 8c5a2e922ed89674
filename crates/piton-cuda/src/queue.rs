//! What a stream is asked to do.
//!
//! The contract's queue over it is `piton-native`'s; here each of its commands becomes a call of CUDA.

#![expect(unsafe_code, reason = "hands commands that name memory to the device")]

use crate::{
    device::CudaDevice,
    driver::Shared,
    ffi::{
        Called, StreamCore, Ticket,
        declarations::{Code, Stream},
        symbols::Core,
    },
    kernel,
    status::Status,
    timestamp::{self, Written},
};
use piton_driver::{DeviceId, FillPattern};
use piton_native::{
    CopyWay, NativeCopy, NativeLaunch, NativeQueue, kernels::LoadedKernel, slots::SlotPool,
};
use std::{ffi::c_void, ptr, sync::Arc};

/// A stream, and where the contexts of other devices are found.
#[derive(Debug)]
pub(crate) struct CudaStream {
    core: Arc<StreamCore>,
    shared: Arc<Shared>,
}

impl CudaStream {
    pub(crate) const fn new(core: Arc<StreamCore>, shared: Arc<Shared>) -> Self {
        Self { core, shared }
    }

    fn hand_over(&self, call: impl FnOnce(&Core, Stream) -> Code) -> Called<Ticket> {
        self.core.hand_over(|stream| stream.call(call))
    }

    /// Copies between devices.
    ///
    /// # Safety
    /// As [`NativeQueue::copy`].
    unsafe fn copy_peer(&self, copy: NativeCopy, to: DeviceId, from: DeviceId) -> Called<Ticket> {
        let api = self.core.vendor().context.api.peers.as_ref();
        let api = api.ok_or(Status::NOT_SUPPORTED)?;
        let device = |id| self.shared.opened(id).ok_or(Status::INVALID_DEVICE);
        let (to, from) = (device(to)?, device(from)?);
        let (dst, src) = (to.context.raw(), from.context.raw());
        let bytes = size(copy.bytes);
        self.hand_over(|_, stream| {
            // SAFETY: the caller's promise; both contexts live through the call.
            unsafe { (api.copy)(copy.dst, dst, copy.src, src, bytes, stream) }
        })
    }
}

/// Sizes as CUDA takes them. They were checked against memory there is, so they fit.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Host memory by its number; its provenance was exposed when it became known to the device.
fn host(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(size(address))
}

impl NativeQueue<CudaDevice> for CudaStream {
    unsafe fn launch(
        &self,
        kernel: &LoadedKernel<CudaDevice>,
        launch: NativeLaunch<'_>,
    ) -> Called<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { kernel::launch(kernel, &self.core, launch.grid, launch.arguments) }
    }

    unsafe fn copy(&self, copy: NativeCopy) -> Called<Ticket> {
        let NativeCopy { dst, src, .. } = copy;
        let bytes = size(copy.bytes);
        let (to_host, from_host) = (host(dst), host(src).cast_const());
        match copy.way {
            CopyWay::ToDevice => self.hand_over(|core, stream| {
                // SAFETY: the caller's promise.
                unsafe { (core.copy_to_device)(dst, from_host, bytes, stream) }
            }),
            CopyWay::ToHost => self.hand_over(|core, stream| {
                // SAFETY: the caller's promise.
                unsafe { (core.copy_to_host)(to_host, src, bytes, stream) }
            }),
            CopyWay::OnDevice => self.hand_over(|core, stream| {
                // SAFETY: the caller's promise.
                unsafe { (core.copy_on_device)(dst, src, bytes, stream) }
            }),
            // SAFETY: the caller's promise.
            CopyWay::Peer { to, from } => unsafe { self.copy_peer(copy, to, from) },
        }
    }

    unsafe fn fill(&self, dst: u64, pattern: FillPattern, bytes: u64) -> Called<Ticket> {
        let count = size(bytes / pattern.bytes());
        self.hand_over(|core, stream| match pattern {
            // SAFETY: the caller's promise; the count is of whole patterns.
            FillPattern::Byte(byte) => unsafe { (core.fill_bytes)(dst, byte, count, stream) },
            // SAFETY: as above.
            FillPattern::Half(half) => unsafe { (core.fill_halves)(dst, half, count, stream) },
            // SAFETY: as above.
            FillPattern::Word(word) => unsafe { (core.fill_words)(dst, word, count, stream) },
        })
    }

    fn barrier(&self, awaited: &Ticket) -> Called<Ticket> {
        self.core.barrier(awaited)
    }

    fn stamp(&self, slots: &SlotPool<CudaDevice, Written>, index: u32) -> Called<Ticket> {
        timestamp::write(slots, index, &self.core)
    }

    fn flush(&self) -> Called<()> {
        self.core.flush()
    }
}
