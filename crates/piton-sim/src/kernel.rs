//! A kernel that is loaded on a device.

use crate::module::KernelDefinition;
use piton_driver::{DeviceId, Kernel, Signature};
use std::sync::Arc;

/// A loaded kernel: its definition, and where.
#[derive(Debug)]
pub(crate) struct SimKernel {
    pub(crate) definition: Arc<KernelDefinition>,
    pub(crate) device: DeviceId,
    /// Which machine: ids of devices are only unique within one.
    pub(crate) machine: u64,
}

impl Kernel for SimKernel {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn signature(&self) -> &Signature {
        self.definition.signature()
    }
}
