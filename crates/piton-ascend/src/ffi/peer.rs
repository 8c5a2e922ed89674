//! Two devices of the runtime; and priorities, which are asked of a device as well.

#![expect(unsafe_code, reason = "calls of the runtime")]

use super::{Called, Context, DeviceHandle, succeeded};

impl DeviceHandle {
    /// Whether this device could reach the other's memory.
    pub(crate) fn can_access(self, peer: Self) -> bool {
        let Some(api) = &self.api.peers else {
            return false;
        };
        let mut can = 0;
        // SAFETY: a place of the right type.
        let called = succeeded(unsafe { (api.can_access)(&raw mut can, self.id, peer.id) });
        called.is_ok() && can != 0
    }

    /// What connects the two, by the runtime's number, where it tells.
    pub(crate) fn pair(self, peer: Self) -> Option<u64> {
        let api = self.api.pair_topology.as_ref()?;
        let mut value = 0;
        let (own, other) = (self.id.unsigned_abs(), peer.id.unsigned_abs());
        // SAFETY: a place of the right type.
        let called = succeeded(unsafe { (api.pair)(own, other, &raw mut value) });
        called.ok().map(|()| value)
    }
}

impl Context {
    /// Lets this context's device reach the other's memory.
    pub(crate) fn enable_peer(&self, peer: &Self) -> Called<()> {
        let (api, peer) = (self.api.peers.as_ref(), peer.device());
        // SAFETY: the flags must be zero, and are.
        self.call_of(api, |api| unsafe { (api.enable)(peer, 0) })
    }

    /// The highest priority of streams, as the smallest number, and the lowest.
    pub(crate) fn priorities(&self) -> Option<(i32, i32)> {
        let (mut least, mut greatest) = (0, 0);
        let api = self.api.priorities.as_ref();
        let asked = self.call_of(api, |api| {
            // SAFETY: two places of the right type.
            unsafe { (api.range)(&raw mut least, &raw mut greatest) }
        });
        asked.ok().map(|()| (greatest, least))
    }
}
