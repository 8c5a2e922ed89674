//! How much is asked of the driver at a time.

use crate::{
    PinnedPoolConfig,
    config::{HUGE_PAGE, PAGE},
    request::Request,
};
use piton_suballoc::SizeClass;

/// A region to be asked of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Less is of no use.
    least: u64,
    /// As much as this is wanted.
    wanted: u64,
    /// What it is for: a size class, so a slab, or an exact size.
    pub(crate) class: Option<SizeClass>,
}

impl Growth {
    /// What serves a request.
    pub(crate) fn of(request: &Request, config: &PinnedPoolConfig) -> Self {
        let least = request.bytes;
        let wanted = match request.class {
            Some(_) if least <= config.slab_bytes => config.slab_bytes,
            Some(_) => least.next_multiple_of(HUGE_PAGE),
            None => least,
        };
        Self {
            least,
            wanted,
            class: request.class,
        }
    }

    /// A slab, or nothing.
    pub(crate) fn slab(config: &PinnedPoolConfig) -> Self {
        Self {
            least: config.slab_bytes,
            wanted: config.slab_bytes,
            class: SizeClass::from_index(0),
        }
    }

    /// Bytes to ask for when up to `room` more may be held; `None` if that is too little.
    pub(crate) fn within(&self, room: u64) -> Option<u64> {
        // Near the cap a smaller slab is better than none.
        let bytes = match self.class {
            Some(_) => self.wanted.min(room / PAGE * PAGE),
            None => self.wanted,
        };
        (bytes >= self.least && bytes <= room).then_some(bytes)
    }

    /// Bytes without which it is of no use.
    pub(crate) fn least(&self) -> u64 {
        self.least
    }
}
