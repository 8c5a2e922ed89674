//! How the driver is to be opened.

use std::path::PathBuf;

/// How the driver is to be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AscendConfig {
    /// The library to open instead of the usual one. Its initialisers run: name one that is trusted.
    pub library: Option<PathBuf>,
    /// Commands that a queue holds at most; 256 if not said. What the runtime does when its own queue is full depends on its
    /// version, so the limit is piton's and lies below.
    pub queue_commands: Option<u32>,
    /// From what pages device memory is taken.
    pub memory: MemoryPolicy,
}

/// From what pages device memory is taken (`aclrtMemMallocPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Huge pages of 2 MiB for what is larger than 1 MiB, and ordinary ones where none is left.
    #[default]
    HugeFirst,
    /// Huge pages alone.
    HugeOnly,
    /// Ordinary pages alone.
    NormalOnly,
    /// As [`HugeFirst`](Self::HugeFirst), for memory that is copied between devices.
    PeerHugeFirst,
    /// As [`HugeOnly`](Self::HugeOnly), for memory that is copied between devices.
    PeerHugeOnly,
    /// As [`NormalOnly`](Self::NormalOnly), for memory that is copied between devices.
    PeerNormalOnly,
}

impl MemoryPolicy {
    /// The runtime's number.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::HugeFirst => 0,
            Self::HugeOnly => 1,
            Self::NormalOnly => 2,
            Self::PeerHugeFirst => 3,
            Self::PeerHugeOnly => 4,
            Self::PeerNormalOnly => 5,
        }
    }
}
