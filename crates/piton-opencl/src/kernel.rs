//! Modules and kernels.
//!
//! A module is OpenCL C and what its kernels take. OpenCL does not say what a kernel does with a buffer, nor how large an
//! element is, and a compiled kernel can write anywhere: so who makes an [`OpenClModule`] declares both and vouches for
//! them. What the driver knows is held against the declaration when a kernel is looked up: how many arguments, which are
//! memory and which values, and how large each value is.

#![expect(
    unsafe_code,
    reason = "launches kernels, whose declarations somebody vouched for"
)]

use crate::{
    binaries,
    device::OpenClDevice,
    ffi::{ArgumentPlace, Called, Event, NativeQueue, Program, RawKernel},
    status::Status,
};
use piton_driver::{
    DeviceId, DriverError, ErrorKind, Grid, Kernel, Kernels, Module, ModuleImage, Operation,
    Parameter, QueueId, Signature,
};
use piton_native::NativeKernel;
use piton_sync::Mutex;
use std::{fmt, ops::Range, sync::Arc};

/// Objects a kernel has: arguments are set on an object, so as many threads launch it at once.
const OBJECTS: usize = 4;

/// Kernels in OpenCL C, with what they take. Registered with a driver under a name, and loaded by it.
///
/// A block of the grid is a work group. How many items it has is the source's to say, by the attribute
/// `reqd_work_group_size`; one, where it does not.
#[derive(Clone, Debug)]
pub struct OpenClModule {
    name: Arc<str>,
    source: Arc<str>,
    kernels: Vec<(Arc<str>, Signature)>,
}

impl OpenClModule {
    /// A module of this source, with no kernel declared yet.
    ///
    /// # Safety
    /// Each kernel that is declared [`with`](Self::with) its signature keeps to it: it reads and writes nothing but the
    /// buffers it is given, within the extents that launches state, and writes those only that the signature says are
    /// written.
    pub unsafe fn from_source(name: &str, source: &str) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            kernels: Vec::new(),
        }
    }

    /// The same module, with a kernel of this name in its source that takes this.
    #[must_use]
    pub fn with(mut self, kernel: &str, signature: Signature) -> Self {
        self.kernels.push((kernel.into(), signature));
        self
    }

    /// The name it is loaded by.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn source(&self) -> &Arc<str> {
        &self.source
    }
}

impl Kernels for OpenClDevice {
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        let operation = Operation::LoadModule;
        let device = self.strong(operation)?;
        device.alive(operation)?;
        let unknown = DriverError::new(ErrorKind::UnknownModule, operation, device.info.id);
        // Source and binaries alone do not say what their kernels take, and nobody vouches for them.
        let ModuleImage::Registered(name) = image else {
            return Err(unknown);
        };
        let module = device.shared.modules.find(name).ok_or(unknown)?;
        let program = binaries::program(&device, &module);
        let program = program.map_err(|(status, log)| {
            device.shared.modules.keep_log(name, log);
            status.error(operation, device.info.id)
        })?;
        Ok(Arc::new(LoadedModule {
            device,
            program,
            module,
        }))
    }
}

/// A module built for a device.
struct LoadedModule {
    device: Arc<OpenClDevice>,
    program: Program,
    module: OpenClModule,
}

impl fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadedModule")
            .field(&self.module.name)
            .finish()
    }
}

impl Module for LoadedModule {
    fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, DriverError> {
        let (operation, device) = (Operation::GetKernel, self.device.info.id);
        let unknown = DriverError::new(ErrorKind::UnknownKernel, operation, device);
        let declared = self
            .module
            .kernels
            .iter()
            .find(|(known, _)| **known == *name);
        let (name, signature) = declared.ok_or(unknown)?;
        let called = |status: Status| status.error(operation, device);
        let mut objects = Vec::new();
        for _ in 0..OBJECTS {
            let object = self.program.kernel(name).map_err(called)?;
            objects.push(object.ok_or(unknown)?);
        }
        let kernel = OpenClKernel::new(&self.device, name, signature, objects);
        Ok(Arc::new(kernel?))
    }
}

