//! Exported functions: each a body that answers values, which one macro writes where the caller wants them. So raw places
//! are filled in one place, and no panic leaves a library.

#![expect(unsafe_code, reason = "fills places that callers give")]

use crate::codes::{Answer, Code};
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What tests ask of a stand-in, and what it knows of itself.
#[derive(Debug, Default)]
pub struct Switches {
    /// Whether the library was initialised.
    pub is_initialised: bool,
    /// Codes that the next call of a function answers, which then does nothing.
    pub failures: HashMap<String, Code>,
    /// What was done that the reference says no program may do, and that is not refused.
    pub mistakes: u32,
}

impl Switches {
    /// Whether the function of this name may go on: as long as the library is initialised, or this initialises it, and no
    /// test wants it to fail.
    ///
    /// # Errors
    /// The code that a test wants, or `not_initialised`.
    pub fn admit(&mut self, name: &str, initialises: &str, not_initialised: Code) -> Answer<()> {
        match self.failures.remove(name) {
            Some(code) => Err(code),
            None if self.is_initialised || name == initialises => Ok(()),
            None => Err(not_initialised),
        }
    }
}

/// Calls a body, and says what it came to; `unknown` where it panicked, which is a mistake of the stand-in's own.
pub fn answer(unknown: Code, body: impl FnOnce() -> Answer<()>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => unknown,
    }
}

/// Values that a call answers, for places that its caller gave.
pub trait Fill<Places> {
    /// Writes the values.
    ///
    /// # Safety
    /// Each place is null, which is refused with `invalid`, or valid for a write.
    ///
    /// # Errors
    /// As said.
    unsafe fn fill(self, places: Places, invalid: Code) -> Answer<()>;
}

impl Fill<()> for () {
    unsafe fn fill(self, (): (), _: Code) -> Answer<()> {
        Ok(())
    }
}

impl<A> Fill<(*mut A,)> for (A,) {
    unsafe fn fill(self, (place,): (*mut A,), invalid: Code) -> Answer<()> {
        if place.is_null() {
            return Err(invalid);
        }
        // SAFETY: the caller's promise.
        unsafe { place.write(self.0) };
        Ok(())
    }
}

impl<A, B> Fill<(*mut A, *mut B)> for (A, B) {
    unsafe fn fill(self, (first, second): (*mut A, *mut B), invalid: Code) -> Answer<()> {
        // SAFETY: the caller's promise.
        unsafe { (self.0,).fill((first,), invalid) }?;
        // SAFETY: the caller's promise.
        unsafe { (self.1,).fill((second,), invalid) }
    }
}

/// Exports functions. Behind `fills` stand the arguments that are places for the values that the body answers. What is in
/// brackets before them is a function of the library's that takes the name and the body ([`answer`] at its end), and the code
/// that refuses null places.
#[macro_export]
macro_rules! entry_points {
    ([$answer:path, $invalid:expr] $($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) fills($($place:ident),*) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the public reference says of the function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $crate::Code {
                $answer(stringify!($name), || {
                    let body = || -> $crate::Answer<_> { $body };
                    let values = body()?;
                    // SAFETY: the places are the caller's, who promises what the reference asks.
                    unsafe { $crate::Fill::fill(values, ($($place,)*), $invalid) }
                })
            }
        )*
    };
}
