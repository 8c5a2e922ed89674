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

/// Where bytes stop between two legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// In this device's memory.
    Device(DeviceId),
    /// In page-locked memory of the pool near this device.
    Host(DeviceId),
}

impl Stop {
    /// The device in whose memory they stop; none where it is the host's.
    pub(crate) fn device(self) -> Option<DeviceId> {
        match self {
            Self::Device(device) => Some(device),
            Self::Host(_) => None,
        }
    }
}

/// One way from a device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) kind: RouteKind,
    /// The model's links in order.
    pub(crate) links: Arc<[LinkId]>,
    /// Where the bytes stop on the way; empty where they do not.
    pub(crate) stops: SmallVec<[Stop; 1]>,
}

impl Way {
    /// Its legs in order.
    pub(crate) fn legs(&self, from: DeviceId, to: DeviceId) -> SmallVec<[Leg; 2]> {
        let stops = self.stops.iter().map(|stop| stop.device());
        let starts = std::iter::once(Some(from)).chain(stops.clone());
        let ends = stops.chain([Some(to)]);
        let legs = starts.zip(ends).map(|(from, to)| Leg { from, to });
        legs.collect()
    }

    /// Whether the bytes stop in the memory of a third device.
    pub(crate) fn stops_in_a_device(&self) -> bool {
        self.relays().next().is_some()
    }

    /// Whether the bytes stop in host memory.
    pub(crate) fn stops_in_the_host(&self) -> bool {
        let mut stops = self.stops.iter();
        stops.any(|stop| matches!(stop, Stop::Host(_)))
    }

    /// The devices in whose memory the bytes stop, in order.
    pub(crate) fn relays(&self) -> impl Iterator<Item = DeviceId> {
        self.stops.iter().filter_map(|stop| stop.device())
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
    /// How many lanes carry each leg between devices at once. Links divide what they carry evenly among what they carry, so of
    /// parts that share links the one that is to be twice as fast has twice as many.
    pub(crate) lanes: u16,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_a_leg_for_each_stop_and_one_more() {
        let [a, b, c] = [0, 1, 2].map(DeviceId);
        let way = |stops: &[Stop]| Way {
            kind: RouteKind::Direct,
            links: Arc::default(),
            stops: stops.into(),
        };
        let leg = |from, to| Leg { from, to };
        assert_eq!(way(&[]).legs(a, b)[..], [leg(Some(a), Some(b))]);
        let relayed = [leg(Some(a), Some(c)), leg(Some(c), Some(b))];
        assert_eq!(way(&[Stop::Device(c)]).legs(a, b)[..], relayed);
        let staged = [leg(Some(a), None), leg(None, Some(b))];
        assert_eq!(way(&[Stop::Host(a)]).legs(a, b)[..], staged);
        assert_eq!(staged.map(Leg::carrier), [Some(a), Some(b)]);
        assert_eq!(staged.map(Leg::pair), [None, None]);
    }
}
