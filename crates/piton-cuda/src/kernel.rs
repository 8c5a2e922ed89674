//! Modules and kernels.
//!
//! A module is CUDA C, PTX, or a binary, and what its kernels take, for which whoever makes a [`CudaModule`] vouches. What the driver
//! knows is held against that when a kernel is looked up: how many parameters, and how large each is (from CUDA 12.4; an
//! older library does not tell).

#![expect(
    unsafe_code,
    reason = "launches kernels, whose declarations somebody vouched for"
)]

use crate::{
    compiler::NoPtx,
    device::CudaDevice,
    ffi::{Called, Function, RawModule, StreamCore, Ticket},
    status::Status,
};
use piton_driver::{
    DriverError, ErrorKind, Grid, Kernels, Module, ModuleImage, Operation, Signature,
};
use piton_native::{
    Modules, NativeDevice, NativeKernel,
    kernels::{self, Declared, DeclaredModule, KernelLoader, Layout, LoadedKernel, Source},
};
use smallvec::SmallVec;
use std::{ffi::c_void, ptr, sync::Arc};

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

/// Kernels in CUDA C, in PTX or as a binary, with what they take. Registered with a driver under a name, and loaded by it.
#[derive(Clone, Debug)]
pub struct CudaModule(DeclaredModule<CudaBlock>);

impl CudaModule {
    /// A module of this PTX, with no kernel declared yet. It is compiled for a device when it is loaded there.
    ///
    /// # Safety
    /// Each kernel that is declared [`with`](Self::with) its signature keeps to it: it reads and writes nothing but the
    /// buffers it is given, within the extents that launches state, and writes those only that the signature says are
    /// written.
    pub unsafe fn from_ptx(name: &str, ptx: &str) -> Self {
        Self(DeclaredModule::new(name, &image(ptx)))
    }

    /// A module of this CUDA C, with no kernel declared yet. It is compiled when it is loaded on a device, by NVRTC with these
    /// options and the device's architecture; kernels are found by their names if they are `extern "C"`. Where NVRTC is not
    /// installed it does not load, unless there is PTX too ([`or_ptx`](Self::or_ptx)).
    ///
    /// # Safety
    /// As [`from_ptx`](Self::from_ptx).
    pub unsafe fn from_source(name: &str, source: &str, options: &[&str]) -> Self {
        let mut module = DeclaredModule::new(name, &[]);
        module.set_source(Source {
            text: source.into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        });
        Self(module)
    }

    /// The same module, with this PTX where there is no compiler, or one whose PTX the driver is too old for.
    ///
    /// # Safety
    /// As [`from_ptx`](Self::from_ptx).
    #[must_use]
    pub unsafe fn or_ptx(mut self, ptx: &str) -> Self {
        self.0.set_image(&image(ptx));
        self
    }

    /// A module of this binary (cubin or fat binary), with no kernel declared yet.
    ///
    /// # Safety
    /// As [`from_ptx`](Self::from_ptx); and the bytes are a whole binary: the driver finds its end by what is in it.
    pub unsafe fn from_binary(name: &str, binary: &[u8]) -> Self {
        Self(DeclaredModule::new(name, binary))
    }

    /// The same module, with a kernel of this name in it that takes this, and runs in blocks of this shape.
    #[must_use]
    pub fn with(mut self, kernel: &str, signature: Signature, block: CudaBlock) -> Self {
        self.0.declare(kernel, signature, block);
        self
    }

    /// The name it is loaded by.
    pub fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    pub(crate) fn into_declared(self) -> DeclaredModule<CudaBlock> {
        self.0
    }
}

/// PTX as the driver takes it, which finds the end by a zero byte; what would come behind one is no PTX.
fn image(ptx: &str) -> Vec<u8> {
    let text = ptx.split('\0').next().unwrap_or_default();
    [text.as_bytes(), &[0]].concat()
}

// SAFETY: a module is registered once it was made, and whoever made it promised so of its kernels (an unsafe constructor).
unsafe impl Kernels for CudaDevice {
    fn load(&self, image: ModuleImage<'_>) -> Result<Arc<dyn Module>, DriverError> {
        kernels::load(self, image)
    }
}

impl KernelLoader for CudaDevice {
    type Shape = CudaBlock;
    type Program = Arc<RawModule>;
    type Function = Function;

    fn modules(&self) -> &Modules<DeclaredModule<CudaBlock>> {
        &self.shared.modules
    }

    fn build(
        &self,
        module: &DeclaredModule<CudaBlock>,
    ) -> Result<Arc<RawModule>, (Status, String)> {
        let image = module.image();
        // SAFETY: PTX with its zero byte, or a binary that its maker vouched for.
        let load = |image: &[u8]| unsafe { RawModule::load(&self.context, image) };
        let Some(source) = module.source() else {
            return load(image);
        };
        let compiler = &self.shared.compiler;
        match compiler.ptx(module.name(), source, self.architecture) {
            Ok(ptx) => match load(&ptx) {
                Err((Status::UNSUPPORTED_PTX, _)) if !image.is_empty() => load(image),
                loaded => loaded,
            },
            Err(NoPtx::Absent(_)) if !image.is_empty() => load(image),
            Err(none) => Err(none.refusal()),
        }
    }

    fn function(
        &self,
        program: &Arc<RawModule>,
        declared: &Declared<CudaBlock>,
        layout: &Layout,
    ) -> Result<Function, DriverError> {
        let operation = Operation::GetKernel;
        let function = program.function(&declared.name);
        let function = function.map_err(|status| self.standing.called(status, operation))?;
        let refusal = |kind| self.refusal(kind, operation);
        let function = function.ok_or_else(|| refusal(ErrorKind::UnknownKernel))?;
        fits(&function, layout).map_err(refusal)?;
        Ok(function)
    }
}

/// Launches a kernel on a stream.
///
/// # Safety
/// As [`piton_driver::Queue::submit`]; the arguments have the signature's size.
pub(crate) unsafe fn launch(
    kernel: &LoadedKernel<CudaDevice>,
    stream: &Arc<StreamCore>,
    grid: Grid,
    arguments: &[u8],
) -> Called<Ticket> {
    // The driver copies each parameter from where it lies, at whatever alignment.
    let mut places: SmallVec<[*mut c_void; 16]> = SmallVec::new();
    for (_, place) in kernel.layout() {
        let bytes = arguments.get(place.clone()).ok_or(Status::INVALID_VALUE)?;
        places.push(bytes.as_ptr().cast_mut().cast());
    }
    let CudaBlock {
        threads: [x, y, z],
        shared_bytes,
    } = *kernel.shape();
    let (function, places) = (kernel.function().raw(), places.as_mut_ptr());
    let launched = stream.hand_over(|stream| {
        let (gx, gy, gz, none) = (grid.x, grid.y, grid.z, ptr::null_mut());
        stream.call(|core, stream| {
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
        })
    });
    let module = Arc::clone(kernel.function().module());
    launched.map(|ticket| ticket.keeping(module))
}

/// Whether the compiled kernel takes what was declared, as far as the library tells.
fn fits(function: &Function, layout: &Layout) -> Result<(), ErrorKind> {
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
