//! Which devices may read and write each other's memory directly.
//!
//! A link is not a permission: firmware, virtual machines (ACS, IOMMU) and drivers refuse peer access
//! between devices that share a switch, and some grant it between devices that share nothing. The
//! answer belongs to the driver, so it is an input here, for each ordered pair.

use std::collections::HashSet;

use crate::id::DeviceId;

/// The ordered pairs of devices that a copy may join without passing through host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAccess {
    /// The answer for pairs that are no exception.
    usual: bool,
    exceptions: HashSet<(DeviceId, DeviceId)>,
}

impl PeerAccess {
    /// Every pair may.
    #[must_use]
    pub fn all() -> Self {
        Self::with_usual(true)
    }

    /// No pair may: every copy between devices is staged.
    #[must_use]
    pub fn none() -> Self {
        Self::with_usual(false)
    }

    fn with_usual(usual: bool) -> Self {
        Self {
            usual,
            exceptions: HashSet::new(),
        }
    }

    /// Sets whether copies from `from` to `to` may go directly. Says nothing about the way back.
    pub fn set(&mut self, from: DeviceId, to: DeviceId, allowed: bool) {
        if allowed == self.usual {
            self.exceptions.remove(&(from, to));
        } else {
            self.exceptions.insert((from, to));
        }
    }

    /// Whether copies from `from` to `to` may go directly. A device may always copy to itself.
    #[must_use]
    pub fn allows(&self, from: DeviceId, to: DeviceId) -> bool {
        from == to || self.usual != self.exceptions.contains(&(from, to))
    }

    /// Whether a device and another of so many may access each other, in one direction at least.
    pub(crate) fn is_peer(&self, device: DeviceId, devices: usize) -> bool {
        let ids = (0..devices).filter_map(|at| u16::try_from(at).ok());
        let mut others = ids.map(DeviceId::new).filter(|other| *other != device);
        others.any(|other| self.allows(device, other) || self.allows(other, device))
    }
}

impl FromIterator<(DeviceId, DeviceId)> for PeerAccess {
    /// Exactly these ordered pairs may.
    fn from_iter<I: IntoIterator<Item = (DeviceId, DeviceId)>>(pairs: I) -> Self {
        Self {
            usual: false,
            exceptions: pairs.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direction_says_nothing_about_the_other() {
        let (a, b) = (DeviceId::new(0), DeviceId::new(1));
        let mut peers = PeerAccess::all();
        peers.set(a, b, false);
        assert!(!peers.allows(a, b));
        assert!(peers.allows(b, a));
        assert!(peers.allows(a, a));
        assert!(PeerAccess::none().allows(a, a));
        peers.set(a, b, true);
        assert_eq!(peers, PeerAccess::all());
        let some: PeerAccess = [(a, b)].into_iter().collect();
        assert!(some.allows(a, b) && !some.allows(b, a));
    }
}
