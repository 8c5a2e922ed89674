//! What the pool knows about each lane slot: which lane's memory is in the slot's domains, and how far the slot's
//! work has completed.
//!
//! A lane keeps what it freed, complete or not, until another lane asks, so that memory that nobody else wants need
//! not be moved to the shared domain. *Another* is any other slot, or a request without a lane. When the slot that
//! asks in a region changes, what is complete there of the previous slot's memory, and of the new one's, moves to the
//! shared domain.

use piton_suballoc::Domain;
use piton_timeline::{LaneId, Timeline, Watch};

use crate::region::{self, Region};

/// One slot.
#[derive(Debug)]
pub(crate) struct LaneSlot {
    /// None until it is met and the timeline has it.
    watch: Option<Watch>,
    /// The lane that last left memory pending there; of generation 0 before there was one.
    pub(crate) tenant: LaneId,
    /// By region, what was done when what is complete was last given up.
    given_up: [u64; Region::ALL.len()],
}

impl LaneSlot {
    /// All up to this seq is known to be done; `None` while the timeline did not have the lane.
    #[inline]
    pub(crate) fn done(&self) -> Option<u64> {
        self.watch.as_ref().map(Watch::done)
    }

    /// What is done, if something completed since it was last asked this of the region.
    pub(crate) fn newly_done(&mut self, region: Region) -> Option<u64> {
        let done = self.done()?;
        let before = std::mem::replace(&mut self.given_up[region as usize], done);
        (before != done).then_some(done)
    }
}

/// All slots that memory was asked for or left pending on, and those below.
#[derive(Debug)]
pub(crate) struct LaneSlots {
    slots: Vec<LaneSlot>,
    /// By region, the slot whose lane asked last; [`NOBODY`] after a request without a lane, and at first.
    askers: [u32; Region::ALL.len()],
    /// By region, whether nobody else asked since memory was last missing.
    is_steady: [bool; Region::ALL.len()],
    /// By region, the lane that has all to itself, if there is one.
    sole: [Option<LaneId>; Region::ALL.len()],
}

/// No slot.
const NOBODY: u32 = u32::MAX;

impl Default for LaneSlots {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            askers: [NOBODY; Region::ALL.len()],
            is_steady: [false; Region::ALL.len()],
            sole: [None; Region::ALL.len()],
        }
    }
}

impl LaneSlots {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&LaneSlot> {
        self.slots.get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut LaneSlot> {
        self.slots.get_mut(index as usize)
    }

    /// Whether a domain is a lane's, and a use with this stamp on it known complete.
    pub(crate) fn is_complete(&self, domain: Domain, stamp: u64) -> bool {
        let slot = region::slot_of(domain).and_then(|slot| self.get(slot));
        slot.and_then(LaneSlot::done)
            .is_some_and(|done| stamp <= done)
    }

    /// Whether the lane's slot is the one that asked in the region last.
    #[inline]
    pub(crate) fn asked_last(&self, lane: Option<LaneId>, region: Region) -> bool {
        self.askers[region as usize] == lane.map_or(NOBODY, |lane| lane.index)
    }

    /// A lane asks, or somebody without; returns the slot that asked before.
    pub(crate) fn note_asker(&mut self, lane: Option<LaneId>, region: Region) -> Option<u32> {
        let asker = lane.map_or(NOBODY, |lane| lane.index);
        let before = std::mem::replace(&mut self.askers[region as usize], asker);
        self.is_steady[region as usize] = false;
        (before != NOBODY).then_some(before)
    }

    /// Memory is missing for a lane, or for somebody without: it has the region to itself from now on if nobody else asked since this
    /// happened last.
    pub(crate) fn note_miss(&mut self, lane: Option<LaneId>, region: Region) {
        if !self.asked_last(lane, region) {
            return;
        }
        let is_steady = std::mem::replace(&mut self.is_steady[region as usize], true);
        let Some(lane) = lane.filter(|_| is_steady) else {
            return;
        };
        if let Some(slot) = self.get_mut(lane.index) {
            slot.tenant = lane;
            self.sole[region as usize] = Some(lane);
        }
    }

