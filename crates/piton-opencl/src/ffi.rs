//! Everything that calls OpenCL: the table of entry points, and the handles that own what it counts.
//!
//! Above this module nobody calls a function of the vendor's. The handles here retain and release by themselves, so
//! that a copy of one is one more count and a drop one less; what they offer is safe unless a device may touch memory
//! by it, and then the method is unsafe and says what its caller promises.

pub(crate) mod buffer;
pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod library;
pub(crate) mod native_queue;
pub(crate) mod platform;
pub(crate) mod program;
pub(crate) mod raw_kernel;
pub(crate) mod symbols;

pub(crate) use buffer::{Buffer, BufferPlace};
pub(crate) use context::{Context, SharedMemory};
pub(crate) use event::Event;
pub(crate) use native_queue::NativeQueue;
pub(crate) use platform::{DeviceHandle, Platform};
pub(crate) use program::Program;
pub(crate) use raw_kernel::{ArgumentPlace, RawKernel};
pub(crate) use symbols::Api;

use crate::status::Status;

/// What a call of OpenCL came to.
pub(crate) type Called<T> = Result<T, Status>;

/// Nothing where the code says success.
pub(crate) fn succeeded(code: i32) -> Called<()> {
    if code == opencl_sys::CL_SUCCESS {
        Ok(())
    } else {
        Err(Status(code))
    }
}
