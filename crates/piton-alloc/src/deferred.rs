//! Memory that several lanes used last. Each Chunk waits here with its frontier until the uses of all lanes but one
//! are complete, or until a lane takes it with waits.
//!
//! These Chunks are live for the index, so they neither split nor coalesce by themselves. A run of neighbours may
//! contain some of them (`run`); then they are cut and freed explicitly. They are kept in a vector, whose order is
//! deterministic, and a table from record number to place finds each without a search.

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
    entries: Vec<Deferral>,
    /// By the number of its name, one more than an entry's place; 0, or anything at all, where there is none.
    places: Vec<u32>,
    bytes: u64,
}

impl Deferred {
    pub(crate) fn push(&mut self, chunk: Chunk, uses: Frontier, region: Region) {
        self.bytes += chunk.bytes;
        self.entries.push(Deferral {
            chunk,
            uses,
            region,
        });
        self.note_place(self.entries.len() - 1);
    }

    /// Takes out those of whose uses at most one is still pending, with what is pending. Each lane is asked once how far it is.
    pub(crate) fn drain_settled(&mut self, timeline: &Timeline) -> Vec<Deferral> {
        self.ask_lanes(timeline);
        let settle = |entry: &mut Deferral| {
            entry.uses.retain_unknown(timeline);
            entry.uses.points().len() <= 1
        };
        let settled: Vec<Deferral> = self.entries.extract_if(.., settle).collect();
        if !settled.is_empty() {
            self.bytes -= settled.iter().map(|entry| entry.chunk.bytes).sum::<u64>();
            self.note_places();
        }
        settled
    }

    /// Asks every lane how far it is that some Chunk waits for.
    fn ask_lanes(&self, timeline: &Timeline) {
        let points = self.entries.iter().flat_map(|entry| entry.uses.points());
        let unknown = points.filter(|point| !timeline.is_known_complete(**point));
        // A frontier has at most one point of a lane.
        let latest: Frontier = unknown.copied().collect();
        let lanes = latest.points().iter().map(|point| point.lane);
        lanes.for_each(|lane| timeline.refresh(lane));
    }

    /// The entry of an extent.
    pub(crate) fn of(&self, extent: &Extent) -> Option<&Deferral> {
        self.entries.get(self.place_of(extent.id)?)
    }

    pub(crate) fn remove(&mut self, id: ExtentId) -> Option<Deferral> {
        let place = self.place_of(id)?;
        let entry = self.entries.swap_remove(place);
        self.bytes -= entry.chunk.bytes;
        if place < self.entries.len() {
            self.note_place(place);
        }
        Some(entry)
    }

    /// Whether any Chunk of the name is among them.
    pub(crate) fn contains(&self, extent: &Extent) -> bool {
        self.place_of(extent.id).is_some()
    }

    /// All of them, in an order that is the same whenever the program is.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Deferral> {
        self.entries.iter()
    }

    /// The ids, for those who walk the index from them.
    pub(crate) fn ids(&self, region: Region) -> impl Iterator<Item = ExtentId> + '_ {
        let of_region = self.iter().filter(move |entry| entry.region == region);
        of_region.map(|entry| entry.chunk.id)
    }

    /// Bytes of all of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the entry of a Chunk is. What is noted is looked at, since a name's number is used again.
    fn place_of(&self, id: ExtentId) -> Option<usize> {
        let noted = *self.places.get(id.parts().0 as usize)?;
        let place = (noted as usize).checked_sub(1)?;
        (self.entries.get(place)?.chunk.id == id).then_some(place)
    }

    /// Notes the places of all entries.
    fn note_places(&mut self) {
        for place in 0..self.entries.len() {
            self.note_place(place);
        }
    }

    fn note_place(&mut self, place: usize) {
        let number = self.entries[place].chunk.id.parts().0 as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, 0);
        }
        // There are fewer than the index has names.
        self.places[number] = u32::try_from(place + 1).unwrap_or(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use piton_suballoc::{Domain, Tlsf};

    use super::*;

    #[test]
    fn a_chunk_is_found_by_its_name_however_others_come_and_go() {
        let mut index = Tlsf::new(1 << 20, 512).unwrap();
        let mut deferred = Deferred::default();
        let timeline = Timeline::new();
        let lanes = [(); 2].map(|()| timeline.register(None).unwrap());
        let pending: Frontier = lanes.iter().map(|lane| lane.submit(1)).collect();
        let mut take = || index.allocate(Domain::SHARED, 512, 1).unwrap();
        let chunks: Vec<Chunk> = (0..8).map(|_| take()).collect();
        for (chunk, number) in chunks.iter().zip(0..) {
            let uses = if number % 3 == 0 {
                Frontier::new()
            } else {
                pending.clone()
            };
            deferred.push(*chunk, uses, Region::Large);
        }
        let found = |deferred: &Deferred, chunk: &Chunk| {
            let extent = index.extent_of(chunk.id).unwrap();
            let entry = deferred.of(&extent);
            assert!(entry.is_none_or(|entry| entry.chunk == *chunk));
            assert_eq!(entry.is_some(), deferred.contains(&extent));
            entry.is_some()
        };
        assert!(chunks.iter().all(|chunk| found(&deferred, chunk)));
        assert_eq!(deferred.remove(chunks[1].id).unwrap().chunk, chunks[1]);
        assert!(deferred.remove(chunks[1].id).is_none());
        assert_eq!(deferred.drain_settled(&timeline).len(), 3);
        let left: Vec<bool> = chunks.iter().map(|chunk| found(&deferred, chunk)).collect();
        assert_eq!(left, [0, 0, 1, 0, 1, 1, 0, 1].map(|one| one == 1));
        assert_eq!(deferred.bytes(), 4 * 512);
    }
}
