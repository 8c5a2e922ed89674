//! Devices, as long as nothing was made of them.

#![expect(
    unsafe_code,
    reason = "calls of the runtime that fill what they are given"
)]

use super::{Api, Called, succeeded};
use std::ffi::c_int;

/// A device that the runtime knows: its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceHandle {
    pub(super) api: &'static Api,
    pub(super) id: c_int,
}

impl DeviceHandle {
    /// All devices, once the library is initialised.
    pub(crate) fn all(api: &'static Api) -> Called<Vec<Self>> {
        let mut count = 0;
        // SAFETY: a place of the right type.
        succeeded(unsafe { (api.core.device_count)(&raw mut count) })?;
        let ids = (0..count).filter_map(|id| c_int::try_from(id).ok());
        Ok(ids.map(|id| Self { api, id }).collect())
    }
}
