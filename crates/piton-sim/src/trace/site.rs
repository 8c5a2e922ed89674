//! Sites: what records have in common, kept once.

use piton_driver::{DeviceId, Operation, Origin, QueueId};
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
                awaited: None,
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
        self.site.awaited = Some(queue);
        self.value = position;
        self
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
    pub(super) awaited: Option<QueueId>,
}

impl SiteKey {
    fn parts(&self) -> impl Hash + Eq {
        (
            self.queue,
            self.operation,
            std::ptr::from_ref(self.origin).addr(),
            self.kernel,
            self.peer,
            self.awaited,
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
