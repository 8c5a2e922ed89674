//! The properties, one file an area.
//!
//! A case opens what it needs, states what must hold with `ensure`, `ensure_eq` or `refused`, and never sleeps:
//! it waits for positions.

/// Declares a file's area and its cases, each a function of the same name with the facets it needs.
macro_rules! cases {
    ($area:literal: $($name:ident [$($facet:ident)*],)*) => {
        pub(crate) const CASES: &[crate::suite::Case] = &[$(crate::suite::Case {
            name: stringify!($name),
            area: $area,
            needs: &[$(crate::subject::Facet::$facet),*],
            run: $name,
        }),*];
    };
}

pub(crate) mod activity;
pub(crate) mod copies;
pub(crate) mod device;
pub(crate) mod failures;
pub(crate) mod graphs;
pub(crate) mod host_functions;
pub(crate) mod host_memory;
pub(crate) mod kernels;
pub(crate) mod mappings;
pub(crate) mod memory;
pub(crate) mod memory_operations;
pub(crate) mod page_sharing;
pub(crate) mod peers;
pub(crate) mod placement;
pub(crate) mod queues;
pub(crate) mod recovery;
pub(crate) mod semaphore_sharing;
pub(crate) mod semaphores;
pub(crate) mod teardown;
pub(crate) mod threads;
pub(crate) mod timestamps;
pub(crate) mod trace;
pub(crate) mod virtual_memory;
pub(crate) mod waits;
pub(crate) mod wakers;
pub(crate) mod writers;
