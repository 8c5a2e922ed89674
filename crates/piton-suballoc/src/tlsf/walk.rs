//! A walk in parts, between which the index changes.
//!
//! The walk keeps one record as its place, the one that the next part begins in. When that record is joined into its
//! neighbour below, the neighbour becomes the place (`Records::absorb_next`), so the place always starts at or below
//! where the walk stands, and going on costs what was joined meanwhile and no more. There is one place: a second walk
//! makes the first one look for its own again, from the start of the range.

use super::{Span, Tlsf};
use crate::extent::Extent;
use crate::records::NIL;

impl Tlsf {
    /// At most `most` extents of the range that starts at `range` bytes, from `at` bytes on, in order of offset. The
    /// first may begin below `at`. Empty where no range starts, and past its end.
    ///
    /// To walk in parts, pass as `at` the end of the last extent of the part before. The walk sees each byte once, as
    /// it was when its part was asked for, and a part costs about as many steps as it has extents.
    pub fn walk_on(&mut self, range: u64, at: u64, most: usize) -> Vec<Extent> {
        let starts = |span: &&Span| self.bytes(span.offset) == range;
        let Some(span) = self.ranges.iter().find(starts) else {
            return Vec::new();
        };
        let (first, end) = (span.head, span.end());
        let Ok(at) = u32::try_from(at >> self.unit_bits) else {
            return Vec::new();
        };
        let mut index = match self.records.place {
            NIL => first,
            place if self.place_at == at && at < end => place,
            _ => first,
        };
        let mut part = Vec::with_capacity(most.min(self.records.len()));
        let mut reached = at;
        while index != NIL && part.len() < most {
            let record = self.records.at(index);
            if record.end() > at {
                reached = record.end();
                part.push(self.extent(index));
            }
            index = record.next;
        }
        self.records.place = index;
        self.place_at = reached;
        part
    }
}
