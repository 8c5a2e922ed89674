//! Blocks: asking the source for one, giving wholly free ones back.
//!
//! # Protocol
//! The pool has two locks. `books` guards all state and is held for a search at most. `turn` is taken by whoever is
//! about to call the source and held during the call, so that one thread at a time grows or shrinks the pool; the
//! others who found nothing wait for it and search again before they grow in turn. Allocations that what is held can
//! serve, and all frees, need `books` alone and never wait for the source. Lock order: `turn`, then `books`, then those
//! of the timeline, which does not block.
//!
//! - A Block is in the index only while the source regards it as allocated: it is added after the source gave it, and
//!   withdrawn before the source is asked to take it.
//! - A new Block is added and the request served from it under one lock of `books`: nobody else can take it first.
//! - A failed call changes nothing: a Block that the source did not take is put back.

#![expect(
    unsafe_code,
    reason = "giving a Block back to its source is unsafe: nothing may use its memory any more"
)]

use piton_driver::{DeviceRange, DriverError};
use piton_timeline::LaneId;

use crate::allocation::Allocation;
use crate::block::Block;
use crate::books::Books;
use crate::config::Settings;
use crate::ladder::Growth;
use crate::pool::DevicePool;
use crate::recovery::Recovery;
use crate::region::Region;
use crate::request::Request;
use crate::reuse::Disposal;

/// Block sizes that are compared before one is asked for.
const MOST_COUNTED: u64 = 64;
/// A Block has at least this part of the pile that does not hold its request: so a pile grows by few Blocks, ever larger.
const PILE_SHARE: u64 = 8;

/// Memory of sizes that the program does not ask for any more. Where there is much, a large request is better off with a
/// share of a larger Block: each size would have a Block of its own come, and go or stay behind.
#[derive(Clone, Copy, Debug)]
struct Misfits {
    /// Bytes of pending memory that lies apart, in pieces that are all too small: in the lane's Blocks that are free as a
    /// whole, and in what several lanes used. None of it can go back yet.
    pile: u64,
    /// Whether Blocks go back too often.
    is_restless: bool,
}

impl Settings {
    /// Bytes of a Block that holds the request and nothing more.
    pub(crate) fn exact_block(&self, bytes: u64) -> Option<u64> {
        bytes.checked_next_multiple_of(self.block_multiple)
    }

    /// Bytes of the Block to ask for when the pool holds `held` bytes and the request needs `exact`, of them `bytes`
    /// itself.
    fn preferred_block(&self, bytes: u64, exact: u64, held: u64, misfits: Misfits) -> u64 {
        if exact < self.exact_from {
            return self.shared_block(bytes, exact, held);
        }
        let is_one_of_many = misfits.is_restless || misfits.pile >= exact;
        if self.large_may_share && is_one_of_many {
            return self.shared_block(bytes, exact.max(misfits.pile / PILE_SHARE), held);
        }
        exact
    }

    /// Bytes of a Block for several requests, at least `exact`. Requests of one size tend to come together, so it holds a
    /// whole number of them, as nearly as one up to half as large again can.
    fn shared_block(&self, bytes: u64, exact: u64, held: u64) -> u64 {
        let share = held / 100 * u64::from(self.growth_percent);
        let least = share.max(self.block_bytes).max(exact);
        let rounded = bytes.next_multiple_of(self.unit).max(1);
        let fewest = (least / rounded).max(1);
        let block = |count: u64| {
            (rounded * count)
                .max(least)
                .next_multiple_of(self.block_multiple)
        };
        let waste = |count: &u64| (block(*count) % rounded) * MOST_COUNTED / count;
        let most = least + least / 2;
        let counts = fewest..=(most / rounded).min(fewest + MOST_COUNTED);
        counts.min_by_key(waste).map_or(least, block)
    }
}

