//! The inside of a front: shelves by exact size, and its share of the pool's counters and events.

use piton_driver::DeviceRange;
use piton_sync::atomic::{AtomicU64, Ordering};
use piton_timeline::LaneId;

use super::{Cell, Fronts, Item, Pulse};
use crate::events::{EventRing, MemoryEventKind};

/// Shelves of a front. A size has one shelf it may lie on, and shares it with others in turn.
pub(super) const SHELVES: usize = if cfg!(loom) { 2 } else { 64 };
const _: () = assert!(SHELVES <= u64::BITS as usize);
const SHELF_BITS: u32 = SHELVES.ilog2();
/// Most chunks on a shelf; half of them go to the middle when one more comes.
pub(super) const DEPTH: usize = 8;

/// What is seen of a shelf from outside; see the protocol.
#[derive(Debug, Default)]
pub(super) struct Hint {
    /// Bytes of its chunks, 0 if it has none. Written inside.
    pub(super) stocked: AtomicU64,
    /// Bytes that were asked for last and not there. Written outside.
    pub(super) wanted: AtomicU64,
}

impl Hint {
    #[inline]
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.stocked.load(Ordering::Relaxed) == bytes
    }

    /// Whether a chunk of this size is likely to be asked for again.
    #[inline]
    pub(super) fn welcomes(&self, bytes: u64) -> bool {
        self.has(bytes) || self.wanted.load(Ordering::Relaxed) == bytes
    }

    #[inline]
    pub(super) fn want(&self, bytes: u64) {
        if self.wanted.load(Ordering::Relaxed) != bytes {
            self.wanted.store(bytes, Ordering::Relaxed);
        }
    }
}

/// The shelf a size lies on.
#[inline]
pub(super) const fn shelf_of(bytes: u64) -> usize {
    (bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SHELF_BITS)) as usize
}

#[derive(Clone, Debug, Default)]
struct Shelf {
    /// Bytes asked for of each of its chunks.
    bytes: u64,
    len: usize,
    items: [Option<Item>; DEPTH],
}

/// What is on all shelves of a front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    pub(super) chunks: u64,
    /// Bytes asked for.
    pub(super) bytes: u64,
    /// Bytes with rounding.
    pub(super) rounded: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Front {
    /// Whose chunks these are, by slot; the tenant that freed last.
    pub(super) lane: Option<LaneId>,
    shelves: Box<[Shelf]>,
    /// Bit per shelf that has a chunk.
    stocked: u64,
    pub(super) stock: Stock,
    pub(super) hits: u64,
    pub(super) frees: u64,
    pub(super) peak_live: u64,
    pub(super) events: EventRing,
}

impl Front {
    pub(super) fn new(events: u32) -> Self {
        Self {
            lane: None,
            shelves: vec![Shelf::default(); SHELVES].into(),
            stocked: 0,
            stock: Stock::default(),
            hits: 0,
            frees: 0,
            peak_live: 0,
            events: EventRing::new(events),
        }
    }

    /// Whether it serves the lane's slot, or can from now on.
    #[inline]
    pub(super) fn serves(&self, lane: LaneId) -> bool {
        self.stock.chunks == 0 || self.lane.is_some_and(|tenant| tenant.index == lane.index)
    }

    /// The youngest chunk of just this size.
    #[inline]
    pub(super) fn take(
        &mut self,
        lane: LaneId,
        bytes: u64,
        cell: &Cell,
        fronts: &Fronts,
    ) -> Option<Item> {
        if !self.serves(lane) {
            return None;
        }
        let at = shelf_of(bytes);
        let shelf = &mut self.shelves[at];
        if shelf.bytes != bytes {
            return None;
        }
        let item = shelf.items.get_mut(shelf.len.checked_sub(1)?)?.take()?;
        shelf.len -= 1;
        if shelf.len == 0 {
            self.stocked &= !(1 << at);
            cell.hint(bytes).stocked.store(0, Ordering::Relaxed);
        }
        self.stock.remove(bytes, &item);
        cell.note_shelved(self);
        self.hits += 1;
        let live = fronts.pulse.live.load(Ordering::Relaxed);
        if live > self.peak_live + self.stock.bytes {
            self.peak_live = self.peak_live.max(live.saturating_sub(fronts.shelved()));
        }
        self.note(
            MemoryEventKind::Allocated,
            lane,
            bytes,
            &item,
            &fronts.pulse,
        );
        Some(item)
    }

