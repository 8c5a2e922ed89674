//! The device's clock.

use crate::DriverError;
use std::{any::Any, fmt::Debug, sync::Arc};

/// Slots that a device writes times into.
pub trait TimestampPool: Any + Send + Sync + Debug {
    /// How many slots.
    fn len(&self) -> u32;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time in slot `index`, in nanoseconds of the device's clock, or `None` if nothing wrote it yet.
    ///
    /// # Errors
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex).
    fn read(&self, index: u32) -> Result<Option<u64>, DriverError>;
}

/// Times of a device. Queues write them with [`Command::WriteTimestamp`](crate::Command::WriteTimestamp).
pub trait Timestamps: Send + Sync {
    /// The device's clock now, in nanoseconds from an origin of its own. Never decreases.
    fn now(&self) -> u64;

    /// The clock's step, in nanoseconds.
    fn resolution(&self) -> u64;

    /// A pool of `slots` empty slots.
    ///
    /// # Errors
    /// [`InvalidSize`](crate::ErrorKind::InvalidSize) for zero or too many.
    fn create(&self, slots: u32) -> Result<Arc<dyn TimestampPool>, DriverError>;
}
