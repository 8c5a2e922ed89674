//! Commands that make a device touch memory, as values: one safety contract for every form of submission.

#![expect(
    unsafe_code,
    reason = "hands commands to the contract on behalf of callers who promised what it asks"
)]

use crate::{Facet, StreamError};
use piton_driver::{
    Admission, Device, DevicePtr, DriverError, FillPattern, Launch, Operation, PeerAddress, Queue,
};
use std::ptr::NonNull;

/// A command that reads or writes memory. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Launches a kernel. The arguments are copied when the command is accepted.
    Launch(Launch<'a>),
    /// Copies page-locked host memory to the device.
    CopyToDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: NonNull<u8>,
        /// How many.
        bytes: u64,
    },
    /// Copies device memory to page-locked host memory.
    CopyToHost {
        /// Where to.
        dst: NonNull<u8>,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies within the device. The ranges do not overlap.
    CopyOnDevice {
        /// Where to.
        dst: DevicePtr,
        /// Where from.
        src: DevicePtr,
        /// How many.
        bytes: u64,
    },
    /// Copies between two devices, one of which is the stream's. Peer access was enabled.
    CopyPeer {
        /// Where to.
        dst: PeerAddress,
        /// Where from.
        src: PeerAddress,
        /// How many.
        bytes: u64,
    },
    /// Fills device memory with a repeated pattern.
    Fill {
        /// Where to.
        dst: DevicePtr,
        /// What with.
        pattern: FillPattern,
        /// How many.
        bytes: u64,
    },
}

// SAFETY: `Launch` is references to types that are `Sync`; everything else is numbers and, for copies, a host
// address. The address is only handed on, never followed here; whoever submits the command promises that it
// is valid then, on whatever thread that is.
unsafe impl Send for Command<'_> {}

// SAFETY: a shared reference gives no more than a copy of the value, and the value is `Send`.
unsafe impl Sync for Command<'_> {}

impl Command<'_> {
    /// The contract's name for it.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Launch(_) => Operation::Launch,
            Self::CopyToDevice { .. } => Operation::CopyToDevice,
            Self::CopyToHost { .. } => Operation::CopyToHost,
            Self::CopyOnDevice { .. } => Operation::CopyOnDevice,
            Self::CopyPeer { .. } => Operation::CopyPeer,
            Self::Fill { .. } => Operation::Fill,
        }
    }

    /// Whether the device can do this kind of thing at all.
    pub(crate) fn supported_by(&self, device: &dyn Device) -> Result<(), StreamError> {
        if matches!(self, Self::CopyPeer { .. }) && device.peers().is_none() {
            return Err(StreamError::Unsupported {
                device: device.info().id,
                facet: Facet::Peers,
            });
        }
        Ok(())
    }

    /// Offers the command to a queue once.
    ///
    /// # Safety
    /// What the contract asks of this command, until it has ended: memory named in it is live and of the
    /// extent used, and no use of it conflicts unless ordered.
    pub(crate) unsafe fn offer(
        &self,
        device: &dyn Device,
        queue: &dyn Queue,
    ) -> Result<Admission, DriverError> {
        match *self {
            // SAFETY: the caller promised what `Queue::launch` asks.
            Self::Launch(launch) => unsafe { queue.launch(&launch) },
            // SAFETY: the caller promised what `Queue::copy_to_device` asks.
            Self::CopyToDevice { dst, src, bytes } => unsafe {
                queue.copy_to_device(dst, src, bytes)
            },
            // SAFETY: the caller promised what `Queue::copy_to_host` asks.
            Self::CopyToHost { dst, src, bytes } => unsafe { queue.copy_to_host(dst, src, bytes) },
            // SAFETY: the caller promised what `Queue::copy_on_device` asks.
            Self::CopyOnDevice { dst, src, bytes } => unsafe {
                queue.copy_on_device(dst, src, bytes)
            },
            Self::CopyPeer { dst, src, bytes } => match device.peers() {
                // SAFETY: the caller promised what `Peers::copy` asks.
                Some(peers) => unsafe { peers.copy(queue, dst, src, bytes) },
                None => Err(not_peers(dst, src)),
            },
            Self::Fill {
                dst,
                pattern,
                bytes,
            } => {
                // SAFETY: the caller promised what `Queue::fill` asks.
                unsafe { queue.fill(dst, pattern, bytes) }
            }
        }
    }
}

/// What a device without the facet says; `supported_by` says it better, earlier.
fn not_peers(dst: PeerAddress, src: PeerAddress) -> DriverError {
    let kind = piton_driver::ErrorKind::NotPeers {
        from: src.device,
        to: dst.device,
    };
    DriverError::new(kind, Operation::CopyPeer, src.device)
}
