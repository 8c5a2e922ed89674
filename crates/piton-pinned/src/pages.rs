//! Pages of the pool's own, mapped so that large pages can serve them, and registered with the driver.
//!
//! # The idea
//! Locking costs by the page: with pages of 2 MiB a five-hundredth. A driver's own allocation may not use them. So the pool
//! can map its memory itself: at a multiple of 2 MiB, with the advice to use large pages, its pages made by as many threads
//! as there are cores, and only then locked, by registering it with the driver once. Where the device has a
//! NUMA node, the pages come from there.
//!
//! Whether large pages help is a question of the system (its setting, its free memory, the host it runs on).
//! [`HostPages::Measured`] asks it once, when the pool is made.

#![expect(unsafe_code, reason = "maps, advises and unmaps pages")]

use crate::{
    config::HUGE_PAGE,
    node::{self, Binding, Node},
};
use piton_driver::ErrorKind;
#[cfg(not(loom))]
use piton_sync::thread;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use std::{
    ptr::{self, NonNull},
    time::{Duration, Instant},
};

/// Where the pages of a pool come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostPages {
    /// The driver allocates them as it sees fit.
    #[default]
    Driver,
    /// The pool maps them, asks for large ones, and registers them with the driver.
    Huge,
    /// The pool maps them if a measurement, when it is made, finds that large ones are made and locked faster here; otherwise
    /// the driver allocates them. Takes some milliseconds.
    Measured,
}

impl HostPages {
    /// Whether the pool is to map pages itself.
    pub(crate) fn are_own(self) -> bool {
        match self {
            Self::Driver => false,
            Self::Huge => true,
            Self::Measured => do_huge_pages_help(),
        }
    }
}

