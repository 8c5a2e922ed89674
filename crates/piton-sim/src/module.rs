//! Modules: kernels defined by this program, registered by name, loaded like any other.

#![expect(unsafe_code, reason = "vouches for kernels that are registered")]

use crate::{block::Block, cost, device::SimDevice, kernel::SimKernel};
use piton_driver::{
    DriverError, ErrorKind, Fault, Kernel, Kernels, Module, ModuleImage, Operation, Signature,
};
use std::{fmt, sync::Arc};

type Body = dyn Fn(&Block<'_>) -> Result<(), Fault> + Send + Sync;

/// A kernel: a name, what it takes, and the function that runs one block of its grid.
///
/// Blocks run in any order, on any thread, at the same time. A block that panics or returns a fault makes the
/// launch fail; it does not take the process with it.
pub struct KernelDefinition {
    name: Arc<str>,
    signature: Signature,
    body: Box<Body>,
    block_ns: u64,
}

impl KernelDefinition {
    /// The kernel `name`, taking `signature`, whose blocks are run by `body`.
    pub fn new(
        name: impl Into<Arc<str>>,
        signature: Signature,
        body: impl Fn(&Block<'_>) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Self {
        let (name, body) = (name.into(), Box::new(body));
        Self {
            name,
            signature,
            body,
            block_ns: cost::BLOCK_NS,
        }
    }

    /// What a block takes in virtual time, in nanoseconds; 2000 if nobody says.
    #[must_use]
    pub fn taking(mut self, block_ns: u64) -> Self {
        self.block_ns = block_ns;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it takes.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn block_ns(&self) -> u64 {
        self.block_ns
    }

    pub(crate) fn run(&self, block: &Block<'_>) -> Result<(), Fault> {
        (self.body)(block)
    }
}

impl fmt::Debug for KernelDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelDefinition")
            .field("name", &self.name)
            .field("signature", &self.signature)
            .finish_non_exhaustive()
    }
}

/// Kernels under one name. Register it with [`crate::SimDriver::register`], load it as
/// [`ModuleImage::Registered`].
#[derive(Clone, Debug)]
pub struct SimModule {
    name: Arc<str>,
    kernels: Vec<Arc<KernelDefinition>>,
}

impl SimModule {
    /// A module without kernels.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            kernels: Vec::new(),
        }
    }

    /// The same module with one kernel more. Of two with one name the later counts.
    #[must_use]
    pub fn with(mut self, kernel: KernelDefinition) -> Self {
        self.kernels.retain(|other| other.name != kernel.name);
        self.kernels.push(Arc::new(kernel));
        self
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// A module on a device.
#[derive(Debug)]
struct LoadedModule {
    device: SimDevice,
    kernels: Vec<Arc<KernelDefinition>>,
}

// SAFETY: what is registered are functions of this program in safe Rust, whose access to memory goes through blocks that
// check it against the arguments.
unsafe impl Kernels for SimDevice {
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        self.gate(Operation::LoadModule)?;
        let ModuleImage::Registered(name) = image else {
            return Err(self.error(ErrorKind::UnknownModule, Operation::LoadModule));
        };
        let found = self
            .machine()
            .modules
            .lock()
            .get(name)
            .map(|module| module.kernels.clone());
        let kernels =
            found.ok_or_else(|| self.error(ErrorKind::UnknownModule, Operation::LoadModule))?;
        Ok(Arc::new(LoadedModule {
            device: self.inside(),
            kernels,
        }))
    }
}

impl Module for LoadedModule {
    fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, DriverError> {
        self.device.gate(Operation::GetKernel)?;
        let found = self.kernels.iter().find(|kernel| &*kernel.name == name);
        let unknown = || {
            self.device
                .error(ErrorKind::UnknownKernel, Operation::GetKernel)
        };
        Ok(Arc::new(SimKernel {
            definition: Arc::clone(found.ok_or_else(unknown)?),
            device: self.device.inside(),
        }))
    }
}
