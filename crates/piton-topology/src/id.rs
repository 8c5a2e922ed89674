//! Small typed indices: nodes, links, devices, and the operating system's NUMA numbers.
//!
//! A [`NodeId`], [`LinkId`] or [`DeviceId`] is a position in the [`Machine`](crate::Machine) that
//! handed it out and means nothing in another one. A [`NumaId`] is *not* a position: it is the
//! number the operating system uses, which may have gaps (0, 2, 4, 6 is common on four sockets),
//! so it can be given to `mbind` or printed as is.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Defines one index type: a plain integer with a name, so that a link cannot be asked for as a node.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// The id with this number.
            #[must_use]
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// The number as it is stored.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The number as an index into a slice.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// Position of a node in its machine.
    NodeId(u16),
    "node"
);
id!(
    /// Position of a link in its machine. Wider than a node id: a mesh of `n` nodes has `n²/2` links.
    LinkId(u32),
    "link"
);
id!(
    /// Position of a device in its machine: devices are numbered apart from other nodes, from zero.
    DeviceId(u16),
    "device"
);
id!(
    /// The operating system's number of a NUMA node. Numbers may have gaps.
    NumaId(u16),
    "NUMA node"
);
