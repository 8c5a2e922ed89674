//! How far one launch is: blocks claimed, blocks finished, the first fault.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `next` | [`claim`](BlockTally::claim), by `fetch_add`: each number is handed out once | Relaxed: it orders nothing |
//! | `finished` | [`finish_one`](BlockTally::finish_one), by `fetch_add` after the block's last access | AcqRel; pairs with the Acquire load in [`wait`](BlockTally::wait) |
//! | `fault` | both, under its lock, which the sleeper in `wait` sleeps under | |
//!
//! Whoever finishes the last block notifies under the lock, and the owner looks at `finished` under the same
//! lock before it sleeps: it cannot miss the notice. It reads the last of a chain of RMWs, so it sees what
//! every block wrote before the launch is said to have ended.

use piton_driver::Fault;
use piton_sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// The blocks of one launch.
#[derive(Debug)]
pub(crate) struct BlockTally {
    blocks: u64,
    next: AtomicU64,
    finished: AtomicU64,
    fault: Mutex<Option<Fault>>,
    all_done: Condvar,
}

impl BlockTally {
    pub(crate) fn new(blocks: u64) -> Self {
        Self {
            blocks,
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            fault: Mutex::new(None),
            all_done: Condvar::new(),
        }
    }

    /// How many blocks nobody has claimed.
    pub(crate) fn unclaimed(&self) -> u64 {
        let claimed = self.next.load(Ordering::Relaxed);
        self.blocks.saturating_sub(claimed)
    }

    /// The next block to run. Whoever gets one calls [`finish_one`](Self::finish_one).
    pub(crate) fn claim(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.blocks).then_some(number)
    }

    /// Whether a block has failed: the rest need not run.
    pub(crate) fn has_fault(&self) -> bool {
        self.fault.lock().is_some()
    }

    /// A claimed block has ended.
    pub(crate) fn finish_one(&self, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.fault.lock().get_or_insert(fault);
        }
        if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.blocks {
            let fault = self.fault.lock();
            self.all_done.notify_all();
            drop(fault);
        }
    }

    /// Waits until every block has ended; returns the first fault.
    pub(crate) fn wait(&self) -> Result<(), Fault> {
        let mut fault = self.fault.lock();
        while self.finished.load(Ordering::Acquire) < self.blocks {
            self.all_done.wait(&mut fault);
        }
        fault.map_or(Ok(()), Err)
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
            launch.tally.finish_one(Ok(()));
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
            let participant = thread::spawn(move || take_part(&other));
            take_part(&launch);
            launch.tally.wait().unwrap();
            for cell in &launch.memory {
                // SAFETY: all blocks have ended.
                cell.with(|word| assert_eq!(unsafe { *word }, 1));
            }
            participant.join().unwrap();
        });
    }
}