impl DevicePool {
    /// Asks the source for a Block; if it has none or the limit is reached, for one of just the size needed; then gives
    /// wholly free Blocks back and asks again. `Ok(None)` if the limit leaves no room.
    pub(crate) fn grow_blocks(
        &self,
        request: &Request,
        region: Region,
        growth: Growth,
        recovery: &mut Recovery,
    ) -> Result<Option<Allocation>, DriverError> {
        let exact = self.settings.exact_block(request.bytes).unwrap_or(u64::MAX);
        let most = growth.most(self.settings.limit);
        let (held, idle, misfits) = {
            let books = self.books.lock();
            let idle = books.index.domain_usage(Region::IDLE).bytes;
            (books.held, idle, books.misfits(request.lane))
        };
        if matches!(growth, Growth::Within(_)) && (held - idle).saturating_add(exact) > most {
            return Ok(None);
        }
        let preferred = self
            .settings
            .preferred_block(request.bytes, exact, held, misfits);
        let mut refusal = None;
        let sizes = [preferred, exact];
        let distinct = if preferred == exact {
            &sizes[1..]
        } else {
            &sizes[..]
        };
        for &bytes in distinct {
            recovery.returned += self.return_before_growing(bytes);
            match self.grow_by(bytes, request, region, most, recovery) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if error.is_out_of_memory() => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        loop {
            let returned = self.return_blocks(exact);
            recovery.returned += returned;
            if returned == 0 {
                // One that the source did not take back serves on.
                return match (self.books.lock().take_idle(request, region), refusal) {
                    (None, Some(refusal)) => Err(refusal),
                    (found, _) => Ok(found),
                };
            }
            match self.grow_by(exact, request, region, most, recovery) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if error.is_out_of_memory() => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
    }

    /// One call to the source, if the limit allows it, and the request served from the new Block.
    fn grow_by(
        &self,
        bytes: u64,
        request: &Request,
        region: Region,
        most: u64,
        recovery: &mut Recovery,
    ) -> Result<Option<Allocation>, DriverError> {
        let mut books = self.books.lock();
        let over_limit = books.held.checked_add(bytes).is_none_or(|held| held > most);
        if over_limit {
            return Ok(None);
        }
        books.counters.block_allocations += 1;
        drop(books);
        let start = self
            .source
            .allocate(bytes)
            .inspect_err(|_| recovery.refused += 1)?;
        let range = DeviceRange { start, bytes };
        let mut books = self.books.lock();
        let Ok(offset) = books.add_block(range, region) else {
            // Offsets are so scattered that the Block has no place among them: as good as over the limit.
            books.held += bytes;
            books.outside += bytes;
            drop(books);
            self.return_to_source(Block { offset: 0, range });
            return Ok(None);
        };
        // Where all that is free is a lane's, the Block is idle, and may be larger than the idle one that the request could have.
        let found = books.take_again(request, region);
        let found = found.or_else(|| books.take_of_block(offset, request, region));
        let is_broken = found.as_ref().is_some_and(|found| {
            found
                .ptr
                .checked_offset_from(start)
                .is_some_and(|at| at < bytes)
        });
        books.has_unbroken |= !is_broken;
        Ok(found)
    }

    /// Asks the source for a Block that nobody asked for yet. `Ok(false)` if the limit leaves no room. The caller holds
    /// `turn`.
    pub(crate) fn add_idle_block(
        &self,
        bytes: u64,
        recovery: &mut Recovery,
    ) -> Result<bool, DriverError> {
        let request = Request::new(bytes);
        let Some(block) = self.grow_by(
            bytes,
            &request,
            Region::Large,
            self.settings.limit,
            recovery,
        )?
        else {
            return Ok(false);
        };
        let mut books = self.books.lock();
        Ok(books.give_back(&block, Disposal::Anyone))
    }

    /// Before the pool grows by `bytes`: gives back wholly free Blocks as long as it would otherwise hold more than
    /// ever before and more than the release threshold. So idle memory never raises the peak, and below the peak
    /// the source is left in peace.
    fn return_before_growing(&self, bytes: u64) -> u64 {
        let books = self.books.lock();
        let ceiling = books
            .counters
            .peak_held
            .max(self.settings.release_threshold)
            .max(books.reserved);
        let excess = books.held.saturating_add(bytes).saturating_sub(ceiling);
        drop(books);
        self.return_blocks(excess)
    }

    /// Gives back wholly free Blocks, at least `wanted` bytes of them if there are; returns how many bytes. The caller
    /// holds `turn`. An error of the source ends it and is recorded.
    pub(crate) fn return_blocks(&self, wanted: u64) -> u64 {
        let mut returned = 0;
        while returned < wanted {
            let mut books = self.books.lock();
            let Some(block) = withdraw_best(&mut books, wanted - returned) else {
                break;
            };
            drop(books);
            if !self.return_to_source(block) {
                break;
            }
            returned += block.range.bytes;
        }
        returned
    }

    /// Gives a withdrawn Block to the source; puts it back if the source does not take it.
    fn return_to_source(&self, block: Block) -> bool {
        // SAFETY: the Block came from this source and was in the index until it was withdrawn, so it was not freed
        // before. It was wholly free in the index, which takes memory only once every use that its holder named is
        // complete; and commands can name memory only through unsafe calls whose callers promise to own it until the
        // frontier they give it back with. Out of the index, no part of it is handed out again.
        let freed = unsafe { self.source.free(block.range.start) };
        let mut books = self.books.lock();
        books.counters.block_frees += 1;
        match freed {
            Ok(()) => {
                books.forget(block);
                true
            }
            Err(error) => {
                books.restore(block);
                drop(books);
                self.record(error);
                false
            }
        }
    }
}

/// Withdraws the smallest wholly free Block of at least `wanted` bytes, else the largest: fewest calls.
fn withdraw_best(books: &mut Books, wanted: u64) -> Option<Block> {
    let idle = books.index.nearest(Region::IDLE, wanted);
    let offset = match idle {
        Some(block) => block.offset,
        None => books.find_unbroken()?,
    };
    books.withdraw(offset)
}

impl Books {
    fn misfits(&self, lane: Option<LaneId>) -> Misfits {
        let wholes = lane.and_then(|lane| self.domain_of_wholes(lane));
        let wholes = wholes.map_or(0, |domain| self.index.domain_usage(domain).bytes);
        Misfits {
            pile: wholes + self.deferred.bytes(),
            is_restless: self.is_to_be_spared(),
        }
    }

    /// A Block that was added and that nothing was taken from: whoever asked for it was served elsewhere. It is everyone's
    /// as yet, and not among the idle ones.
    fn find_unbroken(&mut self) -> Option<u64> {
        if !self.has_unbroken {
            return None;
        }
        let free_in = Some(Region::Large.shared());
        let mut ranges = self.index.ranges();
        let found = ranges.find(|range| range.free_in == free_in);
        let found = found.map(|range| range.offset);
        self.has_unbroken = found.is_some();
        found
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! The protocol at the top of this file: what the source is asked while others allocate.

    use std::sync::Arc;

    use piton_driver::{DevicePtr, DriverError};
    use piton_sync::{Mutex, model, thread};
    use piton_timeline::{Frontier, Timeline};

    use crate::{Allocation, BlockSource, DevicePool, ExactBlocks, MemoryPoolConfig, Request};

    const BLOCK: u64 = 4096;

    /// Knows which of its Blocks are allocated.
    #[derive(Debug)]
    struct Source(Mutex<Vec<bool>>);

    impl Source {
        fn backs(&self, ptr: DevicePtr) -> bool {
            let number = usize::try_from(ptr.address() / BLOCK - 1).unwrap();
            self.0.lock()[number]
        }

        fn calls(&self) -> usize {
            self.0.lock().len()
        }
    }

    // SAFETY: every Block has an address of its own, never used again.
    unsafe impl BlockSource for Source {
        fn capacity(&self) -> u64 {
            2 * BLOCK
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
            let mut blocks = self.0.lock();
            blocks.push(true);
            Ok(DevicePtr::new(blocks.len() as u64 * BLOCK))
        }

        unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError> {
            let number = usize::try_from(block.address() / BLOCK - 1).unwrap();
            self.0.lock()[number] = false;
            Ok(())
        }

        fn record_error(&self, _error: DriverError) {}
    }

    fn pool() -> (Arc<Source>, Arc<DevicePool>) {
        let source = Arc::new(Source(Mutex::new(Vec::new())));
        let config = MemoryPoolConfig {
            block_bytes: Some(BLOCK),
            growth_percent: 0,
            exact_blocks: ExactBlocks::Never,
            ..MemoryPoolConfig::default()
        };
        let pool = DevicePool::new(source.clone(), Timeline::new(), &config).unwrap();
        (source, Arc::new(pool))
    }

    fn take(pool: &DevicePool, bytes: u64) -> Allocation {
        pool.allocate(Request::new(bytes)).unwrap()
    }

    #[test]
    fn a_block_on_its_way_back_is_never_handed_out() {
        model(|| {
            let (source, pool) = pool();
            let idle = take(&pool, BLOCK);
            pool.free(idle, Frontier::new()).unwrap();
            let trimmer = {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.trim(0))
            };
            let taken = take(&pool, BLOCK);
            trimmer.join().unwrap();
            assert!(source.backs(taken.ptr()));
            pool.check().unwrap();
        });
    }

    #[test]
    fn one_block_is_asked_for_when_one_serves_both() {
        model(|| {
            let (source, pool) = pool();
            let other = {
                let pool = Arc::clone(&pool);
                thread::spawn(move || take(&pool, BLOCK / 2))
            };
            let mine = take(&pool, BLOCK / 2);
            let theirs = other.join().unwrap();
            assert_ne!(mine.ptr(), theirs.ptr());
            assert_eq!(source.calls(), 1);
        });
    }

    #[test]
    fn whoever_asked_for_a_block_is_served_from_it() {
        model(|| {
            let (source, pool) = pool();
            let other = {
                let pool = Arc::clone(&pool);
                thread::spawn(move || take(&pool, BLOCK))
            };
            let mine = take(&pool, BLOCK);
            let theirs = other.join().unwrap();
            assert_ne!(mine.ptr(), theirs.ptr());
            assert_eq!(source.calls(), 2);
        });
    }
}
