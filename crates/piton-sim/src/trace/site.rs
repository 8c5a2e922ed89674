//! Sites: what records have in common, kept once.

use piton_driver::{
    Comparison, DeviceId, DevicePtr, MemoryWait, MemoryWord, Operation, Origin, Position, QueueId,
    SemaphoreId, Signal,
};
use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

/// What a command's record will say, less its times and names. Made before the command runs, since the command may
/// be gone when it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(super) site: SiteKey,
    pub(super) position: u64,
    pub(super) value: u64,
}

impl Draft {
    /// A command of `queue` at `position`.
    pub(crate) fn new(queue: QueueId, position: u64, operation: Operation, origin: Origin) -> Self {
        Self {
            site: SiteKey {
                queue,
                operation,
                origin,
                kernel: 0,
                peer: None,
                tie: Tie::None,
            },
            position,
            value: 0,
        }
    }

    /// It launches this kernel: anything that two kernels of one queue do not share.
    pub(crate) fn launching(mut self, kernel: usize) -> Self {
        self.site.kernel = kernel;
        self
    }

    /// It moves so many bytes.
    pub(crate) fn moving(mut self, bytes: u64) -> Self {
        self.value = bytes;
        self
    }

    /// It has to do with this other device.
    pub(crate) fn with(mut self, peer: Option<DeviceId>) -> Self {
        self.site.peer = peer;
        self
    }

    /// It waits until `queue` has ended `position`.
    pub(crate) fn awaiting(mut self, queue: QueueId, position: u64) -> Self {
        self.site.tie = Tie::Queue(queue);
        self.value = position;
        self
    }

    /// It waits for this, or tells it.
    pub(crate) fn signalling(mut self, signal: Signal) -> Self {
        (self.site.tie, self.value) = match signal {
            Signal::Semaphore(id, value) => (Tie::Semaphore(id), value),
            Signal::MemoryWait(wait) => {
                let width = Width::of(wait.value);
                let tie = Tie::MemoryWait(wait.at, wait.comparison, width);
                (tie, wait.value.get())
            }
            Signal::MemoryWrite(at, word) => (Tie::MemoryWrite(at, Width::of(word)), word.get()),
            _ => (Tie::None, 0),
        };
        self
    }
}

/// Whom a command has to do with, less the one number that its record has: a position, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tie {
    None,
    Queue(QueueId),
    Semaphore(SemaphoreId),
    MemoryWait(DevicePtr, Comparison, Width),
    MemoryWrite(DevicePtr, Width),
}

/// How long a word in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Width {
    Four,
    Eight,
}

impl Width {
    fn of(word: MemoryWord) -> Self {
        match word {
            MemoryWord::U32(_) => Self::Four,
            MemoryWord::U64(_) => Self::Eight,
        }
    }

    fn word(self, value: u64) -> MemoryWord {
        match self {
            // What does not fit was never in it.
            Self::Four => MemoryWord::U32(u32::try_from(value).unwrap_or_default()),
            Self::Eight => MemoryWord::U64(value),
        }
    }
}

impl Tie {
    /// The place that was waited for; the record's number is `value`.
    pub(super) fn awaited(self, value: u64) -> Option<(QueueId, Position)> {
        match self {
            Self::Queue(queue) => Some((queue, Position::new(value))),
            _ => None,
        }
    }

    /// The signal; the record's number is `value`.
    pub(super) fn signal(self, value: u64) -> Option<Signal> {
        match self {
            Self::None | Self::Queue(_) => None,
            Self::Semaphore(id) => Some(Signal::Semaphore(id, value)),
            Self::MemoryWait(at, comparison, width) => Some(Signal::MemoryWait(MemoryWait {
                at,
                comparison,
                value: width.word(value),
            })),
            Self::MemoryWrite(at, width) => Some(Signal::MemoryWrite(at, width.word(value))),
        }
    }

    /// The bytes of a command; the record's number is `value`.
    pub(super) fn bytes(self, value: u64) -> u64 {
        match self {
            Self::None => value,
            Self::MemoryWrite(_, width) => width.word(0).bytes(),
            Self::Queue(_) | Self::Semaphore(_) | Self::MemoryWait(..) => 0,
        }
    }
}

/// What tells sites apart. Places in the program and kernels are compared by address: the same one under two
/// addresses is two sites, which costs room and is right all the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteKey {
    pub(super) queue: QueueId,
    pub(super) operation: Operation,
    pub(super) origin: Origin,
    pub(super) kernel: usize,
    pub(super) peer: Option<DeviceId>,
    pub(super) tie: Tie,
}

impl SiteKey {
    fn parts(&self) -> impl Hash + Eq {
        (
            self.queue,
            self.operation,
            std::ptr::from_ref(self.origin).addr(),
            self.kernel,
            self.peer,
            self.tie,
        )
    }
}

impl PartialEq for SiteKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for SiteKey {}

impl Hash for SiteKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// A site with the names that are the same for all its records.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) key: SiteKey,
    pub(super) label: Option<Arc<str>>,
    pub(super) kernel: Option<Arc<str>>,
}
