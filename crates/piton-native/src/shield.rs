//! The program's code on threads of a backend's: its panics end here.
//!
//! Host functions and wakers run on threads that look after every queue, or in a driver's callback, which no panic may leave. What a
//! panic carries is the program's too, and may panic when it is let go.

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs code of the program's; whether it returned. What it was in the middle of is the program's to know.
pub(crate) fn run(code: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(code)) else {
        return true;
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        let _never_dropped = ManuallyDrop::new(second);
    }
    false
}
