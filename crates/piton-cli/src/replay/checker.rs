//! Did the pool hand out only what it may?
//!
//! The checker keeps its own books, by address, and asks neither the pool nor the timeline: which ranges are in use,
//! which were freed and by what work they may still be used, which work is complete, and which stream waited for which.
//! A range may be handed out if it overlaps none in use, and if every use that may remain is complete, is on the same
//! stream, or is ordered before the taker's next work by waits, its own or others' before it.

use std::collections::BTreeMap;

/// Work number `number` (from 1) of a stream, and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The stream.
    pub stream: u16,
    /// The last work that counts.
    pub number: u64,
}

/// A hand-out that must not have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The range overlaps one that is in use.
    #[error(
        "{bytes} bytes at {start:#x} were handed out while {other_bytes} bytes at {other_start:#x} are in use"
    )]
    Overlap {
        /// First byte handed out.
        start: u64,
        /// Bytes handed out.
        bytes: u64,
        /// First byte of the range in use.
        other_start: u64,
        /// Bytes of the range in use.
        other_bytes: u64,
    },
    /// The range may still be used by work that the taker is not ordered behind.
    #[error(
        "{bytes} bytes at {start:#x} were handed to stream {taker}, which is not ordered behind work {number} of stream {stream}"
    )]
    StillUsed {
        /// First byte handed out.
        start: u64,
        /// Bytes handed out.
        bytes: u64,
        /// Stream they were handed to.
        taker: u16,
        /// Stream of the work that may still use them.
        stream: u16,
        /// The work.
        number: u64,
    },
    /// A block was given back that was never handed out.
    #[error("nothing was handed out at {start:#x}")]
    Unknown {
        /// First byte given back.
        start: u64,
    },
}

/// Independent books of a replay.
#[derive(Debug, Default)]
pub struct Checker {
    /// First byte to end of the ranges in use.
    live: BTreeMap<u64, u64>,
    /// First byte to end and remaining uses of ranges that were freed and not handed out since.
    freed: BTreeMap<u64, (u64, Vec<Use>)>,
    streams: BTreeMap<u16, StreamBooks>,
}

#[derive(Debug, Default)]
struct StreamBooks {
    done: u64,
    /// From which work on the stream knows what: work number, then the last work known of every other stream.
    knows: Vec<(u64, BTreeMap<u16, u64>)>,
}

impl Checker {
    /// All work of a stream up to this is complete.
    pub fn complete(&mut self, done: Use) {
        let books = self.streams.entry(done.stream).or_default();
        books.done = books.done.max(done.number);
    }

    /// The stream waits for this use before its work after number `after`.
    pub fn wait(&mut self, stream: u16, after: u64, awaited: Use) {
        let mut known = self.known_at(stream, after);
        let awaited_knows = self.known_at(awaited.stream, awaited.number);
        for (other, number) in awaited_knows
            .into_iter()
            .chain([(awaited.stream, awaited.number)])
        {
            let entry = known.entry(other).or_default();
            *entry = number.max(*entry);
        }
        self.streams
            .entry(stream)
            .or_default()
            .knows
            .push((after, known));
    }

    /// `bytes` bytes from `start` are handed to a stream whose work so far is `after`.
    ///
    /// # Errors
    /// [`Violation`] if they must not be.
    pub fn hand_out(&mut self, start: u64, bytes: u64, taker: Use) -> Result<(), Violation> {
        let end = start.saturating_add(bytes);
        if let Some((other_start, other_end)) =
            last_before(&self.live, end).filter(|(_, other_end)| *other_end > start)
        {
            let other_bytes = other_end - other_start;
            return Err(Violation::Overlap {
                start,
                bytes,
                other_start,
                other_bytes,
            });
        }
        for (freed_start, (freed_end, uses)) in self.take_freed(start, end) {
            if let Some(Use { stream, number }) = uses
                .iter()
                .copied()
                .find(|used| !self.is_ordered(*used, taker))
            {
                return Err(Violation::StillUsed {
                    start,
                    bytes,
                    taker: taker.stream,
                    stream,
                    number,
                });
            }
            if freed_start < start {
                self.freed.insert(freed_start, (start, uses.clone()));
            }
            if freed_end > end {
                self.freed.insert(end, (freed_end, uses));
            }
        }
        self.live.insert(start, end);
        Ok(())
    }

    /// The range that begins at `start` is given back and may still be used by this.
    ///
    /// # Errors
    /// [`Violation::Unknown`] if it was not handed out.
    pub fn give_back(&mut self, start: u64, uses: Vec<Use>) -> Result<(), Violation> {
        let end = self
            .live
            .remove(&start)
            .ok_or(Violation::Unknown { start })?;
        self.freed.insert(start, (end, uses));
        Ok(())
    }

