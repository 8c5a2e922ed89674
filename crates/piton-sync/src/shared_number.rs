//! A number that several processes raise and sleep on, in a page that they share.
//!
//! # Protocol
//! The page holds the number and a *bell*. Who raises the number rings the bell afterwards. Who sleeps reads the bell first,
//! then the number, and goes to sleep only while the bell is as it was read, which the system looks at together with the
//! going to sleep (`futex(2)`). So a raise that the sleeper's look at the number missed rings a bell that it had read before,
//! and it does not sleep, or is woken.
//!
//! # Trust
//! Whoever has the descriptor may write what it likes into the page, as it may raise the number as far as it likes. What this
//! process has seen does not fall: the highest is kept beside. The page is sealed against shrinking, so a look at it never
//! ends the process.
//!
//! Linux alone has all of that; elsewhere, and in models of others, no such number can be made.

#[cfg(any(test, all(target_os = "linux", not(loom))))]
use crate::atomic::AtomicU64;
use crate::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What is slept on.
#[cfg(any(test, all(target_os = "linux", not(loom))))]
trait Bell {
    /// How often it has been rung, in circles.
    fn rung(&self) -> u32;

    /// Rings: who sleeps wakes, who is about to does not.
    fn ring(&self);

    /// Sleeps until it is rung, unless it has been since `rung` was read. May wake for nothing.
    fn sleep(&self, rung: u32);
}

/// The number and its bell, as they lie in the page.
#[cfg(any(test, all(target_os = "linux", not(loom))))]
#[repr(C)]
#[derive(Debug, Default)]
struct Belled<B> {
    number: AtomicU64,
    bell: B,
}

#[cfg(any(test, all(target_os = "linux", not(loom))))]
impl<B: Bell> Belled<B> {
    /// Raises the number, unless it is as high already. What it was.
    fn raise(&self, value: u64) -> u64 {
        let before = self.number.fetch_max(value, Ordering::AcqRel);
        if before < value {
            self.bell.ring();
        }
        before
    }

    fn value(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// As [`value`](Self::value), and no less than the highest that this process has seen, which is kept.
    fn value_kept(&self, highest: &AtomicU64) -> u64 {
        let value = self.value();
        highest.fetch_max(value, Ordering::AcqRel).max(value)
    }

    /// As [`raise`](Self::raise), in what this process has seen before as well.
    fn raise_kept(&self, value: u64, highest: &AtomicU64) -> u64 {
        // Looked at first: once the number is raised, another thread may keep that.
        let known = highest.load(Ordering::Acquire);
        let before = self.raise(value).max(known);
        highest.fetch_max(before.max(value), Ordering::AcqRel);
        before
    }

    /// Sleeps until the number is past `seen`, or it is over.
    fn sleep_past(&self, seen: u64, is_over: &AtomicBool) {
        loop {
            let rung = self.bell.rung();
            if self.value() > seen || is_over.load(Ordering::Acquire) {
                return;
            }
            self.bell.sleep(rung);
        }
    }
}

/// Has whoever listens told of each raise, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Listening {
    number: Arc<SharedNumber>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.number.ring();
    }
}

#[cfg(all(target_os = "linux", not(loom)))]
mod page;

#[cfg(all(target_os = "linux", not(loom)))]
pub use page::SharedNumber;

#[cfg(not(all(target_os = "linux", not(loom))))]
mod absent;

#[cfg(not(all(target_os = "linux", not(loom))))]
pub use absent::SharedNumber;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::{Condvar, Mutex, model, thread};

    /// What the system does with one: the look and the going to sleep are one.
    #[derive(Default)]
    struct Modelled {
        rung: Mutex<u32>,
        sleepers: Condvar,
    }

    impl Bell for Modelled {
        fn rung(&self) -> u32 {
            *self.rung.lock()
        }

        fn ring(&self) {
            *self.rung.lock() += 1;
            self.sleepers.notify_all();
        }

        fn sleep(&self, seen: u32) {
            let mut rung = self.rung.lock();
            while *rung == seen {
                self.sleepers.wait(&mut rung);
            }
        }
    }

    #[test]
    fn who_sleeps_on_a_number_is_woken_by_its_raise_and_sees_what_came_before() {
        model(|| {
            let shared = Arc::new((Belled::<Modelled>::default(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let raiser = thread::spawn(move || {
                other.1.store(7, Ordering::Relaxed);
                assert_eq!(other.0.raise(1), 0);
            });
            shared.0.sleep_past(0, &AtomicBool::new(false));
            let seen = shared.1.load(Ordering::Relaxed);
            assert_eq!((shared.0.value(), seen), (1, 7));
            raiser.join().unwrap();
        });
    }

    #[test]
    fn who_listens_ends_when_it_is_over() {
        model(|| {
            let shared = Arc::new((Belled::<Modelled>::default(), AtomicBool::new(false)));
            let other = Arc::clone(&shared);
            let closer = thread::spawn(move || {
                other.1.store(true, Ordering::Release);
                other.0.bell.ring();
            });
            shared.0.sleep_past(0, &shared.1);
            closer.join().unwrap();
        });
    }

    #[test]
    fn who_raised_a_number_is_told_so_though_another_thread_has_seen_it_already() {
        model(|| {
            let shared = Arc::new((Belled::<Modelled>::default(), AtomicU64::new(0)));
            let other = Arc::clone(&shared);
            let reader = thread::spawn(move || other.0.value_kept(&other.1));
            assert_eq!(shared.0.raise_kept(1, &shared.1), 0);
            assert!(reader.join().unwrap() <= 1);
            assert_eq!(shared.0.value_kept(&shared.1), 1);
        });
    }

    #[test]
    fn of_two_raises_the_higher_stays_and_each_is_told_what_was_there() {
        model(|| {
            let shared = Arc::new(Belled::<Modelled>::default());
            let other = Arc::clone(&shared);
            let raiser = thread::spawn(move || other.raise(2));
            let before = (shared.raise(3), raiser.join().unwrap());
            assert!(before == (0, 3) || before == (2, 0));
            assert_eq!(shared.value(), 3);
        });
    }
}
