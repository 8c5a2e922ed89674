//! Size classes: requests rounded up to few sizes, so that one queue per size serves many requests.
//!
//! Classes are multiples of a 64-byte grain: 1, 2, 3, 4 grains, then four to a doubling (5, 6, 7, 8, 10, 12, 14,
//! 16, 20, ...). So a class exceeds the request by less than one grain, or by less than a quarter of the request.
//! Pure arithmetic on sizes; who keeps what in a class is the pools' business.

/// log2 of the grain.
const GRAIN_BITS: u32 = 6;

/// One class of sizes. Ordered by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Bytes of the smallest class; every class is a multiple of it.
    pub const GRAIN: u64 = 1 << GRAIN_BITS;

    /// How many classes there are.
    pub const COUNT: usize = 220;

    /// Bytes of the largest class.
    pub const MAX_BYTES: u64 = 1 << 62;

    /// The smallest class of at least `bytes` bytes, or `None` above [`SizeClass::MAX_BYTES`].
    #[inline]
    #[must_use]
    pub const fn for_bytes(bytes: u64) -> Option<Self> {
        Self::from_index(Self::position(bytes.saturating_sub(1)))
    }

    /// The position, in order of size, of the class for `bytes` bytes: what [`for_bytes`](Self::for_bytes) finds,
    /// without a branch. At least [`SizeClass::COUNT`] for more than [`SizeClass::MAX_BYTES`], and for zero bytes.
    #[inline]
    #[must_use]
    pub const fn index_for(bytes: u64) -> usize {
        Self::position(bytes.wrapping_sub(1))
    }

    /// The class of sizes that `last` is the last byte of. Its leading bit and the two behind it say which: the leading bit
    /// the doubling, the two the quarter of it. The first eight classes, all a grain apart, are as of one doubling.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most four for each of the 64 bits, which fits"
    )]
    const fn position(last: u64) -> usize {
        let quarters = (last | ((8 << GRAIN_BITS) - 1)) >> 2;
        let below = quarters.ilog2();
        (last >> below) as usize + 4 * (below - GRAIN_BITS) as usize
    }

    /// The class at position `index` in order of size.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "COUNT fits a byte")]
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// Bytes of a block of this class.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        let index = self.0 as u64;
        let grains = if index < 4 {
            index + 1
        } else {
            let octave = index / 4 + 1;
            (1 << octave) + ((index % 4 + 1) << (octave - 2))
        };
        grains << GRAIN_BITS
    }

    /// Position in order of size, below [`SizeClass::COUNT`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).filter_map(Self::from_index)
    }
}
