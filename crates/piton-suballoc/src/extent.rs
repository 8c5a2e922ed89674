//! What the outside sees of an extent: identities, chunks and the view of a walk. No addresses, no links.

use crate::domain::Domain;

/// Identifies one extent in one state. It goes stale when the extent is taken, freed, merged or split. A stale id is
/// refused, until the same record has gone through 2^32 states in between.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtentId(
    /// Which record, and above it which state of it: a range numbers its extents' states one after the other. One word, so
    /// that a handle is read as it was written.
    u64,
);

impl ExtentId {
    /// An id that no index gave out: for code that hands out memory by other means and has to tell it apart by a
    /// number and a state of its own. It must not be given to an index.
    #[inline]
    #[must_use]
    pub const fn from_parts(number: u32, state: u32) -> Self {
        Self((state as u64) << u32::BITS | number as u64)
    }

    /// Number and state.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the word is made of these two"
    )]
    pub const fn parts(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> u32::BITS) as u32)
    }

    /// Which record.
    pub(crate) const fn index(self) -> u32 {
        self.parts().0
    }
}

impl std::fmt::Debug for ExtentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, state) = self.parts();
        write!(f, "ExtentId({number}, {state})")
    }
}

/// A live extent as [`Tlsf::allocate`](crate::Tlsf::allocate) hands it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a chunk that is forgotten stays live"]
pub struct Chunk {
    /// What it is freed with.
    pub id: ExtentId,
    /// Where it starts, in bytes; a multiple of the unit and of the alignment asked for.
    pub offset: u64,
    /// Bytes that belong to the chunk: the request rounded up to units.
    pub bytes: u64,
    /// Stamp of the extent it was taken from; 0 if that was of [`Domain::SHARED`].
    pub stamp: u64,
}

/// One extent of a range, as seen by a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its id, for as long as it stays as it is.
    pub id: ExtentId,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Live or free.
    pub state: ExtentState,
}

impl Extent {
    /// The stamp of a free extent; 0 of a live one.
    #[must_use]
    pub const fn stamp(&self) -> u64 {
        match self.state {
            ExtentState::Free { stamp, .. } => stamp,
            ExtentState::Live { .. } => 0,
        }
    }
}

/// Whether an extent is in use, and if not, whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// Handed out.
    Live {
        /// Bytes at the end that were not asked for.
        padding: u64,
    },
    /// Available to those who name the domain.
    Free {
        /// Whose it is.
        domain: Domain,
        /// Largest stamp of the bytes in it; 0 in [`Domain::SHARED`].
        stamp: u64,
    },
}

/// One range of an index, as seen by a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The domain that all of it is free in, if it is one free extent.
    pub free_in: Option<Domain>,
}
