//! One way to carry a copy from one device to another, and how long it takes.

use core::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::defaults;
use crate::id::{DeviceId, LinkId, NumaId};
use crate::quantity::{BytesPerSec, Nanos};

/// What a copy passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RouteKind {
    /// Nothing: source and destination are one device.
    Local,
    /// One link between the two devices.
    Direct,
    /// Switches: of PCIe or of the device fabric.
    Switch,
    /// Host bridges, and perhaps the interconnect between sockets, but no copy in host memory.
    HostBridge,
    /// Another device that forwards it: from the source into its memory, then out of it to the destination.
    Relay {
        /// The device; the first of several.
        device: DeviceId,
    },
    /// A copy in page-locked host memory: from the source into it, then out of it to the destination.
    Staged {
        /// The NUMA node whose memory it is.
        numa: NumaId,
    },
}

impl RouteKind {
    /// Whether one end must be allowed to access the other's memory. Over a relay this is not needed, because each
    /// half is between other devices.
    #[must_use]
    pub const fn needs_peer_access(self) -> bool {
        matches!(self, Self::Direct | Self::Switch | Self::HostBridge)
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("inside the device"),
            Self::Direct => f.write_str("directly"),
            Self::Switch => f.write_str("through a switch"),
            Self::HostBridge => f.write_str("through the host bridge"),
            Self::Relay { device } => write!(f, "over {device}"),
            Self::Staged { numa } => write!(f, "staged in host memory of {numa}"),
        }
    }
}

/// What copies cost beside the time on the wire. The defaults are placeholders until measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostModel {
    /// Time to start one copy; a staged route starts two.
    pub launch: Nanos,
    /// Time between two copies on one engine, if the second was ready before the first had ended.
    pub between: Nanos,
    /// Bytes a staged copy moves at a time: the second half starts when the first chunk is in.
    pub chunk_bytes: u64,
    /// Rate of a copy inside one device.
    pub local: BytesPerSec,
    /// What a copy through host bridges gets of its narrowest link, in sixths. Six if the rates of the links already
    /// account for it.
    pub host_bridge_sixths: u64,
}

impl CostModel {
    /// What a copy gets of links that carry `rate`.
    pub(crate) fn through(&self, kind: RouteKind, rate: BytesPerSec) -> BytesPerSec {
        match kind {
            RouteKind::HostBridge | RouteKind::Staged { .. } => {
                sixths(rate, self.host_bridge_sixths)
            }
            _ => rate,
        }
    }

    /// What a copy that runs at `rate` takes of each link on its route: more than `rate` where it crosses host
    /// bridges.
    #[must_use]
    pub fn occupied(&self, kind: RouteKind, rate: BytesPerSec) -> BytesPerSec {
        match kind {
            RouteKind::HostBridge | RouteKind::Staged { .. } => {
                let whole = u128::from(rate.get()) * 6 / u128::from(self.host_bridge_sixths.max(1));
                BytesPerSec::new(u64::try_from(whole).unwrap_or(u64::MAX))
            }
            _ => rate,
        }
    }
}

/// So many sixths of a rate; of what does not divide by six, all.
const fn sixths(rate: BytesPerSec, count: u64) -> BytesPerSec {
    let sixth = rate.get() / 6;
    BytesPerSec::new(sixth.saturating_mul(count).saturating_add(rate.get() % 6))
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            launch: defaults::COPY_LAUNCH,
            between: defaults::COPY_BETWEEN,
            chunk_bytes: defaults::STAGING_CHUNK_BYTES,
            local: defaults::LOCAL_COPY,
            host_bridge_sixths: defaults::HOST_BRIDGE_SIXTHS,
        }
    }
}

/// Shared links, written like links that are not.
pub(crate) fn as_list<S: Serializer>(links: &Arc<[LinkId]>, to: S) -> Result<S::Ok, S::Error> {
    links[..].serialize(to)
}

/// A route from one device to another, with what it can carry when nothing else uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// What it passes through.
    pub kind: RouteKind,
    /// Its links in order; for a staged route, those into host memory and then those out of it. Empty for a local
    /// route.
    #[serde(serialize_with = "as_list")]
    pub hops: Arc<[LinkId]>,
    /// The least rate of any of its links.
    pub bottleneck: BytesPerSec,
    /// Time for the first byte, without starting the copy.
    pub latency: Nanos,
    /// Rate of the faster half of a staged or relayed route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster_half: Option<BytesPerSec>,
}

impl Route {
    /// What a copy gets by the default cost model: the bottleneck, or less where the route crosses host bridges.
    #[must_use]
    pub const fn rate(&self) -> BytesPerSec {
        match self.kind {
            RouteKind::HostBridge | RouteKind::Staged { .. } => {
                sixths(self.bottleneck, defaults::HOST_BRIDGE_SIXTHS)
            }
            _ => self.bottleneck,
        }
    }

    /// How long `bytes` take when nothing else uses the route: launch, latency, bytes over the
    /// rate; and for a staged or relayed route a second launch, and one chunk more over the faster half,
    /// because the halves overlap except for the first or last chunk.
    #[must_use]
    pub fn duration(&self, bytes: u64, costs: &CostModel) -> Nanos {
        let once = costs
            .launch
            .saturating_add(self.latency)
            .saturating_add(costs.through(self.kind, self.bottleneck).duration_of(bytes));
        let Some(rate) = self.faster_half else {
            return once;
        };
        let first_chunk = rate.duration_of(bytes.min(costs.chunk_bytes));
        once.saturating_add(costs.launch)
            .saturating_add(first_chunk)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (links, plural) = match self.hops.len() {
            1 => (1, ""),
            many => (many, "s"),
        };
        write!(
            f,
            "{}, {links} link{plural}, {}, {}",
            self.kind, self.bottleneck, self.latency
        )
    }
}
