//! The pool: the calls that programs make.
//!
//! The common path is one lock and one search. Everything else is in `recovery` (what can be had from pending memory)
//! and `growth` (Blocks), whose protocol says which lock is held when.

use std::hash::BuildHasher;
use std::sync::Arc;

use piton_driver::{Device, DevicePtr, DriverError};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline};

use crate::allocation::{Allocation, AllocationInfo, PoolId, Taken};
use crate::books::Books;
use crate::books_lock::BooksLock;
use crate::callback::Callback;
use crate::check::Inconsistency;
use crate::config::{MemoryPoolConfig, Settings};
use crate::error::{AllocError, ConfigError, FreeError, FreeErrorKind};
use crate::fragmentation::Fragmentation;
use crate::front::Fronts;
use crate::lookup::Directory;
use crate::placement::{Placement, Translation, VirtualRange};
use crate::region;
use crate::request::Request;
use crate::reuse::{self, Disposal, LastUse};
use crate::source::{BlockSource, DeviceBlocks};
use crate::stats::PoolStats;

/// A stream-ordered pool of one device's memory. See the crate's page.
///
/// All methods may be called from any thread. None waits for work on the device. Those that may call the source,
/// which may block, say so.
///
/// Dropping the pool gives every Block back that nobody uses any more. A Block with memory that is still allocated, or
/// whose last use is not complete, stays with the source: freeing it under running work would be worse. Synchronise
/// and free first, and nothing is left.
///
/// Its timeline is its maker's: who has one makes lanes, says what they did, and is believed.
/// ```compile_fail,E0624
/// fn lane_of_mine(pool: &piton_alloc::DevicePool) {
///     let _timeline = pool.timeline();
/// }
/// ```
pub struct DevicePool {
    pub(crate) id: PoolId,
    pub(crate) source: Arc<dyn BlockSource>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) settings: Settings,
    /// Held by whoever calls the source. Before `books`.
    pub(crate) turn: Mutex<()>,
    pub(crate) books: BooksLock<Books>,
    pub(crate) placement: Placement,
    pub(crate) callback: Mutex<Callback>,
    /// What lanes freed last, at hand for them.
    pub(crate) fronts: Arc<Fronts>,
    /// What is live, by address.
    pub(crate) directory: Arc<Directory>,
    /// Held by whoever copies a snapshot. Before gates and `books`.
    pub(crate) walking: Mutex<()>,
    last_error: Mutex<Option<DriverError>>,
}

impl DevicePool {
    /// Makes a pool over `source` that holds no memory yet. `timeline` is the one that has the lanes named in
    /// requests and frontiers.
    ///
    /// # Errors
    /// Any [`ConfigError`].
    pub fn new(
        source: Arc<dyn BlockSource>,
        timeline: Arc<Timeline>,
        config: &MemoryPoolConfig,
    ) -> Result<Self, ConfigError> {
        let settings = Settings::new(config, &*source)?;
        let id = PoolId(std::hash::RandomState::new().hash_one(Arc::as_ptr(&source).addr()));
        let fronts = Arc::new(Fronts::new(&settings));
        let directory = Arc::new(Directory::new(&settings));
        let kept = (
            Arc::clone(&timeline),
            Arc::clone(&fronts),
            Arc::clone(&directory),
        );
        let mut books = Books::new(id, &settings, kept.0, kept.1, kept.2).map_err(|_| {
            ConfigError::Alignment {
                given: config.alignment,
                minimum: 1,
                maximum: settings.max_align,
            }
        })?;
        let placement = match source.virtual_memory().filter(|_| settings.is_virtual) {
            None => {
                books.index.set_whole_ranges_apart(region::WHOLE_BLOCKS);
                Placement::Blocks
            }
            Some(memory) => Placement::Virtual(
                VirtualRange::reserve(memory, &settings, &mut books)
                    .map_err(ConfigError::Addresses)?,
            ),
        };
        Ok(Self {
            id,
            source,
            timeline,
            settings,
            turn: Mutex::new(()),
            books: BooksLock::new(books),
            placement,
            callback: Mutex::new(Callback::default()),
            fronts,
            directory,
            walking: Mutex::new(()),
            last_error: Mutex::new(None),
        })
    }

    /// Makes a pool of a device's own memory.
    ///
    /// # Errors
    /// Any [`ConfigError`].
    pub fn on_device(
        device: Arc<dyn Device>,
        timeline: Arc<Timeline>,
        config: &MemoryPoolConfig,
    ) -> Result<Self, ConfigError> {
        Self::new(Arc::new(DeviceBlocks::new(device)), timeline, config)
    }

