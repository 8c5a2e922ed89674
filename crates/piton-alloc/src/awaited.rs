//! What to wait for where a pool is full and some of its free memory is pending.

use std::cmp::Reverse;

use piton_suballoc::Domain;
use piton_timeline::{Frontier, LaneId, Timepoint};

use crate::books::Books;
use crate::fragmentation::Pending;

/// Places of lanes, and the pending bytes that they do not cover yet of those wanted.
struct Gathered {
    places: Frontier,
    missing: u64,
}

impl Gathered {
    fn add(&mut self, uses: impl IntoIterator<Item = Timepoint>, bytes: u64) {
        uses.into_iter().for_each(|point| self.places.insert(point));
        self.missing = self.missing.saturating_sub(bytes);
    }

    fn is_enough(&self) -> bool {
        self.missing == 0
    }
}

impl Books {
    /// Places of lanes behind which `bytes` bytes are complete of what is pending now, or all of it if that is less: of the
    /// lane with the most pending first, its oldest first. `pending` is what [`pending`](Self::pending) says.
    pub(crate) fn awaited(&self, bytes: u64, pending: &[Pending]) -> Frontier {
        let mut gathered = Gathered {
            places: Frontier::new(),
            missing: bytes,
        };
        let mut pending = pending.to_vec();
        pending.sort_by_key(|pending| Reverse(pending.bytes));
        for pending in pending {
            match pending.lane {
                Some(lane) => self.gather_awaited(lane, &mut gathered),
                None => self.gather_deferred(&mut gathered),
            }
        }
        gathered.places
    }

    /// Adds what is pending on a lane until it is enough.
    fn gather_awaited(&self, lane: LaneId, gathered: &mut Gathered) {
        let is_its = |domain: &Domain| self.lane_of(*domain) == Some(lane);
        let domains = self.index.domains().filter(is_its);
        let extents = domains.flat_map(|domain| self.index.extents_by_stamp(domain));
        for extent in extents.filter(|extent| !self.is_complete(extent)) {
            if gathered.is_enough() {
                return;
            }
            let seq = extent.stamp();
            gathered.add([Timepoint { lane, seq }], extent.bytes);
        }
    }

    /// Adds what several lanes used last until it is enough.
    fn gather_deferred(&self, gathered: &mut Gathered) {
        for entry in self.deferred.iter() {
            if gathered.is_enough() {
                return;
            }
            gathered.add(entry.uses.points().iter().copied(), entry.chunk.bytes);
        }
    }
}
