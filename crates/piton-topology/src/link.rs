//! Links: what joins two nodes, how wide it is, and where its numbers come from.
//!
//! A link has two directions with a rate each and one latency. Rates are what a copy can expect, not
//! the signalling peak; `defaults` turns the one into the other where nobody measured.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::defaults;
use crate::id::NodeId;
use crate::quantity::{BytesPerSec, Nanos};

/// Where a value comes from, strongest first: a measured value replaces a declared one, and a
/// declared one replaces a default.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Timed on this machine.
    Measured,
    /// Said by the machine (sysfs, a driver, a file someone wrote).
    Declared,
    /// Taken from the table in this crate because nothing said otherwise.
    #[default]
    Default,
}

impl Provenance {
    /// Asked by serde, which has a reference.
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

/// PCI Express generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are the standard's own numbers")]
pub enum PcieGeneration {
    Gen1,
    Gen2,
    Gen3,
    Gen4,
    Gen5,
    Gen6,
}

impl PcieGeneration {
    /// The generation that signals at this many megatransfers a second a lane, or the nearest one
    /// below it; `None` below the first.
    #[must_use]
    pub const fn from_megatransfers(rate: u32) -> Option<Self> {
        match rate {
            0..2_500 => None,
            2_500..5_000 => Some(Self::Gen1),
            5_000..8_000 => Some(Self::Gen2),
            8_000..16_000 => Some(Self::Gen3),
            16_000..32_000 => Some(Self::Gen4),
            32_000..64_000 => Some(Self::Gen5),
            _ => Some(Self::Gen6),
        }
    }
}

/// NVLink version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are the vendor's own numbers")]
pub enum NvLinkVersion {
    V1,
    V2,
    V3,
    V4,
    V5,
}

/// xGMI (Infinity Fabric) by the first architecture that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XgmiVersion {
    /// gfx906, gfx908: Vega 20, MI100.
    Gfx906,
    /// gfx90a: MI200 series.
    Gfx90a,
    /// gfx94x and gfx95x: MI300 and MI350 series.
    Gfx94x,
}

/// What kind of wire a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LinkKind {
    /// PCI Express; lanes are the width.
    Pcie(PcieGeneration),
    /// NVIDIA NVLink; lanes are the bonded links.
    NvLink(NvLinkVersion),
    /// AMD xGMI; lanes are the bonded links.
    Xgmi(XgmiVersion),
    /// Ascend HCCS between two devices; lanes are the bonded links.
    Hccs,
    /// Ascend HCCS to a switch; one lane is everything a die has.
    HccsSwitch,
    /// Ascend SIO between the dies of a package.
    Sio,
    /// NVLink-C2C between a processor and its device.
    C2c,
    /// Between NUMA nodes or sockets: UPI, Infinity Fabric, CCIX.
    Smp,
    /// Between a host bridge and the memory of its NUMA node.
    MemoryBus,
    /// Something joins them and nobody can say what: a sandbox that hides its buses.
    Unknown,
}

impl LinkKind {
    /// Whether this is a fast link between devices, apart from the host's buses.
    #[must_use]
    pub const fn is_fabric(self) -> bool {
        matches!(
            self,
            Self::NvLink(_) | Self::Xgmi(_) | Self::Hccs | Self::HccsSwitch | Self::Sio | Self::C2c
        )
    }

    /// The rate of each direction by the table of `defaults`, or `None` for zero lanes.
    #[must_use]
    pub const fn default_bandwidth(self, lanes: u16) -> Option<BytesPerSec> {
        defaults::bandwidth(self, lanes)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pcie(generation) => write!(f, "PCIe Gen{}", *generation as u8 + 1),
            Self::NvLink(version) => write!(f, "NVLink {}", *version as u8 + 1),
            Self::Xgmi(_) => f.write_str("xGMI"),
            Self::Hccs => f.write_str("HCCS"),
            Self::HccsSwitch => f.write_str("HCCS switch"),
            Self::Sio => f.write_str("SIO"),
            Self::C2c => f.write_str("NVLink-C2C"),
            Self::Smp => f.write_str("SMP"),
            Self::MemoryBus => f.write_str("memory bus"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// A link between two different nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub a: NodeId,
    /// The other end, never equal to `a` in a built machine.
    pub b: NodeId,
    /// What wire it is.
    pub kind: LinkKind,
    /// Lanes of PCIe or bonded links of a fabric; at least 1.
    pub lanes: u16,
    /// Rate from `a` to `b`; above zero.
    pub up: BytesPerSec,
    /// Rate from `b` to `a`; above zero.
    pub down: BytesPerSec,
    /// Time for the first byte to cross, without the nodes at its ends.
    pub latency: Nanos,
    /// Where `up` and `down` come from.
    pub provenance: Provenance,
    /// Where `latency` comes from.
    #[serde(default, skip_serializing_if = "Provenance::is_default")]
    pub latency_provenance: Provenance,
}

impl Link {
    /// A link with the rates and latency of the table of defaults. With zero lanes its rate is zero,
    /// which the builder refuses.
    #[must_use]
    pub fn with_defaults(a: NodeId, b: NodeId, kind: LinkKind, lanes: u16) -> Self {
        let rate = defaults::bandwidth(kind, lanes).unwrap_or(BytesPerSec::new(0));
        Self {
            a,
            b,
            kind,
            lanes,
            up: rate,
            down: rate,
            latency: defaults::link_latency(kind),
            provenance: Provenance::Default,
            latency_provenance: Provenance::Default,
        }
    }

    /// The same link, its kind and width vouched for by the machine.
    #[must_use]
    pub fn declared(mut self) -> Self {
        self.provenance = Provenance::Declared;
        self
    }

    /// The end that is not `node`, or `None` if `node` is neither.
    #[must_use]
    pub fn other_end(&self, node: NodeId) -> Option<NodeId> {
        if node == self.a {
            return Some(self.b);
        }
        (node == self.b).then_some(self.a)
    }

    /// The rate leaving `node`: `up` from `a`, otherwise `down`.
    #[must_use]
    pub fn bandwidth_from(&self, node: NodeId) -> BytesPerSec {
        if node == self.a { self.up } else { self.down }
    }
}
