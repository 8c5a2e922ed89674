//! The primitives under `cfg(loom)`: loom's, behind parking_lot's signatures.
//!
//! Loom's own locks return a `Result` as std's do. Loom never poisons a lock that the model goes on using
//! (a panic ends the model), so the result is unwrapped here, once.

pub use loom::{hint, thread};

/// Atomic integers and their orderings.
pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering, fence,
    };
}

pub use loom::cell::UnsafeCell;

/// A lock.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(|e| e.into_inner())))
    }

    /// Takes the lock if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }

    /// The content, for whoever borrows the lock alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// The content, for whoever owns the lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}

/// A held lock. The inner guard is absent only while a [`Condvar`] holds it.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is back when wait returns"),
        }
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is back when wait returns"),
        }
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

/// What a timed wait says. Time does not pass under loom, so it never timed out.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    /// Whether the wait ended because its time was up.
    pub fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    /// A condition variable nobody waits on.
    pub fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Gives the lock up, waits to be notified, takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.0.take() {
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(|e| e.into_inner()));
        }
    }

    /// As [`Condvar::wait`]: the model has no clock, so the deadline never passes.
    pub fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _deadline: std::time::Instant,
    ) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Knows the process that made it; models do not fork.
#[derive(Debug, Default)]
pub struct ForkMark;

impl ForkMark {
    /// A mark of this process.
    pub fn new() -> Self {
        Self
    }

    /// Whether this process is a fork of the one that made the mark.
    pub fn is_fork(&self) -> bool {
        false
    }
}

/// A flag: there is one process in a model.
#[derive(Debug)]
pub struct WipedFlag(atomic::AtomicBool);

impl WipedFlag {
    /// A flag that is up.
    pub fn raised() -> Self {
        Self(atomic::AtomicBool::new(true))
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.0.load(atomic::Ordering::Acquire)
    }

    /// What this thread did is seen by whoever finds it up.
    pub fn raise(&self) {
        self.0.store(true, atomic::Ordering::Release);
    }

    /// Relaxed: orders nothing.
    pub fn lower(&self) {
        self.0.store(false, atomic::Ordering::Relaxed);
    }

    /// Whether it is down in forks.
    pub fn is_wiped_in_forks(&self) -> bool {
        true
    }
}

/// The frequent one's fence, as strong as what it stands for.
pub fn light_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// The rare one's fence.
#[must_use = "without an answer nothing is known of the others"]
pub fn heavy_fence() -> bool {
    atomic::fence(atomic::Ordering::SeqCst);
    true
}

/// Runs `f` under every schedule, up to the preemption bound in `LOOM_MAX_PREEMPTIONS`.
pub fn model(f: impl Fn() + Sync + Send + 'static) {
    loom::model(f);
}
