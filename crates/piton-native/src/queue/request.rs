//! Commands that were checked: what is asked of the driver, and what is kept of it while it is held.

use super::state::Awaited;
use crate::{
    backend::{NativeCopy, NativeDevice},
    semaphore::SemaphoreCore,
};
use piton_driver::{FillPattern, Grid, HostFunction, Kernel, TimestampPool};
use std::{any::Any, fmt, sync::Arc};

/// A checked command that still borrows.
pub(crate) enum Request<'a, D: NativeDevice> {
    Launch {
        kernel: &'a Arc<dyn Kernel>,
        loaded: &'a D::Kernel,
        grid: Grid,
        arguments: &'a [u8],
        extents: &'a [u64],
    },
    Copy(NativeCopy),
    Fill {
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    Timestamp {
        pool: &'a Arc<dyn TimestampPool>,
        slots: &'a D::Slots,
        index: u32,
    },
    Wait(Awaited<D>),
    WaitSemaphore {
        semaphore: Arc<SemaphoreCore<D>>,
        value: u64,
    },
    Signal {
        semaphore: Arc<SemaphoreCore<D>>,
        value: u64,
    },
}

/// A command that is held, with everything that it will need.
pub(crate) enum Work<D: NativeDevice> {
    Native(Owned),
    Wait(Awaited<D>),
    WaitSemaphore {
        semaphore: Arc<SemaphoreCore<D>>,
        value: u64,
    },
    Signal {
        semaphore: Arc<SemaphoreCore<D>>,
        value: u64,
    },
    /// Nothing once it has been taken to be run.
    Call(Option<HostFunction>),
}

/// A command that the driver runs by itself, owning what it needs.
pub(crate) enum Owned {
    Launch {
        kernel: Arc<dyn Kernel>,
        grid: Grid,
        arguments: Box<[u8]>,
        extents: Box<[u64]>,
    },
    Copy(NativeCopy),
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
pub(super) enum Native<'a, D: NativeDevice> {
    Launch {
        kernel: &'a D::Kernel,
        grid: Grid,
        arguments: &'a [u8],
        extents: &'a [u64],
    },
    Copy(NativeCopy),
    Fill {
        dst: u64,
        pattern: FillPattern,
        bytes: u64,
    },
    Timestamp {
        slots: &'a D::Slots,
        index: u32,
    },
}

impl<'a, D: NativeDevice> Request<'a, D> {
    /// What the driver is asked for, if it can do it without the host.
    pub(super) fn native(&self) -> Option<Native<'a, D>> {
        Some(match *self {
            Self::Launch {
                loaded,
                grid,
                arguments,
                extents,
                ..
            } => Native::Launch {
                kernel: loaded,
                grid,
                arguments,
                extents,
            },
            Self::Copy(copy) => Native::Copy(copy),
            Self::Fill {
                dst,
                pattern,
                bytes,
            } => Native::Fill {
                dst,
                pattern,
                bytes,
            },
            Self::Timestamp { slots, index, .. } => Native::Timestamp { slots, index },
            Self::Wait(_) | Self::WaitSemaphore { .. } | Self::Signal { .. } => return None,
        })
    }

    /// The same, to be held.
    pub(super) fn into_work(self) -> Work<D> {
        Work::Native(match self {
            Self::Launch {
                kernel,
                grid,
                arguments,
                extents,
                ..
            } => Owned::Launch {
                kernel: Arc::clone(kernel),
                grid,
                arguments: arguments.into(),
                extents: extents.into(),
            },
            Self::Copy(copy) => Owned::Copy(copy),
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

impl<D: NativeDevice> Work<D> {
    /// What the driver is asked for, if it can do it without the host.
    pub(super) fn native(&self) -> Option<Native<'_, D>> {
        let Self::Native(owned) = self else {
            return None;
        };
        Some(match owned {
            Owned::Launch {
                kernel,
                grid,
                arguments,
                extents,
            } => Native::Launch {
                kernel: (&**kernel as &dyn Any).downcast_ref()?,
                grid: *grid,
                arguments,
                extents,
            },
            Owned::Copy(copy) => Native::Copy(*copy),
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
                slots: (&**pool as &dyn Any).downcast_ref()?,
                index: *index,
            },
        })
    }

    /// The place of another queue that it ends behind, even if it is skipped.
    pub(super) fn awaited(&self) -> Option<Awaited<D>> {
        match self {
            Self::Wait(awaited) => Some(awaited.clone()),
            _ => None,
        }
    }
}

impl<D: NativeDevice> fmt::Debug for Work<D> {
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
