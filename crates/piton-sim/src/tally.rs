//! How far one launch is: blocks claimed, who helps, why it has failed.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `next` | [`claim`](BlockTally::claim), by `fetch_add`: each number is handed out once; [`fail`](BlockTally::fail), by `fetch_max` to the end | Relaxed: it orders nothing |
//! | `failure`, `guests` | under their lock, which the owner sleeps under in [`wait`](BlockTally::wait) | the lock |
//!
//! The tally lies on the owner's stack. A *guest*, a thread that helps, is counted before it gets to see the launch and
//! until it is done with it. A thread that claims a block runs it before it claims another or leaves; so when the owner
//! has found no block left to claim, and no guest is left, every block has ended, and the lock has handed over what the
//! guests wrote.

use piton_driver::ErrorKind;
use piton_sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
    hint,
};

/// Looks at the guests before the owner sleeps: the last block of one is often short.
#[cfg(not(loom))]
const LOOKS: u32 = 64;
#[cfg(loom)]
const LOOKS: u32 = 0;

/// The blocks of one launch.
#[derive(Debug)]
pub(crate) struct BlockTally {
    blocks: u64,
    next: AtomicU64,
    kept: Mutex<Kept>,
    none_left: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    failure: Option<ErrorKind>,
    guests: u32,
}

impl BlockTally {
    pub(crate) fn new(blocks: u64) -> Self {
        Self {
            blocks,
            next: AtomicU64::new(0),
            kept: Mutex::new(Kept::default()),
            none_left: Condvar::new(),
        }
    }

    /// How many blocks nobody has claimed.
    pub(crate) fn unclaimed(&self) -> u64 {
        let claimed = self.next.load(Ordering::Relaxed);
        self.blocks.saturating_sub(claimed)
    }

    /// The next block to run. Whoever gets one runs it, or calls [`fail`](Self::fail).
    pub(crate) fn claim(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.blocks).then_some(number)
    }

    /// A claimed block has failed, or is not run: those that nobody has claimed need not run either.
    pub(crate) fn fail(&self, kind: ErrorKind) {
        self.kept.lock().failure.get_or_insert(kind);
        self.next.fetch_max(self.blocks, Ordering::Relaxed);
    }

    /// A guest is about to help. Called where the owner cannot have left: before the launch is withdrawn.
    pub(crate) fn enter(&self) {
        self.kept.lock().guests += 1;
    }

    /// The guest is done with the launch, and does not look at it again.
    pub(crate) fn leave(&self) {
        let mut kept = self.kept.lock();
        kept.guests -= 1;
        if kept.guests == 0 {
            self.none_left.notify_all();
        }
    }

    /// Waits until every guest has left; returns the first failure. The owner calls it when no block is left to claim
    /// and no guest can enter any more.
    pub(crate) fn wait(&self) -> Result<(), ErrorKind> {
        let mut kept = self.kept.lock();
        for _ in 0..LOOKS {
            if kept.guests == 0 {
                break;
            }
            drop(kept);
            hint::spin_loop();
            kept = self.kept.lock();
        }
        while kept.guests > 0 {
            self.none_left.wait(&mut kept);
        }
        kept.failure.map_or(Ok(()), Err)
    }
}

#[cfg(all(test, loom))]
#[expect(unsafe_code, reason = "the model watches what blocks write")]
mod loom_tests {
    use super::*;
    use piton_sync::{UnsafeCell, model, thread};
    use std::sync::Arc;

    struct Launch {
        tally: BlockTally,
        memory: [UnsafeCell<u32>; 2],
    }

    // SAFETY: a block's cell is written by whoever claimed the block, and read once all have ended: that this is
    // so is what the model checks.
    unsafe impl Sync for Launch {}
    // SAFETY: as above.
    unsafe impl Send for Launch {}

    fn take_part(launch: &Launch) {
        while let Some(number) = launch.tally.claim() {
            let cell = &launch.memory[usize::try_from(number).unwrap()];
            // SAFETY: claimed by nobody else.
            cell.with_mut(|word| unsafe { *word += 1 });
        }
    }

    #[test]
    fn the_owner_sees_what_every_block_wrote() {
        model(|| {
            let launch = Arc::new(Launch {
                tally: BlockTally::new(2),
                memory: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let other = Arc::clone(&launch);
            launch.tally.enter();
            let participant = thread::spawn(move || {
                take_part(&other);
                other.tally.leave();
            });
            take_part(&launch);
            launch.tally.wait().unwrap();
            for cell in &launch.memory {
                // SAFETY: all blocks have ended.
                cell.with(|word| assert_eq!(unsafe { *word }, 1));
            }
            assert_eq!(launch.tally.kept.lock().guests, 0);
            participant.join().unwrap();
        });
    }
}
