//! What callers can get wrong. Running out of room is not an error but an answer (`None`).

use std::error::Error;
use std::fmt;

/// A range that cannot be managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The unit is not a power of two.
    UnitNotPowerOfTwo {
        /// Bytes asked for as the unit.
        unit: u64,
    },
    /// The capacity is zero or not a whole number of units.
    CapacityNotWholeUnits {
        /// Bytes of the range.
        capacity: u64,
        /// Bytes of a unit.
        unit: u64,
    },
    /// The ranges would span more units than the index can count.
    TooManyUnits {
        /// Units in the range.
        units: u64,
        /// The most units that one more range may have.
        limit: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnitNotPowerOfTwo { unit } => {
                write!(f, "a unit of {unit} bytes is not a power of two")
            }
            Self::CapacityNotWholeUnits { capacity, unit } => {
                write!(
                    f,
                    "a range of {capacity} bytes is not a positive number of units of {unit} bytes"
                )
            }
            Self::TooManyUnits { units, limit } => {
                write!(f, "a range of {units} units exceeds the limit of {limit}")
            }
        }
    }
}

impl Error for ConfigError {}

/// An [`ExtentId`](crate::ExtentId) or [`Domain`](crate::Domain) that the call cannot accept. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtentError {
    /// The id names no live chunk: freed before, or from another range.
    NotLive,
    /// The id names no free extent of the domain: taken, merged or moved since.
    NotFree,
    /// The chunk does not hold the bytes asked for.
    TooShort {
        /// Bytes of the chunk.
        bytes: u64,
    },
    /// No range starts at the offset, or not all of it is free in [`Domain::SHARED`](crate::Domain::SHARED).
    RangeInUse {
        /// Where the range was said to start.
        offset: u64,
    },
    /// The domain still has free extents.
    DomainNotEmpty {
        /// Bytes free in the domain.
        bytes: u64,
    },
}

impl fmt::Display for ExtentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive => f.write_str("the id names no live chunk of this range"),
            Self::NotFree => f.write_str("the id names no free extent of this domain"),
            Self::TooShort { bytes } => write!(f, "the chunk has only {bytes} bytes"),
            Self::RangeInUse { offset } => {
                write!(f, "no wholly free range starts at offset {offset}")
            }
            Self::DomainNotEmpty { bytes } => {
                write!(f, "the domain still has {bytes} free bytes")
            }
        }
    }
}

impl Error for ExtentError {}
