//! What memory pools hold, in the structure of PyTorch's memory snapshots: for its viewer, and for tools that read those.
//!
//! Blocks are segments of device memory; a range of addresses is one expandable segment for each run of addresses that
//! pages back. What a program gave back is freed at once in the list of events: the pool hands it out again with the waits
//! that takes, and the viewer knows no state for that. What is still in use by the device is *pending* among the blocks.

use crate::Runtime;
use piton_alloc::{
    BlockSnapshot, ChunkSnapshot, ChunkState, MemoryEvent, MemoryEventKind, PoolSnapshot,
};
use piton_snapshot::{Action, Block, BlockState, Event, Segment, Snapshot};

impl Runtime {
    /// What every device's memory pool holds now, and the last events of each, as many as
    /// [its configuration](piton_alloc::MemoryPoolConfig::events) keeps. [`Snapshot::to_pickle`] makes the bytes of a file of it
    /// that PyTorch's memory viewer opens (<https://pytorch.org/memory_viz>). What a [private pool](crate::PrivatePool) took is
    /// live memory of its device's pool here, whoever has it. Does not stop allocations; for reports.
    pub fn memory_snapshot(&self) -> Snapshot {
        let pools: Vec<_> = self.devices().map(|on| on.memory().snapshot()).collect();
        memory_snapshot(&pools)
    }
}

/// Snapshots of pools in the structure of PyTorch's; the place in the list is the device's number.
pub fn memory_snapshot(pools: &[PoolSnapshot]) -> Snapshot {
    let numbered = (0_u32..).zip(pools);
    let segments = numbered
        .flat_map(|(device, pool)| pool.blocks.iter().flat_map(move |on| segments(device, on)));
    let device_events = pools
        .iter()
        .map(|pool| pool.events.iter().flat_map(events).collect());
    Snapshot {
        segments: segments.collect(),
        device_events: device_events.collect(),
    }
}

fn segments(device: u32, block: &BlockSnapshot) -> Vec<Segment> {
    let is_backed = |chunk: &ChunkSnapshot| chunk.state != ChunkState::Unbacked;
    let is_expandable = !block.chunks.iter().all(is_backed);
    let runs = block.chunks.split(|chunk| !is_backed(chunk));
    runs.filter_map(|run| {
        Some(Segment {
            device,
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
