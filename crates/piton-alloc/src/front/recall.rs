//! Recalling: moving chunks from shelves to the middle, and counting those that are on shelves for reports.

use piton_suballoc::ExtentState;
use piton_timeline::{LaneId, Timeline, Timepoint};

use super::gate::Entered;
use super::shelf::{Front, Stock};
use super::{Cell, Item};
use crate::books::Books;
use crate::check::Inconsistency;
use crate::events::MemoryEvent;
use crate::pool::DevicePool;
use crate::reuse::Disposal;
use crate::stats::PoolStats;

/// All fronts of a pool, entered: what is on their shelves stays there.
#[derive(Debug)]
pub(crate) struct AllEntered<'a>(Vec<(&'a Cell, Entered<'a, Front>)>);

impl DevicePool {
    /// Takes everything off the shelves of all fronts. The caller has closed them, and is inside none.
    pub(crate) fn recall(&self) {
        for cell in self.fronts.existing() {
            cell.gate.enter().with(|front| {
                let mut books = self.books.lock();
                for at in front.stocked() {
                    books.take_off(cell, front, at, usize::MAX, &self.timeline);
                }
                let peak = &mut books.counters.peak_live;
                *peak = (*peak).max(front.peak_live);
            });
        }
    }

    /// Takes the oldest chunks off a shelf. The caller is inside.
    #[cold]
    pub(super) fn unshelve(&self, cell: &Cell, front: &mut Front, at: usize, count: usize) {
        self.books
            .lock_briefly()
            .take_off(cell, front, at, count, &self.timeline);
    }

    /// The events of all fronts, one front after the other.
    pub(crate) fn front_events(&self) -> Vec<MemoryEvent> {
        let cells = self.fronts.existing();
        cells
            .flat_map(|cell| cell.gate.enter().with(|front| front.events.to_vec()))
            .collect()
    }

    /// Enters all fronts; `books` may be locked then, and not before.
    pub(crate) fn enter_fronts(&self) -> AllEntered<'_> {
        let cells = self.fronts.existing();
        AllEntered(cells.map(|cell| (cell, cell.gate.enter())).collect())
    }
}

impl AllEntered<'_> {
    /// Counts what is on shelves as free, and what went over them.
    pub(crate) fn add_to(&mut self, stats: &mut PoolStats, timeline: &Timeline) {
        for (_, inside) in &mut self.0 {
            inside.with(|front| front.add_to(stats, timeline));
        }
    }

    /// Compares shelves with the index and with their own counts.
    pub(crate) fn check(&mut self, books: &Books) -> Result<(), Inconsistency> {
        for (cell, inside) in &mut self.0 {
            inside.with(|front| front.check(cell, books))?;
        }
        Ok(())
    }

    /// Whether a chunk lies on a shelf.
    pub(crate) fn have(&mut self, offset: u64, books: &Books) -> bool {
        let lies_at = |item: &Item| {
            let extent = books.index.extent_of(item.id);
            extent.is_some_and(|extent| extent.offset == offset)
        };
        let mut each = self.0.iter_mut();
        each.any(|(_, inside)| inside.with(|front| front.items().any(|(_, item)| lies_at(item))))
    }
}

impl Front {
    fn add_to(&self, stats: &mut PoolStats, timeline: &Timeline) {
        stats.hits += self.hits;
        stats.frees += self.frees;
        stats.peak_live_bytes = stats.peak_live_bytes.max(self.peak_live);
        stats.allocations -= self.stock.chunks;
        stats.live_bytes -= self.stock.bytes;
        stats.padding_bytes -= self.stock.rounded - self.stock.bytes;
        for (_, item) in self.items() {
            let is_done = |lane| {
                timeline.is_known_complete(Timepoint {
                    lane,
                    seq: item.seq,
                })
            };
            if item.seq == 0 || self.lane.is_some_and(is_done) {
                stats.cached_bytes += item.rounded;
            } else {
                stats.pending_bytes += item.rounded;
            }
        }
    }

    fn check(&self, cell: &Cell, books: &Books) -> Result<(), Inconsistency> {
        let mut stock = Stock::default();
        for (bytes, item) in self.items() {
            stock.add(bytes, item);
            let extent = books.index.extent_of(item.id);
            let padding = item.rounded - bytes;
            let is_right = extent.is_some_and(|extent| {
                extent.bytes == item.rounded
                    && extent.state == ExtentState::Live { padding }
                    && books.blocks.address_of(extent.offset) == Some(item.ptr)
            });
            if !is_right {
                return Err(Inconsistency::Shelved {
                    ptr: item.ptr,
                    bytes,
                });
            }
        }
        let hinted = cell.hints.iter().enumerate();
        let is_hinted = hinted.fold(true, |right, (at, hint)| {
            let is_empty = self.len_of(at) == 0;
            right && hint.has(0) == is_empty && self.is_stocked(at) != is_empty
        });
        if stock != self.stock || !is_hinted {
            return Err(Inconsistency::Shelves {
                counted: stock.rounded,
                noted: self.stock.rounded,
            });
        }
        Ok(())
    }
}