    /// Freed ranges that overlap `start..end`, taken out.
    fn take_freed(&mut self, start: u64, end: u64) -> Vec<(u64, (u64, Vec<Use>))> {
        let overlapping = self
            .freed
            .range(..end)
            .rev()
            .take_while(|(_, (freed_end, _))| *freed_end > start);
        let starts: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        starts
            .into_iter()
            .filter_map(|start| self.freed.remove_entry(&start))
            .collect()
    }

    fn is_ordered(&self, used: Use, taker: Use) -> bool {
        let is_done = self
            .streams
            .get(&used.stream)
            .is_some_and(|books| books.done >= used.number);
        let knows = || {
            self.known_at(taker.stream, taker.number)
                .get(&used.stream)
                .is_some_and(|n| *n >= used.number)
        };
        used.stream == taker.stream || is_done || knows()
    }

    fn known_at(&self, stream: u16, number: u64) -> BTreeMap<u16, u64> {
        let books = self.streams.get(&stream);
        let last =
            books.and_then(|books| books.knows.iter().rev().find(|(from, _)| *from <= number));
        last.map(|(_, known)| known.clone()).unwrap_or_default()
    }
}

fn last_before(ranges: &BTreeMap<u64, u64>, end: u64) -> Option<(u64, u64)> {
    ranges
        .range(..end)
        .next_back()
        .map(|(start, end)| (*start, *end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn on(stream: u16, number: u64) -> Use {
        Use { stream, number }
    }

    #[test]
    fn what_is_in_use_is_not_handed_out() {
        let mut checker = Checker::default();
        checker.hand_out(100, 50, on(0, 0)).unwrap();
        checker.hand_out(150, 50, on(0, 0)).unwrap();
        for (start, bytes) in [(100, 50), (90, 11), (149, 1), (0, 1000), (199, 1)] {
            let refused = checker.hand_out(start, bytes, on(0, 0));
            assert!(
                matches!(refused, Err(Violation::Overlap { .. })),
                "{start} {bytes}"
            );
        }
        checker.hand_out(200, 50, on(0, 0)).unwrap();
        assert_eq!(
            checker.give_back(120, vec![]),
            Err(Violation::Unknown { start: 120 })
        );
    }

    #[test]
    fn another_stream_must_be_ordered_behind_every_use() {
        let freed = || {
            let mut checker = Checker::default();
            checker.hand_out(0, 64, on(0, 0)).unwrap();
            checker.give_back(0, vec![on(0, 3), on(1, 5)]).unwrap();
            checker
        };
        let still = |stream, number| {
            Err(Violation::StillUsed {
                start: 32,
                bytes: 8,
                taker: 2,
                stream,
                number,
            })
        };
        assert_eq!(freed().hand_out(32, 8, on(2, 9)), still(0, 3));
        let mut one_done = freed();
        one_done.complete(on(0, 3));
        assert_eq!(one_done.hand_out(32, 8, on(2, 9)), still(1, 5));
        let mut both = freed();
        both.complete(on(0, 3));
        both.wait(2, 9, on(1, 5));
        both.hand_out(32, 8, on(2, 9)).unwrap();
    }

    #[test]
    fn what_another_stream_waited_for_counts() {
        let mut checker = Checker::default();
        checker.hand_out(0, 64, on(0, 0)).unwrap();
        checker.give_back(0, vec![on(0, 3)]).unwrap();
        checker.wait(1, 4, on(0, 3));
        checker.wait(2, 9, on(1, 3));
        assert!(
            checker.hand_out(0, 64, on(2, 9)).is_err(),
            "stream 1 had not waited yet"
        );
    }

    #[test]
    fn waits_of_waits_count() {
        let mut checker = Checker::default();
        checker.hand_out(0, 64, on(0, 0)).unwrap();
        checker.give_back(0, vec![on(0, 3)]).unwrap();
        checker.wait(1, 4, on(0, 3));
        checker.wait(2, 9, on(1, 5));
        checker.hand_out(0, 64, on(2, 9)).unwrap();
    }

    #[test]
    fn what_is_left_of_a_freed_range_keeps_its_uses() {
        let mut checker = Checker::default();
        checker.hand_out(0, 96, on(0, 0)).unwrap();
        checker.give_back(0, vec![on(0, 1)]).unwrap();
        checker.hand_out(32, 32, on(0, 1)).unwrap();
        for start in [0, 64] {
            assert!(matches!(
                checker.hand_out(start, 32, on(1, 0)),
                Err(Violation::StillUsed { .. })
            ));
        }
    }
}
