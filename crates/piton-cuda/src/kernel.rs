//! Modules and kernels.
//!
//! A module is PTX, or a binary, and what its kernels take. CUDA does not say what a kernel does with a buffer, nor how large
//! an element is, and a compiled kernel can write anywhere: so who makes a [`CudaModule`] declares both and vouches for them.
//! What the driver knows is held against the declaration when a kernel is looked up: how many parameters, and how large each
//! is (from CUDA 12.4; an older library does not tell).

#![expect(
    unsafe_code,
    reason = "launches kernels, whose declarations somebody vouched for"
)]

use crate::{
    device::CudaDevice,
    ffi::{Called, Function, RawModule, StreamCore, Ticket},
    status::Status,
};
use piton_driver::{
    DeviceId, DriverError, ErrorKind, Grid, Kernel, Kernels, Module, ModuleImage, Operation,
    Parameter, Signature,
};
use piton_native::NativeKernel;
use smallvec::SmallVec;
use std::{ffi::c_void, fmt, ops::Range, ptr, sync::Arc};

/// Threads of a block, and memory that they share beside what the kernel itself declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaBlock {
    /// Threads along x, y and z.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl CudaBlock {
    /// `threads` in a row, and no dynamic shared memory.
    pub const fn linear(threads: u32) -> Self {
        Self {
            threads: [threads, 1, 1],
            shared_bytes: 0,
        }
    }
}

#[derive(Clone, Debug)]
struct Declared {
    name: Arc<str>,
    signature: Signature,
    block: CudaBlock,
}

/// Kernels in PTX or as a binary, with what they take. Registered with a driver under a name, and loaded by it.
#[derive(Clone, Debug)]
pub struct CudaModule {
    name: Arc<str>,
    image: Arc<[u8]>,
    kernels: Vec<Declared>,
}

impl CudaModule {
    /// A module of this PTX, with no kernel declared yet. It is compiled for a device when it is loaded there.
    ///
    /// # Safety
    /// Each kernel that is declared [`with`](Self::with) its signature keeps to it: it reads and writes nothing but the
    /// buffers it is given, within the extents that launches state, and writes those only that the signature says are
    /// written.
    pub unsafe fn from_ptx(name: &str, ptx: &str) -> Self {
        // The driver finds the end by a zero byte; what would come behind one is no PTX.
        let text = ptx.split('\0').next().unwrap_or_default();
        let image = [text.as_bytes(), &[0]].concat();
        Self::of_image(name, &image)
    }

    /// A module of this binary (cubin or fat binary), with no kernel declared yet.
    ///
    /// # Safety
    /// As [`from_ptx`](Self::from_ptx); and the bytes are a whole binary: the driver finds its end by what is in it.
    pub unsafe fn from_binary(name: &str, binary: &[u8]) -> Self {
        Self::of_image(name, binary)
    }

    fn of_image(name: &str, image: &[u8]) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            kernels: Vec::new(),
        }
    }

    /// The same module, with a kernel of this name in it that takes this, and runs in blocks of this shape.
    #[must_use]
    pub fn with(mut self, kernel: &str, signature: Signature, block: CudaBlock) -> Self {
        self.kernels.push(Declared {
            name: kernel.into(),
            signature,
            block,
        });
        self
    }

    /// The name it is loaded by.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl Kernels for CudaDevice {
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
        // SAFETY: PTX with its zero byte, or a binary that its maker vouched for.
        let raw = unsafe { RawModule::load(&device.context, &module.image) };
        let raw = raw.map_err(|(status, log)| {
            device.shared.modules.keep_log(name, log);
            device.called(status, operation)
        })?;
        Ok(Arc::new(LoadedModule {
            device,
            raw,
            module,
        }))
    }
}

