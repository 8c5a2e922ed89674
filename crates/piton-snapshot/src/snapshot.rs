//! What a memory snapshot says, by name.

/// The state of an allocator, and how it came there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What the allocator holds of its devices.
    pub segments: Vec<Segment>,
    /// For each device the last events, oldest first. The ring is bounded, so its start may be missing.
    pub device_events: Vec<Vec<Event>>,
}

/// Memory that the allocator got from a device in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Number of the device.
    pub device: u32,
    /// Its first address.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// The stream it was made for.
    pub stream: u64,
    /// Can it grow and shrink, by pages mapped into reserved addresses?
    pub is_expandable: bool,
    /// Its blocks from the first address on, without gaps.
    pub blocks: Vec<Block>,
}

/// A part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its length.
    pub bytes: u64,
    /// How much of that was asked for.
    pub requested_bytes: u64,
    /// Who has it.
    pub state: BlockState,
}

/// Who has a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// The program.
    Allocated,
    /// Nobody, once the streams that use it have got there.
    PendingFree,
    /// Nobody.
    Free,
}

/// One entry of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Where; 0 for [`Action::OutOfMemory`], which has no place.
    pub address: u64,
    /// How much, as requested.
    pub bytes: u64,
    /// The stream it happened on.
    pub stream: u64,
    /// When, in microseconds since 1970; 0 if it was not recorded.
    pub time_us: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Allocate,
    /// The program gave a block back.
    FreeRequested,
    /// The block may be handed out again: nobody uses it any more.
    FreeCompleted,
    /// Memory came from the device.
    SegmentAllocate,
    /// Memory went back to the device.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request found no memory, with so many bytes free on the device.
    OutOfMemory {
        /// Bytes the device had left.
        device_free: u64,
    },
}

impl Action {
    /// What it is called in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allocate => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAllocate => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::OutOfMemory { .. } => "oom",
        }
    }

    /// The action of a name. Names that newer versions may add are none.
    pub(crate) fn of_name(name: &str, device_free: u64) -> Option<Self> {
        let all = [
            Self::Allocate,
            Self::FreeRequested,
            Self::FreeCompleted,
            Self::SegmentAllocate,
            Self::SegmentFree,
            Self::SegmentMap,
            Self::SegmentUnmap,
            Self::Snapshot,
            Self::OutOfMemory { device_free },
        ];
        all.into_iter().find(|action| action.name() == name)
    }
}

impl BlockState {
    /// What it is called in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Free => "inactive",
        }
    }

    /// The state of a name, of which the documentation has another for one.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "active_allocated" => Some(Self::Allocated),
            "active_pending_free" | "active_awaiting_free" => Some(Self::PendingFree),
            "inactive" => Some(Self::Free),
            _ => None,
        }
    }
}

impl Segment {
    /// Bytes of the blocks that `counts` says yes to.
    pub(crate) fn sum(&self, bytes: impl Fn(&Block) -> u64) -> u64 {
        self.blocks.iter().map(bytes).fold(0, u64::saturating_add)
    }
}
