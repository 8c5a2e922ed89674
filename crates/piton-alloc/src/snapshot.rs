//! Every Block and every Chunk at one moment, for reports and pictures. Plain values.

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::ExtentState;

use crate::block::Block;
use crate::books::Books;
use crate::events::MemoryEvent;
use crate::region;

/// All Blocks of a pool, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// The Blocks.
    pub blocks: Vec<BlockSnapshot>,
    /// The last events, oldest first; as many as [the configuration](crate::MemoryPoolConfig::events) says.
    pub events: Vec<MemoryEvent>,
}

/// One Block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSnapshot {
    /// Its memory.
    pub range: DeviceRange,
    /// Its Chunks in order of address; they cover it.
    pub chunks: Vec<ChunkSnapshot>,
}

/// One Chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSnapshot {
    /// First byte.
    pub ptr: DevicePtr,
    /// Bytes, with padding.
    pub bytes: u64,
    /// What it is.
    pub state: ChunkState,
}

/// What a Chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkState {
    /// Allocated.
    Live {
        /// Bytes lost to rounding.
        padding: u64,
    },
    /// Free for all.
    Cached,
    /// Free, but its last use is not known complete.
    Pending {
        /// Slot of the lane that used it last; `None` if several did.
        lane: Option<u32>,
    },
    /// Addresses that no page backs: no memory.
    Unbacked,
}

impl PoolSnapshot {
    pub(crate) fn of(books: &Books, front_events: Vec<MemoryEvent>) -> Self {
        let mut blocks: Vec<BlockSnapshot> = books
            .blocks
            .iter()
            .map(|block| block_of(books, block))
            .collect();
        blocks.sort_by_key(|block| block.range.start);
        let mut events = books.events.to_vec();
        if !front_events.is_empty() {
            events.extend(front_events);
            // Stable: events of one ring stay in their order.
            events.sort_by_key(|event| event.clock);
        }
        Self { blocks, events }
    }
}

fn block_of(books: &Books, block: &Block) -> BlockSnapshot {
    let chunks = books.index.extents_of(block.offset).filter_map(|extent| {
        let state = match extent.state {
            ExtentState::Live { .. } if books.deferred.contains(&extent) => {
                ChunkState::Pending { lane: None }
            }
            ExtentState::Live { padding } => ChunkState::Live { padding },
            ExtentState::Free { domain, .. } => match region::slot_of(domain) {
                None if region::is_unbacked(domain) => ChunkState::Unbacked,
                None => ChunkState::Cached,
                lane => ChunkState::Pending { lane },
            },
        };
        Some(ChunkSnapshot {
            ptr: block
                .range
                .start
                .checked_add(extent.offset - block.offset)?,
            bytes: extent.bytes,
            state,
        })
    });
    BlockSnapshot {
        range: block.range,
        chunks: chunks.collect(),
    }
}
