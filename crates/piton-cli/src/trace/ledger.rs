//! Does an event make sense after those before it?
//!
//! The ledger holds the live blocks and every id ever allocated, and gives each live block a small number, its *slot*,
//! so that whoever replays the trace keeps blocks in a plain array and looks nothing up by id. A slot belongs to one
//! block from its allocation to its free and to another after that.
//!
//! Invariant: live bytes are the sum over the live blocks; [`Ledger::check`] walks them.

use hashbrown::HashMap;

use super::error::HistoryError;
use super::event::TraceEvent;
use super::seen::SeenIds;

/// An event that fits those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedEvent {
    /// What the line says.
    pub event: TraceEvent,
    /// The block's place among the live ones: small, dense, free again after the block's free.
    pub slot: usize,
    /// The block's bytes, as requested.
    pub bytes: u64,
}

/// The live blocks of a trace so far.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    slot_of: HashMap<u64, usize>,
    slots: Vec<Block>,
    free_slots: Vec<usize>,
    seen: SeenIds,
    live_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    stream: u16,
}

impl Ledger {
    /// Takes one event into the books.
    ///
    /// # Errors
    /// [`HistoryError`] if it contradicts those before it; the books are then as they were.
    pub fn record(&mut self, event: TraceEvent) -> Result<CheckedEvent, HistoryError> {
        let (slot, bytes) = match event {
            TraceEvent::Allocate { id, bytes, stream } => {
                (self.allocate(id, Block { bytes, stream })?, bytes)
            }
            TraceEvent::Free { id, stream } => self.free(id, stream)?,
            TraceEvent::Use { id, stream } => self.used(id, stream)?,
        };
        Ok(CheckedEvent { event, slot, bytes })
    }

    fn allocate(&mut self, id: u64, block: Block) -> Result<usize, HistoryError> {
        let live_bytes = self.live_bytes.checked_add(block.bytes);
        let live_bytes = live_bytes.ok_or(HistoryError::LiveBytesOverflow)?;
        if !self.seen.insert(id) {
            return Err(HistoryError::DuplicateId { id });
        }
        self.live_bytes = live_bytes;
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot] = block;
                slot
            }
            None => {
                self.slots.push(block);
                self.slots.len() - 1
            }
        };
        self.slot_of.insert(id, slot);
        Ok(slot)
    }

    fn free(&mut self, id: u64, stream: u16) -> Result<(usize, u64), HistoryError> {
        let (slot, block) = self.live(id, HistoryError::FreedTwice { id })?;
        if block.stream != stream {
            let allocated_on = block.stream;
            return Err(HistoryError::FreedOnOtherStream {
                id,
                stream,
                allocated_on,
            });
        }
        self.slot_of.remove(&id);
        self.free_slots.push(slot);
        self.live_bytes -= block.bytes;
        Ok((slot, block.bytes))
    }

    fn used(&self, id: u64, stream: u16) -> Result<(usize, u64), HistoryError> {
        let (slot, block) = self.live(id, HistoryError::UsedAfterFree { id })?;
        if block.stream == stream {
            return Err(HistoryError::UsedOnOwnStream { id, stream });
        }
        Ok((slot, block.bytes))
    }

    fn live(&self, id: u64, if_freed: HistoryError) -> Result<(usize, Block), HistoryError> {
        match self.slot_of.get(&id) {
            Some(&slot) => Ok((slot, self.slots[slot])),
            None if self.seen.contains(id) => Err(if_freed),
            None => Err(HistoryError::UnknownId { id }),
        }
    }

    /// Bytes of all live blocks, as requested.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Blocks live now.
    #[must_use]
    pub fn live_blocks(&self) -> usize {
        self.slot_of.len()
    }

    /// Do the books balance? Walks all of them.
    #[must_use]
    pub fn check(&self) -> bool {
        let mut owners = vec![0_u8; self.slots.len()];
        self.free_slots.iter().for_each(|slot| owners[*slot] += 1);
        self.slot_of.values().for_each(|slot| owners[*slot] += 1);
        let bytes: u64 = self
            .slot_of
            .values()
            .map(|slot| self.slots[*slot].bytes)
            .sum();
        let all_seen = self.slot_of.keys().all(|id| self.seen.contains(*id));
        owners.iter().all(|count| *count == 1) && bytes == self.live_bytes && all_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse_line;

    /// Records all lines but the last, which must be refused with `expected` and leave the books as they were.
    #[track_caller]
    fn check_refused(lines: &[&str], expected: HistoryError) {
        let mut ledger = Ledger::default();
        let events: Vec<_> = lines
            .iter()
            .map(|line| parse_line(line.as_bytes()).unwrap())
            .collect();
        let (last, first) = events.split_last().unwrap();
        first.iter().for_each(|event| {
            ledger.record(*event).unwrap();
        });
        let before = (ledger.live_bytes(), ledger.live_blocks());
        assert_eq!(ledger.record(*last), Err(expected));
        assert_eq!((ledger.live_bytes(), ledger.live_blocks()), before);
        assert!(ledger.check());
    }

    #[test]
    fn contradictions_are_refused_by_kind() {
        check_refused(&["a,0,8,0", "a,0,8,0"], HistoryError::DuplicateId { id: 0 });
        check_refused(
            &["a,0,8,0", "f,0,0", "a,0,8,0"],
            HistoryError::DuplicateId { id: 0 },
        );
        check_refused(&["a,0,8,0", "f,1,0"], HistoryError::UnknownId { id: 1 });
        check_refused(
            &["a,0,8,0", "f,0,0", "f,0,0"],
            HistoryError::FreedTwice { id: 0 },
        );
        check_refused(
            &["a,0,8,0", "f,0,0", "u,0,1"],
            HistoryError::UsedAfterFree { id: 0 },
        );
        check_refused(
            &["a,0,8,0", "u,0,0"],
            HistoryError::UsedOnOwnStream { id: 0, stream: 0 },
        );
        let other = HistoryError::FreedOnOtherStream {
            id: 0,
            stream: 1,
            allocated_on: 0,
        };
        check_refused(&["a,0,8,0", "f,0,1"], other);
    }

    #[test]
    fn more_bytes_than_can_be_counted_are_refused() {
        let mut ledger = Ledger::default();
        let largest = |id| TraceEvent::Allocate {
            id,
            bytes: crate::trace::event::MAX_BYTES,
            stream: 0,
        };
        (0..65_535).for_each(|id| {
            ledger.record(largest(id)).unwrap();
        });
        assert_eq!(
            ledger.record(largest(65_535)),
            Err(HistoryError::LiveBytesOverflow)
        );
        assert!(ledger.check());
    }

    #[test]
    fn slots_are_dense_and_used_again() {
        let mut ledger = Ledger::default();
        let mut slot_of = |line: &str| {
            ledger
                .record(parse_line(line.as_bytes()).unwrap())
                .unwrap()
                .slot
        };
        assert_eq!(
            [
                slot_of("a,0,8,0"),
                slot_of("a,1,8,0"),
                slot_of("u,1,3"),
                slot_of("f,0,0")
            ],
            [0, 1, 1, 0]
        );
        assert_eq!(slot_of("a,2,8,0"), 0);
    }
}
