//! Which bytes the blocks of one launch use, so that no two uses conflict.
//!
//! A kernel gets slices of device memory: shared ones to read, exclusive ones to write. Handing them out is
//! sound because within one launch no byte is ever in an exclusive slice and in any other: each request is
//! checked against all earlier ones, by whichever block, and refused as a race if it conflicts. Requests are
//! never given back before the launch ends, so the answer does not depend on how blocks happened to run.
//!
//! # Invariants
//! Both sets hold disjoint, non-adjacent ranges; no byte is in both.

use piton_driver::DeviceRange;
use piton_sync::Mutex;
use std::collections::BTreeMap;

/// Disjoint ranges of addresses: start to end.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.0
            .range(..end)
            .next_back()
            .is_some_and(|(_, other_end)| *other_end > start)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.0.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.0.insert(start, end);
    }
}

#[derive(Debug, Default)]
struct Sets {
    read: Ranges,
    written: Ranges,
}

/// The uses of one launch.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Sets>);

impl Claims {
    /// Whether the range may be read: nobody writes any of it.
    pub(crate) fn read(&self, range: DeviceRange) -> bool {
        let Some((start, end)) = bounds(range) else {
            return false;
        };
        let mut sets = self.0.lock();
        let is_free = !sets.written.overlaps(start, end);
        if is_free {
            sets.read.insert(start, end);
        }
        is_free
    }

    /// Whether the range may be written: nobody reads or writes any of it.
    pub(crate) fn write(&self, range: DeviceRange) -> bool {
        let Some((start, end)) = bounds(range) else {
            return false;
        };
        let mut sets = self.0.lock();
        let is_free = !sets.written.overlaps(start, end) && !sets.read.overlaps(start, end);
        if is_free {
            sets.written.insert(start, end);
        }
        is_free
    }
}

fn bounds(range: DeviceRange) -> Option<(u64, u64)> {
    range
        .end()
        .map(|end| (range.start.address(), end.address()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use piton_driver::DevicePtr;

    fn range(start: u64, bytes: u64) -> DeviceRange {
        DeviceRange {
            start: DevicePtr::new(start),
            bytes,
        }
    }

    #[test]
    fn a_byte_is_written_by_one_or_read_by_many() {
        let claims = Claims::default();
        assert!(claims.read(range(0, 100)) && claims.read(range(50, 100)));
        assert!(!claims.write(range(149, 1)) && claims.write(range(150, 50)));
        assert!(!claims.write(range(199, 10)) && !claims.read(range(150, 1)));
        assert!(claims.write(range(200, 8)) && claims.write(range(208, 8)));
        assert!(!claims.read(range(100, 101)));
    }
}
