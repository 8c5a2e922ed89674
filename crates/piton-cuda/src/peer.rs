//! Other devices' memory.
//!
//! Access is one way and of a whole device: kernels and copies of this one reach what the other allocates, now and later.
//! Mappings of virtual memory are let in one by one, those that are there now and each that is made later.

use crate::{
    device::CudaDevice,
    ffi::{Called, Context},
};
use piton_driver::{DeviceId, DriverError, ErrorKind, LinkClass, Operation, PeerLink, Peers};
use std::sync::Arc;

impl CudaDevice {
    /// Lets a device, by its context, reach what is mapped here now.
    fn admit(&self, reader: &Context) -> Called<()> {
        let (reader, ready) = ([reader.device()], self.mappings.ready());
        let mut each = ready.into_iter();
        each.try_for_each(|mapping| {
            self.context
                .grant(mapping.start.address(), mapping.bytes, &reader)
        })
    }
}

impl Peers for CudaDevice {
    /// CUDA ranks the ways between devices and does not say what they are.
    fn link(&self, peer: DeviceId) -> Option<PeerLink> {
        let _known = self.shared.handle(peer)?;
        Some(PeerLink {
            class: if peer == self.info.id {
                LinkClass::Local
            } else {
                LinkClass::Unknown
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
        // Before the mappings there are let in: one that is made meanwhile sees it, or is seen.
        self.standing.enable(peer);
        let admitted = other.admit(&self.context);
        admitted.map_err(|status| other.standing.called(status, operation))
    }
}
