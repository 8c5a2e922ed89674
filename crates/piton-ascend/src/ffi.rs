//! Everything that calls the runtime: the table of entry points, and the handles that own what it hands out.
//!
//! Above this module nobody calls a function of the vendor's. What the handles offer is safe unless a device may touch
//! memory by it, and then the method is unsafe and says what its caller promises.

pub(crate) mod binary;
pub(crate) mod context;
pub(crate) mod declarations;
pub(crate) mod device;
pub(crate) mod event;
mod memory;
mod notification;
mod peer;
pub(crate) mod stream;
pub(crate) mod symbols;

pub(crate) use binary::{Binary, Function};
pub(crate) use context::Context;
pub(crate) use device::DeviceHandle;
pub(crate) use event::RawEvent;
pub(crate) use memory::{HostPage, PagesHandle};
pub(crate) use stream::{RawStream, StreamCore, Ticket, stream};
pub(crate) use symbols::Api;

use crate::status::Status;

/// What a call of the runtime came to.
pub(crate) type Called<T> = Result<T, Status>;

/// Nothing where the code says success.
pub(crate) fn succeeded(code: declarations::Code) -> Called<()> {
    match Status(code) {
        Status::SUCCESS => Ok(()),
        status => Err(status),
    }
}

/// Sizes as the runtime takes them. What does not fit is refused by it.
pub(crate) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Device and host memory by its number, as the runtime takes it. Host memory's provenance was exposed when it became known
/// to the device.
pub(crate) fn pointer(address: u64) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(size(address))
}
