//! What one device recorded.

use piton_driver::{DeviceInfo, ExecutionRecord};

/// What one device recorded between the start of a trace and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTrace {
    /// The device.
    pub device: DeviceInfo,
    /// What it ran, in order of ending.
    pub records: Vec<ExecutionRecord>,
    /// Commands that ended and found no room.
    pub dropped: u64,
}
