//! What keeps a queue's commands from running: failures, aborts, deadlocks.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `signs` | whoever brings trouble, after the details are in place, by `fetch_or`; the consumer and `clear` take bits away | AcqRel RMW; the consumer's Acquire load of a bit sees the details |
//! | `aborted` | [`abort`](Trouble::abort), by `fetch_max`, before its bit | Release |
//! | the rest | under `details` | the lock |
//!
//! A failure is in place before the counter that covers it: whoever reads the counter finds the failure.
//!
//! An abort races with the end of the command that runs: it covers positions, and a position is looked at once, when
//! its command is about to start, or for a launch each time a block after the first is. So each command either ends as it would have or as
//! aborted, never both. A queue that
//! is about to stall looks again when its stall is in place, and whoever aborts ends stalls after its bit is set: one
//! of them sees the other.

use piton_driver::{ClearedFailures, ErrorKind, OnFailure, Position, QueueFailure};
use piton_sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// Later commands are skipped.
const STOPPED: u32 = 1;
/// Commands up to `aborted` are.
const ABORTED: u32 = 2;
/// The command at the front waits in a circle.
const DOOMED: u32 = 4;
/// There is or was a failure.
const FAILED: u32 = 8;

#[derive(Debug, Default)]
struct Details {
    failure: Option<QueueFailure>,
    cleared: ClearedFailures,
    doom: Option<ErrorKind>,
}

/// The trouble of one queue.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    signs: AtomicU32,
    aborted: AtomicU64,
    /// Made when there is trouble for the first time.
    details: Mutex<Option<Box<Details>>>,
}

impl Trouble {
    /// Why the command at `position` does not run: it is skipped, or ends with an error. One load while there is
    /// nothing.
    pub(crate) fn verdict(&self, position: u64) -> Option<Result<(), ErrorKind>> {
        let signs = self.signs.load(Ordering::Acquire);
        if signs & (STOPPED | ABORTED | DOOMED) == 0 {
            return None;
        }
        self.judge(signs, position)
    }

    fn judge(&self, signs: u32, position: u64) -> Option<Result<(), ErrorKind>> {
        if signs & STOPPED != 0 {
            return Some(Ok(()));
        }
        if signs & DOOMED != 0 {
            self.signs.fetch_and(!DOOMED, Ordering::AcqRel);
            let mut details = self.details.lock();
            if let Some(kind) = details.as_mut().and_then(|details| details.doom.take()) {
                return Some(Err(kind));
            }
        }
        (position <= self.aborted.load(Ordering::Acquire)).then_some(Err(ErrorKind::Aborted))
    }

    /// Keeps the first failure.
    pub(crate) fn fail(&self, failure: QueueFailure, mode: OnFailure) {
        let mut details = self.details.lock();
        details
            .get_or_insert_default()
            .failure
            .get_or_insert(failure);
        drop(details);
        let stops = match mode {
            OnFailure::Stop => STOPPED,
            OnFailure::Continue => 0,
        };
        self.signs.fetch_or(FAILED | stops, Ordering::AcqRel);
    }

    /// The first failure that was not cleared.
    pub(crate) fn failure(&self) -> Option<QueueFailure> {
        if self.signs.load(Ordering::Acquire) & FAILED == 0 {
            return None;
        }
        self.details.lock().as_ref()?.failure
    }

    /// Whether a failure spoils what ended at `position`, cleared since or not.
    pub(crate) fn spoils(&self, position: u64) -> bool {
        if self.signs.load(Ordering::Acquire) & FAILED == 0 {
            return false;
        }
        let (details, position) = (self.details.lock(), Position::new(position));
        details.as_ref().is_some_and(|details| {
            details.failure.is_some_and(|met| met.position <= position)
                || details.cleared.spoiling(position).is_some()
        })
    }

    /// Commands up to `last` that have not started end as aborted.
    pub(crate) fn abort(&self, last: u64) {
        self.aborted.fetch_max(last, Ordering::AcqRel);
        self.signs.fetch_or(ABORTED, Ordering::AcqRel);
    }

    /// Whether the command at `position` is aborted if it has not started.
    pub(crate) fn is_aborted(&self, position: u64) -> bool {
        self.signs.load(Ordering::Acquire) & ABORTED != 0
            && position <= self.aborted.load(Ordering::Acquire)
    }

    /// The last position that was aborted.
    pub(crate) fn aborted(&self) -> &AtomicU64 {
        &self.aborted
    }

    /// The command at the front ends with `kind`. The caller owns the front.
    pub(crate) fn doom(&self, kind: ErrorKind) {
        self.details.lock().get_or_insert_default().doom = Some(kind);
        self.signs.fetch_or(DOOMED, Ordering::AcqRel);
    }

    /// Forgets the failure, which spoils nothing past `last`, and returns it. Everything submitted has ended.
    pub(crate) fn clear(&self, last: u64) -> Option<QueueFailure> {
        let mut details = self.details.lock();
        let details = details.get_or_insert_default();
        let cleared = details.failure.take();
        if let Some(failure) = cleared {
            details.cleared.add(failure, Position::new(last));
        }
        details.doom = None;
        self.signs
            .fetch_and(!(STOPPED | ABORTED | DOOMED), Ordering::AcqRel);
        cleared
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::{deadlock::Awaits, stall::Stall};
    use piton_sync::{model, thread};
    use std::sync::Arc;

    struct Model {
        trouble: Trouble,
        stall: Stall,
        ends: AtomicU32,
    }

    impl Model {
        /// Ends the only command, which has one owner.
        fn end(&self) {
            self.ends.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The consumer comes to a command that waits for ever, while somebody aborts it.
    #[test]
    fn an_aborted_wait_ends_once_whoever_comes_first() {
        model(|| {
            let shared = Arc::new(Model {
                trouble: Trouble::default(),
                stall: Stall::default(),
                ends: AtomicU32::new(0),
            });
            let other = Arc::clone(&shared);
            let aborter = thread::spawn(move || {
                other.trouble.abort(1);
                let is_mine = other.stall.end_any();
                if is_mine {
                    other.end();
                }
            });
            if shared.trouble.verdict(1).is_some() {
                shared.end();
            } else {
                let ticket = shared.stall.begin(Awaits::Never);
                if shared.trouble.verdict(1).is_some() && shared.stall.end(ticket) {
                    shared.end();
                }
            }
            aborter.join().unwrap();
            assert_eq!(shared.ends.load(Ordering::Acquire), 1);
        });
    }

    #[test]
    fn whoever_sees_the_end_sees_the_failure() {
        model(|| {
            let shared = Arc::new((Trouble::default(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let device = thread::spawn(move || {
                let error = piton_driver::DriverError::new(
                    ErrorKind::Vendor,
                    piton_driver::Operation::Launch,
                    piton_driver::DeviceId(0),
                );
                let failure = QueueFailure {
                    position: Position::new(1),
                    error,
                    origin: None,
                };
                other.0.fail(failure, OnFailure::Stop);
                other.1.store(1, Ordering::Release);
            });
            if shared.1.load(Ordering::Acquire) == 1 {
                assert!(shared.0.failure().is_some() && shared.0.spoils(1));
            }
            device.join().unwrap();
        });
    }
}