    /// The lane that has a region to itself, if there is one.
    #[inline]
    pub(crate) fn sole(&self, region: Region) -> Option<LaneId> {
        self.sole[region as usize]
    }

    /// Nobody has a region to themselves any more; returns who had.
    pub(crate) fn end_sole(&mut self, region: Region) -> Option<LaneId> {
        self.sole[region as usize].take()
    }

    /// The slot of a lane, known from now on; `None` past those that have domains, which no pool keeps memory for.
    #[cold]
    pub(crate) fn meet(&mut self, lane: LaneId, timeline: &Timeline) -> Option<&mut LaneSlot> {
        // A program can name any lane; the slots below it are made here.
        Region::Large.of_lane(lane)?;
        let at = lane.index as usize;
        let known = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let unmet = |index| LaneSlot {
            watch: None,
            tenant: LaneId {
                index,
                generation: 0,
            },
            given_up: [0; Region::ALL.len()],
        };
        self.slots.extend((known..=lane.index).map(unmet));
        let slot = self.slots.get_mut(at)?;
        if slot.watch.is_none() {
            slot.watch = timeline.watch(lane);
        }
        Some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use piton_timeline::Lane;

    use super::*;

    #[test]
    fn who_asked_last_is_told_by_region_and_slot() {
        let lane = |index| {
            let generation = 0;
            Some(LaneId { index, generation })
        };
        let mut slots = LaneSlots::default();
        assert!(slots.asked_last(None, Region::Large));
        assert_eq!(slots.note_asker(lane(1), Region::Large), None);
        assert!(slots.asked_last(lane(1), Region::Large));
        assert!(!slots.asked_last(lane(1), Region::Small));
        assert!(!slots.asked_last(None, Region::Large));
        assert_eq!(slots.note_asker(lane(2), Region::Large), Some(1));
        assert_eq!(slots.note_asker(None, Region::Large), Some(2));
        assert_eq!(slots.note_asker(lane(2), Region::Large), None);
    }

    #[test]
    fn who_misses_twice_with_nobody_between_has_a_region_to_itself() {
        let timeline = Timeline::new();
        let lanes = [(); 2].map(|()| timeline.register(None).unwrap());
        let [first, second] = lanes.each_ref().map(Lane::id);
        let mut slots = LaneSlots::default();
        slots.meet(second, &timeline).unwrap();
        let region = Region::Large;
        let mut misses = |asker, misser| {
            if !slots.asked_last(asker, region) {
                slots.end_sole(region);
                slots.note_asker(asker, region);
            }
            slots.note_miss(misser, region);
            slots.sole(region)
        };
        assert_eq!(misses(Some(first), Some(first)), None);
        assert_eq!(misses(Some(second), Some(second)), None);
        assert_eq!(misses(Some(second), Some(first)), None, "another asked");
        assert_eq!(misses(Some(second), Some(second)), Some(second));
        assert_eq!(misses(None, None), None);
        assert_eq!(misses(None, None), None, "nobody is no lane");
        assert_eq!(slots.sole(Region::Small), None);
        assert_eq!(slots.get(second.index).unwrap().tenant, second);
    }

    #[test]
    fn a_slot_comes_further_as_its_lane_completes() {
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        lane.submit(3);
        let mut slots = LaneSlots::default();
        let slot = slots.meet(lane.id(), &timeline).unwrap();
        lane.complete(2);
        assert_eq!(slot.done(), Some(2));
        for region in Region::ALL {
            assert_eq!(slot.newly_done(region), Some(2));
            assert_eq!(slot.newly_done(region), None);
        }
    }

    #[test]
    fn nothing_is_known_of_a_slot_until_the_timeline_has_it() {
        let timeline = Timeline::new();
        let mut slots = LaneSlots::default();
        let lane = LaneId {
            index: 2,
            generation: 0,
        };
        assert_eq!(slots.meet(lane, &timeline).unwrap().done(), None);
        let lanes = [(); 3].map(|()| timeline.register(None).unwrap());
        assert_eq!(lanes[2].id(), lane);
        assert_eq!(slots.get(0).unwrap().done(), None);
        assert_eq!(slots.meet(lane, &timeline).unwrap().done(), Some(0));
    }
}
