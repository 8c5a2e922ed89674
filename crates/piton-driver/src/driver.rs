//! The way in: a driver lists devices and opens them.

use crate::{Device, DeviceId, DriverError};
use std::{fmt::Debug, sync::Arc};

/// A driver for one kind of device.
///
/// Constructing a backend's driver is where a vendor library is opened; its absence is that constructor's
/// ordinary, explained error. A driver that exists has at least answered how many devices there are.
pub trait Driver: Send + Sync + Debug {
    /// A short name: `sim`, `opencl`, `cuda`.
    fn name(&self) -> &str;

    /// How many devices there are; their ids are `0..device_count()`. Does not block.
    fn device_count(&self) -> u32;

    /// Opens a device. Opening the same id twice gives the same device.
    ///
    /// May take long (creating a context takes hundreds of milliseconds on real hardware). The device stays
    /// open until the last handle to it, its queues, modules and pools is dropped.
    ///
    /// # Errors
    /// [`InvalidIndex`](crate::ErrorKind::InvalidIndex) for an id out of range;
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost), or whatever the vendor answers.
    fn open(&self, id: DeviceId) -> Result<Arc<dyn Device>, DriverError>;
}
