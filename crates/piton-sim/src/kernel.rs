//! A kernel that is loaded on a device.

use crate::{device::SimDevice, module::KernelDefinition};
use piton_driver::{DeviceId, Kernel, Signature};
use std::sync::Arc;

/// A loaded kernel: its definition, and where.
#[derive(Debug)]
pub(crate) struct SimKernel {
    pub(crate) definition: Arc<KernelDefinition>,
    pub(crate) device: SimDevice,
}

impl Kernel for SimKernel {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn signature(&self) -> &Signature {
        self.definition.signature()
    }
}
