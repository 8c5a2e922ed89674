//! What the books know of lanes' slots: whose memory hangs in a slot's domains, and how far the slot has come.
//!
//! An allocation for a lane first gives up what is complete of the lane's memory. Most of the time nothing has completed since
//! it was last looked through, which one load and a comparison tell.
//!
//! Invariant, under the lock of the books: what hangs in a slot's domain has stamps above `settled` of its region.

use piton_timeline::{LaneId, Timeline, Watch};

use crate::region::Region;

/// One slot.
#[derive(Debug)]
pub(crate) struct LaneSlot {
    /// None until it is met and the timeline has it.
    watch: Option<Watch>,
    /// The lane that last left memory pending there; of generation 0 before there was one.
    pub(crate) tenant: LaneId,
    /// By region, what was done when the domain was last looked through.
    settled: [u64; Region::ALL.len()],
}

impl LaneSlot {
    /// All up to this seq is known to be done.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        self.watch.as_ref().map_or(0, Watch::done)
    }

    /// Whether nothing has completed since the region's domain was looked through.
    #[inline]
    pub(crate) fn is_settled(&self, region: Region) -> bool {
        let settled = self.settled[region as usize];
        let watch = self.watch.as_ref();
        watch.is_some_and(|watch| watch.done() == settled)
    }

    /// What is done up to `done` has been given up.
    pub(crate) fn settle(&mut self, region: Region, done: u64) {
        self.settled[region as usize] = done;
    }

    /// Memory with this stamp comes into the region's domain, though it may be complete by now.
    pub(crate) fn unsettle(&mut self, region: Region, stamp: u64) {
        let settled = &mut self.settled[region as usize];
        *settled = (*settled).min(stamp.saturating_sub(1));
    }
}

/// All slots that memory was asked for or left pending on, and those below.
#[derive(Debug, Default)]
pub(crate) struct LaneSlots(Vec<LaneSlot>);

impl LaneSlots {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&LaneSlot> {
        self.0.get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut LaneSlot> {
        self.0.get_mut(index as usize)
    }

    /// The slot of a lane, known from now on.
    #[cold]
    pub(crate) fn meet(&mut self, lane: LaneId, timeline: &Timeline) -> Option<&mut LaneSlot> {
        let at = lane.index as usize;
        let known = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let unmet = |index| LaneSlot {
            watch: None,
            tenant: LaneId {
                index,
                generation: 0,
            },
            settled: [0; Region::ALL.len()],
        };
        self.0.extend((known..=lane.index).map(unmet));
        let slot = self.0.get_mut(at)?;
        if slot.watch.is_none() {
            slot.watch = timeline.watch(lane);
        }
        Some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_settled_until_something_completes_or_comes_that_may_have() {
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        lane.submit(3);
        let mut slots = LaneSlots::default();
        let slot = slots.meet(lane.id(), &timeline).unwrap();
        assert!(Region::ALL.iter().all(|region| slot.is_settled(*region)));
        lane.complete(2);
        assert!(!slot.is_settled(Region::Large));
        slot.settle(Region::Large, slot.done());
        assert!(slot.is_settled(Region::Large));
        assert!(!slot.is_settled(Region::Small));
        slot.unsettle(Region::Large, lane.at(3).seq);
        assert!(slot.is_settled(Region::Large), "that is pending");
        slot.unsettle(Region::Large, lane.at(2).seq);
        assert!(!slot.is_settled(Region::Large), "that is done");
    }

    #[test]
    fn a_slot_that_the_timeline_has_not_yet_is_never_settled() {
        let timeline = Timeline::new();
        let mut slots = LaneSlots::default();
        let lane = LaneId {
            index: 2,
            generation: 0,
        };
        assert!(
            !slots
                .meet(lane, &timeline)
                .unwrap()
                .is_settled(Region::Large)
        );
        assert!(!slots.get(0).unwrap().is_settled(Region::Large));
        let lanes = [(); 3].map(|()| timeline.register(None).unwrap());
        assert_eq!(lanes[2].id(), lane);
        assert!(
            slots
                .meet(lane, &timeline)
                .unwrap()
                .is_settled(Region::Large)
        );
    }
}
