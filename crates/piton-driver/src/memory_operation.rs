//! Values in device memory that queues wait for and write, as hardware semaphores do.
//!
//! The conditions are those of CUDA's stream memory operations (`cuStreamWaitValue32` and its like, CUDA Driver
//! API, "Stream Memory Operations"); AscendCL's `aclrtValueWait` has the same ones.

use crate::{DevicePtr, DeviceRange};

/// A value in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryWord {
    /// Four bytes, native order, at a multiple of 4.
    U32(u32),
    /// Eight bytes, native order, at a multiple of 8.
    U64(u64),
}

impl MemoryWord {
    /// Bytes it takes, which is also its alignment.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }

    /// The value, whatever its size.
    pub const fn get(self) -> u64 {
        match self {
            Self::U32(value) => value as u64,
            Self::U64(value) => value,
        }
    }
}

/// How the value in memory is compared with the one given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// They are equal.
    Equal,
    /// The value in memory is at least the given one, counted in a circle: their difference as a signed number
    /// is not negative. A counter that wraps around goes on working.
    AtLeast,
    /// They have a bit in common.
    And,
    /// Some bit is set in neither.
    NotOr,
}

impl Comparison {
    /// Whether the value in memory meets the condition. Values of two sizes never do.
    pub const fn holds(self, in_memory: MemoryWord, given: MemoryWord) -> bool {
        match (in_memory, given) {
            (MemoryWord::U32(found), MemoryWord::U32(wanted)) => match self {
                Self::Equal => found == wanted,
                Self::AtLeast => found.wrapping_sub(wanted).cast_signed() >= 0,
                Self::And => found & wanted != 0,
                Self::NotOr => !(found | wanted) != 0,
            },
            (MemoryWord::U64(found), MemoryWord::U64(wanted)) => match self {
                Self::Equal => found == wanted,
                Self::AtLeast => found.wrapping_sub(wanted).cast_signed() >= 0,
                Self::And => found & wanted != 0,
                Self::NotOr => !(found | wanted) != 0,
            },
            _ => false,
        }
    }
}

/// A wait for a value in device memory.
///
/// It is looked at when the wait's turn has come and whenever a command of the device that may have written the
/// memory has ended: a kernel that writes the value and goes on running is seen when it ends, at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryWait {
    /// Where; a multiple of the value's size.
    pub at: DevicePtr,
    /// How it is compared.
    pub comparison: Comparison,
    /// What with.
    pub value: MemoryWord,
}

impl MemoryWait {
    /// The bytes that are looked at.
    pub const fn at_range(&self) -> DeviceRange {
        DeviceRange {
            start: self.at,
            bytes: self.value.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_goes_on_past_the_wrap() {
        let (before, after) = (MemoryWord::U32(u32::MAX), MemoryWord::U32(3));
        assert!(Comparison::AtLeast.holds(after, before));
        assert!(!Comparison::AtLeast.holds(before, after));
        let (before, after) = (MemoryWord::U64(u64::MAX - 1), MemoryWord::U64(0));
        assert!(Comparison::AtLeast.holds(after, before));
        assert!(!Comparison::AtLeast.holds(before, after));
    }

    #[test]
    fn bits_are_compared_as_the_names_say() {
        let word = MemoryWord::U32;
        assert!(Comparison::And.holds(word(0b110), word(0b010)));
        assert!(!Comparison::And.holds(word(0b101), word(0b010)));
        assert!(Comparison::NotOr.holds(word(0), word(u32::MAX - 1)));
        assert!(!Comparison::NotOr.holds(word(1), word(u32::MAX - 1)));
        assert!(!Comparison::Equal.holds(word(1), MemoryWord::U64(1)));
    }
}
