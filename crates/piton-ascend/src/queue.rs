//! What a stream is asked to do.
//!
//! The contract's queue over it is `piton-native`'s; here each of its commands becomes calls of the runtime.

#![expect(unsafe_code, reason = "hands commands that name memory to the device")]

use crate::{
    device::AscendDevice,
    ffi::{Called, StreamCore, Ticket, declarations::CopyKind, pointer},
    fill::Seeds,
    kernel,
    timestamp::{self, Written},
};
use piton_driver::FillPattern;
use piton_native::{
    CopyWay, NativeCopy, NativeLaunch, NativeQueue, kernels::LoadedKernel, slots::SlotPool,
};
use std::sync::Arc;

/// A stream, and what its fills start from.
#[derive(Debug)]
pub(crate) struct AscendStream {
    core: Arc<StreamCore>,
    seeds: Seeds,
}

impl AscendStream {
    pub(crate) fn new(core: Arc<StreamCore>) -> Self {
        let seeds = Seeds::default();
        Self { core, seeds }
    }
}

impl NativeQueue<AscendDevice> for AscendStream {
    unsafe fn launch(
        &self,
        kernel: &LoadedKernel<AscendDevice>,
        launch: NativeLaunch<'_>,
    ) -> Called<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { kernel::launch(kernel, &self.core, launch.grid, launch.arguments) }
    }

    unsafe fn copy(&self, copy: NativeCopy) -> Called<Ticket> {
        let kind = match copy.way {
            CopyWay::ToDevice => CopyKind::ToDevice,
            CopyWay::ToHost => CopyKind::ToHost,
            CopyWay::OnDevice | CopyWay::Peer { .. } => CopyKind::OnDevice,
        };
        let (dst, src) = (pointer(copy.dst), pointer(copy.src).cast_const());
        self.core.hand_over(|stream| {
            // SAFETY: the caller's promise.
            unsafe { stream.copy(dst, src, copy.bytes, kind) }
        })
    }

    unsafe fn fill(&self, dst: u64, pattern: FillPattern, bytes: u64) -> Called<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.seeds.fill(&self.core, dst, pattern, bytes) }
    }

    fn barrier(&self, awaited: &Ticket) -> Called<Ticket> {
        self.core.barrier(awaited)
    }

    fn stamp(&self, slots: &SlotPool<AscendDevice, Written>, index: u32) -> Called<Ticket> {
        timestamp::write(slots, index, &self.core)
    }

    fn flush(&self) -> Called<()> {
        self.core.flush()
    }
}
