//! Who used a piece of memory last: what new work on it must come after.
//!
//! # The rule
//! A read comes after the last writes. A write comes after the last writes and all reads since. Once a write is
//! ordered so, what came before it need not be remembered: whatever comes after the write comes after that too.
//!
//! # Several at once
//! Readers of one buffer, and writers of its disjoint parts, may be submitted by several threads at a time. Each
//! orders itself behind what it saw, and takes only *that* out of the record when it notes itself; what others
//! noted meanwhile stays. So the record always covers every use that may not have ended.

use piton_driver::Access;
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timepoint};

#[derive(Debug, Default)]
struct Record {
    writes: Frontier,
    reads: Frontier,
}

/// The last uses of one piece of memory.
#[derive(Debug)]
pub(crate) struct Uses(Mutex<Record>);

impl Uses {
    /// Memory whose content comes from `origin`: whoever uses it comes after that.
    pub(crate) fn after(origin: Frontier) -> Self {
        Self(Mutex::new(Record {
            writes: origin,
            reads: Frontier::new(),
        }))
    }

    /// What a use of this kind must come after.
    pub(crate) fn before(&self, access: Access) -> Frontier {
        let record = self.0.lock();
        let mut frontier = record.writes.clone();
        if access == Access::Write {
            frontier.join(&record.reads);
        }
        frontier
    }

    /// Uses were submitted behind `seen`, which [`before`](Self::before) said; they have ended at `points`.
    pub(crate) fn note(&self, access: Access, seen: &Frontier, points: &Frontier) {
        let mut record = self.0.lock();
        match access {
            Access::Read => record.reads.join(points),
            Access::Write => {
                record.writes = unseen(&record.writes, seen);
                record.reads = unseen(&record.reads, seen);
                record.writes.join(points);
            }
        }
    }

    /// Every use that may not have ended.
    pub(crate) fn all(&self) -> Frontier {
        self.before(Access::Write)
    }
}

/// The points that `seen` does not cover.
fn unseen(points: &Frontier, seen: &Frontier) -> Frontier {
    let covers = |point: &Timepoint| {
        seen.points()
            .iter()
            .any(|p| p.lane.index == point.lane.index && p.seq >= point.seq)
    };
    points
        .points()
        .iter()
        .copied()
        .filter(|point| !covers(point))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_timeline::LaneId;

    fn at(lane: u32, seq: u64) -> Timepoint {
        Timepoint {
            lane: LaneId {
                index: lane,
                generation: 0,
            },
            seq,
        }
    }

    #[test]
    fn reads_come_after_writes_and_writes_after_everything() {
        let uses = Uses::after(at(0, 1).into());
        let seen = uses.before(Access::Read);
        uses.note(Access::Read, &seen, &at(1, 5).into());
        uses.note(Access::Read, &seen, &at(2, 6).into());
        assert_eq!(uses.before(Access::Read), at(0, 1).into());
        let all: Frontier = [at(0, 1), at(1, 5), at(2, 6)].into_iter().collect();
        assert_eq!(uses.before(Access::Write), all);
        uses.note(Access::Write, &all, &at(3, 7).into());
        assert_eq!(uses.all(), at(3, 7).into());
    }

    #[test]
    fn writers_of_two_halves_do_not_forget_each_other() {
        let uses = Uses::after(at(0, 1).into());
        let seen = uses.before(Access::Write);
        uses.note(Access::Write, &seen, &at(1, 5).into());
        uses.note(Access::Write, &seen, &at(2, 6).into());
        assert_eq!(uses.all(), [at(1, 5), at(2, 6)].into_iter().collect());
    }
}
