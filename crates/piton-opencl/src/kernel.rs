//! Modules and kernels.
//!
//! A module is OpenCL C and what its kernels take, for which whoever makes an [`OpenClModule`] vouches. What the driver knows
//! is held against that when a kernel is looked up: how many arguments, which are memory and which values, and how large
//! each value is.

#![expect(
    unsafe_code,
    reason = "launches kernels, whose declarations somebody vouched for"
)]

use crate::{
    binaries,
    device::OpenClDevice,
    driver::Shared,
    ffi::{ArgumentPlace, Buffer, Called, Event, NativeQueue, Program, RawKernel},
    status::Status,
    undeclared,
};
use piton_driver::{
    DriverError, ErrorKind, Grid, Kernels, Module, ModuleImage, Operation, Parameter, Signature,
};
use piton_native::{
    Modules, NativeDevice, NativeKernel, NativeLaunch,
    kernels::{self, Declared, DeclaredModule, KernelLoader, Layout, LoadedKernel},
};
use piton_sync::Mutex;
use std::sync::Arc;

/// Objects a kernel has: arguments are set on an object, so as many threads launch it at once.
const OBJECTS: usize = 4;

/// Kernels in OpenCL C, with what they take. Registered with a driver under a name, and loaded by it.
///
/// A block of the grid is a work group. How many items it has is the source's to say, by the attribute
/// `reqd_work_group_size`; one, where it does not.
#[derive(Clone, Debug)]
pub struct OpenClModule(DeclaredModule<()>);

impl OpenClModule {
    /// A module of this source, with no kernel declared yet.
    ///
    /// # Safety
    /// Each kernel that is declared [`with`](Self::with) its signature keeps to it: it reads and writes nothing but the
    /// buffers it is given, within the extents that launches state, and writes those only that the signature says are
    /// written.
    pub unsafe fn from_source(name: &str, source: &str) -> Self {
        Self(DeclaredModule::new(name, source.as_bytes()))
    }

    /// The same module, with a kernel of this name in its source that takes this.
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
unsafe impl Kernels for OpenClDevice {
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        kernels::load(self, image)
    }
}

/// A kernel's objects, and the items of a work group that its source demands. Keeps its program: OpenCL counts.
pub(crate) struct Objects {
    group: [usize; 3],
    objects: Vec<Mutex<RawKernel>>,
}

impl Objects {
    /// The items of a grid along each dimension. The grid was checked.
    fn global(&self, grid: Grid) -> [usize; 3] {
        let items = |blocks: u32, group: usize| (blocks as usize).saturating_mul(group);
        let [x, y, z] = self.group;
        [items(grid.x, x), items(grid.y, y), items(grid.z, z)]
    }
}

impl KernelLoader for OpenClDevice {
    type Shape = ();
    type Program = Program;
    type Function = Objects;

    fn modules(&self) -> &Modules<DeclaredModule<()>> {
        &self.shared.modules
    }

    fn build(&self, module: &DeclaredModule<()>) -> Result<Program, (Status, String)> {
        binaries::program(self, &String::from_utf8_lossy(module.image()))
    }

    fn undeclared(
        &self,
        image: ModuleImage<'_>,
    ) -> Option<Result<(Program, DeclaredModule<()>), (Status, String)>> {
        undeclared::load(self, image)
    }

    fn function(
        &self,
        program: &Program,
        declared: &Declared<()>,
        layout: &Layout,
    ) -> Result<Objects, DriverError> {
        let operation = Operation::GetKernel;
        let called = |status: Status| self.standing.called(status, operation);
        let unknown = || self.refusal(ErrorKind::UnknownKernel, operation);
        let mut objects = Vec::new();
        for _ in 0..OBJECTS {
            let object = program.kernel(&declared.name).map_err(called)?;
            objects.push(object.ok_or_else(unknown)?);
        }
        let first = objects.first_mut().ok_or_else(unknown)?;
        fits(first, layout).map_err(|kind| self.refusal(kind, operation))?;
        Ok(Objects {
            group: first.group(self.handle).map_err(called)?,
            objects: objects.into_iter().map(Mutex::new).collect(),
        })
    }
}

/// Sets the arguments on one of the kernel's objects and launches it.
///
/// # Safety
/// As [`piton_driver::Queue::submit`]; the arguments have the signature's size.
pub(crate) unsafe fn enqueue(
    kernel: &LoadedKernel<OpenClDevice>,
    queue: &NativeQueue,
    launch: NativeLaunch<'_>,
) -> Called<Event> {
    let Objects { group, objects } = kernel.function();
    let choice = usize::try_from(launch.of.0).unwrap_or(0) % objects.len();
    let mut object = objects[choice].lock();
    let mut extents = launch.extents.iter();
    // Parts of buffers, which the launch keeps once it is enqueued.
    let mut parts = Vec::new();
    for (index, (parameter, place)) in (0..).zip(kernel.layout()) {
        let bytes = &launch.arguments[place.clone()];
        match parameter {
            Parameter::Buffer { .. } => {
                let address = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                let extent = extents.next().copied();
                match queue.buffers() {
                    None => object.set_address(index, address)?,
                    Some(buffers) => {
                        let part = part(buffers, address, extent)?;
                        object.set_buffer(index, &part)?;
                        parts.push(part);
                    }
                }
            }
            Parameter::Value { .. } => object.set_value(index, bytes)?,
        }
    }
    let global = kernel.function().global(launch.grid);
    // SAFETY: the lock is ours until the launch has copied the arguments; the rest is the caller's promise.
    unsafe { queue.launch_set(&object, &global, group) }
}

/// What a kernel is given of the buffer that an address is in: as much as the launch says, or all that is behind it.
fn part(buffers: &Shared, address: u64, extent: Option<u64>) -> Called<Buffer> {
    let extent = extent.filter(|bytes| *bytes > 0);
    let bytes = extent.unwrap_or_else(|| buffers.rest(address));
    let place = buffers.place(address, bytes)?;
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    place.buffer.part(place.offset, size)
}

/// Whether the compiled kernel takes what was declared, as far as the driver knows.
fn fits(kernel: &mut RawKernel, layout: &Layout) -> Result<(), ErrorKind> {
    let given = layout.len() as u64;
    let expected = kernel.arguments().map_err(Status::kind)?.into();
    if expected != given {
        return Err(ErrorKind::InvalidArguments { expected, given });
    }
    for (index, (parameter, place)) in (0..).zip(layout) {
        let wanted = match parameter {
            Parameter::Buffer { .. } => ArgumentPlace::Memory,
            Parameter::Value { .. } => ArgumentPlace::Value,
        };
        let is_other = kernel.place(index).is_some_and(|place| place != wanted);
        // The driver refuses a value of another size when it is set; nothing is launched with these zeroes.
        let zeroes = vec![0; place.len()];
        let is_value = wanted == ArgumentPlace::Value;
        if is_other || (is_value && kernel.set_value(index, &zeroes).is_err()) {
            let given = place.len() as u64;
            return Err(ErrorKind::InvalidArguments { expected: 0, given });
        }
    }
    Ok(())
}
