//! One slot at hand, for who asks again and again how far it has come.

use crate::timeline::{Chunk, place_of};
use std::fmt;

/// How far a lane's slot has come, without looking the slot up each time: [`Timeline::watch`](crate::Timeline::watch).
///
/// It is the slot's and not the lane's: seqs go on growing when the slot gets another lane, so what is done of the one is
/// done for the other.
#[derive(Clone)]
pub struct Watch {
    /// The slots among which it is.
    chunk: Chunk,
    at: usize,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("done", &self.done()).finish()
    }
}

impl Watch {
    pub(crate) fn new(chunk: Chunk, index: u32) -> Self {
        Self {
            chunk,
            at: place_of(index).1,
        }
    }

    /// The slot's points with this seq or a smaller one are known to be done, and no others. Never decreases. One Acquire
    /// load.
    #[inline]
    pub fn done(&self) -> u64 {
        self.chunk.get(self.at).map_or(0, |slot| slot.done())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::Timeline;

    #[test]
    fn a_watch_sees_what_is_known_to_be_done_of_a_slot_whoever_has_it() {
        let timeline = Timeline::new();
        let first = timeline.register(None).unwrap();
        let watch = timeline.watch(first.id()).unwrap();
        let point = first.submit(2);
        assert_eq!(watch.done(), 0);
        first.complete(1);
        assert_eq!(watch.done(), point.seq - 1);
        first.complete(2);
        drop(first);
        let second = timeline.register(None).unwrap();
        assert_eq!((second.id().index, watch.done()), (0, point.seq));
        let point = second.submit(1);
        assert!(watch.done() < point.seq);
        second.complete(1);
        assert_eq!(watch.done(), point.seq);
    }

    #[test]
    fn what_lies_beyond_the_slots_there_are_is_not_watched() {
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        let mut foreign = lane.id();
        foreign.index = Timeline::LANES - 1;
        assert!(timeline.watch(foreign).is_none());
    }
}
