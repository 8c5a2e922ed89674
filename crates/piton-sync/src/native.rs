//! The primitives of an ordinary build: std's atomics and threads, parking_lot's locks.

pub use parking_lot::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};
pub use std::{hint, thread};

/// Atomic integers and their orderings.
pub mod atomic {
    pub use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
}

/// A cell whose content a protocol guards; the model checker watches each access.
///
/// Access goes through closures that receive a raw pointer, as loom needs it. Dereferencing the pointer is
/// the caller's unsafe operation and the caller's proof.
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell holding `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to be read through.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get().cast_const())
    }

    /// Calls `f` with a pointer to be written through.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// The content, for whoever owns the cell.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Runs `f` once. Under `cfg(loom)` the same call runs it under every schedule.
pub fn model(f: impl Fn() + Sync + Send + 'static) {
    f();
}
