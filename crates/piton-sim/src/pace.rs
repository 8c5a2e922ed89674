//! How long a worker that has caught up with a queue's producer waits for more, and when it looks.
//!
//! # Why
//! A program that submits one launch after another would find the queue nobody's each time if a worker that has drained
//! it left at once: so it stays a moment. But a worker that takes each launch as it comes passes the lines of the ring
//! to and fro with every one, and both sides run at the speed of the lines: the producer at a quarter of its own. So
//! where commands come fast the worker looks late, and takes many at once.
//!
//! Whether they come fast cannot be seen by looking often, since that is what slows the producer. So now and then the
//! worker *tries*: it looks late once. If that gathers enough it goes on so; if not it tries again after twice as many
//! looks as before. A program that waits for each launch before it makes the next pays for one try in [`SELDOM`].

use piton_sync::hint;

/// Pauses before the first look, of 10 to 50 ns; twice as many before each next.
const PAUSES: u32 = 2;
/// Looks before the worker leaves: after half a microsecond or more.
const LOOKS: u32 = 4;
/// Pauses before a late look.
const LATE: u32 = 40;
/// So many commands make a late look worth it.
const ENOUGH: u64 = 6;
/// Waits between two tries: at first, and at last.
const OFTEN: u32 = 8;
const SELDOM: u32 = 256;
/// Pauses between two looks whether something else waits for a thread.
const BREATH: u32 = 4;

/// What one worker has learnt of how fast commands come.
#[derive(Debug)]
pub(crate) struct Pace {
    is_late: bool,
    /// Waits until the next try, and how many there were before.
    left: u32,
    apart: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            is_late: false,
            left: OFTEN,
            apart: OFTEN,
        }
    }
}

impl Pace {
    /// Waits for commands: `found` says how many there are. Gives up after a moment, or when `is_wanted` says that
    /// something else waits for a thread. Says whether there are any.
    pub(crate) fn wait(&mut self, found: impl Fn() -> u64, is_wanted: impl Fn() -> bool) -> bool {
        if self.is_late {
            let is_wanted = pause(LATE, &is_wanted);
            let found = found();
            if !is_wanted {
                self.learn(found);
            }
            if found > 0 || is_wanted {
                return found > 0;
            }
        } else {
            self.left -= 1;
            self.is_late = self.left == 0;
        }
        look(found, is_wanted)
    }

    /// So many were there at a late look.
    fn learn(&mut self, found: u64) {
        self.is_late = found >= ENOUGH;
        self.apart = if self.is_late {
            OFTEN
        } else {
            (self.apart * 2).min(SELDOM)
        };
        self.left = self.apart;
    }
}

/// Looks sooner and then later.
fn look(found: impl Fn() -> u64, is_wanted: impl Fn() -> bool) -> bool {
    for look in 0..LOOKS {
        let is_wanted = pause(PAUSES << look, &is_wanted);
        if found() > 0 {
            return true;
        }
        if is_wanted {
            return false;
        }
    }
    false
}

/// Pauses so often, or until something else is wanted, which it says.
fn pause(pauses: u32, is_wanted: impl Fn() -> bool) -> bool {
    for pause in 1..=pauses {
        hint::spin_loop();
        if (pause == pauses || pause.is_multiple_of(BREATH)) && is_wanted() {
            return true;
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many waits, at each of which so much is found; how many of them were late.
    fn waits(pace: &mut Pace, count: u32, found: u64) -> u32 {
        let mut late = 0;
        for _ in 0..count {
            late += u32::from(pace.is_late);
            assert!(pace.wait(|| found, || false));
        }
        late
    }

    #[test]
    fn what_comes_fast_is_gathered_and_what_comes_alone_is_not_waited_for() {
        let mut pace = Pace::default();
        assert_eq!(waits(&mut pace, 1000, ENOUGH), 1000 - OFTEN);
        assert_eq!(waits(&mut pace, 1000, 1), 1 + 6);
        assert_eq!(waits(&mut pace, 10 * SELDOM, 1), 10);
        assert!(waits(&mut pace, 2 * SELDOM, ENOUGH) > SELDOM / 2);
    }

    #[test]
    fn a_worker_leaves_where_nothing_comes_or_it_is_wanted_elsewhere() {
        let mut pace = Pace::default();
        assert!((0..100).all(|_| !pace.wait(|| 0, || false)));
        assert!(!pace.wait(|| 0, || true));
        assert!(pace.wait(|| 1, || true));
    }
}
