//! What the pool counts.

/// A pool's counters at one moment.
///
/// `held_bytes + suspended_bytes = live_bytes + padding_bytes + cached_bytes + pending_bytes + in_transit_bytes`. Reading them costs a short lock, a step per lane, and one for each piece
/// of memory that is complete and that no other lane has asked for since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Requests served from what the pool held, at the first look.
    pub hits: u64,
    /// Requests that needed more: draining, a wait, or the source.
    pub misses: u64,
    /// Allocations given back.
    pub frees: u64,
    /// Requests refused for want of memory.
    pub out_of_memory: u64,
    /// Allocations handed out with a wait on another lane.
    pub waits: u64,
    /// Calls to the source for a Block, failed ones too.
    pub block_allocations: u64,
    /// Calls to the source to take a Block back, failed ones too.
    pub block_frees: u64,
    /// Calls to the source for virtual memory: create, destroy, map and unmap, failed ones too.
    pub page_calls: u64,
    /// Bytes of pages taken from holes to be mapped elsewhere or given back.
    pub stolen_bytes: u64,
    /// Blocks held, or address ranges reserved.
    pub blocks: u64,
    /// Allocations in use.
    pub allocations: u64,
    /// Bytes asked for by allocations in use.
    pub live_bytes: u64,
    /// Bytes lost to rounding by allocations in use.
    pub padding_bytes: u64,
    /// Free bytes whose uses are all known complete: anyone may have them, at once or as soon as they ask.
    pub cached_bytes: u64,
    /// Free bytes whose last use is not known complete.
    pub pending_bytes: u64,
    /// Bytes on their way: Blocks going back to the source, pages being mapped, unmapped, or mapped nowhere.
    pub in_transit_bytes: u64,
    /// Bytes of live allocations, with padding, whose pages are gone for now ([`DevicePool::suspend`](crate::DevicePool::suspend)).
    pub suspended_bytes: u64,
    /// Bytes of all Blocks.
    pub held_bytes: u64,
    /// Most bytes live at once.
    pub peak_live_bytes: u64,
    /// Most bytes held at once.
    pub peak_held_bytes: u64,
}

impl PoolStats {
    /// Calls to the source for memory of either kind, failed ones too.
    #[must_use]
    pub const fn source_calls(&self) -> u64 {
        self.block_allocations + self.block_frees + self.page_calls
    }
}

/// Counters that only grow, and peaks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) frees: u64,
    pub(crate) out_of_memory: u64,
    pub(crate) waits: u64,
    pub(crate) block_allocations: u64,
    pub(crate) block_frees: u64,
    pub(crate) page_calls: u64,
    pub(crate) stolen: u64,
    pub(crate) peak_live: u64,
    pub(crate) peak_held: u64,
}
