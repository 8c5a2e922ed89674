//! How copies between devices are carried out.

use piton_topology::{CopyEngines, CostModel, Machine, PeerAccess};
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

/// What of a copy is compared with its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compared {
    /// Nothing: links that were tried are trusted.
    #[default]
    Nothing,
    /// So many places of 256 bytes of each part of a guarded copy. Finds links that went bad after they were tried, and not
    /// every changed byte. At most half of what a queue holds, and 512: one submission reads them all, and whoever submits
    /// must not wait for room.
    Places(u32),
    /// Every byte of every copy between two devices that is in no graph: no wrong byte is seen, as long as what reads
    /// the two ends back reads right. Every copy is guarded, and every byte goes to the host twice: for machines that are
    /// not trusted, at a fraction of their speed.
    Everything,
}

/// How copies between devices are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferConfig {
    /// Copies of so many bytes and more are *guarded*: what fails on one way goes on over the next, and the stream
    /// goes on behind all of it. That takes a host function, some tens of microseconds. A smaller one over trusted legs
    /// that stops in no third device's memory fails with the stream.
    pub guarded_bytes: u64,
    /// Whether bytes may stop in the memory of a third device.
    pub relays: bool,
    /// Whether one large copy may take several ways at once.
    pub stripes: bool,
    /// Whether a pattern must come over a leg unchanged before anything is entrusted to it.
    pub verifies_peers: bool,
    /// What of a copy is read back from both ends and compared when it has arrived; a part that differs counts as lost. Nothing
    /// by default: it takes two lanes a part.
    pub compared: Compared,
    /// A copy that takes so many times what was predicted is overdue.
    pub deadline_factor: u32,
    /// No copy is overdue before this, since predictions of short ones are poor. A millisecond at least.
    pub least_deadline: Duration,
    /// Whether a thread of its own looks for copies that are overdue, a few times in each `least_deadline` while any are
    /// under way. Without it somebody is to [look](crate::Transfers::check). Of no use in virtual time, which it cannot see.
    pub oversees: bool,
    /// A copy over several ways that should take longer is planned anew each time so much of it is done, so that it leaves
    /// links to copies that came since and takes those that others left.
    pub installment: Duration,
    /// What copies cost beside the time on the wire.
    pub costs: CostModel,
    /// The engines of each device for copies to others, where they are few: a copy then takes no more ways than a device has
    /// engines, and longer chunks, as each has an engine to itself. `None` where there are as many as anybody wants.
    pub engines: Option<CopyEngines>,
    /// Bytes of a device's memory that copies of others take at once at most; a mebibyte in any case.
    pub relay_bytes: u64,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            guarded_bytes: 1 << 20,
            relays: true,
            stripes: true,
            verifies_peers: true,
            compared: Compared::Nothing,
            deadline_factor: 4,
            least_deadline: Duration::from_secs(2),
            oversees: true,
            installment: Duration::from_millis(8),
            costs: CostModel::default(),
            engines: None,
            relay_bytes: 256 << 20,
        }
    }
}

impl TransferConfig {
    /// As the default, one way at a time and over no third device, and with no thread that looks for what hangs: for devices
    /// whose links are no faster than one of them alone and whose times nobody can predict, as simulated ones are in real
    /// time, whose links are all this machine's memory.
    pub fn one_way() -> Self {
        Self {
            relays: false,
            stripes: false,
            oversees: false,
            ..Self::default()
        }
    }

    /// One command a copy over one way, nothing tried before and nothing guarded: what is measured is the way itself.
    pub fn measuring() -> Self {
        Self {
            guarded_bytes: u64::MAX,
            verifies_peers: false,
            ..Self::one_way()
        }
    }
}
