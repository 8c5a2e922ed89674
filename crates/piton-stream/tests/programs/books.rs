//! What the program has said so far: for every stream ever made its commands, the points it comes after, and the
//! failures that were forgotten. Queues are named by the order they were made in, so nothing of one is ever taken for
//! another's.

use piton_driver::{FillPattern, OnFailure, Queue, QueueFailure};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// A place in a queue: which one, and the position.
pub(crate) type Place = (usize, u64);
/// How far of each queue something comes after.
pub(crate) type Clock = BTreeMap<usize, u64>;

/// A command. Places in memory are bytes from its start, the device's or the host's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// A kernel on a block of the pool, by a user of it. Leaves its tag in some words of the block: which is the
    /// first, and how many.
    Kernel {
        tag: u32,
        block: usize,
        user: u32,
        words: (u32, u32),
        traps: bool,
    },
    Host {
        tag: u32,
        panics: bool,
    },
    Fill {
        at: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    CopyWithin {
        from: u64,
        to: u64,
        bytes: u64,
    },
    /// From the host.
    CopyIn {
        from: u64,
        to: u64,
        bytes: u64,
    },
    /// Between devices.
    CopyPeer {
        from: u64,
        to: u64,
        bytes: u64,
    },
    /// To the host.
    CopyOut {
        from: u64,
        to: u64,
        bytes: u64,
    },
    Stamp,
    WaitQueue(Place),
    /// A wait for one of several places: which is not known.
    WaitSome,
    WaitSemaphore(usize, u64),
    SignalSemaphore(usize, u64),
    WaitMemory(usize, u32),
    WriteMemory {
        at: u64,
        value: u32,
    },
}

impl Task {
    pub(crate) fn tag(self) -> Option<u32> {
        match self {
            Self::Kernel { tag, .. } | Self::Host { tag, .. } => Some(tag),
            _ => None,
        }
    }

    /// Whether it fails whatever happens.
    pub(crate) fn fails(self) -> bool {
        matches!(
            self,
            Self::Kernel { traps: true, .. } | Self::Host { panics: true, .. }
        )
    }
}

/// One stream's queue.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) device: usize,
    pub(crate) on_failure: OnFailure,
    /// The number of its lane before its first command.
    pub(crate) base: u64,
    /// How many commands it holds.
    pub(crate) commands: u64,
    /// The n-th has position n + 1.
    pub(crate) tasks: Vec<Task>,
    /// Waits, made or left out: what is at this position or behind comes after the place.
    pub(crate) after: Vec<(u64, Place)>,
    /// What the next command comes after by way of waits.
    pub(crate) clock: Clock,
    /// Positions up to this one may end as aborted.
    pub(crate) aborted: u64,
    /// Failures that were cleared, and how much had been submitted then.
    pub(crate) cleared: Vec<(QueueFailure, u64)>,
}

impl Book {
    pub(crate) fn submitted(&self) -> u64 {
        self.tasks.len() as u64
    }

    /// Every failure there was: where, and the last position it spoils.
    pub(crate) fn failures(&self) -> Vec<(QueueFailure, u64)> {
        let last = self.queue.failure().map(|failure| (failure, u64::MAX));
        self.cleared.iter().copied().chain(last).collect()
    }

    /// What was submitted between one forgotten failure and the next: the positions, and what failed among them.
    pub(crate) fn stretches(&self) -> Vec<(Range<u64>, Option<QueueFailure>)> {
        let mut start = 1;
        let mut stretches = Vec::new();
        let last = (self.queue.failure(), self.submitted());
        let cleared = self
            .cleared
            .iter()
            .map(|(failure, last)| (Some(*failure), *last));
        for (failure, last) in cleared.chain([last]) {
            stretches.push((start..last + 1, failure));
            start = last + 1;
        }
        stretches
    }

    /// Whether whoever waits for this position fails.
    pub(crate) fn is_spoilt(&self, position: u64) -> bool {
        self.failures()
            .iter()
            .any(|(failure, last)| failure.position.get() <= position && position <= *last)
    }

    /// The last value that its writes of memory have left, if none failed.
    pub(crate) fn written(&self) -> u32 {
        let completed = usize::try_from(self.queue.completed().get()).unwrap_or(0);
        let clean = self.failures().is_empty();
        let last = self.tasks[..completed]
            .iter()
            .rev()
            .find_map(|task| match task {
                Task::WriteMemory { value, .. } => Some(*value),
                _ => None,
            });
        last.filter(|_| clean).unwrap_or(0)
    }
}
