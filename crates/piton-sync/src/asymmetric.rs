//! A pair of fences of which the rare one pays for both.
//!
//! # The problem
//! Two threads that each say what they are about to do, and then look whether the other has said so, need a full fence in
//! between, or both may miss the other's word. Where one of the two does so every few nanoseconds, its fence is most of what it
//! does.
//!
//! # The idea
//! The frequent one only keeps the compiler from moving its accesses. The rare one has the system run a full fence on every
//! processor that is at this process (`membarrier(2)`, Linux 4.14), at whatever instruction that is. Wherever that falls in the
//! frequent one's program, it is between the two accesses, or both are on one side of it.
//!
//! # Guarantee
//! [`light_fence`] in one thread and [`heavy_fence`] in another, where it answers `true`, order accesses around them as two
//! sequentially consistent fences do. That is what they are in models and under Miri: what the system does is not in any language's
//! memory model, and is the system's to keep.

use std::sync::atomic::{Ordering, compiler_fence, fence};

/// The frequent one's fence: costs nothing but what the compiler may not do.
#[inline]
pub fn light_fence() {
    if cfg!(miri) {
        fence(Ordering::SeqCst);
    }
    compiler_fence(Ordering::SeqCst);
}

/// The rare one's fence, some microseconds. Whether the system knows such a thing: if not, nothing is ordered.
#[must_use = "without an answer nothing is known of the others"]
pub fn heavy_fence() -> bool {
    compiler_fence(Ordering::SeqCst);
    let is_done = barrier();
    compiler_fence(Ordering::SeqCst);
    is_done
}

#[cfg(target_os = "linux")]
fn barrier() -> bool {
    if cfg!(miri) {
        fence(Ordering::SeqCst);
        return true;
    }
    use rustix::thread::{MembarrierCommand, membarrier};
    let barrier = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    // A process says once that it will ask; a fork has to say it anew.
    barrier() || (membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() && barrier())
}

#[cfg(not(target_os = "linux"))]
fn barrier() -> bool {
    false
}
