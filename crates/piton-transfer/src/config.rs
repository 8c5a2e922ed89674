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

/// How much of a copy is compared with its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compared {
    /// Nothing: links that were tried with a pattern are trusted. The default.
    #[default]
    Nothing,
    /// This many places of 256 bytes in each part of a guarded copy. This finds links that went bad after they were
    /// tried, but not every changed byte. At most half of what a queue holds, and at most 512: one submission reads
    /// them all, and the submitter must not wait for room.
    Places(u32),
    /// Every byte of every copy between two devices, except in graphs. No wrong byte is seen, as long as the two ends
    /// are read back correctly. Every copy is guarded, and every byte goes to the host twice. Meant for machines that
    /// are not trusted, at a fraction of their speed.
    Everything,
}

/// How copies between devices are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferConfig {
    /// Copies of at least this many bytes are *guarded*: what fails on one way goes on over the next, and the stream
    /// goes on after all of it. That takes a host function, some tens of microseconds. A smaller copy over trusted
    /// legs that stops in no third device's memory fails with the stream. 1 MiB by default.
    pub guarded_bytes: u64,
    /// Whether bytes may stop in the memory of a third device.
    pub relays: bool,
    /// Whether one large copy may take several ways at once.
    pub stripes: bool,
    /// Whether a pattern must come over a leg unchanged before anything is entrusted to it.
    pub verifies_peers: bool,
    /// How much of a copy is read back from both ends and compared when it has arrived. A part that differs counts as
    /// lost. Nothing by default, because it takes two lanes per part.
    pub compared: Compared,
    /// A copy that takes this many times what was predicted is overdue. 4 by default.
    pub deadline_factor: u32,
    /// No copy is overdue before this time, because predictions of short ones are poor. At least a millisecond; 2 s
    /// by default.
    pub least_deadline: Duration,
    /// Whether a thread of its own looks for overdue copies, a few times in each `least_deadline` while any are under
    /// way. Without it, call [`Transfers::check`](crate::Transfers::check). It is of no use in virtual time, which it
    /// cannot see.
    pub oversees: bool,
    /// A copy over several ways that should take longer than this is planned anew each time that much of it is done.
    /// So it leaves links to copies that came since, and takes those that others left. 8 ms by default.
    pub installment: Duration,
    /// What copies cost beside the time on the wire.
    pub costs: CostModel,
    /// The copy engines that each device has for copies to others, where they are few. A copy then takes no more ways
    /// than a device has engines, and longer chunks, because each has an engine to itself. `None` means any number.
    pub engines: Option<CopyEngines>,
    /// The most bytes of a device's memory that copies between other devices take at once; a mebibyte in any case.
    /// 256 MiB by default.
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
    /// Like the default, but with one way at a time, over no third device, and without a thread that looks for copies
    /// that hang. Meant for devices whose links together are no faster than one alone and whose times cannot be
    /// predicted, such as simulated ones in real time, whose links are all this machine's memory.
    pub fn one_way() -> Self {
        Self {
            relays: false,
            stripes: false,
            oversees: false,
            ..Self::default()
        }
    }

    /// One command per copy over one way, nothing tried before and nothing guarded, so that a measurement sees the
    /// way itself.
    pub fn measuring() -> Self {
        Self {
            guarded_bytes: u64::MAX,
            verifies_peers: false,
            ..Self::one_way()
        }
    }
}
