//! Other devices' memory.
//!
//! What is promised of a peer is that copies reach its memory. So it is to copies that access is given here; a kernel that
//! names a peer's memory is refused.

use crate::{device::AscendDevice, ffi::declarations::pair};
use piton_driver::{DeviceId, DriverError, ErrorKind, LinkClass, Operation, PeerLink, Peers};
use std::sync::Arc;

/// What the runtime's number of a way between devices means.
const fn class(number: Option<u64>) -> LinkClass {
    match number {
        Some(pair::HCCS) => LinkClass::Link,
        Some(pair::HCCS_SWITCH) => LinkClass::LinkSwitch,
        Some(pair::SIO) => LinkClass::Package,
        Some(pair::PIX) => LinkClass::Pix,
        Some(pair::PHB) => LinkClass::Phb,
        Some(pair::SYS) => LinkClass::Sys,
        _ => LinkClass::Unknown,
    }
}

impl Peers for AscendDevice {
    fn link(&self, peer: DeviceId) -> Option<PeerLink> {
        let other = self.shared.handle(peer)?;
        Some(PeerLink {
            class: if peer == self.info.id {
                LinkClass::Local
            } else {
                class(self.handle.pair(other))
            },
            bytes_per_second: None,
            latency_ns: None,
        })
    }

    fn can_access(&self, peer: DeviceId) -> bool {
        let other = self.shared.handle(peer);
        let reaches = |other| peer == self.info.id || self.handle.can_access(other);
        other.is_some_and(reaches)
    }

    fn enable(&self, peer: DeviceId) -> Result<(), DriverError> {
        let operation = Operation::EnablePeer;
        self.standing.alive(operation)?;
        let (from, to) = (self.info.id, peer);
        if !self.can_access(peer) {
            let not_peers = ErrorKind::NotPeers { from, to };
            return Err(DriverError::new(not_peers, operation, from));
        }
        if peer == from || self.standing.has_enabled(peer) {
            return Ok(());
        }
        let other = self.shared.open(peer)?;
        let enabled = self.context.enable_peer(&other.context);
        enabled.map_err(|status| self.standing.called(status, operation))?;
        self.reached.lock().push(Arc::clone(&other.context));
        self.standing.enable(peer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_that_nobody_knows_are_unknown() {
        assert_eq!(class(Some(0x40)), LinkClass::LinkSwitch);
        assert_eq!(class(Some(0x01)), LinkClass::Link);
        for number in [None, Some(0), Some(0x04), Some(0x80)] {
            assert_eq!(class(number), LinkClass::Unknown);
        }
    }
}
