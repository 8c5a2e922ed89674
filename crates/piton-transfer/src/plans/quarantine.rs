//! What copies keep off: legs that are not trusted yet, and those that were given up.

use super::{Now, Plans, place};
use crate::{
    incident::{Incident, NamedLink, Reason},
    way::Leg,
};
use piton_driver::DeviceId;
use piton_sync::atomic::Ordering;
use piton_topology::{Candidate, DeviceId as Place, PeerAccess};
use std::sync::Arc;

impl Plans {
    /// Whether bytes may be entrusted to a leg.
    pub(crate) fn is_trusted(&self, leg: Leg) -> bool {
        let Some((from, to)) = leg.pair() else {
            return true;
        };
        let at = from.0 as usize * self.devices + to.0 as usize;
        self.trusted
            .get(at)
            .is_some_and(|trusted| trusted.load(Ordering::Relaxed))
    }

    /// A pattern came over unchanged.
    pub(crate) fn trust(&self, from: DeviceId, to: DeviceId) {
        let at = from.0 as usize * self.devices + to.0 as usize;
        if let Some(trusted) = self.trusted.get(at) {
            trusted.store(true, Ordering::Relaxed);
        }
    }

    /// Something went wrong on a leg. Between two devices, no copy takes it from now on, either way; said once.
    pub(crate) fn give_up(&self, leg: Leg, reason: Reason) {
        let is_quarantined = leg.pair().is_some();
        if let Some((from, to)) = leg.pair()
            && !self.close(from, to)
        {
            return;
        }
        self.incidents.add(Incident {
            leg,
            links: self.links_of(leg),
            reason,
            is_quarantined,
        });
    }

    /// No copy of others goes over a device any more.
    pub(crate) fn give_up_device(&self, device: DeviceId) {
        let Some(gone) = place(device) else { return };
        self.change(|peers| {
            let others = self.machine.device_ids().filter(|other| *other != gone);
            let pairs = others.flat_map(|other| [(gone, other), (other, gone)]);
            close_all(peers, pairs)
        });
    }

    /// Takes a pair out of peer access; says whether it was in.
    fn close(&self, from: DeviceId, to: DeviceId) -> bool {
        let (Some(a), Some(b)) = (place(from), place(to)) else {
            return false;
        };
        self.change(|peers| close_all(peers, [(a, b), (b, a)].into_iter()))
    }

    /// Makes routes and plans anew if `close` has changed anything; says whether it has.
    fn change(&self, close: impl Fn(&mut PeerAccess) -> bool) -> bool {
        // Made under no lock: of two that close at once, the second makes it again from what the first left.
        loop {
            let now = self.now();
            let mut peers = now.peers.clone();
            if !close(&mut peers) {
                return false;
            }
            let next = Arc::new(Now::new(&self.machine, peers, self.options));
            let mut current = self.now.lock();
            if Arc::ptr_eq(&current, &now) {
                *current = next;
                return true;
            }
        }
    }

    /// The links that the model says a leg crosses.
    fn links_of(&self, leg: Leg) -> Box<[NamedLink]> {
        let Some((from, to)) = leg.pair() else {
            return Box::default();
        };
        let (Some(from), Some(to)) = (place(from), place(to)) else {
            return Box::default();
        };
        let candidates = self.allowed.candidates(from, to, 1 << 20);
        let hops = candidates
            .iter()
            .flatten()
            .find_map(|candidate| match candidate {
                Candidate::Route { route, .. } if route.kind.needs_peer_access() => {
                    Some(&route.hops)
                }
                _ => None,
            });
        let named = hops.into_iter().flat_map(|hops| hops.iter());
        named
            .filter_map(|link| NamedLink::of(&self.machine, *link))
            .collect()
    }
}

/// Takes pairs out of peer access; says whether any was in.
fn close_all(peers: &mut PeerAccess, pairs: impl Iterator<Item = (Place, Place)>) -> bool {
    let mut was_open = false;
    for (from, to) in pairs {
        was_open |= peers.allows(from, to);
        peers.set(from, to, false);
    }
    was_open
}
