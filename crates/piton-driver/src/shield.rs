//! The program's code in the middle of a backend's: its panics end here.
//!
//! Kernels, host functions, wakers and the destructors of what a program has handed over run on threads that look after queues,
//! or in a driver's callback, which no panic may leave. A panic that went on would end the thread, and the queues would stand
//! still for ever. What a panic carries is the program's too, and is let go of in the same way.

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs code of the program's; `None` if it panicked. What it was in the middle of is the program's to know.
#[inline]
pub fn run<R>(code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => Some(result),
        Err(payload) => {
            discard(payload);
            None
        }
    }
}

/// Lets go of what is the program's.
pub fn discard<T>(value: T) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) else {
        return;
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        let _never_dropped = ManuallyDrop::new(second);
    }
}
