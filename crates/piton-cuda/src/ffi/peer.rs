//! Two devices of a driver.

#![expect(unsafe_code, reason = "calls of CUDA")]

use super::{Called, Context, DeviceHandle, succeeded};
use crate::status::Status;
use std::ffi::c_int;

impl DeviceHandle {
    /// Whether this device could reach the other's memory.
    pub(crate) fn can_access(self, peer: Self) -> bool {
        let Some(api) = &self.api.peers else {
            return false;
        };
        let mut can: c_int = 0;
        // SAFETY: a place of the right type.
        let called = succeeded(unsafe { (api.can_access)(&raw mut can, self.id, peer.id) });
        called.is_ok() && can != 0
    }
}

impl Context {
    /// Lets this context's device reach the other's memory. Again changes nothing.
    pub(crate) fn enable_peer(&self, peer: &Self) -> Called<()> {
        let api = self.api.peers.as_ref().ok_or(Status::NOT_SUPPORTED)?;
        let _entered = self.enter()?;
        // SAFETY: the context lives; the flags must be zero, and are.
        match succeeded(unsafe { (api.enable)(peer.raw(), 0) }) {
            Err(Status::PEER_ACCESS_ALREADY_ENABLED) => Ok(()),
            called => called,
        }
    }

    /// The highest priority of streams, as the smallest number, and the lowest.
    pub(crate) fn priorities(&self) -> Option<(i32, i32)> {
        let api = self.api;
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        let _entered = self.enter().ok()?;
        // SAFETY: two places of the right type.
        let code = unsafe { (api.priorities?.range)(&raw mut least, &raw mut greatest) };
        succeeded(code).ok().map(|()| (greatest, least))
    }
}
