//! What was carried which way.

use crate::way::Way;
use piton_driver::DeviceId;
use piton_sync::Mutex;
use piton_topology::{LinkId, RouteKind};
use std::{collections::BTreeMap, sync::Arc};

/// Copies, or parts of copies, that took one way from one device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteUse {
    /// Where from.
    pub from: DeviceId,
    /// Where to.
    pub to: DeviceId,
    /// Which way.
    pub kind: RouteKind,
    /// The devices in whose memory the bytes stopped on the way, in order.
    pub relays: Box<[DeviceId]>,
    /// The links of the model that it crosses, in order.
    pub links: Arc<[LinkId]>,
    /// How many copies and parts of copies arrived by this way; unguarded ones count when they are submitted.
    pub copies: u64,
    /// How many bytes they carried in all.
    pub bytes: u64,
}

#[derive(Debug)]
struct Sum {
    relays: Box<[DeviceId]>,
    copies: u64,
    bytes: u64,
}

type Key = (DeviceId, DeviceId, RouteKind, Arc<[LinkId]>);

/// Sums by pair and way. A leaf lock.
#[derive(Debug, Default)]
pub(crate) struct RouteUses(Mutex<BTreeMap<Key, Sum>>);

impl RouteUses {
    pub(crate) fn add(&self, (from, to): (DeviceId, DeviceId), way: &Way, bytes: u64) {
        let mut sums = self.0.lock();
        let key = (from, to, way.kind, way.links.clone());
        let sum = sums.entry(key).or_insert_with(|| Sum {
            relays: way.relays().collect(),
            copies: 0,
            bytes: 0,
        });
        sum.copies += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
    }

    pub(crate) fn all(&self) -> Vec<RouteUse> {
        let sums = self.0.lock();
        let entries = sums.iter().map(|((from, to, kind, links), sum)| RouteUse {
            from: *from,
            to: *to,
            kind: *kind,
            relays: sum.relays.clone(),
            links: links.clone(),
            copies: sum.copies,
            bytes: sum.bytes,
        });
        entries.collect()
    }
}
