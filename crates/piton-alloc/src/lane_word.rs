//! A lane or none in one word, for values that are written at each allocation. An `Option<LaneId>` takes half as much
//! space again.

use piton_timeline::LaneId;

/// The slot below, the generation above. All ones for none: no timeline has so many slots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneWord(u64);

impl LaneWord {
    const NONE: Self = Self(u64::MAX);

    #[inline]
    pub(crate) const fn new(lane: Option<LaneId>) -> Self {
        match lane {
            Some(lane) => Self((lane.generation as u64) << u32::BITS | lane.index as u64),
            None => Self::NONE,
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the word is made of these two"
    )]
    pub(crate) const fn get(self) -> Option<LaneId> {
        if self.0 == Self::NONE.0 {
            return None;
        }
        Some(LaneId {
            index: self.0 as u32,
            generation: (self.0 >> u32::BITS) as u32,
        })
    }
}

impl std::fmt::Debug for LaneWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lane_or_none_comes_back_as_it_went_in() {
        for lane in [(0, 0), (7, u32::MAX), (65_535, 3)] {
            let lane = Some(LaneId {
                index: lane.0,
                generation: lane.1,
            });
            assert_eq!(LaneWord::new(lane).get(), lane);
        }
        assert_eq!(LaneWord::new(None).get(), None);
    }
}
