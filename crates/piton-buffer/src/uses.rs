//! Who used a piece of memory last: what new work on it must come after.
//!
//! # The rule
//! A read comes after the last writes. A write comes after the last writes and all reads since. Once a write is
//! ordered so, what came before it need not be remembered: whatever comes after the write comes after that too.
//!
//! Waits for a value are the exception, since what they wait for comes after them. To the writes of whole words, which
//! set them going, they have no order; to everything else they are reads, and word writes are writes. So a word write
//! takes no wait out of the record, nor the writes that a wait comes after. That holds for words of one size: a buffer that becomes
//! one of other elements takes its waits along as reads, and its word writes as writes.
//!
//! | use | comes after |
//! |---|---|
//! | read | writes, word writes |
//! | write | everything |
//! | wait for a value | writes |
//! | word write | writes, word writes, reads |
//!
//! # Several at once
//! Readers of one buffer, and writers of its disjoint parts, may be submitted by several threads at a time. Each
//! orders itself behind what it saw, and takes only *that* out of the record when it notes itself; what others
//! noted meanwhile stays. So the record always covers every use that may not have ended.

use piton_driver::Access;
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timepoint};

/// What a command does with a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    Read,
    Write,
    /// Waits until a word has a value.
    WaitWord,
    /// Writes one word, at once for everybody.
    WriteWord,
}

impl From<Access> for UseKind {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Self::Read,
            Access::Write => Self::Write,
        }
    }
}

#[derive(Debug, Default)]
struct Record {
    writes: Frontier,
    reads: Frontier,
    word_waits: Frontier,
    word_writes: Frontier,
}

/// The last uses of one piece of memory.
#[derive(Debug)]
pub(crate) struct Uses(Mutex<Record>);

impl Uses {
    /// Memory whose content comes from `origin`: whoever uses it comes after that.
    pub(crate) fn after(origin: Frontier) -> Self {
        Self(Mutex::new(Record {
            writes: origin,
            ..Record::default()
        }))
    }

    /// What a use of this kind must come after.
    pub(crate) fn before(&self, kind: UseKind) -> Frontier {
        let record = self.0.lock();
        let mut frontier = record.writes.clone();
        if kind != UseKind::WaitWord {
            frontier.join(&record.word_writes);
        }
        if matches!(kind, UseKind::Write | UseKind::WriteWord) {
            frontier.join(&record.reads);
        }
        if kind == UseKind::Write {
            frontier.join(&record.word_waits);
        }
        frontier
    }

    /// Uses were submitted behind `seen`, which [`before`](Self::before) said; they have ended at `points`.
    pub(crate) fn note(&self, kind: UseKind, seen: &Frontier, points: &Frontier) {
        let mut record = self.0.lock();
        match kind {
            UseKind::Read => record.reads.join(points),
            UseKind::WaitWord => record.word_waits.join(points),
            UseKind::Write => {
                record.writes = unseen(&record.writes, seen);
                record.reads = unseen(&record.reads, seen);
                record.word_waits = unseen(&record.word_waits, seen);
                record.word_writes = unseen(&record.word_writes, seen);
                record.writes.join(points);
            }
            UseKind::WriteWord => {
                record.reads = unseen(&record.reads, seen);
                record.word_writes = unseen(&record.word_writes, seen);
                record.word_writes.join(points);
            }
        }
    }

    /// The memory is of other elements from now on: words of another size are waited for and written, which come behind those
    /// before. An access of one size may not meet one of another.
    pub(crate) fn retype(&mut self) {
        let record = self.0.get_mut();
        let (waits, writes) = (&mut record.word_waits, &mut record.word_writes);
        record.reads.join(&std::mem::take(waits));
        record.writes.join(&std::mem::take(writes));
    }

    /// Every use that may not have ended.
    pub(crate) fn all(&self) -> Frontier {
        self.before(UseKind::Write)
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
        let seen = uses.before(UseKind::Read);
        uses.note(UseKind::Read, &seen, &at(1, 5).into());
        uses.note(UseKind::Read, &seen, &at(2, 6).into());
        assert_eq!(uses.before(UseKind::Read), at(0, 1).into());
        let all: Frontier = [at(0, 1), at(1, 5), at(2, 6)].into_iter().collect();
        assert_eq!(uses.before(UseKind::Write), all);
        uses.note(UseKind::Write, &all, &at(3, 7).into());
        assert_eq!(uses.all(), at(3, 7).into());
    }

    #[test]
    fn writers_of_two_halves_do_not_forget_each_other() {
        let uses = Uses::after(at(0, 1).into());
        let seen = uses.before(UseKind::Write);
        uses.note(UseKind::Write, &seen, &at(1, 5).into());
        uses.note(UseKind::Write, &seen, &at(2, 6).into());
        assert_eq!(uses.all(), [at(1, 5), at(2, 6)].into_iter().collect());
    }

    /// Filled on lane 1, and read on 2.
    fn filled_and_read() -> Uses {
        let uses = Uses::after(at(1, 1).into());
        let seen = uses.before(UseKind::Read);
        uses.note(UseKind::Read, &seen, &at(2, 2).into());
        uses
    }

    fn use_word(uses: &Uses, kind: UseKind, point: Timepoint) -> Frontier {
        let seen = uses.before(kind);
        uses.note(kind, &seen, &point.into());
        seen
    }

    #[test]
    fn a_wait_for_a_value_and_the_write_that_ends_it_have_no_order() {
        for wait_first in [true, false] {
            let uses = filled_and_read();
            let wait = || use_word(&uses, UseKind::WaitWord, at(3, 3));
            let write = || use_word(&uses, UseKind::WriteWord, at(4, 4));
            let (wait, write) = if wait_first {
                (wait(), write())
            } else {
                let write = write();
                (wait(), write)
            };
            assert_eq!(wait, at(1, 1).into(), "behind what filled the buffer");
            assert_eq!(write, [at(1, 1), at(2, 2)].into_iter().collect());
        }
    }

    #[test]
    fn to_everything_else_words_are_read_and_written() {
        let uses = filled_and_read();
        use_word(&uses, UseKind::WaitWord, at(3, 3));
        use_word(&uses, UseKind::WriteWord, at(4, 4));
        let read = uses.before(UseKind::Read);
        assert_eq!(read, [at(1, 1), at(4, 4)].into_iter().collect());
        let write = use_word(&uses, UseKind::Write, at(5, 5));
        let all = [at(1, 1), at(3, 3), at(4, 4)].into_iter().collect();
        assert_eq!(write, all, "the reads are before the word write");
        assert_eq!(uses.all(), at(5, 5).into());
    }

    #[test]
    fn words_of_another_size_come_behind_those_before() {
        for (before, after) in [
            (UseKind::WaitWord, UseKind::WriteWord),
            (UseKind::WriteWord, UseKind::WaitWord),
        ] {
            let mut uses = filled_and_read();
            use_word(&uses, before, at(3, 3));
            assert!(!uses.before(after).points().contains(&at(3, 3)));
            uses.retype();
            assert!(uses.before(after).points().contains(&at(3, 3)));
            assert!(uses.all().points().contains(&at(3, 3)));
        }
    }

    #[test]
    fn memory_goes_behind_its_waits() {
        let uses = filled_and_read();
        use_word(&uses, UseKind::WaitWord, at(3, 3));
        use_word(&uses, UseKind::WriteWord, at(4, 4));
        use_word(&uses, UseKind::WriteWord, at(4, 5));
        assert!(uses.all().points().contains(&at(3, 3)));
    }
}