/// A module loaded on a device.
struct LoadedModule {
    device: Arc<CudaDevice>,
    raw: Arc<RawModule>,
    module: CudaModule,
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
        let (operation, device) = (Operation::GetKernel, &self.device);
        let error = |kind| DriverError::new(kind, operation, device.info.id);
        let unknown = error(ErrorKind::UnknownKernel);
        let mut known = self.module.kernels.iter();
        let declared = known.find(|declared| *declared.name == *name);
        let declared = declared.ok_or(unknown)?;
        let function = self.raw.function(&declared.name);
        let function = function.map_err(|status| device.called(status, operation))?;
        let function = function.ok_or(unknown)?;
        let layout = layout(&declared.signature);
        fits(&function, &layout).map_err(error)?;
        Ok(Arc::new(CudaKernel {
            device: Arc::clone(device),
            declared: declared.clone(),
            layout,
            function,
        }))
    }
}

/// A kernel that is ready to run. Keeps its module.
pub(crate) struct CudaKernel {
    device: Arc<CudaDevice>,
    declared: Declared,
    /// Each parameter, and where it lies in the packed bytes.
    layout: Vec<(Parameter, Range<usize>)>,
    function: Function,
}

impl CudaKernel {
    /// Launches it on a stream.
    ///
    /// # Safety
    /// As [`piton_driver::Queue::submit`]; the arguments have the signature's size.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Arc<StreamCore>,
        grid: Grid,
        arguments: &[u8],
    ) -> Called<Ticket> {
        // The driver copies each parameter from where it lies, at whatever alignment.
        let mut places: SmallVec<[*mut c_void; 16]> = SmallVec::new();
        for (_, place) in &self.layout {
            let bytes = arguments.get(place.clone()).ok_or(Status::INVALID_VALUE)?;
            places.push(bytes.as_ptr().cast_mut().cast());
        }
        let CudaBlock {
            threads: [x, y, z],
            shared_bytes,
        } = self.declared.block;
        let (function, places) = (self.function.raw(), places.as_mut_ptr());
        let launched = stream.hand_over(|core, stream| {
            let (gx, gy, gz, none) = (grid.x, grid.y, grid.z, ptr::null_mut());
            // SAFETY: as many places as the kernel has parameters, as somebody vouched; they are read before the call
            // returns. What the kernel touches is the caller's promise.
            unsafe {
                (core.launch)(
                    function,
                    gx,
                    gy,
                    gz,
                    x,
                    y,
                    z,
                    shared_bytes,
                    stream,
                    places,
                    none,
                )
            }
        });
        launched.map(|ticket| ticket.keeping(self.function.module()))
    }
}

/// Each parameter with its place in the packed bytes.
fn layout(signature: &Signature) -> Vec<(Parameter, Range<usize>)> {
    let place = |(index, parameter): (usize, &Parameter)| {
        let start = usize::try_from(signature.offset(index).unwrap_or(0)).unwrap_or(0);
        (*parameter, start..start + parameter.packed_bytes() as usize)
    };
    let parameters = signature.parameters().iter().enumerate();
    parameters.map(place).collect()
}

/// Whether the compiled kernel takes what was declared, as far as the library tells.
fn fits(function: &Function, layout: &[(Parameter, Range<usize>)]) -> Result<(), ErrorKind> {
    for index in 0..=layout.len() {
        let Ok(takes) = function.parameter(index) else {
            return Ok(());
        };
        let takes = takes.map_or(0, |bytes| bytes as u64);
        let given = layout.get(index).map_or(0, |(_, place)| place.len() as u64);
        if takes != given {
            let expected = takes;
            return Err(ErrorKind::InvalidArguments { expected, given });
        }
    }
    Ok(())
}

impl NativeKernel<CudaDevice> for CudaKernel {
    fn is_of(&self, device: &CudaDevice) -> bool {
        ptr::eq(&raw const *self.device, device)
    }

    fn layout(&self) -> &[(Parameter, Range<usize>)] {
        &self.layout
    }
}

impl Kernel for CudaKernel {
    fn name(&self) -> &str {
        &self.declared.name
    }

    fn device(&self) -> DeviceId {
        self.device.info.id
    }

    fn signature(&self) -> &Signature {
        &self.declared.signature
    }
}

impl fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CudaKernel")
            .field(&self.declared.name)
            .finish()
    }
}
