//! Whether this process is the one that made something, or a fork of it.
//!
//! # The problem
//! A fork has the memory of the process it came from and none of its threads but one. Locks stay as they were at that
//! moment: one that another thread held is held for ever. So whoever may be used in a fork looks here before it takes a
//! lock, and a destructor that would take one leaves what it has where it is.
//!
//! # How it is known
//! By a byte in a page that the system wipes in a fork (`MADV_WIPEONFORK`, Linux 4.14; `madvise(2)`): reading it costs
//! one load. Where the system has no such advice, or no page to spare, the number of the process is compared, which
//! costs a call of the system each time.

#![expect(
    unsafe_code,
    reason = "a byte of a page is read that the system may have wiped"
)]

use crate::wiped::WipedPage;
use rustix::process::Pid;
use std::fmt;

/// Knows the process that made it. See the module's source.
pub struct ForkMark(Mark);

enum Mark {
    /// A page of its own, whose first byte is 1 in the process that made it, and 0 in forks of it.
    Page(WipedPage),
    Process(Pid),
}

// SAFETY: the page is a mapping that belongs to no thread, written once, before anybody else has it, and after that only read.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl fmt::Debug for ForkMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForkMark").field(&self.is_fork()).finish()
    }
}

impl Default for ForkMark {
    fn default() -> Self {
        Self::new()
    }
}

impl ForkMark {
    /// A mark of this process.
    pub fn new() -> Self {
        page().map_or_else(Self::of_process, |page| Self(Mark::Page(page)))
    }

    /// A mark for systems that wipe no pages.
    fn of_process() -> Self {
        Self(Mark::Process(rustix::process::getpid()))
    }

    /// Whether this process is a fork of the one that made the mark, or a fork of a fork.
    #[inline]
    pub fn is_fork(&self) -> bool {
        match &self.0 {
            // SAFETY: the page is readable for as long as the mark lives. Volatile: the system may have changed it.
            Mark::Page(page) => unsafe { page.start().read_volatile() == 0 },
            Mark::Process(process) => rustix::process::getpid() != *process,
        }
    }
}

/// A page that forks find wiped, with a 1 in it.
fn page() -> Option<WipedPage> {
    let page = WipedPage::new()?;
    // SAFETY: the page is writable and nobody else has it.
    unsafe { page.start().write_volatile(1) };
    Some(page)
}

/// What `child` says in a fork: it takes no lock and allocates nothing.
#[cfg(test)]
pub(crate) fn in_a_fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child takes no lock, allocates nothing, and exits at once.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(child())) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    assert!(libc::WIFEXITED(status), "the child was stopped");
    libc::WEXITSTATUS(status) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_knowing_tell_a_fork_from_its_parent() {
        let page = ForkMark::new();
        assert!(matches!(page.0, Mark::Page(_)), "the system is old");
        for mark in [page, ForkMark::of_process()] {
            assert!(!mark.is_fork());
            assert!(in_a_fork(|| mark.is_fork()));
            let in_the_second = in_a_fork(|| mark.is_fork() && in_a_fork(|| mark.is_fork()));
            assert!(in_the_second, "a fork of a fork is one too");
            assert!(
                in_a_fork(|| !ForkMark::new().is_fork()),
                "a new mark is its own"
            );
            assert!(!mark.is_fork());
        }
    }
}
