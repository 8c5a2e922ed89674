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
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// So many ranges are kept without asking the heap: blocks that run in order leave one range for each buffer.
const FEW: usize = 8;

/// Disjoint, non-adjacent ranges of addresses, start to end: in `few`, in no order, while they fit there; all in `many`
/// from then on.
#[derive(Debug, Default)]
struct Ranges {
    few: SmallVec<[(u64, u64); FEW]>,
    many: BTreeMap<u64, u64>,
}

impl Ranges {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        let last_before = self.many.range(..end).next_back();
        last_before.is_some_and(|(_, other_end)| *other_end > start)
            || self.few.iter().any(|few| few.0 < end && few.1 > start)
    }

    fn insert(&mut self, start: u64, end: u64) {
        if self.many.is_empty() {
            self.insert_among_few(start, end);
        } else {
            self.insert_among_many(start, end);
        }
    }

    fn insert_among_few(&mut self, mut start: u64, mut end: u64) {
        self.few.retain(|few| {
            let is_apart = few.1 < start || few.0 > end;
            if !is_apart {
                (start, end) = (start.min(few.0), end.max(few.1));
            }
            is_apart
        });
        if self.few.len() < FEW {
            self.few.push((start, end));
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(start, end);
        }
    }

    fn insert_among_many(&mut self, mut start: u64, mut end: u64) {
        while let Some((&other, &other_end)) = self.many.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.many.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.many.insert(start, end);
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

    #[test]
    fn many_ranges_apart_are_kept_as_well_as_few() {
        for stride in [8_u64, 16, 40] {
            let claims = Claims::default();
            // Even ones first, so that odd ones join two at a time where they are adjacent.
            let order = (0..100_u64).map(|n| if n < 50 { 2 * n } else { 2 * (n - 50) + 1 });
            let mut taken = Vec::new();
            for n in order {
                assert!(claims.write(range(n * stride, 8)), "{n} of {stride}");
                taken.push(n);
                for other in 0..100 {
                    let is_free = !taken.contains(&other);
                    let one = range(other * stride + 3, 2);
                    assert_eq!(
                        !claims
                            .0
                            .lock()
                            .written
                            .overlaps(one.start.address(), one.start.address() + 2),
                        is_free
                    );
                }
            }
        }
    }
}