    /// How many chunks must leave a shelf before one of this size may come.
    #[inline]
    pub(super) fn crowd(&self, bytes: u64) -> usize {
        let shelf = &self.shelves[shelf_of(bytes)];
        if shelf.bytes != bytes {
            shelf.len
        } else if shelf.len == DEPTH {
            DEPTH / 2
        } else {
            0
        }
    }

    /// Shelves a chunk where there is room for it.
    #[inline]
    pub(super) fn put(&mut self, lane: LaneId, bytes: u64, item: Item, cell: &Cell, pulse: &Pulse) {
        self.lane = Some(lane);
        let at = shelf_of(bytes);
        let shelf = &mut self.shelves[at];
        let Some(place) = shelf.items.get_mut(shelf.len) else {
            return;
        };
        *place = Some(item);
        shelf.len += 1;
        if shelf.len == 1 {
            shelf.bytes = bytes;
            self.stocked |= 1 << at;
            cell.hint(bytes).stocked.store(bytes, Ordering::Relaxed);
        }
        self.stock.add(bytes, &item);
        cell.note_shelved(self);
        self.frees += 1;
        self.note(MemoryEventKind::Freed, lane, bytes, &item, pulse);
    }

    #[inline]
    fn note(
        &mut self,
        kind: MemoryEventKind,
        lane: LaneId,
        bytes: u64,
        item: &Item,
        pulse: &Pulse,
    ) {
        let range = DeviceRange {
            start: item.ptr,
            bytes,
        };
        let clock = pulse.clock.load(Ordering::Relaxed);
        self.events.push_at(clock, kind, range, Some(lane));
    }

    /// Takes the oldest chunks off a shelf, and shows each with the bytes asked for.
    pub(super) fn clear(
        &mut self,
        at: usize,
        count: usize,
        cell: &Cell,
        mut visit: impl FnMut(u64, &Item),
    ) {
        let shelf = &mut self.shelves[at];
        let count = count.min(shelf.len);
        for item in shelf.items[..count].iter_mut().filter_map(Option::take) {
            self.stock.remove(shelf.bytes, &item);
            visit(shelf.bytes, &item);
        }
        shelf.len -= count;
        if shelf.len > 0 {
            shelf.items.rotate_left(count);
        }
        if shelf.len == 0 {
            self.stocked &= !(1 << at);
            cell.hints[at].stocked.store(0, Ordering::Relaxed);
        }
        cell.note_shelved(self);
    }

    /// The shelves that have a chunk.
    pub(super) fn stocked(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.stocked;
        std::iter::from_fn(move || {
            let at = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(at as usize)
        })
    }

    pub(super) const fn is_stocked(&self, at: usize) -> bool {
        self.stocked >> at & 1 == 1
    }

    /// Everything on its shelves, with the bytes asked for.
    pub(super) fn items(&self) -> impl Iterator<Item = (u64, &Item)> {
        self.shelves.iter().flat_map(|shelf| {
            shelf.items[..shelf.len]
                .iter()
                .flatten()
                .map(|item| (shelf.bytes, item))
        })
    }

    /// Chunks on one shelf.
    pub(super) fn len_of(&self, at: usize) -> usize {
        self.shelves.get(at).map_or(0, |shelf| shelf.len)
    }
}

impl Stock {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64, item: &Item) {
        self.chunks += 1;
        self.bytes += bytes;
        self.rounded += item.rounded;
    }

    #[inline]
    fn remove(&mut self, bytes: u64, item: &Item) {
        self.chunks -= 1;
        self.bytes -= bytes;
        self.rounded -= item.rounded;
    }
}
