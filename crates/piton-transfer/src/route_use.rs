//! What was carried which way.

use piton_driver::DeviceId;
use piton_sync::Mutex;
use piton_topology::RouteKind;
use std::collections::BTreeMap;

/// Copies that took one way from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteUse {
    /// Where from.
    pub from: DeviceId,
    /// Where to.
    pub to: DeviceId,
    /// Which way.
    pub kind: RouteKind,
    /// How many copies.
    pub copies: u64,
    /// How many bytes in all.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Sum {
    copies: u64,
    bytes: u64,
}

/// Sums by pair and way.
#[derive(Debug, Default)]
pub(crate) struct RouteUses(Mutex<BTreeMap<(DeviceId, DeviceId, RouteKind), Sum>>);

impl RouteUses {
    pub(crate) fn add(&self, from: DeviceId, to: DeviceId, kind: RouteKind, bytes: u64) {
        let mut sums = self.0.lock();
        let sum = sums.entry((from, to, kind)).or_default();
        sum.copies += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
    }

    pub(crate) fn all(&self) -> Vec<RouteUse> {
        let sums = self.0.lock();
        let entries = sums.iter().map(|((from, to, kind), sum)| RouteUse {
            from: *from,
            to: *to,
            kind: *kind,
            copies: sum.copies,
            bytes: sum.bytes,
        });
        entries.collect()
    }
}