impl Books {
    /// Takes the oldest chunks off a shelf.
    fn take_off(
        &mut self,
        cell: &Cell,
        front: &mut Front,
        at: usize,
        count: usize,
        timeline: &Timeline,
    ) {
        let Some(lane) = front.lane else {
            return;
        };
        front.clear(at, count, cell, |bytes, item| {
            self.take_in(bytes, item, lane, timeline);
        });
    }

    /// Puts a chunk from a shelf where it belongs now.
    fn take_in(&mut self, bytes: u64, item: &Item, lane: LaneId, timeline: &Timeline) {
        let point = Timepoint {
            lane,
            seq: item.seq,
        };
        self.unlist(item.id);
        let place = match item.seq {
            0 => Some((self.everyones(item.region), 0)),
            _ => self.place_of(item.region, point),
        };
        let was_live = match place {
            Some((domain, stamp)) => self.index.free(item.id, domain, stamp).is_ok(),
            None => {
                let disposal = Disposal::of_last(Some(point), item.region, timeline);
                self.dispose(item.id, item.rounded, item.region, disposal)
            }
        };
        debug_assert!(was_live);
        self.allocations -= 1;
        self.set_live(self.live - bytes);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Chunks on their way to a shelf while somebody wants the shelves empty.

    #![expect(unsafe_code, reason = "being a source of Blocks is an unsafe promise")]

    use std::sync::Arc;

    use piton_driver::{DevicePtr, DriverError};
    use piton_sync::{model, thread};
    use piton_timeline::{Frontier, Lane, Timeline};

    use crate::{Allocation, BlockSource, DevicePool, MemoryPoolConfig, Request};

    const BLOCK: u64 = 4096;

    /// Has one Block.
    #[derive(Debug)]
    struct Source;

    // SAFETY: the pool's limit is one Block, so there is one at a time.
    unsafe impl BlockSource for Source {
        fn capacity(&self) -> u64 {
            BLOCK
        }

        fn granularity(&self) -> u64 {
            BLOCK
        }

        fn alignment(&self) -> u64 {
            BLOCK
        }

        fn status(&self) -> Result<(), DriverError> {
            Ok(())
        }

        fn allocate(&self, _bytes: u64) -> Result<DevicePtr, DriverError> {
            Ok(DevicePtr::new(BLOCK))
        }

        unsafe fn free(&self, _block: DevicePtr) -> Result<(), DriverError> {
            Ok(())
        }

        fn record_error(&self, error: DriverError) {
            panic!("{error}");
        }
    }

    fn pool() -> (Arc<DevicePool>, Lane) {
        let timeline = Timeline::new();
        let lane = timeline.register(None).unwrap();
        let config = MemoryPoolConfig {
            front_bytes: Some(BLOCK),
            events: 0,
            ..MemoryPoolConfig::default()
        };
        let pool = DevicePool::new(Arc::new(Source), timeline, &config).unwrap();
        (Arc::new(pool), lane)
    }

    fn take(pool: &DevicePool, lane: &Lane) -> Allocation {
        pool.allocate(Request::new(512).on(lane.id())).unwrap()
    }

    fn freer(pool: &Arc<DevicePool>, allocation: Allocation) -> thread::JoinHandle<()> {
        let pool = Arc::clone(pool);
        thread::spawn(move || pool.free(allocation, Frontier::new()).unwrap())
    }

    #[test]
    fn a_closed_front_stays_empty_once_it_is_recalled() {
        model(|| {
            let (pool, lane) = pool();
            let freer = freer(&pool, take(&pool, &lane));
            let closed = pool.fronts.close();
            pool.recall();
            assert_eq!(pool.fronts.shelved(), 0);
            freer.join().unwrap();
            assert_eq!(pool.fronts.shelved(), 0);
            drop(closed);
            pool.check().unwrap();
            assert_eq!(pool.trim(0), BLOCK);
        });
    }

    #[test]
    fn a_chunk_on_a_shelf_is_had_by_one_of_two() {
        model(|| {
            let (pool, lane) = pool();
            let first = take(&pool, &lane);
            pool.free(first, Frontier::new()).unwrap();
            let other = {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.allocate(Request::new(BLOCK)).map(|all| all.ptr()))
            };
            let mine = pool.allocate(Request::new(512).on(lane.id()));
            let theirs = other.join().unwrap();
            assert!(
                mine.is_ok() != theirs.is_ok(),
                "one Block serves one of them"
            );
            pool.check().unwrap();
        });
    }
}
