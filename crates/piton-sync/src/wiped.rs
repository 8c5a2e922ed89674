//! A page that the system wipes in a fork (`MADV_WIPEONFORK`, Linux 4.14; `madvise(2)`), and a flag in one.
//!
//! # The idea
//! Who goes a short way asks whether anything is unusual, and one thing that is unusual is to be in a fork. A flag that says "all
//! is as usual", and is down in every fork, answers with the load that was needed anyway.

#![expect(unsafe_code, reason = "a page of its own, shared with nobody")]

use crate::atomic::{AtomicBool, Ordering};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::{
    fmt,
    ptr::{self, NonNull},
};

const BYTES: usize = 4096;

/// A page that forks find wiped.
///
/// # Invariants
/// It is readable and writable for as long as this lives, and whoever has this is who made it.
pub(crate) struct WipedPage(NonNull<u8>);

impl WipedPage {
    /// A page of zeros; none if the system has none to spare, or wipes none, as Miri's does.
    pub(crate) fn new() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping where the system likes; nothing else is touched.
        let page = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), BYTES, access, MapFlags::PRIVATE)
        };
        // INVARIANT: it was just mapped, and is unmapped when this goes.
        let page = Self(NonNull::new(page.ok()?)?.cast());
        let start = page.0.cast().as_ptr();
        // SAFETY: the page is ours, and wiping it in forks is what we want.
        unsafe { rustix::mm::madvise(start, BYTES, Advice::LinuxWipeOnFork) }.ok()?;
        Some(page)
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0
    }
}

impl Drop for WipedPage {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody reads it any more. A failure would leave it mapped: harmless.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

/// A flag that is down in forks of the process that raised it. Whoever finds it up sees what was done before it was raised.
///
/// Where the system wipes no pages it says so, and is an ordinary flag.
///
/// # Invariants
/// `flag` points to the start of `page`, or, without one, to what came out of a box. The byte behind it says that this is the
/// process that made the page.
pub struct WipedFlag {
    flag: NonNull<AtomicBool>,
    page: Option<WipedPage>,
}

// SAFETY: what `flag` points to is this one's and atomic, and the page is a mapping that belongs to no thread.
unsafe impl Send for WipedFlag {}
// SAFETY: as above.
unsafe impl Sync for WipedFlag {}

impl WipedFlag {
    /// A flag that is up.
    pub fn raised() -> Self {
        Self::within(WipedPage::new())
    }

    fn within(page: Option<WipedPage>) -> Self {
        // INVARIANT: a byte of zero is a flag that is down, and the page is that of this one alone.
        let flag = match &page {
            Some(page) => page.start().cast(),
            None => NonNull::from(Box::leak(Box::new(AtomicBool::new(false)))),
        };
        let lowered = Self { flag, page };
        if let Some(home) = lowered.home() {
            home.store(true, Ordering::Relaxed);
        }
        lowered.raise();
        lowered
    }

    /// Whether this is the process that made it; none where nobody knows.
    fn home(&self) -> Option<&AtomicBool> {
        let page = self.page.as_ref()?;
        // SAFETY: a page has more than two bytes.
        let behind = unsafe { page.start().add(1) };
        // SAFETY: it is in the page, which is there for as long as this is, and is used as a flag alone: zero, or what was stored.
        Some(unsafe { behind.cast().as_ref() })
    }

    #[inline]
    fn flag(&self) -> &AtomicBool {
        // SAFETY: the page, or the box, is there for as long as this is.
        unsafe { self.flag.as_ref() }
    }

    /// Whether it is up: it was raised, and this process is not a fork of the one in which it was.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.flag().load(Ordering::Acquire)
    }

    /// What this thread did is seen by whoever finds it up. In a fork it stays down.
    pub fn raise(&self) {
        let is_home = |home: &AtomicBool| home.load(Ordering::Relaxed);
        if self.home().is_none_or(is_home) {
            self.flag().store(true, Ordering::Release);
        }
    }

    /// Relaxed: orders nothing.
    pub fn lower(&self) {
        self.flag().store(false, Ordering::Relaxed);
    }

    /// Whether it is down in forks.
    pub fn is_wiped_in_forks(&self) -> bool {
        self.page.is_some()
    }
}

impl Drop for WipedFlag {
    fn drop(&mut self) {
        if self.page.is_none() {
            // SAFETY: without a page it came out of a box, and nobody has it any more.
            drop(unsafe { Box::from_raw(self.flag.as_ptr()) });
        }
    }
}

impl fmt::Debug for WipedFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WipedFlag").field(&self.is_up()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::in_a_fork;

    #[test]
    fn a_flag_that_is_up_is_down_in_a_fork_and_stays_up_here() {
        let flag = WipedFlag::raised();
        assert!(flag.is_wiped_in_forks(), "the system is old");
        assert!(flag.is_up());
        assert!(in_a_fork(|| {
            let was_down = !flag.is_up();
            flag.raise();
            was_down && !flag.is_up()
        }));
        assert!(flag.is_up());
        flag.lower();
        assert!(!flag.is_up());
        flag.raise();
        assert!(flag.is_up());
    }

    #[test]
    fn a_flag_without_a_page_says_that_forks_have_it_as_it_was() {
        let flag = WipedFlag::within(None);
        assert!(!flag.is_wiped_in_forks());
        assert!(in_a_fork(|| flag.is_up()));
        flag.lower();
        assert!(!flag.is_up());
    }
}
