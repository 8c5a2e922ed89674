//! What each thread counts as it goes, by size class; summed when somebody asks.
//!
//! # The idea
//! A counter that all threads write costs more than the allocation it counts. So each thread has counters of its own,
//! written by a plain load and store by who has what the thread keeps (mostly the thread), and anybody reads. When a thread ends, what it counted is added to
//! the counters of those that have ended, under the lock under which they are summed, so that no reader sees a thread
//! twice or not at all.
//!
//! # Invariants
//! 1. `handed_out - taken_back`, over all, is the blocks that are out; of one thread it may be negative, and wraps.
//! 2. `exchanged + taken_back - handed_out` of a thread is the blocks in its magazine of the class.
//! 3. `requested`, over all, is what was asked for of the blocks that are out; of one thread it wraps likewise.
//!
//! All Relaxed: statistics, by which nothing is decided.

use crate::shelf::Tally;
use piton_suballoc::SizeClass;
use piton_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::ops::AddAssign;

/// One thread's counters of one class.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ClassCounters {
    handed_out: AtomicU64,
    taken_back: AtomicU64,
    requested: AtomicU64,
    exchanged: AtomicU64,
}

/// Counters at one time, of one thread or of all. Differences wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassCount {
    /// Blocks handed out.
    pub(crate) handed_out: u64,
    /// Blocks dropped.
    pub(crate) taken_back: u64,
    /// Bytes asked for by requests, less those of the blocks dropped.
    pub(crate) requested: u64,
    /// Blocks that came into magazines otherwise than by a drop, less those that left otherwise than by a request.
    pub(crate) exchanged: u64,
}

impl ClassCount {
    /// Blocks that are out.
    pub(crate) fn live(&self) -> u64 {
        self.handed_out.wrapping_sub(self.taken_back)
    }

    /// Blocks in magazines.
    pub(crate) fn in_magazines(&self) -> u64 {
        self.exchanged.wrapping_sub(self.live())
    }
}

impl AddAssign for ClassCount {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.wrapping_add(more);
        add(&mut self.handed_out, other.handed_out);
        add(&mut self.taken_back, other.taken_back);
        add(&mut self.requested, other.requested);
        add(&mut self.exchanged, other.exchanged);
    }
}

impl ClassCounters {
    /// A block went out for a request of `asked` bytes. By who has what the thread keeps.
    #[inline]
    pub(crate) fn hand_out(&self, asked: u64) {
        bump(&self.handed_out, 1);
        bump(&self.requested, asked);
    }

    /// A block was dropped. By who has what the thread keeps.
    #[inline]
    pub(crate) fn take_back(&self, asked: u64) {
        bump(&self.taken_back, 1);
        bump(&self.requested, asked.wrapping_neg());
    }

    /// `blocks` came into the magazine. By who has what the thread keeps.
    pub(crate) fn came(&self, blocks: usize) {
        bump(&self.exchanged, blocks as u64);
    }

    /// `blocks` left the magazine. By who has what the thread keeps.
    pub(crate) fn left(&self, blocks: usize) {
        bump(&self.exchanged, (blocks as u64).wrapping_neg());
    }

    /// Adds what was counted elsewhere. By any thread.
    pub(crate) fn add(&self, more: ClassCount) {
        let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.handed_out, more.handed_out);
        add(&self.taken_back, more.taken_back);
        add(&self.requested, more.requested);
        add(&self.exchanged, more.exchanged);
    }

    pub(crate) fn read(&self) -> ClassCount {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ClassCount {
            handed_out: load(&self.handed_out),
            taken_back: load(&self.taken_back),
            requested: load(&self.requested),
            exchanged: load(&self.exchanged),
        }
    }
}

/// Adds to a counter that only this thread writes.
#[inline]
fn bump(counter: &AtomicU64, more: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(more);
    counter.store(sum, Ordering::Relaxed);
}

/// The counters of all threads.
#[derive(Debug)]
pub(crate) struct AllCounters {
    /// Of threads that have ended, and of calls that found no place for counters of their own: one entry a class, and a last
    /// one for blocks of none.
    shared: Box<[ClassCounters]>,
    threads: Mutex<Vec<Tally>>,
}

impl AllCounters {
    /// Counters of `classes` classes, and of blocks of none.
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            shared: (0..=classes).map(|_| ClassCounters::default()).collect(),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// A thread begins, with these counters.
    pub(crate) fn join(&self, mine: Tally) {
        self.threads.lock().push(mine);
    }

    /// A thread ends, with empty magazines.
    pub(crate) fn leave(&self, mine: &Tally) {
        let mut threads = self.threads.lock();
        threads.retain(|other| !other.is(mine));
        for (shared, mine) in self.shared.iter().zip(mine.read()) {
            shared.add(mine);
        }
    }

    /// Counts where a thread has no counters of its own.
    pub(crate) fn count(&self, class: Option<SizeClass>, more: ClassCount) {
        let last = self.shared.len().saturating_sub(1);
        let at = class.map_or(last, SizeClass::index);
        if let Some(counters) = self.shared.get(at) {
            counters.add(more);
        }
    }

    /// The sums, one entry a class and a last one for blocks of none.
    pub(crate) fn sum(&self) -> Vec<ClassCount> {
        let threads = self.threads.lock();
        let mut sums: Vec<ClassCount> = self.shared.iter().map(ClassCounters::read).collect();
        for thread in threads.iter() {
            for (sum, count) in sums.iter_mut().zip(thread.read()) {
                *sum += count;
            }
        }
        sums
    }

    /// The counters of each thread that has its own, oldest first: one entry a class and a last one for blocks of none.
    pub(crate) fn by_thread(&self) -> Vec<Vec<ClassCount>> {
        let threads = self.threads.lock();
        threads
            .iter()
            .map(|thread| thread.read().collect())
            .collect()
    }

    /// How many threads have counters of their own.
    pub(crate) fn threads(&self) -> usize {
        self.threads.lock().len()
    }
}
