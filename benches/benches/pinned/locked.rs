//! What someone would write instead: a lock, a queue a class, or pages asked of the system each time.

#![expect(unsafe_code, reason = "maps, locks and unmaps pages")]
#![expect(
    clippy::expect_used,
    reason = "a benchmark without memory, or with wrong books, ends"
)]

use crate::subject::Subject;
use crossbeam_queue::ArrayQueue;
use piton_suballoc::{Chunk, Domain, SizeClass, Tlsf};
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
use std::{ffi::c_void, hint::black_box, ptr};

/// Offsets from one index behind a lock.
pub(crate) struct MutexTlsf(Mutex<Tlsf>);

impl MutexTlsf {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Tlsf::new(16 << 30, 64).expect("a small range")))
    }
}

impl Subject for MutexTlsf {
    type Block = Chunk;

    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Chunk {
        let mut index = self.0.lock();
        let chunk = index.allocate(Domain::SHARED, bytes as u64, 64);
        chunk.expect("the range is above what is live")
    }

    #[inline(always)]
    fn free(&self, block: Chunk) {
        let freed = self.0.lock().free(block.id, Domain::SHARED, 0);
        freed.expect("freed once");
    }
}

/// Offsets in one queue a size class, shared by all threads.
pub(crate) struct QueuePerClass {
    queues: Vec<ArrayQueue<u64>>,
    fresh: AtomicU64,
}

impl QueuePerClass {
    pub(crate) fn new() -> Self {
        let classes = SizeClass::for_bytes(32 << 20).map_or(0, SizeClass::index) + 1;
        Self {
            queues: (0..classes).map(|_| ArrayQueue::new(1024)).collect(),
            fresh: AtomicU64::new(0),
        }
    }
}

impl Subject for QueuePerClass {
    type Block = (SizeClass, u64);

    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Self::Block {
        let class = SizeClass::for_bytes(bytes as u64).expect("a small size");
        let found = self.queues[class.index()].pop();
        let fresh = || self.fresh.fetch_add(class.bytes(), Ordering::Relaxed);
        (class, found.unwrap_or_else(fresh))
    }

    #[inline(always)]
    fn free(&self, (class, offset): Self::Block) {
        self.queues[class.index()].push(offset).expect("room");
    }
}

/// Pages of its own for each request, locked.
pub(crate) struct MapAndLock;

/// A mapping.
pub(crate) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the pages belong to no thread, and nobody looks at them.
unsafe impl Send for Mapping {}

impl Subject for MapAndLock {
    type Block = Mapping;

    #[inline(always)]
    fn allocate(&self, bytes: usize) -> Mapping {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without MAP_FIXED the system picks a range that nothing uses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, prot, MapFlags::PRIVATE) };
        let start = start.expect("memory");
        // SAFETY: the range was just mapped. A refused lock leaves it as it is, which flatters the baseline.
        let locked = unsafe { mlock(start, bytes) };
        black_box(locked.is_ok());
        Mapping { start, bytes }
    }

    #[inline(always)]
    fn free(&self, block: Mapping) {
        // SAFETY: it was mapped above and is unmapped once.
        unsafe { munmap(block.start, block.bytes) }.expect("mapped");
    }
}
