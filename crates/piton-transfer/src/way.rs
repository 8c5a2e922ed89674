//! A way that bytes can be carried: the devices whose memory they stop in, or the host's.
//!
//! A command names two devices and not the links between them, so a way is a list of *legs*: from one memory to the
//! next, a command for each. Which links a leg crosses, the model says.

use piton_driver::DeviceId;
use piton_topology::{LinkId, RouteKind};
use smallvec::SmallVec;
use std::sync::Arc;

/// From one memory to another; `None` is the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg {
    /// Where from.
    pub from: Option<DeviceId>,
    /// Where to.
    pub to: Option<DeviceId>,
}

impl Leg {
    /// Whose queue carries it out: the source's, or the destination's out of host memory.
    pub(crate) fn carrier(self) -> Option<DeviceId> {
        self.from.or(self.to)
    }

    /// The two devices, where it is between two.
    pub(crate) fn pair(self) -> Option<(DeviceId, DeviceId)> {
        self.from.zip(self.to)
    }
}

/// One way from a device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) kind: RouteKind,
    /// The model's links in order.
    pub(crate) links: Arc<[LinkId]>,
    /// Where the bytes stop on the way; empty where they do not.
    pub(crate) stops: SmallVec<[Option<DeviceId>; 1]>,
}

impl Way {
    /// Its legs in order.
    pub(crate) fn legs(&self, from: DeviceId, to: DeviceId) -> SmallVec<[Leg; 2]> {
        let starts = std::iter::once(Some(from)).chain(self.stops.iter().copied());
        let ends = self.stops.iter().copied().chain([Some(to)]);
        let legs = starts.zip(ends).map(|(from, to)| Leg { from, to });
        legs.collect()
    }

    /// Whether the bytes stop in the memory of a third device.
    pub(crate) fn stops_in_a_device(&self) -> bool {
        self.stops.iter().any(Option::is_some)
    }
}

/// A part of a copy and the way it takes.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) way: Way,
    /// Where in the copy it begins.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// How long it should take, in nanoseconds.
    pub(crate) predicted_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_a_leg_for_each_stop_and_one_more() {
        let [a, b, c] = [0, 1, 2].map(DeviceId);
        let way = |stops: &[Option<DeviceId>]| Way {
            kind: RouteKind::Direct,
            links: Arc::default(),
            stops: stops.into(),
        };
        let leg = |from, to| Leg { from, to };
        assert_eq!(way(&[]).legs(a, b)[..], [leg(Some(a), Some(b))]);
        let relayed = [leg(Some(a), Some(c)), leg(Some(c), Some(b))];
        assert_eq!(way(&[Some(c)]).legs(a, b)[..], relayed);
        let staged = [leg(Some(a), None), leg(None, Some(b))];
        assert_eq!(way(&[None]).legs(a, b)[..], staged);
        assert_eq!(staged.map(Leg::carrier), [Some(a), Some(b)]);
        assert_eq!(staged.map(Leg::pair), [None, None]);
    }
}
