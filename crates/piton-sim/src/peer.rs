//! Other devices of the machine.

use crate::device::SimDevice;
use piton_driver::{
    DeviceId, DeviceRange, DriverError, ErrorKind, LinkClass, Operation, PeerAddress, PeerLink,
    Peers,
};
use piton_sync::atomic::Ordering;

impl SimDevice {
    /// Whether one end of a copy is memory its device has.
    fn check_end(&self, end: PeerAddress, bytes: u64) -> Result<(), ErrorKind> {
        let unreachable = ErrorKind::NotPeers {
            from: self.id(),
            to: end.device,
        };
        if end.device != self.id() && !self.is_enabled(end.device) {
            return Err(unreachable);
        }
        let device = self.machine().device(end.device).ok_or(unreachable)?;
        let range = DeviceRange {
            start: end.ptr,
            bytes,
        };
        if !device.space.lock().covers(range) {
            return Err(ErrorKind::UnknownAddress {
                address: end.ptr,
                bytes,
            });
        }
        Ok(())
    }

    /// Whether a copy between two devices is one that a queue of this device may take.
    pub(crate) fn check_peer_copy(
        &self,
        dst: PeerAddress,
        src: PeerAddress,
        bytes: u64,
    ) -> Result<(), ErrorKind> {
        let maximum = self.core().info.limits.copy_bytes;
        if bytes == 0 || bytes > maximum {
            return Err(ErrorKind::InvalidSize { bytes, maximum });
        }
        if dst.device == src.device || (dst.device != self.id() && src.device != self.id()) {
            return Err(ErrorKind::NotPeers {
                from: src.device,
                to: dst.device,
            });
        }
        self.check_end(dst, bytes)?;
        self.check_end(src, bytes)
    }
}

impl Peers for SimDevice {
    fn link(&self, peer: DeviceId) -> Option<PeerLink> {
        self.machine().device(peer)?;
        let link = self.machine().link(self.id(), peer);
        Some(PeerLink {
            class: match link {
                _ if peer == self.id() => LinkClass::Local,
                Some(link) => link.class,
                None => LinkClass::Unknown,
            },
            bytes_per_second: link.map(|link| link.bytes_per_second),
            latency_ns: link.map(|link| link.latency_ns),
        })
    }

    fn can_access(&self, peer: DeviceId) -> bool {
        self.machine()
            .link(self.id(), peer)
            .is_some_and(|link| link.allows_peer_access)
    }

    fn enable(&self, peer: DeviceId) -> Result<(), DriverError> {
        let operation = Operation::EnablePeer;
        self.gate(operation)?;
        if !self.can_access(peer) {
            let kind = ErrorKind::NotPeers {
                from: self.id(),
                to: peer,
            };
            return Err(self.error(kind, operation));
        }
        self.core()
            .peers_enabled
            .fetch_or(1 << peer.0, Ordering::AcqRel);
        Ok(())
    }
}