    /// Allocates memory.
    ///
    /// If the allocation has a [wait](Allocation::wait), enqueue it on the request's lane before anything else that
    /// uses the memory. The contents are whatever was there before.
    ///
    /// If nothing held fits, this calls the source, and may first wait for another thread's call to it. It never
    /// waits for work on the device.
    ///
    /// # Errors
    /// [`AllocError::ZeroBytes`] and [`AllocError::Alignment`] for requests that make no sense;
    /// [`AllocError::NeverFits`] beyond the limit; [`AllocError::FullNow`] when all steps of the recovery failed;
    /// [`AllocError::Driver`] when the device is lost or the source fails otherwise. The pool is then as before,
    /// except for memory that it gave back to the source on the way.
    // In the caller's code: see `Taken`.
    #[inline]
    pub fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        match self.take_quickly(&request) {
            Some(taken) => Ok(taken.handle(self.id, &request)),
            None => self
                .allocate_carefully(&request)
                .map(|found| *found)
                .map_err(|error| *error),
        }
    }

    /// Memory that can be had at the first look; `None` if there is none, or something is the matter.
    fn take_quickly(&self, request: &Request) -> Option<Taken> {
        if !self.may_serve(request) {
            return None;
        }
        if let Some(found) = self.take_from_front(request) {
            return Some(found);
        }
        let region = self.settings.region_of(request.bytes);
        let mut books = self.books.lock_briefly();
        if books.is_crowded_for(region) {
            return None;
        }
        let found = books.take_at_once(request, region)?;
        books.counters.hits += 1;
        Some(found)
    }

    /// What is left to do where the first look yielded nothing.
    ///
    /// Boxed, so that both ways give the caller words: one that wrote the result itself would have the other write it too.
    #[cold]
    pub(crate) fn allocate_carefully(
        &self,
        request: &Request,
    ) -> Result<Box<Allocation>, Box<AllocError>> {
        let checked = match self.source.status() {
            Ok(()) if self.admits(request) => Ok(self.settings.region_of(request.bytes)),
            Ok(()) => Err(self.refusal_of(request)),
            Err(error) => Err(error.into()),
        };
        let found = checked.and_then(|region| self.allocate_slowly(request, region));
        found.map(Box::new).map_err(Box::new)
    }

    /// Frees memory in stream order: others reuse it once `last_uses` is reached, and a lane that is ordered behind
    /// `last_uses` reuses it at once. Does not block, and does not call the source.
    ///
    /// `last_uses` covers every command that names the memory; empty if none does. What is complete may be left out. A point
    /// on the lane that the memory was allocated for stands for the uses before the allocation too, if the timeline's clock knows
    /// that it lies behind them, or somebody [vouches](Allocation::assume_waited) for it.
    ///
    /// # Errors
    /// [`FreeError`] with the allocation if it belongs to another pool.
    // In the caller's code: a frontier that is moved waits for the words it was written in.
    #[inline(always)]
    pub fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        if self.take_back(&allocation, &last_uses) {
            return Ok(());
        }
        self.free_carefully(allocation, last_uses)
    }

    /// Takes memory back where that is simple; otherwise `false`, and nothing is changed.
    fn take_back(&self, allocation: &Allocation, last_uses: &Frontier) -> bool {
        let last = LastUse::of(allocation, last_uses);
        if allocation.pool != self.id || matches!(last, LastUse::Several) {
            return false;
        }
        if self.give_to_front(allocation, last) {
            return true;
        }
        let mut books = self.books.lock_briefly();
        books.give_back_simply(allocation, last)
    }

    /// Takes memory back that several lanes may still use, or says why not.
    #[cold]
    pub(crate) fn free_carefully(
        &self,
        allocation: Allocation,
        last_uses: Frontier,
    ) -> Result<(), FreeError> {
        if allocation.pool != self.id {
            return Err(self.refusal(allocation));
        }
        let uses = reuse::uses_to_respect(&allocation, last_uses, &self.timeline);
        let disposal = Disposal::of(&uses, allocation.region(), &self.timeline);
        if self.books.lock().give_back(&allocation, disposal) {
            Ok(())
        } else {
            Err(self.refusal(allocation))
        }
    }

    /// Why an allocation is not taken back.
    #[cold]
    pub(crate) fn refusal(&self, allocation: Allocation) -> FreeError {
        let kind = if allocation.pool == self.id {
            FreeErrorKind::Unknown
        } else {
            FreeErrorKind::ForeignPool {
                belongs: allocation.pool,
                asked: self.id,
            }
        };
        FreeError {
            allocation: Box::new(allocation),
            kind,
        }
    }

    /// Grows until the pool holds at least `bytes` bytes, so that later requests need no call to the source as long
    /// as they fit. Returns the bytes held. The pool keeps that much until [`trim`](Self::trim) is told to go below
    /// it. Calls the source.
    ///
    /// With virtual addressing, small requests then take memory of large ones before they ask for pages of their own.
    ///
    /// # Errors
    /// [`AllocError::NeverFits`] beyond the limit, [`AllocError::FullNow`] when the source does not have so much,
    /// [`AllocError::Driver`] when it fails otherwise. What the pool got until then stays held.
    pub fn reserve(&self, bytes: u64) -> Result<u64, AllocError> {
        let rounded = self.settings.exact_block(bytes).unwrap_or(u64::MAX);
        if rounded > self.settings.limit {
            return Err(AllocError::NeverFits {
                requested: bytes,
                rounded,
                limit: self.settings.limit,
            });
        }
        let held = self.hold(rounded)?;
        let mut books = self.books.lock();
        books.reserved = books.reserved.max(rounded);
        Ok(held)
    }

    /// Whether the pool maps pages where they are needed. Otherwise it holds Blocks.
    #[must_use]
    pub const fn has_virtual_addressing(&self) -> bool {
        matches!(self.placement, Placement::Virtual(_))
    }

    /// The physical page behind an address. `None` where no page is mapped, and without virtual addressing.
    #[must_use]
    pub fn translate(&self, address: DevicePtr) -> Option<Translation> {
        let books = self.books.lock();
        let block = books.blocks.containing(address)?;
        let offset = block.offset + address.checked_offset_from(block.range.start)?;
        books.pages.translate(offset)
    }

    /// The counters at this moment. Takes the lock for a step per lane.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let mut fronts = self.enter_fronts();
        let mut stats = self.books.lock().stats();
        fronts.add_to(&mut stats, &self.timeline);
        stats
    }

    /// Where the bytes are that the pool holds and the program does not use. Takes the lock for a step per lane and
    /// one for each hole of at least a page: meant for reports.
    #[must_use]
    pub fn fragmentation(&self) -> Fragmentation {
        let _closed = self.fronts.close();
        self.recall();
        self.books.lock().fragmentation(&self.placement)
    }

    /// The allocation that contains an address, be it its first byte or any other. `None` if there is none.
    ///
    /// With [`AddressLookup::Tables`](crate::AddressLookup::Tables) this takes no lock, waits for nobody and costs a
    /// few steps, however much is live. An allocation that is made or freed during the call may be found or not. By
    /// default this is a walk under the lock, and allocations pay nothing for it.
    #[must_use]
    pub fn lookup(&self, address: DevicePtr) -> Option<AllocationInfo> {
        if self.settings.has_directory {
            self.directory.lookup(self.id, address)
        } else {
            self.walk_to(address)
        }
    }

    /// Walks all books and compares them: `held + suspended = live + padding + cached + pending + in_transit`, Blocks
    /// against the index, the index against itself. Meant for tests and debugging.
    ///
    /// # Errors
    /// The first [`Inconsistency`] found: a defect of the pool.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let mut fronts = self.enter_fronts();
        let books = self.books.lock();
        books.check()?;
        fronts.check(&books)
    }

    /// Which pool this is.
    #[must_use]
    pub const fn id(&self) -> PoolId {
        self.id
    }

    /// The most bytes that the pool may hold.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.settings.limit
    }

    /// Whether this process is a fork of the one that made the pool's timeline.
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.timeline.is_forked()
    }

    /// The timeline of the lanes the pool understands. Nobody is shown it: whoever has a timeline makes lanes on it, says what they
    /// have done, and is believed.
    pub(crate) const fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The first error of the source while it took memory back, since the last call of this. The source has recorded
    /// it too.
    pub fn take_error(&self) -> Option<DriverError> {
        self.last_error.lock().take()
    }

    pub(crate) fn record(&self, error: DriverError) {
        self.source.record_error(error);
        self.last_error.lock().get_or_insert(error);
    }

    /// Whether the device is alive and the request makes sense.
    #[inline]
    pub(crate) fn may_serve(&self, request: &Request) -> bool {
        self.source.status().is_ok() && self.admits(request)
    }

    #[inline]
    fn admits(&self, request: &Request) -> bool {
        let is_some = (1..=self.settings.most_each).contains(&request.bytes);
        // Any alignment at all is what most ask for.
        let is_aligned = request.align == 1
            || request.align.is_power_of_two() && request.align <= self.settings.max_align;
        is_some && is_aligned
    }

    /// Why a request is not even tried.
    #[cold]
    fn refusal_of(&self, request: &Request) -> AllocError {
        if request.bytes == 0 {
            return AllocError::ZeroBytes;
        }
        let maximum = self.settings.max_align;
        if !request.align.is_power_of_two() || request.align > maximum {
            return AllocError::Alignment {
                given: request.align,
                maximum,
            };
        }
        let exact = self.settings.exact_block(request.bytes);
        AllocError::NeverFits {
            requested: request.bytes,
            rounded: exact.unwrap_or(u64::MAX),
            limit: self.settings.limit,
        }
    }
}

impl Drop for DevicePool {
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        self.trim(0);
        if let Placement::Virtual(range) = &self.placement {
            self.release_addresses(range);
        }
    }
}

impl std::fmt::Debug for DevicePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevicePool")
            .field("id", &self.id)
            .field("source", &self.source)
            .field("settings", &self.settings)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
