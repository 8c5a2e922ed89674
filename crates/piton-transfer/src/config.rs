//! How copies between devices are carried out.

use piton_topology::{Machine, PeerAccess};
use std::time::Duration;

/// Where copies may go, and how they are carried out.
#[derive(Clone, Copy, Debug)]
pub struct Roads<'a> {
    /// The machine; device n of the runtime is device n of it.
    pub machine: &'a Machine,
    /// Which devices the driver lets access each other.
    pub peers: &'a PeerAccess,
    /// How copies are carried out.
    pub config: TransferConfig,
}

/// How copies between devices are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferConfig {
    /// Copies of so many bytes and more are *guarded*: what fails on one way goes on over the next, and the stream
    /// goes on behind all of it. That takes a host function, some tens of microseconds. A smaller one over a single
    /// trusted leg is one command of the stream, which fails with it.
    pub guarded_bytes: u64,
    /// Whether bytes may stop in the memory of a third device.
    pub relays: bool,
    /// Whether one large copy may take several ways at once.
    pub stripes: bool,
    /// Whether a pattern must come over a leg unchanged before anything is entrusted to it.
    pub verifies_peers: bool,
    /// A copy that takes so many times what was predicted is overdue.
    pub deadline_factor: u32,
    /// No copy is overdue before this, since predictions of short ones are poor.
    pub least_deadline: Duration,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            guarded_bytes: 1 << 20,
            relays: true,
            stripes: true,
            verifies_peers: true,
            deadline_factor: 4,
            least_deadline: Duration::from_millis(100),
        }
    }
}

impl TransferConfig {
    /// As the default, one way at a time and over no third device: for devices whose links are no faster than one of
    /// them alone, as simulated ones are in real time, whose links are all this machine's memory.
    pub fn one_way() -> Self {
        Self {
            relays: false,
            stripes: false,
            ..Self::default()
        }
    }
}
