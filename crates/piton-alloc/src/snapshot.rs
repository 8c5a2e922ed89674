//! Every Block and every Chunk at one moment, for reports and pictures. Plain values.

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::{Extent, ExtentState};

use crate::block::Block;
use crate::books::Books;
use crate::events::MemoryEvent;
use crate::pool::DevicePool;
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
    /// Addresses without pages: no memory.
    Unbacked,
}

/// Chunks, or events, that are copied under one lock.
const PART: usize = 256;

impl DevicePool {
    /// Every Block with every Chunk, and the last events.
    ///
    /// Each Chunk is as it was at some moment during the call, and the Chunks of a Block cover it. Blocks that come
    /// or go meanwhile may be missing. The pool's lock is held for a few hundred Chunks at a time, so allocation goes
    /// on; meanwhile requests that fronts would serve take the lock too.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let _one_at_a_time = self.walking.lock();
        let _closed = self.fronts.close();
        self.recall();
        let mut events = self.front_events();
        let mut blocks: Vec<Block> = self.books.lock().blocks.iter().copied().collect();
        blocks.sort_by_key(|block| block.range.start);
        let blocks = blocks
            .into_iter()
            .filter_map(|block| self.copy_block(block))
            .collect();
        self.copy_events(&mut events);
        // Stable: events of one ring stay in their order.
        events.sort_by_key(|event| event.clock);
        PoolSnapshot { blocks, events }
    }

    /// A Block with its Chunks; `None` if it is gone.
    fn copy_block(&self, block: Block) -> Option<BlockSnapshot> {
        let (mut at, end) = (block.offset, block.offset + block.range.bytes);
        let mut chunks = Vec::new();
        while at < end {
            let mut books = self.books.lock();
            let part = books.index.walk_on(block.offset, at, PART);
            for extent in part {
                let stop = extent.offset + extent.bytes;
                chunks.push(ChunkSnapshot {
                    ptr: block.range.start.checked_add(at - block.offset)?,
                    bytes: stop - at,
                    state: state_of(&books, &extent, at),
                });
                at = stop;
            }
            if books.blocks.containing(block.range.start) != Some(&block) {
                return None;
            }
        }
        let range = block.range;
        Some(BlockSnapshot { range, chunks })
    }

    /// The pool's own events up to now.
    fn copy_events(&self, events: &mut Vec<MemoryEvent>) {
        let mut range = self.books.lock().events.numbers();
        while !range.is_empty() {
            range.start = self.books.lock().events.copy_from(&range, PART, events);
        }
    }
}

/// What an extent is, from `at` on, where a walk goes on.
fn state_of(books: &Books, extent: &Extent, at: u64) -> ChunkState {
    match extent.state {
        ExtentState::Live { .. } if books.deferred.contains(extent) => {
            ChunkState::Pending { lane: None }
        }
        ExtentState::Live { padding } => ChunkState::Live {
            padding: padding.min(extent.offset + extent.bytes - at),
        },
        ExtentState::Free { domain, .. } => match region::slot_of(domain) {
            None if region::is_unbacked(domain) => ChunkState::Unbacked,
            None => ChunkState::Cached,
            Some(_) if books.is_complete(extent) => ChunkState::Cached,
            lane => ChunkState::Pending { lane },
        },
    }
}
