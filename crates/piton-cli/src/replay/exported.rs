//! A pool's snapshot in the structure of PyTorch's memory snapshots, for its viewer and for whoever reads those.
//!
//! Blocks are segments of device memory; a range of addresses is one expandable segment for each run of addresses that
//! pages back. What a program gave back is freed at once in the list of events: the pool hands it out again with the waits
//! that takes, and the viewer knows no state for that. What is still in use by the device is *pending* among the blocks.

use piton_alloc::{
    BlockSnapshot, ChunkSnapshot, ChunkState, MemoryEvent, MemoryEventKind, PoolSnapshot,
};
use piton_snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};

/// The snapshot of device 0's pool.
pub(super) fn export(pool: &PoolSnapshot) -> Snapshot {
    Snapshot {
        segments: pool.blocks.iter().flat_map(segments).collect(),
        device_events: vec![pool.events.iter().flat_map(events).collect()],
    }
}

fn segments(block: &BlockSnapshot) -> Vec<Segment> {
    let is_backed = |chunk: &ChunkSnapshot| chunk.state != ChunkState::Unbacked;
    let is_expandable = !block.chunks.iter().all(is_backed);
    let runs = block.chunks.split(|chunk| !is_backed(chunk));
    runs.filter_map(|run| {
        Some(Segment {
            device: 0,
            address: run.first()?.ptr.address(),
            bytes: run.iter().map(|chunk| chunk.bytes).sum(),
            stream: 0,
            is_expandable,
            blocks: run.iter().map(part).collect(),
        })
    })
    .collect()
}

fn part(chunk: &ChunkSnapshot) -> Block {
    let (state, padding) = match chunk.state {
        ChunkState::Live { padding } => (BlockState::Allocated, padding),
        ChunkState::Pending { .. } => (BlockState::PendingFree, 0),
        _ => (BlockState::Free, chunk.bytes),
    };
    Block {
        bytes: chunk.bytes,
        requested_bytes: chunk.bytes - padding,
        state,
    }
}

fn events(event: &MemoryEvent) -> Vec<Event> {
    let told = |action| Event {
        action,
        address: event.ptr.address(),
        bytes: event.bytes,
        stream: event.lane.map_or(0, |lane| u64::from(lane.index)),
        time_us: 0,
    };
    match event.kind {
        MemoryEventKind::Allocated => vec![told(Action::Allocate)],
        MemoryEventKind::Freed => vec![told(Action::FreeRequested), told(Action::FreeCompleted)],
        MemoryEventKind::OutOfMemory => vec![told(Action::OutOfMemory { device_free: 0 })],
        MemoryEventKind::BlockAdded => vec![told(Action::SegmentAllocate)],
        MemoryEventKind::BlockReturned => vec![told(Action::SegmentFree)],
        MemoryEventKind::PagesMapped => vec![told(Action::SegmentMap)],
        MemoryEventKind::PagesUnmapped => vec![told(Action::SegmentUnmap)],
        _ => Vec::new(),
    }
}
