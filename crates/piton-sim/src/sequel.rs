//! Copies that go on where the last one ended, and are parts of one long copy; and those that come again to the same few chunks.
//!
//! What is copied in chunks is as long as all of them: only the queue that runs them can see it. The first [`CACHED_BYTES`] of
//! such a run are left in the caches, where a kernel that comes next finds them; what follows is streamed to memory, since
//! it would only push out what lies there. So is the rest of one copy that is longer.
//!
//! A long copy to the host may also go through a few chunks, again and again, that the host empties meanwhile. These lie in a cache,
//! and are filled in the way made for that (`piton_copy::copy_cached`).
//!
//! # Protocol
//! Only the owner of a queue's front reads and writes it, and the front is handed over with more than these words.

use piton_sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a run of copies that are kept in the caches. See `docs/benchmarks.md`.
const CACHED_BYTES: usize = 4 << 20;

/// Places that are remembered: more than a ring of chunks has that is read through.
const RECENT: usize = 8;
/// A chunk is no longer: so many of these fit into a core's own cache.
const CHUNK_BYTES: usize = 512 << 10;

/// The run of copies that a queue is in.
#[derive(Debug, Default)]
pub(crate) struct Sequel {
    /// Where its last copy ended.
    end: AtomicUsize,
    bytes: AtomicUsize,
    /// Where its last copies began, the oldest of them next to be forgotten.
    starts: [AtomicUsize; RECENT],
    turn: AtomicUsize,
}

impl Sequel {
    /// Whether a copy of `bytes` to `start`, which comes next, fills a chunk that was filled a few copies ago. A place that is new
    /// is remembered.
    pub(crate) fn comes_again(&self, start: usize, bytes: usize) -> bool {
        let is_again = |known: &AtomicUsize| known.load(Ordering::Relaxed) == start;
        if self.starts.iter().any(is_again) {
            return bytes <= CHUNK_BYTES;
        }
        let turn = self.turn.load(Ordering::Relaxed);
        if let Some(place) = self.starts.get(turn % RECENT) {
            place.store(start, Ordering::Relaxed);
        }
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        false
    }

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
    fn chunks_that_are_filled_in_turn_come_again_as_long_as_they_are_short_and_few() {
        let again = |sequel: &Sequel, chunks: usize, bytes: usize| -> Vec<bool> {
            let starts = (0..2 * chunks).map(|turn| 4096 + turn % chunks * bytes);
            starts
                .map(|start| sequel.comes_again(start, bytes))
                .collect()
        };
        let few = [vec![false; RECENT], vec![true; RECENT]].concat();
        assert_eq!(again(&Sequel::default(), RECENT, CHUNK_BYTES), few);
        let longer = again(&Sequel::default(), 2, CHUNK_BYTES + 1);
        assert_eq!(longer, [false; 4]);
        let many = again(&Sequel::default(), RECENT + 1, 4096);
        assert_eq!(many, vec![false; 2 * RECENT + 2]);
    }

    #[test]
    fn a_copy_elsewhere_begins_anew() {
        let sequel = Sequel::default();
        let _ = sequel.cached(0, 2 * CACHED_BYTES);
        assert_eq!(sequel.cached(0, 100), 100);
        assert_eq!(sequel.cached(100, 2 * CACHED_BYTES), CACHED_BYTES - 100);
    }
}
