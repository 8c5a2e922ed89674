//! Modules and kernels.
//!
//! A module is a binary (a kernel object of the device's compiler), and what its kernels take, for which whoever makes an
//! [`AscendModule`] vouches: the runtime tells nothing of either that all versions have.

#![expect(
    unsafe_code,
    reason = "launches kernels, whose declarations somebody vouched for"
)]

use crate::{
    device::AscendDevice,
    ffi::{Binary, Called, Function, StreamCore, Ticket, binary::Block},
    status::Status,
};
use piton_driver::{DriverError, Grid, Kernels, Module, ModuleImage, Operation, Signature};
use piton_native::{
    Modules, NativeKernel,
    kernels::{self, Declared, DeclaredModule, KernelLoader, Layout, LoadedKernel},
};
use std::sync::Arc;

/// Kernels as a binary, with what they take. Registered with a driver under a name, and loaded by it.
///
/// The runtime's grid is one number, so a kernel sees the blocks of a grid in a row: x first, then y, then z.
#[derive(Clone, Debug)]
pub struct AscendModule(DeclaredModule<()>);

impl AscendModule {
    /// A module of this binary, with no kernel declared yet.
    ///
    /// # Safety
    /// The bytes are a whole binary for the devices it will be loaded on. Each kernel that is declared [`with`](Self::with)
    /// its signature keeps to it: it reads and writes nothing but the buffers it is given, within the extents that launches
    /// state, and writes those only that the signature says are written.
    pub unsafe fn from_binary(name: &str, binary: &[u8]) -> Self {
        Self(DeclaredModule::new(name, binary))
    }

    /// The same module, with a kernel of this name in it that takes this.
    #[must_use]
    pub fn with(mut self, kernel: &str, signature: Signature) -> Self {
        self.0.declare(kernel, signature, ());
        self
    }

    /// The name it is loaded by.
    pub fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    pub(crate) fn into_declared(self) -> DeclaredModule<()> {
        self.0
    }
}

// SAFETY: a module is registered once it was made, and whoever made it promised so of its kernels (an unsafe constructor).
unsafe impl Kernels for AscendDevice {
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        kernels::load(self, image)
    }
}

impl KernelLoader for AscendDevice {
    type Shape = ();
    type Program = Arc<Binary>;
    type Function = Function;

    fn modules(&self) -> &Modules<DeclaredModule<()>> {
        &self.shared.modules
    }

    fn build(&self, module: &DeclaredModule<()>) -> Result<Arc<Binary>, (Status, String)> {
        // SAFETY: a binary that its maker vouched for.
        unsafe { Binary::load(&self.context, module.image()) }
    }

    fn function(
        &self,
        program: &Arc<Binary>,
        declared: &Declared<()>,
        _: &Layout,
    ) -> Result<Function, DriverError> {
        let function = program.function(&declared.name);
        function.map_err(|status| self.standing.called(status, Operation::GetKernel))
    }
}

/// Launches a kernel on a stream.
///
/// # Safety
/// As [`piton_driver::Queue::submit`]; the arguments have the signature's size.
pub(crate) unsafe fn launch(
    kernel: &LoadedKernel<AscendDevice>,
    stream: &Arc<StreamCore>,
    grid: Grid,
    arguments: &[u8],
) -> Called<Ticket> {
    let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
    let blocks = u32::try_from(blocks).map_err(|_| Status::INVALID_PARAM)?;
    let function = kernel.function();
    // That the runtime copies them before it returns is nowhere said.
    let block = Block::new(arguments);
    let launched = stream.hand_over(|stream| {
        let places = kernel.layout().iter().map(|(_, place)| place.clone());
        // SAFETY: the caller's promise.
        unsafe { function.launch(stream, blocks, &block, places) }
    });
    let kept = Arc::new((Arc::clone(function.binary()), block));
    launched.map(|ticket| ticket.keeping(kept))
}
