//! The Blocks by address, to be searched while they change.
//!
//! # Protocol
//! There are two copies, and the one writer changes them one after the other. Each has a count that is odd while it is
//! changed; a reader looks at it before and after its search and turns to the other copy if it was odd or has moved. So a
//! writer that is held up in the middle of a change holds up no reader: the other copy is whole. A reader goes on only as long
//! as Blocks come and go under its hands. All stores are Releases and all loads Acquires: a reader that saw a word of a
//! change sees the odd count that came before it.

use piton_driver::{DevicePtr, DeviceRange};
use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Placed;
use super::arena::Arena;
use crate::block::Block;

#[derive(Debug, Default)]
struct Row {
    start: AtomicU64,
    bytes: AtomicU64,
    offset: AtomicU64,
}

/// One copy: rows in order of address.
#[derive(Debug, Default)]
struct Table {
    changes: AtomicU64,
    len: AtomicU32,
    rows: Arena<Row>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ranges([Table; 2]);

impl Ranges {
    /// These are the Blocks now, in order of address. One writer at a time.
    pub(crate) fn publish(&self, blocks: &[Block]) {
        for table in &self.0 {
            table.write(blocks);
        }
    }

    /// The Block that an address lies in.
    #[inline]
    pub(super) fn containing(&self, address: DevicePtr) -> Option<Placed> {
        let mut tables = self.0.iter().cycle();
        let found = tables.find_map(|table| table.read(|| table.search(address.address())));
        found.flatten()
    }
}

impl Table {
    fn write(&self, blocks: &[Block]) {
        let before = self.changes.load(Ordering::Relaxed);
        self.changes.store(before + 1, Ordering::Release);
        let numbered = (0u32..).zip(blocks);
        for (number, block) in numbered {
            if let Some(row) = self.rows.make(number) {
                row.start
                    .store(block.range.start.address(), Ordering::Release);
                row.bytes.store(block.range.bytes, Ordering::Release);
                row.offset.store(block.offset, Ordering::Release);
            }
        }
        // Fewer than there are addresses for.
        let len = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        self.len.store(len, Ordering::Release);
        self.changes.store(before + 2, Ordering::Release);
    }

    /// What `look` finds, unless something changed meanwhile.
    #[inline]
    fn read<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        let before = self.changes.load(Ordering::Acquire);
        if !before.is_multiple_of(2) {
            return None;
        }
        let found = look();
        (self.changes.load(Ordering::Relaxed) == before).then_some(found)
    }

    #[inline]
    fn search(&self, address: u64) -> Option<Placed> {
        let (mut low, mut high) = (0, self.len.load(Ordering::Acquire));
        // The last row that starts at or below the address is below `high` and not below `low`.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let start = self.rows.get(middle)?.start.load(Ordering::Acquire);
            (low, high) = if start <= address {
                (middle, high)
            } else {
                (low, middle)
            };
        }
        let row = self.rows.get(low).filter(|_| high > 0)?;
        let start = row.start.load(Ordering::Acquire);
        let bytes = row.bytes.load(Ordering::Acquire);
        let offset = row.offset.load(Ordering::Acquire);
        let is_inside = address.checked_sub(start).is_some_and(|at| at < bytes);
        let range = DeviceRange {
            start: DevicePtr::new(start),
            bytes,
        };
        is_inside.then_some((range, offset))
    }
}

#[cfg(test)]
fn block(number: u64) -> Block {
    Block {
        offset: 4096 * number,
        range: DeviceRange {
            start: DevicePtr::new(1 << 20 | number << 12),
            bytes: 4096,
        },
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_block_and_in_no_other() {
        let ranges = Ranges::default();
        for count in 0..10 {
            let blocks: Vec<Block> = (1..=count).map(|number| block(3 * number)).collect();
            ranges.publish(&blocks);
            for probe in 0..40 {
                let first = block(probe).range.start;
                let is_there = probe > 0 && probe.is_multiple_of(3) && probe <= 3 * count;
                for address in [first, first.checked_add(4095).unwrap()] {
                    let expected = is_there.then(|| (block(probe).range, block(probe).offset));
                    assert_eq!(ranges.containing(address), expected, "{probe} of {count}");
                }
            }
            for address in [0, u64::MAX] {
                assert_eq!(ranges.containing(DevicePtr::new(address)), None);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! A Block that stays, looked for while another comes before it and both change their rows.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    #[test]
    fn a_block_is_found_while_others_come_and_go() {
        model(|| {
            let ranges = Arc::new(Ranges::default());
            ranges.publish(&[block(2)]);
            let reader = {
                let ranges = Arc::clone(&ranges);
                thread::spawn(move || ranges.containing(block(2).range.start))
            };
            ranges.publish(&[block(1), block(2)]);
            let found = reader.join().unwrap();
            assert_eq!(found, Some((block(2).range, block(2).offset)));
        });
    }
}