/// Memory mapped here: zeroed, at a multiple of 2 MiB, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives access to no byte of it: its address has to be dereferenced in unsafe code.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, a multiple of 4096, whose pages are made now. May block.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfHostMemory`].
    pub(crate) fn new(bytes: usize, advice: Advice) -> Result<Self, ErrorKind> {
        let mapping = Self::reserved(bytes, advice)?;
        mapping.populate();
        Ok(mapping)
    }

    /// As [`new`](Self::new), with pages from a node. And whether the system knows it: without, they come from anywhere.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfHostMemory`].
    pub(crate) fn on(
        node: Node,
        bytes: usize,
        advice: Advice,
    ) -> Result<(Self, Result<(), Errno>), ErrorKind> {
        let mapping = Self::reserved(bytes, advice)?;
        // SAFETY: it has just been mapped, at a multiple of 2 MiB.
        let bound = unsafe { node::bind(mapping.start, bytes, node) };
        if bound.is_ok() || node.binding == Binding::Rather {
            mapping.populate();
        }
        Ok((mapping, bound))
    }

    /// Mapped and advised, its pages not made.
    fn reserved(bytes: usize, advice: Advice) -> Result<Self, ErrorKind> {
        let mapping = Self::aligned(bytes)?;
        mapping.advise(0, bytes, advice);
        Ok(mapping)
    }

    /// A mapping that somebody gave up as `start` and `bytes`.
    ///
    /// # Safety
    /// They came out of [`into_raw`](Self::into_raw), and nothing refers to the memory.
    pub(crate) unsafe fn from_raw(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// The memory, which stays until it is made a mapping again.
    pub(crate) fn into_raw(self) -> (NonNull<u8>, usize) {
        let mapping = std::mem::ManuallyDrop::new(self);
        (mapping.start, mapping.bytes)
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives the pages back to the system.
    ///
    /// # Errors
    /// The system's. The pages then stay where they are, and nobody knows them any more.
    pub(crate) fn unmap(self) -> Result<(), Errno> {
        let (start, bytes) = self.into_raw();
        // SAFETY: it was mapped by `aligned`, nothing refers to it, and its destructor does not run any more.
        unsafe { munmap(start.as_ptr().cast(), bytes) }
    }

    /// Maps 2 MiB more than asked for, and unmaps what lies before and behind.
    fn aligned(bytes: usize) -> Result<Self, ErrorKind> {
        let requested = bytes as u64;
        let refused = ErrorKind::OutOfHostMemory { requested };
        let huge = usize::try_from(HUGE_PAGE).map_err(|_| refused)?;
        let all = bytes.checked_add(huge).ok_or(refused)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without MAP_FIXED the system picks a range that nothing uses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), all, prot, MapFlags::PRIVATE) };
        let start = start
            .ok()
            .and_then(|start| NonNull::new(start.cast::<u8>()));
        let start = start.ok_or(refused)?;
        let before = start.addr().get().next_multiple_of(huge) - start.addr().get();
        let behind = huge - before;
        // The parts are given back by the destructors of mappings of their own.
        let aligned = start.map_addr(|address| address.saturating_add(before));
        let end = aligned.map_addr(|address| address.saturating_add(bytes));
        for (start, bytes) in [(start, before), (end, behind)] {
            drop((bytes > 0).then(|| Self { start, bytes }));
        }
        Ok(Self {
            start: aligned,
            bytes,
        })
    }

    /// Makes the pages, on as many threads as there are cores and work for them.
    #[cfg(not(loom))]
    fn populate(&self) {
        /// Less than this is not worth a thread.
        const PART: usize = 32 << 20;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let parts = self.bytes.div_ceil(PART).clamp(1, cores);
        let part = self.bytes.div_ceil(parts).next_multiple_of(4096);
        let populate = |at: usize| {
            let bytes = part.min(self.bytes.saturating_sub(at));
            self.advise(at, bytes, Advice::LinuxPopulateWrite);
        };
        let populate = &populate;
        thread::scope(|scope| {
            for number in 1..parts {
                let builder = thread::Builder::new();
                // Without a thread its part is made when it is locked.
                drop(builder.spawn_scoped(scope, move || populate(number * part)));
            }
            populate(0);
        });
    }

    /// Makes the pages. Models map none.
    #[cfg(loom)]
    fn populate(&self) {
        self.advise(0, self.bytes, Advice::LinuxPopulateWrite);
    }

    /// Advice is not an order: a system that does not know it goes on as it would.
    fn advise(&self, at: usize, bytes: usize, advice: Advice) {
        if bytes == 0 || at.saturating_add(bytes) > self.bytes {
            return;
        }
        // SAFETY: `at` lies inside the mapping.
        let start = unsafe { self.start.add(at) };
        // SAFETY: the range lies inside the mapping, and no advice used here changes what it holds.
        let advised = unsafe { madvise(start.as_ptr().cast(), bytes, advice) };
        advised.unwrap_or_default();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `aligned` and is unmapped once; nothing refers to it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        // Who has pages that somebody must know of if they stay calls `unmap`; here addresses stay at worst.
        unmapped.unwrap_or_default();
    }
}

/// Whether making and locking memory is faster here with large pages: the better of three tries each.
fn do_huge_pages_help() -> bool {
    let best = |advice| (0..3).filter_map(|_| time_to_lock(advice)).min();
    match (best(Advice::LinuxHugepage), best(Advice::LinuxNoHugepage)) {
        (Some(huge), Some(small)) => huge < small,
        _ => false,
    }
}

/// How long a few MiB take; none if they cannot be had. A refused lock does not hide what the pages cost.
fn time_to_lock(advice: Advice) -> Option<Duration> {
    let bytes = 4 * usize::try_from(HUGE_PAGE).ok()?;
    let began = Instant::now();
    let mapping = Mapping::new(bytes, advice).ok()?;
    // SAFETY: the range is the mapping's; unmapping ends the lock.
    let locked = unsafe { mlock(mapping.start.as_ptr().cast(), bytes) };
    locked.unwrap_or_default();
    Some(began.elapsed())
}
