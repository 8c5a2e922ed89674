//! Other devices of the same platform: one context, so one memory for all of them.

use crate::device::OpenClDevice;
use piton_driver::{DeviceId, DriverError, ErrorKind, LinkClass, Operation, PeerLink, Peers};

impl Peers for OpenClDevice {
    fn link(&self, peer: DeviceId) -> Option<PeerLink> {
        self.shared.has(peer).then_some(PeerLink {
            class: if peer == self.info.id {
                LinkClass::Local
            } else {
                // OpenCL says nothing of what lies between devices.
                LinkClass::Unknown
            },
            bytes_per_second: None,
            latency_ns: None,
        })
    }

    fn can_access(&self, peer: DeviceId) -> bool {
        self.shared.has(peer)
    }

    fn enable(&self, peer: DeviceId) -> Result<(), DriverError> {
        self.alive(Operation::EnablePeer)?;
        if !self.shared.has(peer) {
            let (from, to) = (self.info.id, peer);
            let kind = ErrorKind::NotPeers { from, to };
            return Err(DriverError::new(kind, Operation::EnablePeer, from));
        }
        self.standing.enable(peer);
        Ok(())
    }
}
