//! The entry points, by the names and types of the public *CUDA Driver API* reference.
//!
//! Each is a body that answers values, which one macro writes where the caller wants them: so raw places are filled in one
//! place. No panic leaves the library.

#![expect(
    unsafe_code,
    reason = "exports functions that fill what they are given"
)]

pub mod device;
pub mod memory;
pub mod module;
pub mod stream;

use crate::world::{self, Answer, Code, INVALID_VALUE, NOT_INITIALIZED};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a call answers where a body panicked: a mistake of the stand-in's own.
const UNKNOWN: Code = 999;

/// Calls a body: as long as the library is initialised, and no test wants it to fail.
fn answer(name: &str, body: impl FnOnce() -> Answer<()>) -> Code {
    let called = catch_unwind(AssertUnwindSafe(|| {
        let ready = world::with(|world| {
            let is_ready = world.is_initialised || name == "cuInit";
            match world.failures.remove(name) {
                Some(code) => Err(code),
                None if is_ready => Ok(()),
                None => Err(NOT_INITIALIZED),
            }
        });
        ready.and_then(|()| body())
    }));
    match called {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// Values that a call answers, for places that its caller gave.
trait Fill<Places> {
    /// Writes the values.
    ///
    /// # Safety
    /// Each place is null, which is refused, or valid for a write.
    unsafe fn fill(self, places: Places) -> Answer<()>;
}

impl Fill<()> for () {
    unsafe fn fill(self, (): ()) -> Answer<()> {
        Ok(())
    }
}

impl<A> Fill<(*mut A,)> for (A,) {
    unsafe fn fill(self, (place,): (*mut A,)) -> Answer<()> {
        if place.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        unsafe { place.write(self.0) };
        Ok(())
    }
}

impl<A, B> Fill<(*mut A, *mut B)> for (A, B) {
    unsafe fn fill(self, (first, second): (*mut A, *mut B)) -> Answer<()> {
        // SAFETY: the caller's promise.
        unsafe { (self.0,).fill((first,)) }?;
        // SAFETY: the caller's promise.
        unsafe { (self.1,).fill((second,)) }
    }
}

/// Exports functions. Behind `fills` stand the arguments that are places for the values that the body answers.
macro_rules! entry_points {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) fills($($place:ident),*) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the *CUDA Driver API* reference says of the function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::calls::answer(stringify!($name), || {
                    let body = || -> $crate::world::Answer<_> { $body };
                    let values = body()?;
                    // SAFETY: the places are the caller's, who promises what the reference asks.
                    unsafe { $crate::calls::Fill::fill(values, ($($place,)*)) }
                })
            }
        )*
    };
}
use entry_points;
