//! Copies that go on where the last one ended, and are parts of one long copy.
//!
//! What is copied in chunks is as long as all of them: only the queue that runs them can see it. The first [`CACHED_BYTES`] of
//! such a run are left in the caches, where a kernel that comes next finds them; what follows is streamed to memory, since
//! it would only push out what lies there. So is the rest of one copy that is longer.
//!
//! # Protocol
//! Only the owner of a queue's front reads and writes it, and the front is handed over with more than these words.

use piton_sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a run of copies that are kept in the caches. See `docs/benchmarks.md`.
const CACHED_BYTES: usize = 4 << 20;

/// The run of copies that a queue is in.
#[derive(Debug, Default)]
pub(crate) struct Sequel {
    /// Where its last copy ended.
    end: AtomicUsize,
    bytes: AtomicUsize,
}

impl Sequel {
    /// A copy of `bytes` to `start` comes next: how many of them, from its start on, are to stay in the caches.
    pub(crate) fn cached(&self, start: usize, bytes: usize) -> usize {
        let goes_on = self.end.load(Ordering::Relaxed) == start;
        let before = if goes_on {
            self.bytes.load(Ordering::Relaxed)
        } else {
            0
        };
        self.end.store(start.wrapping_add(bytes), Ordering::Relaxed);
        self.bytes
            .store(before.saturating_add(bytes), Ordering::Relaxed);
        CACHED_BYTES.saturating_sub(before).min(bytes)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_long_copy_are_streamed_like_the_rest_of_one() {
        let (one, many) = (Sequel::default(), Sequel::default());
        assert_eq!(one.cached(4096, 3 * CACHED_BYTES), CACHED_BYTES);
        let step = CACHED_BYTES / 4 * 3;
        let starts = (0..4).map(|index| 4096 + index * step);
        let cached: Vec<usize> = starts.map(|start| many.cached(start, step)).collect();
        assert_eq!(cached, [step, CACHED_BYTES - step, 0, 0]);
    }

    #[test]
    fn a_copy_elsewhere_begins_anew() {
        let sequel = Sequel::default();
        let _ = sequel.cached(0, 2 * CACHED_BYTES);
        assert_eq!(sequel.cached(0, 100), 100);
        assert_eq!(sequel.cached(100, 2 * CACHED_BYTES), CACHED_BYTES - 100);
    }
}
