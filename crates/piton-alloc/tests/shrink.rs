//! Idle memory on its way back to the device, beside a program that goes on.

#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "stands between a pool and its source")]

mod source;

use std::sync::{Arc, OnceLock, Weak};

use piton_alloc::{Allocation, BlockSource, DevicePool, MemoryPoolConfig, Request};
use piton_driver::{
    DevicePtr, DeviceRange, DriverError, PageGranularity, PhysicalHandle, VirtualMemory,
};
use piton_sync::Mutex;
use piton_timeline::{Frontier, Timeline};
use source::{Books, GRANULE};

const CAPACITY: u64 = 64 * GRANULE;

/// Uses the pool whenever the pool takes something away: that can only end if no lock is held that it needs.
#[derive(Debug)]
struct Beside {
    source: Books,
    pool: OnceLock<Weak<DevicePool>>,
    served: Mutex<u64>,
}

impl Beside {
    fn use_pool(&self) {
        let Some(pool) = self.pool.get().and_then(Weak::upgrade) else {
            return;
        };
        let one = pool.allocate(Request::new(512)).unwrap();
        assert!(pool.lookup(one.ptr()).is_some());
        pool.free(one, Frontier::new()).unwrap();
        *self.served.lock() += 1;
    }
}

// SAFETY: passed on unchanged to a source that keeps these promises.
unsafe impl BlockSource for Beside {
    fn capacity(&self) -> u64 {
        BlockSource::capacity(&self.source)
    }

    fn granularity(&self) -> u64 {
        BlockSource::granularity(&self.source)
    }

    fn alignment(&self) -> u64 {
        self.source.alignment()
    }

    fn status(&self) -> Result<(), DriverError> {
        self.source.status()
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr, DriverError> {
        self.source.allocate(bytes)
    }

    unsafe fn free(&self, block: DevicePtr) -> Result<(), DriverError> {
        self.use_pool();
        // SAFETY: the caller's promise.
        unsafe { self.source.free(block) }
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        self.source.virtual_memory().map(|_| self as _)
    }

    fn record_error(&self, error: DriverError) {
        self.source.record_error(error);
    }
}

// SAFETY: as above.
unsafe impl VirtualMemory for Beside {
    fn granularity(&self) -> PageGranularity {
        VirtualMemory::granularity(&self.source)
    }

    fn reserve(&self, bytes: u64) -> Result<DeviceRange, DriverError> {
        self.source.reserve(bytes)
    }

    unsafe fn release(&self, range: DeviceRange) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.source.release(range) }
    }

    fn create(&self, bytes: u64) -> Result<PhysicalHandle, DriverError> {
        self.source.create(bytes)
    }

    fn destroy(&self, handle: PhysicalHandle) -> Result<(), DriverError> {
        self.use_pool();
        self.source.destroy(handle)
    }

    unsafe fn map(&self, at: DevicePtr, handle: PhysicalHandle) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.source.map(at, handle) }
    }

    unsafe fn unmap(&self, range: DeviceRange) -> Result<(), DriverError> {
        self.use_pool();
        // SAFETY: the caller's promise.
        unsafe { self.source.unmap(range) }
    }
}

fn beside(source: Books) -> (Arc<Beside>, Arc<DevicePool>) {
    let source = Arc::new(Beside {
        source,
        pool: OnceLock::new(),
        served: Mutex::new(0),
    });
    let config = MemoryPoolConfig {
        block_bytes: Some(2 * GRANULE),
        ..MemoryPoolConfig::default()
    };
    let pool = DevicePool::new(source.clone(), Timeline::new(), &config).unwrap();
    let pool = Arc::new(pool);
    source.pool.set(Arc::downgrade(&pool)).unwrap();
    (source, pool)
}

/// Something small that stays, and much that goes; what is served meanwhile lies beside what stays.
fn grow(pool: &DevicePool) -> [Allocation; 2] {
    let stay = [512, 512].map(|bytes| pool.allocate(Request::new(bytes)).unwrap());
    let sizes = [9, 3, 14, 5, 8].map(|granules| granules * GRANULE);
    let go = sizes.map(|bytes| pool.allocate(Request::new(bytes)).unwrap());
    for one in go {
        pool.free(one, Frontier::new()).unwrap();
    }
    stay
}

fn check(source: &Beside, pool: &DevicePool) {
    pool.check().unwrap();
    assert_eq!(pool.stats().held_bytes, source.source.held());
}

#[test]
fn a_program_allocates_and_frees_while_the_source_takes_memory_back() {
    for make in [Books::new, Books::with_pages] {
        for shrink in [DevicePool::trim, DevicePool::shrink_to] {
            let (source, pool) = beside(make(CAPACITY));
            let stay = grow(&pool);
            let held = source.source.held();
            let returned = shrink(&pool, 0);
            assert!(returned > held / 2, "{returned} of {held}");
            assert_eq!(source.source.held(), held - returned);
            assert!(*source.served.lock() >= 2);
            check(&source, &pool);
            for one in stay {
                pool.free(one, Frontier::new()).unwrap();
            }
        }
    }
}

#[test]
fn shrinking_stops_at_the_watermark_and_at_what_was_reserved() {
    for make in [Books::new, Books::with_pages] {
        let (source, pool) = beside(make(CAPACITY));
        let stay = grow(&pool);
        let watermark = 20 * GRANULE;
        pool.shrink_to(watermark);
        let held = source.source.held();
        assert!(held <= watermark, "{held}");
        assert_eq!(pool.shrink_to(watermark), 0);
        check(&source, &pool);
        let reserved = pool.reserve(30 * GRANULE).unwrap();
        assert_eq!(pool.shrink_to(0), 0, "it was reserved");
        assert!(pool.stats().held_bytes >= reserved.min(30 * GRANULE));
        for one in stay {
            pool.free(one, Frontier::new()).unwrap();
        }
    }
}