/// A kernel that is ready to run. Keeps its program: OpenCL counts.
pub(crate) struct OpenClKernel {
    device: Arc<OpenClDevice>,
    name: Arc<str>,
    signature: Signature,
    /// Each parameter, and where it lies in the packed bytes.
    layout: Vec<(Parameter, Range<usize>)>,
    group: [usize; 3],
    objects: Vec<Mutex<RawKernel>>,
}

impl OpenClKernel {
    fn new(
        device: &Arc<OpenClDevice>,
        name: &Arc<str>,
        signature: &Signature,
        mut objects: Vec<RawKernel>,
    ) -> Result<Self, DriverError> {
        let layout = layout(signature);
        let first = objects.first_mut();
        let error = |kind| DriverError::new(kind, Operation::GetKernel, device.info.id);
        let first = first.ok_or_else(|| error(ErrorKind::UnknownKernel))?;
        fits(first, &layout).map_err(error)?;
        let group = first.group(device.handle);
        let group = group.map_err(|status| status.error(Operation::GetKernel, device.info.id))?;
        Ok(Self {
            device: Arc::clone(device),
            name: Arc::clone(name),
            signature: signature.clone(),
            layout,
            group,
            objects: objects.into_iter().map(Mutex::new).collect(),
        })
    }

    /// The items of a grid along each dimension. The grid was checked.
    fn global(&self, grid: Grid) -> [usize; 3] {
        let items = |blocks: u32, group: usize| (blocks as usize).saturating_mul(group);
        let [x, y, z] = self.group;
        [items(grid.x, x), items(grid.y, y), items(grid.z, z)]
    }

    /// Sets the arguments on one of the kernel's objects and launches it.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`]; the arguments have the signature's size.
    pub(crate) unsafe fn enqueue(
        &self,
        queue: &NativeQueue,
        of: QueueId,
        grid: Grid,
        arguments: &[u8],
    ) -> Called<Event> {
        let choice = usize::try_from(of.0).unwrap_or(0) % self.objects.len();
        let mut object = self.objects[choice].lock();
        for (index, (parameter, place)) in (0..).zip(&self.layout) {
            let bytes = &arguments[place.clone()];
            match parameter {
                Parameter::Buffer { .. } => {
                    let address = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                    object.set_address(index, address)?;
                }
                Parameter::Value { .. } => object.set_value(index, bytes)?,
            }
        }
        // SAFETY: the lock is ours until the launch has copied the arguments; the rest is the caller's promise.
        unsafe { queue.launch_set(&object, &self.global(grid), &self.group) }
    }
}

/// Each parameter with its place in the packed bytes.
fn layout(signature: &Signature) -> Vec<(Parameter, Range<usize>)> {
    let place = |(index, parameter): (usize, &Parameter)| {
        let start = usize::try_from(signature.offset(index).unwrap_or(0)).unwrap_or(0);
        (*parameter, start..start + parameter.packed_bytes() as usize)
    };
    signature
        .parameters()
        .iter()
        .enumerate()
        .map(place)
        .collect()
}

/// Whether the compiled kernel takes what was declared, as far as the driver knows.
fn fits(kernel: &mut RawKernel, layout: &[(Parameter, Range<usize>)]) -> Result<(), ErrorKind> {
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

impl NativeKernel<OpenClDevice> for OpenClKernel {
    fn is_of(&self, device: &OpenClDevice) -> bool {
        std::ptr::eq(&raw const *self.device, device)
    }

    fn layout(&self) -> &[(Parameter, Range<usize>)] {
        &self.layout
    }
}

impl Kernel for OpenClKernel {
    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> DeviceId {
        self.device.info.id
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }
}

impl fmt::Debug for OpenClKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenClKernel").field(&self.name).finish()
    }
}
