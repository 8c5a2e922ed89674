//! Giving idle memory back to the device: all at once, or in steps beside a program that runs.
//!
//! The source is called under `turn` alone. Requests that what is held can serve, and all frees, do not need it and go on meanwhile;
//! a request that must grow waits for it. [`DevicePool::trim`] keeps it until it has done, which gives the most back
//! soonest; [`DevicePool::shrink_to`] lets it go after each step, so that nobody waits for more than a few calls.

use piton_sync::thread;

use crate::placement::Placement;
use crate::pool::DevicePool;

/// The part of the limit that one step gives back, and at least.
const STEP_SHARE: u64 = 256;

impl DevicePool {
    /// Gives wholly free Blocks, or pages that lie in holes, back to the source until the pool holds at most `keep`
    /// bytes or nothing idle is left. Returns the bytes given back.
    ///
    /// Calls the source, which may block; other threads that must grow the pool wait meanwhile. An error of the
    /// source ends the trim and is kept for [`DevicePool::take_error`].
    pub fn trim(&self, keep: u64) -> u64 {
        let _turn = self.turn.lock();
        let excess = self.excess_over(keep);
        self.give_idle_back(excess)
    }

    /// Like [`trim`](Self::trim), but in small steps between which other threads can grow the pool: meant for a
    /// thread beside a running program. It does not go below what was [reserved](DevicePool::reserve). Returns the
    /// bytes given back. What the program allocates meanwhile is not touched.
    pub fn shrink_to(&self, watermark: u64) -> u64 {
        let step = (self.settings.limit / STEP_SHARE).max(self.settings.block_multiple);
        let mut returned = 0;
        loop {
            let turn = self.turn.lock();
            let keep = watermark.max(self.books.lock().reserved);
            let excess = self.excess_over(keep);
            let more = self.give_idle_back(excess.min(step));
            drop(turn);
            returned += more;
            if more == 0 {
                return returned;
            }
            thread::yield_now();
        }
    }

    /// Bytes held beyond `keep`; what is complete is everyone's then, and shelves are empty. The caller holds `turn`.
    fn excess_over(&self, keep: u64) -> u64 {
        let _closed = self.fronts.close();
        self.recall();
        let mut books = self.books.lock();
        books.drain(&self.timeline);
        books.held.saturating_sub(keep)
    }

    /// The caller holds `turn`.
    fn give_idle_back(&self, bytes: u64) -> u64 {
        match &self.placement {
            Placement::Blocks => self.return_blocks(bytes),
            Placement::Virtual(range) => self.return_pages(range, bytes),
        }
    }
}
