//! Modules whose maker declares what their kernels take, and kernels loaded from them.
//!
//! No vendor says what a kernel does with a buffer, nor how large an element is, and a compiled kernel can write anywhere:
//! so who makes a module declares both and vouches for them. What the vendor knows is held against the declaration when a
//! kernel is looked up ([`KernelLoader::function`]).

use crate::{
    backend::{NativeDevice, NativeKernel},
    modules::Modules,
};
use piton_driver::{
    DeviceId, DriverError, ErrorKind, Kernel, Module, ModuleImage, Operation, Parameter, Signature,
};
use std::{fmt, ops::Range, ptr, sync::Arc};

/// The name that modules have which nobody gave one.
pub const UNDECLARED: &str = "";

/// Each parameter, and where it lies in the packed arguments.
pub type Layout = [(Parameter, Range<usize>)];

/// A kernel as its module's maker declares it, with what else the backend must know of it.
#[derive(Clone, Debug)]
pub struct Declared<B> {
    /// Its name in the module.
    pub name: Arc<str>,
    /// What it takes.
    pub signature: Signature,
    /// What the backend must know to launch it.
    pub shape: B,
}

/// Text in a vendor's language, and what its compiler is to be told beside.
#[derive(Clone, Debug)]
pub struct Source {
    /// The text.
    pub text: Arc<str>,
    /// Options.
    pub options: Arc<[String]>,
}

/// An image, and what is declared of the kernels in it.
#[derive(Clone, Debug)]
pub struct DeclaredModule<B> {
    name: Arc<str>,
    image: Arc<[u8]>,
    source: Option<Source>,
    kernels: Vec<Declared<B>>,
}

impl<B: Clone> DeclaredModule<B> {
    /// A module of this image, with no kernel declared yet.
    pub fn new(name: &str, image: &[u8]) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            source: None,
            kernels: Vec::new(),
        }
    }

    /// Declares a kernel.
    pub fn declare(&mut self, kernel: &str, signature: Signature, shape: B) {
        self.kernels.push(Declared {
            name: kernel.into(),
            signature,
            shape,
        });
    }

    /// The name it is loaded by.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What is handed to the vendor.
    pub const fn image(&self) -> &Arc<[u8]> {
        &self.image
    }

    /// Replaces what is handed to the vendor.
    pub fn set_image(&mut self, image: &[u8]) {
        self.image = image.into();
    }

    /// Text that is compiled in the image's place, where there is a compiler at run time.
    pub const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Gives the module such text.
    pub fn set_source(&mut self, source: Source) {
        self.source = Some(source);
    }

    fn find(&self, kernel: &str) -> Option<&Declared<B>> {
        self.kernels.iter().find(|known| *known.name == *kernel)
    }
}

/// A device whose vendor loads modules.
pub trait KernelLoader: NativeDevice {
    /// What the backend must know of a kernel beside its signature.
    type Shape: Clone + fmt::Debug + Send + Sync + 'static;
    /// A module of the vendor's.
    type Program: Send + Sync + 'static;
    /// A function of the vendor's, which keeps its module.
    type Function: Send + Sync + 'static;

    /// The modules that were registered.
    fn modules(&self) -> &Modules<DeclaredModule<Self::Shape>>;

    /// Loads a module.
    ///
    /// # Errors
    /// The vendor's code, and what its compiler said.
    fn build(
        &self,
        module: &DeclaredModule<Self::Shape>,
    ) -> Result<Self::Program, (Self::Status, String)>;

    /// Loads source text or a binary that nobody has declared, and says what the vendor knows of its kernels; nothing where
    /// the backend takes none, or none of this format. Nobody vouches for them: who launches one does.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[expect(clippy::type_complexity, reason = "a module and what is known of it")]
    fn undeclared(
        &self,
        _: ModuleImage<'_>,
    ) -> Option<Result<(Self::Program, DeclaredModule<Self::Shape>), (Self::Status, String)>> {
        None
    }

    /// Looks a function up, and holds what the vendor knows of it against what was declared.
    ///
    /// # Errors
    /// [`UnknownKernel`](ErrorKind::UnknownKernel), [`InvalidArguments`](ErrorKind::InvalidArguments), and the vendor's.
    fn function(
        &self,
        program: &Self::Program,
        declared: &Declared<Self::Shape>,
        layout: &Layout,
    ) -> Result<Self::Function, DriverError>;
}

/// As [`piton_driver::Kernels::load`], for modules that were registered, and for source and binaries where the backend takes
/// them ([`KernelLoader::undeclared`]). What a compiler said of those is kept under [`UNDECLARED`].
///
/// # Errors
/// As there.
pub fn load<D: KernelLoader>(
    device: &D,
    image: ModuleImage<'_>,
) -> Result<Arc<dyn Module>, DriverError> {
    let operation = Operation::LoadModule;
    device.standing().alive(operation)?;
    let unknown = device.refusal(ErrorKind::UnknownModule, operation);
    let refused = |name, (status, log)| {
        device.modules().keep_log(name, log);
        device.standing().called(status, operation)
    };
    let (program, module) = if let ModuleImage::Registered(name) = image {
        let module = device.modules().find(name).ok_or(unknown)?;
        let built = device.build(&module);
        (built.map_err(|error| refused(name, error))?, module)
    } else {
        let built = device.undeclared(image).ok_or(unknown)?;
        built.map_err(|error| refused(UNDECLARED, error))?
    };
    let lost = device.standing().lost(operation);
    Ok(Arc::new(LoadedModule {
        device: device.counted().ok_or(lost)?,
        program,
        module,
    }))
}

/// A module loaded on a device.
struct LoadedModule<D: KernelLoader> {
    device: Arc<D>,
    program: D::Program,
    module: DeclaredModule<D::Shape>,
}

impl<D: KernelLoader> fmt::Debug for LoadedModule<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadedModule")
            .field(&self.module.name)
            .finish()
    }
}

impl<D: KernelLoader> Module for LoadedModule<D> {
    fn kernel(&self, name: &str) -> Result<Arc<dyn Kernel>, DriverError> {
        let unknown = self
            .device
            .refusal(ErrorKind::UnknownKernel, Operation::GetKernel);
        let declared = self.module.find(name).ok_or(unknown)?.clone();
        let layout = layout(&declared.signature);
        let function = self.device.function(&self.program, &declared, &layout)?;
        Ok(Arc::new(LoadedKernel {
            device: Arc::clone(&self.device),
            declared,
            layout,
            function,
        }))
    }
}

/// A kernel that is ready to run. Keeps its module.
pub struct LoadedKernel<D: KernelLoader> {
    device: Arc<D>,
    declared: Declared<D::Shape>,
    layout: Vec<(Parameter, Range<usize>)>,
    function: D::Function,
}

impl<D: KernelLoader> LoadedKernel<D> {
    /// The vendor's.
    pub const fn function(&self) -> &D::Function {
        &self.function
    }

    /// What the backend must know to launch it.
    pub const fn shape(&self) -> &D::Shape {
        &self.declared.shape
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

impl<D: KernelLoader> NativeKernel<D> for LoadedKernel<D> {
    fn is_of(&self, device: &D) -> bool {
        ptr::eq(&raw const *self.device, device)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl<D: KernelLoader> Kernel for LoadedKernel<D> {
    fn name(&self) -> &str {
        &self.declared.name
    }

    fn device(&self) -> DeviceId {
        self.device.info().id
    }

    fn signature(&self) -> &Signature {
        &self.declared.signature
    }
}

impl<D: KernelLoader> fmt::Debug for LoadedKernel<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadedKernel")
            .field(&self.declared.name)
            .finish()
    }
}
