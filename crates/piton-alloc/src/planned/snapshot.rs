//! The snapshot of a pool that serves from plans: the pool's own, with its region shown block by block.

use piton_driver::DevicePtr;

use super::serving::{PartState, Serving};
use super::{Planned, State};
use crate::snapshot::{BlockSnapshot, ChunkSnapshot, ChunkState, PoolSnapshot};

/// Events that are copied under one lock.
const PART: usize = 256;

impl Planned {
    /// The pool's [snapshot](crate::DevicePool::snapshot). It shows the plan's region as the blocks that the program
    /// has and the free memory between them, and includes the events of blocks served from plans. Serving goes on
    /// meanwhile: its lock is held once for the region's blocks, and for a few hundred events at a time.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let mut snapshot = self.pool.snapshot();
        let region = self
            .state
            .lock()
            .serving
            .as_ref()
            .map(|serving| self.chunks(serving));
        if let Some((first, chunks)) = region {
            tell_in_parts(&mut snapshot.blocks, first, chunks);
        }
        self.copy_events(&mut snapshot);
        snapshot
    }

    /// Where the region begins, and what it has.
    fn chunks(&self, serving: &Serving) -> (DevicePtr, Vec<ChunkSnapshot>) {
        let first = serving.start();
        let mut ptr = Some(first);
        let parts = serving.parts(self.pool.timeline());
        let chunks = parts.into_iter().filter_map(|part| {
            let at = ptr?;
            ptr = at.checked_add(part.bytes);
            let state = match part.state {
                PartState::Live(asked) => ChunkState::Live {
                    padding: part.bytes - asked.bytes,
                },
                PartState::Free(uses) => match uses.points() {
                    [] => ChunkState::Cached,
                    [point] => ChunkState::Pending {
                        lane: Some(point.lane.index),
                    },
                    _ => ChunkState::Pending { lane: None },
                },
            };
            let bytes = part.bytes;
            Some(ChunkSnapshot {
                ptr: at,
                bytes,
                state,
            })
        });
        (first, chunks.collect())
    }

    fn copy_events(&self, snapshot: &mut PoolSnapshot) {
        let numbers = |state: &State| state.events.numbers();
        let mut range = numbers(&self.state.lock());
        while !range.is_empty() {
            let state = self.state.lock();
            range.start = state.events.copy_from(&range, PART, &mut snapshot.events);
        }
        // Stable: events of one ring stay in their order.
        snapshot.events.sort_by_key(|event| event.clock);
    }
}

/// Puts the parts of a region in place of its chunk, unless the region came or went between the two looks.
fn tell_in_parts(blocks: &mut [BlockSnapshot], first: DevicePtr, parts: Vec<ChunkSnapshot>) {
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    let is_region = |chunk: &ChunkSnapshot| chunk.ptr == first && chunk.bytes == bytes;
    for block in blocks {
        if let Some(place) = block.chunks.iter().position(is_region) {
            block.chunks.splice(place..=place, parts);
            return;
        }
    }
}
