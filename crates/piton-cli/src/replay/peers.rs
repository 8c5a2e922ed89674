//! What others make of a trace: allocators that know neither streams nor pages, in one range of addresses without an end.
//!
//! They are given every advantage: memory is free for all the moment it is freed, whatever still runs, and addresses cost
//! nothing until they are used. Their figure is the highest address that they ever reached.

use std::collections::{BTreeMap, BTreeSet};

use piton_suballoc::{Domain, ExtentId, Tlsf};
use serde::Serialize;

use super::description::Description;
use crate::trace::{CheckedEvent, TraceError, TraceEvent};

/// Bytes that everyone rounds to.
const UNIT: u64 = 512;
/// Addresses of the range without an end: more than any trace reaches.
const ADDRESSES: u64 = 1 << 40;

/// The most that others hold for a trace, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Peers {
    /// PyTorch's default caching allocator: recorded with the trace, or modelled; unknown where nothing says so.
    pub pytorch: Option<u64>,
    /// Best fit over two B-trees; unknown where it ran out of addresses.
    pub best_fit: Option<u64>,
    /// Two-level segregated fit; unknown where it ran out of addresses.
    pub tlsf: Option<u64>,
}

/// Plays a trace through them.
pub(super) fn measure(
    events: impl Iterator<Item = Result<CheckedEvent, TraceError>>,
    description: &Description,
) -> Result<Peers, TraceError> {
    let (mut best_fit, mut tlsf) = (BestFit::new(), SegregatedFit::new());
    for event in events {
        let event = event?;
        match event.event {
            TraceEvent::Allocate { bytes, .. } => {
                best_fit.allocate(event.slot, bytes.next_multiple_of(UNIT));
                tlsf.allocate(event.slot, bytes);
            }
            TraceEvent::Free { .. } => {
                best_fit.free(event.slot);
                tlsf.free(event.slot);
            }
            TraceEvent::Use { .. } => {}
        }
    }
    Ok(Peers {
        pytorch: description.pytorch(),
        best_fit: best_fit.is_whole.then_some(best_fit.top),
        tlsf: tlsf.is_whole.then_some(tlsf.top),
    })
}

/// The smallest hole that fits, the lowest of several; holes merge.
#[derive(Debug)]
struct BestFit {
    /// Start to length of each hole below the top.
    holes: BTreeMap<u64, u64>,
    /// The same, length first.
    by_length: BTreeSet<(u64, u64)>,
    /// Start and length by slot.
    live: Vec<Option<(u64, u64)>>,
    top: u64,
    /// Was every request served?
    is_whole: bool,
}

impl BestFit {
    fn new() -> Self {
        Self {
            holes: BTreeMap::new(),
            by_length: BTreeSet::new(),
            live: Vec::new(),
            top: 0,
            is_whole: true,
        }
    }

    fn allocate(&mut self, slot: usize, bytes: u64) {
        let found = self.by_length.range((bytes, 0)..).next().copied();
        let start = match found {
            Some((length, start)) => {
                self.remove(start, length);
                self.add(start + bytes, length - bytes);
                start
            }
            None if self.top.saturating_add(bytes) > ADDRESSES => {
                self.is_whole = false;
                return;
            }
            None => self.grow(bytes),
        };
        if self.live.len() <= slot {
            self.live.resize(slot + 1, None);
        }
        self.live[slot] = Some((start, bytes));
    }

    /// At the top, and in the hole below it if there is one.
    fn grow(&mut self, bytes: u64) -> u64 {
        let last = self
            .holes
            .last_key_value()
            .map(|(start, length)| (*start, *length));
        let below = last.filter(|(start, length)| start + length == self.top);
        let start = below.map_or(self.top, |(start, length)| {
            self.remove(start, length);
            start
        });
        self.top = start + bytes;
        start
    }

    fn free(&mut self, slot: usize) {
        let Some((mut start, mut length)) = self.live.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if let Some((&after, &more)) = self.holes.range(start..).next()
            && start + length == after
        {
            self.remove(after, more);
            length += more;
        }
        if let Some((&before, &more)) = self.holes.range(..start).next_back()
            && before + more == start
        {
            self.remove(before, more);
            (start, length) = (before, length + more);
        }
        self.add(start, length);
    }

    fn add(&mut self, start: u64, length: u64) {
        if length > 0 {
            self.holes.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.holes.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

/// The pool's own index, alone.
#[derive(Debug)]
struct SegregatedFit {
    index: Option<Tlsf>,
    live: Vec<Option<ExtentId>>,
    top: u64,
    /// Was every request served?
    is_whole: bool,
}

impl SegregatedFit {
    fn new() -> Self {
        let index = Tlsf::empty(UNIT).ok().and_then(|mut index| {
            index.add_range(ADDRESSES).ok()?;
            Some(index)
        });
        Self {
            is_whole: index.is_some(),
            index,
            live: Vec::new(),
            top: 0,
        }
    }

    fn allocate(&mut self, slot: usize, bytes: u64) {
        let index = self.index.as_mut();
        let chunk = index.and_then(|index| index.allocate(Domain::SHARED, bytes, 1));
        let Some(chunk) = chunk else {
            self.is_whole = false;
            return;
        };
        self.top = self.top.max(chunk.offset + chunk.bytes);
        if self.live.len() <= slot {
            self.live.resize(slot + 1, None);
        }
        self.live[slot] = Some(chunk.id);
    }

    fn free(&mut self, slot: usize) {
        let id = self.live.get_mut(slot).and_then(Option::take);
        if let (Some(id), Some(index)) = (id, self.index.as_mut()) {
            let freed = index.free(id, Domain::SHARED, 0);
            debug_assert!(freed.is_ok(), "it is live: {freed:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::trace::TraceReader;

    #[test]
    fn best_fit_takes_the_smallest_hole_and_grows_into_the_last() {
        let mut arena = BestFit::new();
        for (slot, bytes) in [4, 1, 2, 1].into_iter().enumerate() {
            arena.allocate(slot, bytes * UNIT);
        }
        arena.free(0);
        arena.free(2);
        arena.allocate(4, 2 * UNIT);
        assert_eq!(arena.live[4], Some((5 * UNIT, 2 * UNIT)));
        arena.free(3);
        arena.free(4);
        arena.allocate(5, 5 * UNIT);
        assert_eq!(
            arena.live[5],
            Some((5 * UNIT, 5 * UNIT)),
            "the hole at the top grows"
        );
        assert_eq!(arena.top, 10 * UNIT);
    }

    #[test]
    fn what_no_addresses_suffice_for_is_unknown() {
        let lines = (0..70).map(|id| format!("a,{id},{},0\nf,{id},0\n", 1_u64 << 40));
        let lines: String = lines
            .chain((70..80).map(|id| format!("a,{id},{},0\n", 1_u64 << 40)))
            .collect();
        let reader = TraceReader::new(lines.as_bytes(), Path::new("test.csv")).unwrap();
        let peers = measure(reader, &Description::default()).unwrap();
        assert_eq!((peers.best_fit, peers.tlsf), (None, None));
    }
}
