//! In which order blocks are placed: the one choice a planner has that always takes the lowest place that is free.

use std::cmp::Reverse;

use crate::instants::Lifetime;

/// An order in which blocks are placed at first, to be improved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// Largest first: small blocks find holes that large ones leave. Nearly always the best.
    Size,
    /// Largest product of bytes and lifetime first: what is in the way of most others gets a place early.
    Area,
    /// Longest-lived first: what is in the way for longest gets a place early. Best where a few large blocks make up most
    /// of what is live.
    Lifetime,
    /// Large blocks in an order that was found by trying many, the others by size. Best where a few large blocks take turns
    /// that do not fit into each other.
    Levels,
}

impl Order {
    /// The blocks by this order; equal ones by the other of size and lifetime, and then as they came.
    pub(crate) fn of(self, bytes: &[u64], lifetimes: &[Lifetime]) -> Vec<u32> {
        let weight = |index: u32| {
            let (bytes, len) = (bytes[index as usize], lifetimes[index as usize].len());
            match self {
                Self::Size | Self::Levels => (u128::from(bytes), u64::from(len)),
                Self::Area => (u128::from(bytes) * u128::from(len), bytes),
                Self::Lifetime => (u128::from(len), bytes),
            }
        };
        let mut order: Vec<u32> = (0_u32..).take(bytes.len()).collect();
        order.sort_by_cached_key(|index| Reverse(weight(*index)));
        order
    }
}
