//! Device addresses: integers, never Rust pointers.
//!
//! A device address means something to one device only. The host never dereferences it; arithmetic on it is
//! plain integer arithmetic, checked, in bytes.

use std::fmt;

/// An address in a device's address space, in bytes.
///
/// Addresses of different devices may be equal numbers; whoever stores one stores the device beside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// The address with this number.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The number.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// The address `bytes` further on, or `None` past the end of the 64-bit space.
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }

    /// How many bytes this address lies past `origin`, or `None` if it lies before it.
    pub const fn checked_offset_from(self, origin: Self) -> Option<u64> {
        self.0.checked_sub(origin.0)
    }

    /// Whether the address is a multiple of `alignment` bytes; every address is one of zero and one.
    pub const fn is_aligned_to(self, alignment: u64) -> bool {
        alignment <= 1 || self.0.is_multiple_of(alignment)
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A run of device memory: `bytes` bytes from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceRange {
    /// First byte.
    pub start: DevicePtr,
    /// Length in bytes.
    pub bytes: u64,
}

impl DeviceRange {
    /// The address after the last byte, or `None` where the range leaves the 64-bit space.
    pub const fn end(self) -> Option<DevicePtr> {
        self.start.checked_add(self.bytes)
    }

    /// Whether `other` lies wholly inside.
    pub fn contains(self, other: Self) -> bool {
        match (self.end(), other.end()) {
            (Some(end), Some(other_end)) => self.start <= other.start && other_end <= end,
            _ => false,
        }
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else {
            return true;
        };
        self.bytes > 0 && other.bytes > 0 && self.start < other_end && other.start < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64) -> DeviceRange {
        DeviceRange {
            start: DevicePtr::new(start),
            bytes,
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_the_address_space() {
        assert_eq!(DevicePtr::new(u64::MAX).checked_add(1), None);
        assert_eq!(
            DevicePtr::new(3).checked_offset_from(DevicePtr::new(4)),
            None
        );
        assert!(!range(0, 8).contains(range(u64::MAX, 8)));
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!range(0, 8).overlaps(range(8, 8)));
        assert!(range(0, 9).overlaps(range(8, 8)));
        assert!(!range(4, 0).overlaps(range(0, 8)));
    }
}
