//! Tables of a vendor's functions, looked up by name once.
//!
//! What no device can do without is one group; what only a facet needs is a group of its own, which is there as a whole or
//! not at all ([`found`] notes the first name that is missing).

use crate::error::{Ability, MissingAbility};

/// The group, or a note of what it lacks.
pub fn found<T>(
    group: Result<T, &'static str>,
    ability: Ability,
    missing: &mut Vec<MissingAbility>,
) -> Option<T> {
    group
        .inspect_err(|symbol| missing.push(MissingAbility { ability, symbol }))
        .ok()
}

/// Groups of functions: each a structure of pointers with `of(&Library)`, which answers the first name that is missing.
///
/// Every line is `field "symbol" (types) -> result;`. The module that writes it opens unsafe code, as a symbol's type is what
/// the vendor's reference says and not what the library proves.
#[macro_export]
macro_rules! entry_points {
    ($($(#[$doc:meta])* $group:ident {
        $($field:ident $symbol:literal ($($argument:ty),* $(,)?) -> $result:ty;)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(crate) struct $group {
                $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            }

            impl $group {
                /// Looks the group up.
                ///
                /// # Errors
                /// The first name that is missing.
                fn of(library: &$crate::Library) -> Result<Self, &'static str> {
                    Ok(Self {
                        $($field: {
                            // SAFETY: the type is the one that the vendor's reference gives this name.
                            let symbol = unsafe { library.get(concat!($symbol, "\0").as_bytes()) };
                            *symbol.map_err(|_| $symbol)?
                        },)*
                    })
                }
            }

            impl ::std::fmt::Debug for $group {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.debug_struct(stringify!($group)).finish_non_exhaustive()
                }
            }
        )*
    };
}
