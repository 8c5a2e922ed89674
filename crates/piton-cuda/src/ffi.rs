//! Everything that calls CUDA: the table of entry points, and the handles that own what it hands out.
//!
//! Above this module nobody calls a function of the vendor's. What the handles offer is safe unless a device may touch
//! memory by it, and then the method is unsafe and says what its caller promises.

pub(crate) mod context;
pub(crate) mod declarations;
pub(crate) mod device;
pub(crate) mod event;
mod memory;
pub(crate) mod module;
pub(crate) mod nvrtc;
#[cfg(unix)]
mod page_sharing;
mod peer;
pub(crate) mod stream;
pub(crate) mod symbols;
mod word;

pub(crate) use context::Context;
pub(crate) use device::DeviceHandle;
pub(crate) use event::RawEvent;
pub(crate) use module::{Function, RawModule};
pub(crate) use stream::{StreamCore, Ticket, stream};
pub(crate) use symbols::Api;

use crate::status::Status;

/// What a call of CUDA came to.
pub(crate) type Called<T> = Result<T, Status>;

/// Nothing where the code says success.
pub(crate) fn succeeded(code: declarations::Code) -> Called<()> {
    match Status(code) {
        Status::SUCCESS => Ok(()),
        status => Err(status),
    }
}
