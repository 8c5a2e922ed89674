//! What a worker does when it finds nothing to run: it spins a little, naps, and then sleeps.
//!
//! # Why
//! Waking a sleeping thread costs the waker some 13 us on a virtual machine, and the work starts 40 us later; a
//! spinning thread sees work within 0.3 us and costs the waker nothing (`docs/design/simulated-device.md` has the
//! figures). But a thread that spins takes a core from others. So:
//! - it *spins* for a while ([`SPIN`], or what the machine says) after it last ran something, if fewer threads than cores but one are spinning;
//! - then it *naps*: it sleeps for twice as long each time, from [`FIRST_NAP`] on, and looks. Nobody needs to wake a
//!   napping worker for a single piece of work: it comes by itself, no later than about as long as it has been idle;
//! - after [`NAPS`] naps it sleeps until it is woken. That costs nothing while a program does not use the device. Woken, it
//!   starts with spinning and naps again, whether it found work or somebody else had run it.

use piton_sync::{
    atomic::{AtomicUsize, Ordering},
    hint,
};
use std::time::{Duration, Instant};

/// How long a worker spins after it ran something, if the machine does not say.
pub(crate) const SPIN: Duration = Duration::from_micros(20);
/// See [`wait_aside`].
const ASIDE: u32 = 8;
/// Pauses between two looks at most: one to three microseconds.
const FARTHEST: u32 = 64;
/// Looks between two looks at the clock.
const LOOKS: u32 = 32;
const FIRST_NAP: Duration = Duration::from_micros(50);
/// 50 us, 100 us, ... 3.2 ms: 6 ms in all.
const NAPS: u32 = 7;

/// How long one worker has been idle.
#[derive(Debug, Default)]
pub(crate) struct Idleness {
    naps: u32,
}

/// What an idle worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Sleeps until then, or until woken.
    Nap(Duration),
    /// Sleeps until woken.
    Sleep,
}

impl Idleness {
    /// The worker ran something, or was woken to.
    pub(crate) fn end(&mut self) {
        self.naps = 0;
    }

    /// Whether the worker spins before it rests: only right after it ran something.
    pub(crate) fn may_spin(&self) -> bool {
        self.naps == 0
    }

    /// How the worker rests now.
    pub(crate) fn rest(&mut self) -> Rest {
        if self.naps >= NAPS {
            // Whoever wakes it uses the device, also where a host thread that helps has run the work by then.
            self.end();
            return Rest::Sleep;
        }
        let nap = FIRST_NAP * (1 << self.naps);
        self.naps += 1;
        Rest::Nap(nap)
    }
}

/// Threads that spin: fewer than cores, so that whoever they wait for has one.
#[derive(Debug)]
pub(crate) struct Spinners {
    present: AtomicUsize,
    most: usize,
    time: Duration,
}

impl Spinners {
    /// Threads spin for `time` each; for none, none does.
    pub(crate) fn new(time: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = if time.is_zero() {
            0
        } else {
            cores.saturating_sub(1)
        };
        Self {
            present: AtomicUsize::new(0),
            most,
            time,
        }
    }

    /// Spins until `is_there` or its time is up; says which. Returns at once where enough threads spin.
    pub(crate) fn spin(&self, is_there: impl Fn() -> bool) -> bool {
        self.as_spinner(|| wait(&is_there, self.time)) || is_there()
    }

    /// As [`spin`](Self::spin), for what another thread writes again and again before it is as wanted: see
    /// [`wait_aside`].
    pub(crate) fn spin_aside(&self, is_there: impl Fn() -> bool) -> bool {
        self.as_spinner(|| wait_aside(&is_there, self.time)) || is_there()
    }

    fn as_spinner(&self, wait: impl FnOnce() -> bool) -> bool {
        let found = self.present.fetch_add(1, Ordering::Relaxed) < self.most && wait();
        self.present.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

fn wait(is_there: impl Fn() -> bool, time: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..LOOKS {
            if is_there() {
                return true;
            }
            hint::spin_loop();
        }
    }
    false
}

/// Waits with looks that come the later, the longer it has waited: an [`ASIDE`]th of that apart. Each look takes a line
/// from the thread that writes it, which then waits for it to come back; so who looks all the time slows the very thread it
/// waits for. It is late by an [`ASIDE`]th, and by [`FARTHEST`] pauses, at most.
fn wait_aside(is_there: impl Fn() -> bool, time: Duration) -> bool {
    let start = Instant::now();
    let mut pauses = 0;
    while start.elapsed() < time {
        let apart = (pauses / ASIDE + 1).min(FARTHEST);
        (0..apart).for_each(|_| hint::spin_loop());
        pauses = pauses.saturating_add(apart);
        if is_there() {
            return true;
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_until_the_worker_sleeps_and_start_again_with_work() {
        let mut idleness = Idleness::default();
        let naps: Vec<Rest> = (0..=NAPS).map(|_| idleness.rest()).collect();
        assert_eq!(naps[0], Rest::Nap(FIRST_NAP));
        assert_eq!(naps[3], Rest::Nap(FIRST_NAP * 8));
        assert_eq!(naps.last(), Some(&Rest::Sleep));
        // Woken, it naps before it sleeps again, work or no work.
        assert!(idleness.may_spin());
        assert_eq!(idleness.rest(), Rest::Nap(FIRST_NAP));
        assert!(!idleness.may_spin());
        idleness.end();
        assert!(idleness.may_spin());
        assert_eq!(idleness.rest(), Rest::Nap(FIRST_NAP));
    }

    #[test]
    fn a_thread_that_has_no_time_to_spin_looks_once() {
        let looks = AtomicUsize::new(0);
        let look = || looks.fetch_add(1, Ordering::Relaxed) > 5;
        assert!(!Spinners::new(Duration::ZERO).spin(look));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }
}
