//! The page: a memfd, whose descriptor is what other processes are sent.
//!
//! # Invariants
//! 1. The memfd is as long as a page and sealed against shrinking, by us or by whoever made it.
//! 2. `page` is a mapping of it that this value owns, and nothing but atomics is ever used of it.

#![expect(unsafe_code, reason = "maps a page that other processes write")]

use super::{Bell, Belled, Listening};
use crate::{
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    thread,
};
use rustix::{
    fs::{MemfdFlags, SealFlags},
    io::Errno,
    mm::{MapFlags, ProtFlags},
    thread::futex,
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::Arc,
};

const BYTES: usize = 4096;

/// What a page begins with that holds such a number.
const MARK: u64 = u64::from_le_bytes(*b"piton#01");

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl Bell for AtomicU32 {
    fn rung(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    fn ring(&self) {
        self.fetch_add(1, Ordering::Release);
        // It cannot fail: the word is there, and everybody is woken.
        let _ = futex::wake(self, futex::Flags::empty(), i32::MAX.unsigned_abs());
    }

    fn sleep(&self, rung: u32) {
        // Rung meanwhile, interrupted, woken: the caller looks again whatever it was.
        let _ = futex::wait(self, futex::Flags::empty(), rung, None);
    }
}

/// What lies in the page.
#[repr(C)]
struct Page {
    mark: AtomicU64,
    belled: Belled<AtomicU32>,
}

/// A number that several processes raise and sleep on. See the module's source.
#[derive(Debug)]
pub struct SharedNumber {
    page: NonNull<Page>,
    descriptor: OwnedFd,
    /// The highest that this process has seen.
    highest: AtomicU64,
}

// SAFETY: the page is used through atomics alone (invariant 2), and belongs to no thread.
unsafe impl Send for SharedNumber {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedNumber {}

impl SharedNumber {
    /// Whether the system has such numbers.
    pub const IS_THERE: bool = true;

    /// A number of this process's, for others too.
    ///
    /// # Errors
    /// The system's, as its number, where it has no page or descriptor left.
    pub fn new(initial: u64) -> Result<Self, i32> {
        let made = || {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let descriptor = rustix::fs::memfd_create("piton-number", flags)?;
            rustix::fs::ftruncate(&descriptor, BYTES as u64)?;
            rustix::fs::fcntl_add_seals(&descriptor, SEALS)?;
            // INVARIANT: (1) just sized and sealed.
            Self::mapped(descriptor)
        };
        let made = made().map_err(Errno::raw_os_error)?;
        made.belled().number.store(initial, Ordering::Relaxed);
        made.page().mark.store(MARK, Ordering::Release);
        Ok(made)
    }

    /// The number that somebody sent; nothing where the descriptor is something else.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn sent(descriptor: BorrowedFd<'_>) -> Result<Option<Self>, i32> {
        let Ok(seals) = rustix::fs::fcntl_get_seals(descriptor) else {
            return Ok(None);
        };
        let length = rustix::fs::fstat(descriptor).map_err(Errno::raw_os_error)?;
        if !seals.contains(SEALS) || length.st_size != BYTES as i64 {
            return Ok(None);
        }
        // INVARIANT: (1) length and seals were just looked at, and seals are never taken off.
        let own = rustix::io::fcntl_dupfd_cloexec(descriptor, 0).map_err(Errno::raw_os_error)?;
        let sent = Self::mapped(own).map_err(Errno::raw_os_error)?;
        let is_marked = sent.page().mark.load(Ordering::Acquire) == MARK;
        Ok(is_marked.then_some(sent))
    }

    fn mapped(descriptor: OwnedFd) -> rustix::io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping where the system likes; nothing else is touched.
        let page =
            unsafe { rustix::mm::mmap(ptr::null_mut(), BYTES, access, flags, &descriptor, 0) }?;
        // INVARIANT: (2) mapped above, and handed to nobody.
        let page = NonNull::new(page.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self {
            page,
            descriptor,
            highest: AtomicU64::new(0),
        })
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped for as long as this value lives, aligned to a page, and any bytes are atomics (invariant 2).
        unsafe { self.page.as_ref() }
    }

    fn belled(&self) -> &Belled<AtomicU32> {
        &self.page().belled
    }

    /// What another process is sent.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn descriptor(&self) -> Result<OwnedFd, i32> {
        rustix::io::fcntl_dupfd_cloexec(self.descriptor.as_fd(), 0).map_err(Errno::raw_os_error)
    }

    /// The number. Never falls; whoever reads it sees what came before its raise.
    pub fn value(&self) -> u64 {
        self.belled().value_kept(&self.highest)
    }

    /// Raises the number, unless it is as high already, and wakes who sleeps. What it was.
    pub fn raise(&self, value: u64) -> u64 {
        self.belled().raise_kept(value, &self.highest)
    }

    pub(super) fn ring(&self) {
        self.belled().bell.ring();
    }

    /// Calls `told` with the number once it is past `seen`, and after each raise, by whatever process, with what there is then,
    /// until what is returned is dropped; on a thread of its own.
    ///
    /// # Errors
    /// The system's, as its number, where it has no thread left.
    pub fn listen(
        self: &Arc<Self>,
        mut seen: u64,
        mut told: impl FnMut(u64) + Send + 'static,
    ) -> Result<Listening, i32> {
        let listening = Listening {
            number: Arc::clone(self),
            is_over: Arc::default(),
        };
        let (number, is_over) = (Arc::clone(self), Arc::clone(&listening.is_over));
        let listens = move || {
            while let Some(value) = number.next(seen, &is_over) {
                seen = value;
                told(value);
            }
        };
        let thread = thread::Builder::new().name("piton-number".to_owned());
        let started = thread.spawn(listens);
        started.map_err(|error| error.raw_os_error().unwrap_or(0))?;
        Ok(listening)
    }

    /// The number once it is past `seen`; nothing when it is over.
    fn next(&self, seen: u64, is_over: &AtomicBool) -> Option<u64> {
        self.belled().sleep_past(seen, is_over);
        (!is_over.load(Ordering::Acquire)).then(|| self.value())
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: mapped in `mapped`, and nobody borrows this value any more. A failure would leave it mapped: harmless.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_was_sent_is_the_same_number_and_never_falls() {
        let own = SharedNumber::new(3).unwrap();
        let descriptor = own.descriptor().unwrap();
        let sent = SharedNumber::sent(descriptor.as_fd()).unwrap().unwrap();
        assert_eq!((own.value(), sent.value()), (3, 3));
        assert_eq!((sent.raise(5), own.raise(4), own.value()), (3, 5, 5));
        // Whoever has the descriptor may do this.
        own.belled().number.store(1, Ordering::Relaxed);
        assert_eq!((sent.value(), own.value(), own.raise(2)), (5, 5, 5));
    }

    #[test]
    fn other_things_are_no_number() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(SharedNumber::sent(file.as_fd()).unwrap().is_none());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let other = rustix::fs::memfd_create("other", flags).unwrap();
        rustix::fs::ftruncate(&other, BYTES as u64).unwrap();
        assert!(SharedNumber::sent(other.as_fd()).unwrap().is_none());
        rustix::fs::fcntl_add_seals(&other, SEALS).unwrap();
        assert!(SharedNumber::sent(other.as_fd()).unwrap().is_none());
    }

    #[test]
    fn who_listens_is_told_of_raises_until_it_no_longer_listens() {
        let own = Arc::new(SharedNumber::new(0).unwrap());
        let descriptor = own.descriptor().unwrap();
        let other = SharedNumber::sent(descriptor.as_fd()).unwrap().unwrap();
        let (told, hear) = mpsc::channel();
        let listening = own
            .listen(0, move |value| told.send(value).unwrap())
            .unwrap();
        for value in [2, 9] {
            other.raise(value);
            assert_eq!(hear.recv(), Ok(value));
        }
        drop(listening);
        // The thread ends, and what it told by with it.
        assert!(hear.recv().is_err());
    }
}
