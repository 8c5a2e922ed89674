//! Rates and durations as integers, so that the same machine gives the same answer everywhere.
//!
//! Bandwidth is bytes a second in decimal units (1 GB/s is 10⁹ bytes a second), one direction.
//! Durations are nanoseconds. All arithmetic saturates: a sum that would overflow is "forever".

use core::fmt;

use serde::{Deserialize, Serialize};

const GIGA: u64 = 1_000_000_000;

/// A rate in bytes a second, one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSec(u64);

impl BytesPerSec {
    /// No limit: the rate of a path without links.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of this many bytes a second.
    #[must_use]
    pub const fn new(bytes_per_second: u64) -> Self {
        Self(bytes_per_second)
    }

    /// A rate of this many megabytes (10⁶ bytes) a second.
    #[must_use]
    pub const fn from_mb(megabytes_per_second: u64) -> Self {
        Self(megabytes_per_second.saturating_mul(1_000_000))
    }

    /// Bytes a second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up. Forever at rate zero.
    #[must_use]
    pub fn duration_of(self, bytes: u64) -> Nanos {
        if bytes == 0 {
            return Nanos::ZERO;
        }
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let nanos = (u128::from(bytes) * u128::from(GIGA)).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= GIGA {
            let tenths = self.0.saturating_add(50_000_000) / 100_000_000;
            return write!(f, "{}.{} GB/s", tenths / 10, tenths % 10);
        }
        write!(f, "{} MB/s", self.0.saturating_add(500_000) / 1_000_000)
    }
}

/// A duration in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Forever.
    pub const MAX: Self = Self(u64::MAX);

    /// A duration of this many nanoseconds.
    #[must_use]
    pub const fn new(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or forever where it would overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero where it would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Units and how many nanoseconds one of them has, widest first.
        const UNITS: [(u64, &str); 3] = [(GIGA, "s"), (1_000_000, "ms"), (1_000, "µs")];
        if *self == Self::MAX {
            return f.write_str("forever");
        }
        for (size, unit) in UNITS {
            if self.0 >= size {
                let tenths = self.0.saturating_add(size / 20) / (size / 10);
                return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
            }
        }
        write!(f, "{} ns", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_up_and_never_overflows() {
        assert_eq!(BytesPerSec::new(3).duration_of(1), Nanos::new(333_333_334));
        assert_eq!(BytesPerSec::new(0).duration_of(1), Nanos::MAX);
        assert_eq!(BytesPerSec::new(0).duration_of(0), Nanos::ZERO);
        assert_eq!(BytesPerSec::new(1).duration_of(u64::MAX), Nanos::MAX);
        assert_eq!(BytesPerSec::MAX.duration_of(u64::MAX), Nanos::new(GIGA));
    }

    #[test]
    fn quantities_print_in_the_unit_a_person_would_choose() {
        assert_eq!(BytesPerSec::new(12_603_076_923).to_string(), "12.6 GB/s");
        assert_eq!(BytesPerSec::new(196_000_000).to_string(), "196 MB/s");
        assert_eq!(Nanos::new(999).to_string(), "999 ns");
        assert_eq!(Nanos::new(5_000).to_string(), "5.0 µs");
        assert_eq!(Nanos::new(1_250_000).to_string(), "1.3 ms");
        assert_eq!(Nanos::MAX.to_string(), "forever");
    }
}
