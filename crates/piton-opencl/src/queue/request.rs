//! Commands that were checked: what is asked of the driver, and what is kept of it while it is held.

use super::state::Awaited;
use crate::{kernel::OpenClKernel, semaphore::SemaphoreCore, timestamp::SlotPool};
use piton_driver::{FillPattern, HostFunction, Kernel, TimestampPool};
use std::{any::Any, fmt, sync::Arc};

/// A checked command that still borrows.
pub(crate) enum Request<'a> {
    Launch {
        kernel: &'a Arc<dyn Kernel>,
        loaded: &'a OpenClKernel,
        global: [usize; 3],
        arguments: &'a [u8],
    },
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
    },
    Fill {
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    Timestamp {
        pool: &'a Arc<dyn TimestampPool>,
        slots: &'a SlotPool,
        index: u32,
    },
    Wait(Awaited),
    WaitSemaphore {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
    Signal {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
}

/// A command that is held, with everything that it will need.
pub(crate) enum Work {
    Native(Owned),
    Wait(Awaited),
    WaitSemaphore {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
    Signal {
        semaphore: Arc<SemaphoreCore>,
        value: u64,
    },
    /// Nothing once it has been taken to be run.
    Call(Option<HostFunction>),
}

/// A command that the driver runs by itself, owning what it needs.
pub(crate) enum Owned {
    Launch {
        kernel: Arc<dyn Kernel>,
        global: [usize; 3],
        arguments: Box<[u8]>,
    },
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
    },
    Fill {
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    Timestamp {
        pool: Arc<dyn TimestampPool>,
        index: u32,
    },
}

/// What the driver is asked for.
#[derive(Clone, Copy)]
pub(super) enum Native<'a> {
    Launch {
        kernel: &'a OpenClKernel,
        global: [usize; 3],
        arguments: &'a [u8],
    },
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
    },
    Fill {
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    Timestamp {
        pool: &'a SlotPool,
        index: u32,
    },
}

impl<'a> Request<'a> {
    /// What the driver is asked for, if it can do it without the host.
    pub(super) fn native(&self) -> Option<Native<'a>> {
        Some(match *self {
            Self::Launch {
                loaded,
                global,
                arguments,
                ..
            } => Native::Launch {
                kernel: loaded,
                global,
                arguments,
            },
            Self::Copy { dst, src, bytes } => Native::Copy { dst, src, bytes },
            Self::Fill {
                dst,
                pattern,
                bytes,
            } => Native::Fill {
                dst,
                pattern,
                bytes,
            },
            Self::Timestamp { slots, index, .. } => Native::Timestamp { pool: slots, index },
            Self::Wait(_) | Self::WaitSemaphore { .. } | Self::Signal { .. } => return None,
        })
    }

    /// The same, to be held.
    pub(super) fn into_work(self) -> Work {
        Work::Native(match self {
            Self::Launch {
                kernel,
                global,
                arguments,
                ..
            } => Owned::Launch {
                kernel: Arc::clone(kernel),
                global,
                arguments: arguments.into(),
            },
            Self::Copy { dst, src, bytes } => Owned::Copy { dst, src, bytes },
            Self::Fill {
                dst,
                pattern,
                bytes,
            } => Owned::Fill {
                dst,
                pattern,
                bytes,
            },
            Self::Timestamp { pool, index, .. } => Owned::Timestamp {
                pool: Arc::clone(pool),
                index,
            },
            Self::Wait(awaited) => return Work::Wait(awaited),
            Self::WaitSemaphore { semaphore, value } => {
                return Work::WaitSemaphore { semaphore, value };
            }
            Self::Signal { semaphore, value } => return Work::Signal { semaphore, value },
        })
    }
}

impl Work {
    /// What the driver is asked for, if it can do it without the host.
    pub(super) fn native(&self) -> Option<Native<'_>> {
        let Self::Native(owned) = self else {
            return None;
        };
        Some(match owned {
            Owned::Launch {
                kernel,
                global,
                arguments,
            } => Native::Launch {
                kernel: (&**kernel as &dyn Any).downcast_ref()?,
                global: *global,
                arguments,
            },
            Owned::Copy { dst, src, bytes } => Native::Copy {
                dst: *dst,
                src: *src,
                bytes: *bytes,
            },
            Owned::Fill {
                dst,
                pattern,
                bytes,
            } => Native::Fill {
                dst: *dst,
                pattern: *pattern,
                bytes: *bytes,
            },
            Owned::Timestamp { pool, index } => Native::Timestamp {
                pool: (&**pool as &dyn Any).downcast_ref()?,
                index: *index,
            },
        })
    }

    /// The place of another queue that it ends behind, even if it is skipped.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match self {
            Self::Wait(awaited) => Some(awaited.clone()),
            _ => None,
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native(_) => "Native",
            Self::Wait(_) => "Wait",
            Self::WaitSemaphore { .. } => "WaitSemaphore",
            Self::Signal { .. } => "Signal",
            Self::Call(_) => "Call",
        })
    }
}
