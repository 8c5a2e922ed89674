//! Memory that several lanes used last: each Chunk waits with its frontier until all but one lane's uses are complete,
//! or until a lane takes it with waits.
//!
//! These Chunks are live for the index, so they neither split nor merge by themselves. A run of neighbours may hold
//! some of them (`run`), and then they are cut and freed by hand. Kept by offset, so that the same program always sees
//! the same order.

use std::collections::BTreeMap;

use piton_suballoc::{Chunk, Extent, ExtentId};
use piton_timeline::{Frontier, Timeline};

use crate::region::Region;

/// A Chunk that was freed while several lanes' uses were pending.
#[derive(Clone, Debug)]
pub(crate) struct Deferral {
    pub(crate) chunk: Chunk,
    pub(crate) uses: Frontier,
    pub(crate) region: Region,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    by_offset: BTreeMap<u64, Deferral>,
    bytes: u64,
}

impl Deferred {
    pub(crate) fn push(&mut self, chunk: Chunk, uses: Frontier, region: Region) {
        self.bytes += chunk.bytes;
        let entry = Deferral {
            chunk,
            uses,
            region,
        };
        self.by_offset.insert(chunk.offset, entry);
    }

    /// Takes out those of whose uses at most one is still pending, with what is pending.
    pub(crate) fn drain_settled(&mut self, timeline: &Timeline) -> Vec<Deferral> {
        let settle = |_: &u64, entry: &mut Deferral| {
            entry.uses.retain_pending(timeline);
            entry.uses.points().len() <= 1
        };
        let settled = self.by_offset.extract_if(.., settle);
        let settled: Vec<Deferral> = settled.map(|(_, entry)| entry).collect();
        self.bytes -= settled.iter().map(|entry| entry.chunk.bytes).sum::<u64>();
        settled
    }

    /// The entry of an extent.
    pub(crate) fn of(&self, extent: &Extent) -> Option<&Deferral> {
        let entry = self.by_offset.get(&extent.offset)?;
        (entry.chunk.id == extent.id).then_some(entry)
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<Deferral> {
        let entry = self.by_offset.remove(&offset)?;
        self.bytes -= entry.chunk.bytes;
        Some(entry)
    }

    /// Whether any Chunk of the name is among them.
    pub(crate) fn contains(&self, extent: &Extent) -> bool {
        self.of(extent).is_some()
    }

    /// In order of offset.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Deferral> {
        self.by_offset.values()
    }

    /// The ids, for those who walk the index from them.
    pub(crate) fn ids(&self, region: Region) -> impl Iterator<Item = ExtentId> + '_ {
        let of_region = self.iter().filter(move |entry| entry.region == region);
        of_region.map(|entry| entry.chunk.id)
    }

    /// Offsets of those that have a byte in `start..end`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Vec<u64> {
        let below = self.by_offset.range(..start).next_back();
        let reaches = below.filter(|(_, entry)| entry.chunk.offset + entry.chunk.bytes > start);
        let inside = self.by_offset.range(start..end);
        reaches
            .into_iter()
            .chain(inside)
            .map(|(offset, _)| *offset)
            .collect()
    }

    /// Bytes of all of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
