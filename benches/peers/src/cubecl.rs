//! `cubecl-runtime`'s memory management over a storage that keeps nothing but counts.

use std::collections::HashMap;
use std::sync::Arc as SharedCount;
use std::sync::atomic::{AtomicU64, Ordering};

use cubecl_common::stub::Arc;
use cubecl_ir::MemoryDeviceProperties;
use cubecl_runtime::logging::ServerLogger;
use cubecl_runtime::memory_management::{
    ManagedMemoryHandle, MemoryConfiguration, MemoryManagement, MemoryManagementOptions,
};
use cubecl_runtime::server::IoError;
use cubecl_runtime::storage::{ComputeStorage, StorageHandle, StorageId, StorageUtilization};
use piton_timeline::{Frontier, Lane, LaneId};

use crate::trace_player::Subject;

/// Alignment of what is handed out, in bytes; the pool's too.
const ALIGNMENT: u64 = 512;

/// Which of the two configurations that `cubecl-runtime` comes with.
#[derive(Clone, Copy)]
pub(crate) enum Preset {
    /// Pages of a few sizes are cut up; the default.
    SubSlices,
    /// Each allocation has a page.
    ExclusivePages,
}

/// What all streams hold, and held at most.
#[derive(Default)]
struct Held {
    now: AtomicU64,
    peak: AtomicU64,
}

/// Pages without memory.
struct Counting {
    pages: HashMap<StorageId, u64>,
    held: SharedCount<Held>,
}

impl ComputeStorage for Counting {
    type Resource = ();

    fn alignment(&self) -> usize {
        ALIGNMENT as usize
    }

    fn get(&mut self, _handle: &StorageHandle) {}

    fn alloc(&mut self, size: u64) -> Result<StorageHandle, IoError> {
        let id = StorageId::new();
        self.pages.insert(id, size);
        let now = self.held.now.fetch_add(size, Ordering::Relaxed) + size;
        self.held.peak.fetch_max(now, Ordering::Relaxed);
        Ok(StorageHandle::new(
            id,
            StorageUtilization { offset: 0, size },
        ))
    }

    fn dealloc(&mut self, id: StorageId) {
        let size = self.pages.remove(&id).unwrap_or(0);
        self.held.now.fetch_sub(size, Ordering::Relaxed);
    }

    fn flush(&mut self) {}
}

/// A memory management a stream.
pub(crate) struct Cubecl {
    streams: Vec<(LaneId, MemoryManagement<Counting>)>,
    held: SharedCount<Held>,
    /// Which stream asked last, where the next look begins.
    last: usize,
}

impl Cubecl {
    /// `max_page` is the largest page, in bytes.
    pub(crate) fn new(preset: Preset, lanes: &[Lane], max_page: u64) -> Self {
        let held = SharedCount::new(Held::default());
        let properties = MemoryDeviceProperties {
            max_page_size: max_page.next_multiple_of(ALIGNMENT),
            alignment: ALIGNMENT,
        };
        let stream = |lane: &Lane| {
            let storage = Counting {
                pages: HashMap::new(),
                held: SharedCount::clone(&held),
            };
            let config = match preset {
                Preset::SubSlices => MemoryConfiguration::SubSlices,
                Preset::ExclusivePages => MemoryConfiguration::ExclusivePages,
            };
            let management = MemoryManagement::from_configuration(
                storage,
                &properties,
                config,
                Arc::new(ServerLogger::default()),
                MemoryManagementOptions::new("peer"),
            );
            (lane.id(), management)
        };
        Self {
            streams: lanes.iter().map(stream).collect(),
            held,
            last: 0,
        }
    }

    pub(crate) fn peak_held(&self) -> u64 {
        self.held.peak.load(Ordering::Relaxed)
    }

    fn of_stream(&mut self, lane: LaneId) -> &mut MemoryManagement<Counting> {
        if self.streams[self.last].0 != lane {
            let found = self.streams.iter().position(|(of, _)| *of == lane);
            self.last = found.expect("every stream has one");
        }
        &mut self.streams[self.last].1
    }
}

impl Subject for Cubecl {
    type Held = ManagedMemoryHandle;

    fn take(&mut self, bytes: u64, lane: LaneId) -> ManagedMemoryHandle {
        let reserved = self.of_stream(lane).reserve(bytes);
        reserved.expect("a page may be as large")
    }

    fn give(&mut self, held: ManagedMemoryHandle, _uses: Frontier) {
        drop(held);
    }
}
