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
    #[expect(
        clippy::cast_possible_truncation,
        reason = "class numbers are below COUNT, which fits a byte"
    )]
    pub const fn for_bytes(bytes: u64) -> Option<Self> {
        if bytes > Self::MAX_BYTES {
            return None;
        }
        let grains = bytes.div_ceil(Self::GRAIN);
        if grains <= 4 {
            return Some(Self(grains.saturating_sub(1) as u8));
        }
        // 2^octave < grains <= 2^(octave + 1), cut into four steps.
        let octave = (grains - 1).ilog2();
        let step = (grains - 1 - (1 << octave)) >> (octave - 2);
        Some(Self((4 * (octave - 1) as u64 + step) as u8))
    }

    /// The class at position `index` in order of size.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "COUNT fits a byte")]
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < Self::COUNT {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// Bytes a block of this class has.
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
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).filter_map(Self::from_index)
    }
}
