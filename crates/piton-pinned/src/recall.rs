//! A value that one thread uses as its own and others may recall.
//!
//! # The problem
//! What a thread keeps for itself it takes from in a few nanoseconds. If others may come and take it away, the thread has to
//! exclude them first, and an exchange or a full fence is as much again.
//!
//! # The idea
//! Owner and visitor each say what they are about to do, then look at what the other has said. The owner is at it all the
//! time and the visitor hardly ever, so their fences are a [light and a heavy one](piton_sync::light_fence). An owner that
//! finds the way shut turns away, to the lock; a visitor that finds the owner inside leaves it shut and goes.
//!
//! The owner has another reason to turn away: it is in a fork. The [flag](WipedFlag) that says that the way is open is down there,
//! where the system wipes pages in forks, so that one look answers both.
//!
//! # Protocol
//! | word | written by | order |
//! |---|---|---|
//! | `inside` | the owner | Relaxed to enter, then the light fence; Release to leave |
//! | `open` down | a visitor, under `visitors` | Relaxed, then the heavy fence, then `inside` is loaded with Acquire |
//! | `open` up | who has `visitors` and the value | Release, for the Acquire load with which the owner enters |
//!
//! Of an owner that enters and a visitor that shuts one fence comes first. If the owner's, the visitor finds it inside, unless
//! it has left, which the Acquire load sees with all it did. If the visitor's, the owner finds it shut. Where the system has no
//! heavy fence a visitor never gets in, and the owner finds it shut at its next call.
//!
//! What is done to the value under `visitors` neither allocates nor calls anybody, so that who is inside of one such value may
//! wait for another's lock.

#![expect(
    unsafe_code,
    reason = "what is inside is reached through a cell that the protocol guards"
)]

use piton_sync::{
    Mutex, UnsafeCell, WipedFlag,
    atomic::{AtomicBool, Ordering},
    heavy_fence, light_fence,
};
use std::fmt;

/// A value of one thread's, its owner. What that writes at each call is on no line of others'.
#[repr(align(64))]
pub(crate) struct Recallable<T> {
    inside: AtomicBool,
    open: WipedFlag,
    visitors: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time (the protocol), each of which sees what the one before has done. So it
// goes from thread to thread, and must be `Send`.
unsafe impl<T: Send> Sync for Recallable<T> {}

/// Why the owner did not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// It is in already: it came here from there.
    Inside,
    /// A visitor wants it to [`reopen`](Recallable::reopen), or this is a fork.
    Barred,
}

/// Leaves when dropped.
struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Recallable<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            inside: AtomicBool::new(false),
            open: WipedFlag::raised(),
            visitors: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Whether the owner finds it shut in a fork. If not, it has to ask otherwise before it enters.
    pub(crate) fn is_shut_in_forks(&self) -> bool {
        self.open.is_wiped_in_forks()
    }

    /// Whether the owner is inside; asked by the owner.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }

    /// The owner does something with the value.
    ///
    /// # Safety
    /// The caller is the owner: there is one thread that ever calls this or [`reopen`](Self::reopen).
    #[inline]
    pub(crate) unsafe fn enter<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, Shut> {
        // SAFETY: the caller's promise.
        let acted = unsafe { self.enter_with((), |value, ()| act(value)) };
        acted.map_err(|(shut, ())| shut)
    }

    /// As [`enter_with`](Self::enter_with), for a moment, by an owner that knows that it is not inside.
    ///
    /// # Safety
    /// As [`enter`](Self::enter); the owner is not inside, and `act` calls nobody, so that it does not come here from there.
    #[inline]
    pub(crate) unsafe fn enter_briefly<G, R>(
        &self,
        given: G,
        act: impl FnOnce(&mut T, G) -> R,
    ) -> Result<R, G> {
        self.inside.store(true, Ordering::Relaxed);
        light_fence();
        let _leave = Leave(&self.inside);
        if !self.open.is_up() {
            return Err(given);
        }
        Ok(self.value.with_mut(|value| {
            // SAFETY: this thread is inside and not twice, and no visitor is or will be until it has left (the protocol).
            act(unsafe { &mut *value }, given)
        }))
    }

    /// As [`enter`](Self::enter), with something that comes back where the owner does not get in. Passed so and not captured,
    /// it stays in registers.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    #[inline]
    pub(crate) unsafe fn enter_with<G, R>(
        &self,
        given: G,
        act: impl FnOnce(&mut T, G) -> R,
    ) -> Result<R, (Shut, G)> {
        if self.is_inside() {
            return Err((Shut::Inside, given));
        }
        // SAFETY: the caller's promise. The owner is not inside, and where `act` calls somebody who comes here, that is seen above.
        let acted = unsafe { self.enter_briefly(given, act) };
        acted.map_err(|given| (Shut::Barred, given))
    }

    /// The owner does something with the value once no visitor is at it, and opens the way. `act` neither allocates nor
    /// calls anybody. None if the owner is inside.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    pub(crate) unsafe fn reopen<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_inside() {
            return None;
        }
        let _alone = self.visitors.lock();
        let acted = self.value.with_mut(|value| {
            // SAFETY: visitors have the lock, and the owner is here.
            act(unsafe { &mut *value })
        });
        self.open.raise();
        Some(acted)
    }

    /// Does something with the value though it is another thread's. `act` neither allocates nor calls anybody. None if the
    /// owner is at it: it will find the way shut at its next call.
    pub(crate) fn visit<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _alone = self.visitors.lock();
        self.open.lower();
        if !heavy_fence() || self.inside.load(Ordering::Acquire) {
            return None;
        }
        let acted = self.value.with_mut(|value| {
            // SAFETY: the owner is outside, and finds the way shut before it gets in (the protocol); visitors have the lock.
            act(unsafe { &mut *value })
        });
        self.open.raise();
        Some(acted)
    }
}

