//! How far one launch is: blocks claimed, who helps, why it has failed.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `next` | [`claim`](BlockTally::claim), by `fetch_add`: each number is handed out once; [`fail`](BlockTally::fail), by `fetch_max` to the end | Relaxed: it orders nothing |
//! | `failure` | whoever claimed a block that failed, under its lock | the lock |
//! | `guests` up | [`enter`](BlockTally::enter), under a lock that the owner takes before it waits | Relaxed |
//! | `guests` down | [`leave`](BlockTally::leave), a guest's last look at the tally | Release; pairs with the Acquire load in [`wait`](BlockTally::wait) |
//! | `ASLEEP` in `guests` | the owner, under the [`Bell`]'s lock, before it looks at the number a last time and sleeps there | Relaxed: `leave` finds it or has been seen |
//!
//! The tally lies on the owner's stack. A *guest*, a thread that helps, is counted before it gets to see the launch and
//! until it is done with it. A thread that claims a block runs it before it claims another or leaves; so when the owner
//! has found no block left to claim, and no guest is left, every block has ended, and the owner sees what the guests wrote.
//!
//! Guests are no number under a lock: whoever unlocks one may still look at it when the next has it already
//! (parking_lot sees to sleepers after it has let go), and by then the owner may have gone. So a guest leaves by one
//! read-modify-write, which also tells whether the owner sleeps, and rings a bell that is not the tally's.

use piton_driver::ErrorKind;
use piton_sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
    hint,
};

/// Looks at the guests before the owner sleeps: the last block of one is often short.
#[cfg(not(loom))]
const LOOKS: u32 = 64;
#[cfg(loom)]
const LOOKS: u32 = 0;

/// In `guests`: the owner sleeps until there are none.
const ASLEEP: u32 = 1;
/// In `guests`: one of them.
const GUEST: u32 = 2;

/// Where owners sleep until their guests have left. It outlives every launch.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        let held = self.lock.lock();
        self.rung.notify_all();
        drop(held);
    }
}

/// The blocks of one launch.
#[derive(Debug)]
pub(crate) struct BlockTally {
    blocks: u64,
    next: AtomicU64,
    failure: Mutex<Option<ErrorKind>>,
    guests: AtomicU32,
}

impl BlockTally {
    pub(crate) fn new(blocks: u64) -> Self {
        Self {
            blocks,
            next: AtomicU64::new(0),
            failure: Mutex::new(None),
            guests: AtomicU32::new(0),
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
        self.failure.lock().get_or_insert(kind);
        self.next.fetch_max(self.blocks, Ordering::Relaxed);
    }

    /// A guest is about to help. Called where the owner cannot have left: before the launch is withdrawn.
    pub(crate) fn enter(&self) {
        self.guests.fetch_add(GUEST, Ordering::Relaxed);
    }

    /// The guest is done with the launch, and does not look at it again. The owner sleeps at `bell`, if it does.
    pub(crate) fn leave(&self, bell: &Bell) {
        let before = self.guests.fetch_sub(GUEST, Ordering::Release);
        // From here on the tally may be gone.
        if before == GUEST | ASLEEP {
            bell.ring();
        }
    }

    /// Waits until every guest has left; returns the first failure. The owner calls it once, when no block is left to claim
    /// and no guest can enter any more.
    pub(crate) fn wait(&self, bell: &Bell) -> Result<(), ErrorKind> {
        let is_alone = || self.guests.load(Ordering::Acquire) < GUEST;
        let comes_to_be = || {
            hint::spin_loop();
            is_alone()
        };
        if !is_alone() && !(0..LOOKS).any(|_| comes_to_be()) {
            let mut asleep = bell.lock.lock();
            self.guests.fetch_or(ASLEEP, Ordering::Relaxed);
            while !is_alone() {
                bell.rung.wait(&mut asleep);
            }
        }
        self.failure.lock().map_or(Ok(()), Err)
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
        bell: Bell,
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
                bell: Bell::default(),
                memory: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let other = Arc::clone(&launch);
            launch.tally.enter();
            let participant = thread::spawn(move || {
                take_part(&other);
                other.tally.leave(&other.bell);
            });
            take_part(&launch);
            launch.tally.wait(&launch.bell).unwrap();
            for cell in &launch.memory {
                // SAFETY: all blocks have ended.
                cell.with(|word| assert_eq!(unsafe { *word }, 1));
            }
            assert!(launch.tally.guests.load(Ordering::Relaxed) < GUEST);
            participant.join().unwrap();
        });
    }
}