impl<T> fmt::Debug for Recallable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recallable")
            .field("inside", &self.inside)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn enter<T, R>(kept: &Recallable<T>, act: impl FnOnce(&mut T) -> R) -> Result<R, Shut> {
        // SAFETY: each of these tests has one thread, the owner.
        unsafe { kept.enter(act) }
    }

    fn reopen<T, R>(kept: &Recallable<T>, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        // SAFETY: as above.
        unsafe { kept.reopen(act) }
    }

    #[test]
    fn an_owner_that_is_inside_is_not_disturbed_and_finds_the_way_shut_when_it_comes_again() {
        let kept = Recallable::new(1);
        let visited = enter(&kept, |value| {
            *value += 1;
            kept.visit(|value| *value = 0)
        });
        assert_eq!(visited, Ok(None));
        assert_eq!(enter(&kept, |value| *value), Err(Shut::Barred));
        assert_eq!(reopen(&kept, |value| *value), Some(2));
        assert_eq!(enter(&kept, |value| *value), Ok(2));
    }

    #[test]
    fn an_owner_does_not_get_in_twice() {
        let kept = Recallable::new(());
        let twice = enter(&kept, |()| (enter(&kept, |()| ()), reopen(&kept, |()| ())));
        assert_eq!(twice, Ok((Err(Shut::Inside), None)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! The owner against visitors: one at a time, and what there is goes to one of them.

    use super::*;
    use piton_sync::{model, thread};
    use std::sync::Arc;

    type Kept = Arc<Recallable<Vec<u32>>>;

    /// The owner's call: where it is shut it gives up what it has, as a thread does at its next call.
    fn add(kept: &Kept, item: u32) -> Vec<u32> {
        // SAFETY: one thread of a model calls this.
        match unsafe { kept.enter(|items| items.push(item)) } {
            Ok(()) => Vec::new(),
            Err(_) => {
                // SAFETY: as above.
                let mut given = unsafe { kept.reopen(std::mem::take) }.unwrap();
                given.push(item);
                given
            }
        }
    }

    #[test]
    fn owner_and_visitor_are_never_at_it_at_once_and_nothing_is_lost() {
        model(|| {
            let kept: Kept = Arc::new(Recallable::new(vec![1]));
            let theirs = Arc::clone(&kept);
            let owner = thread::spawn(move || {
                let mut given = add(&theirs, 2);
                given.extend(add(&theirs, 3));
                given
            });
            // The model checker panics where both reach the value at once.
            let mut all = kept.visit(std::mem::take).unwrap_or_default();
            all.extend(owner.join().unwrap());
            all.extend(kept.visit(std::mem::take).unwrap_or_default());
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
        });
    }

    #[test]
    fn two_visitors_and_the_owner_share_out_what_there_is() {
        model(|| {
            let kept: Kept = Arc::new(Recallable::new(vec![1]));
            let visitor = |kept: &Kept| {
                let kept = Arc::clone(kept);
                thread::spawn(move || kept.visit(std::mem::take).unwrap_or_default())
            };
            let visitors = [visitor(&kept), visitor(&kept)];
            let mut all = add(&kept, 2);
            all.extend(
                visitors
                    .into_iter()
                    .flat_map(|visitor| visitor.join().unwrap()),
            );
            all.extend(kept.visit(std::mem::take).unwrap_or_default());
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
    }
}
