//! The way in: the library, its devices.

#![expect(unsafe_code, reason = "initialises the library")]

use crate::{
    OpenError,
    compiler::{Compiler, CompilerError},
    config::CudaConfig,
    device::CudaDevice,
    ffi::{Api, DeviceHandle, succeeded},
    kernel::{CudaBlock, CudaModule},
    status::Status,
};
use piton_driver::{Device, DeviceId, Driver, DriverError, Operation};
use piton_native::{Driven, MissingAbility, Modules, Opened, kernels::DeclaredModule};
use std::sync::Arc;

/// What all devices of a driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: CudaConfig,
    pub(crate) devices: Vec<DeviceHandle>,
    pub(crate) modules: Modules<DeclaredModule<CudaBlock>>,
    pub(crate) compiler: Compiler,
    pub(crate) driven: Arc<Driven<CudaDevice>>,
    opened: Opened<CudaDevice>,
}

impl Shared {
    /// The device's handle.
    pub(crate) fn handle(&self, device: DeviceId) -> Option<DeviceHandle> {
        self.devices.get(device.0 as usize).copied()
    }

    /// The device, opened if it is not yet.
    pub(crate) fn open(self: &Arc<Self>, id: DeviceId) -> Result<Arc<CudaDevice>, DriverError> {
        self.opened.open(id, || {
            let device = CudaDevice::open(self, id);
            device.map_err(|status| status.error(Operation::Open, id))
        })
    }

    /// CUDA's numbers of devices that have access to this one's memory.
    pub(crate) fn readers_of(&self, device: DeviceId) -> Vec<i32> {
        let opened = self.opened.all();
        let readers = opened
            .iter()
            .filter(|other| other.standing.has_enabled(device));
        readers.map(|other| other.context.device()).collect()
    }

    /// The device, if it is open.
    pub(crate) fn opened(&self, device: DeviceId) -> Option<Arc<CudaDevice>> {
        self.opened.get(device)
    }
}

/// CUDA: the devices that NVIDIA's driver shows this process.
#[derive(Debug)]
pub struct CudaDriver {
    api: &'static Api,
    shared: Arc<Shared>,
}

impl CudaDriver {
    /// Opens the library, initialises it and counts its devices. Nothing is made on a device yet.
    ///
    /// # Errors
    /// [`OpenError`]: no library, a function missing, no device. Ordinary answers on a machine without CUDA.
    pub fn open(config: CudaConfig) -> Result<Self, OpenError> {
        let api = Api::open(config.library.as_deref())?;
        // SAFETY: the flags must be zero, and are.
        let initialised = succeeded(unsafe { (api.core.init)(0) });
        initialised.map_err(called("cuInit"))?;
        let devices = DeviceHandle::all(api).map_err(called("cuDeviceGetCount"))?;
        if devices.is_empty() {
            return Err(OpenError::NoDevice);
        }
        let driven = Driven::start().map_err(|_| OpenError::NoThread)?;
        Ok(Self {
            api,
            shared: Arc::new(Shared {
                compiler: Compiler::new(config.compiler.clone()),
                config,
                opened: Opened::new(devices.len()),
                devices,
                modules: Modules::default(),
                driven: Arc::new(driven),
            }),
        })
    }

    /// The version of CUDA that the library says it is of: major and minor.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut version = 0;
        // SAFETY: a place of the right type.
        let called = succeeded(unsafe { (self.api.core.driver_version)(&raw mut version) });
        let version = u32::try_from(version).ok().filter(|_| called.is_ok())?;
        Some((version / 1000, version % 1000 / 10))
    }

    /// What the library lacks, and so its devices.
    pub fn missing(&self) -> &[MissingAbility] {
        &self.api.missing
    }

    /// The version of the compiler of CUDA C, major and minor. Looks for it if no module has wanted it yet.
    ///
    /// # Errors
    /// Why there is none: modules of CUDA C alone then do not load.
    pub fn compiler(&self) -> Result<(i32, i32), CompilerError> {
        let version = self.shared.compiler.library()?.version();
        version.map_err(|status| CompilerError::Call {
            call: "nvrtcVersion",
            status,
        })
    }

    /// Makes a module loadable on the devices, by its name. One of the same name that was loaded stays what it is for
    /// whoever holds it.
    pub fn register(&self, module: CudaModule) {
        let module = module.into_declared();
        let name = Arc::clone(module.name());
        self.shared.modules.insert(&name, module);
    }

    /// What the compiler wrote when the module of this name last failed to load.
    pub fn build_log(&self, module: &str) -> Option<String> {
        self.shared.modules.log(module)
    }
}

impl Driver for CudaDriver {
    fn name(&self) -> &str {
        "cuda"
    }

    fn device_count(&self) -> u32 {
        u32::try_from(self.shared.devices.len()).unwrap_or(u32::MAX)
    }

    fn open(&self, id: DeviceId) -> Result<Arc<dyn Device>, DriverError> {
        let device: Arc<dyn Device> = self.shared.open(id)?;
        Ok(device)
    }
}

fn called(call: &'static str) -> impl Fn(Status) -> OpenError {
    move |status| match status {
        Status::NO_DEVICE => OpenError::NoDevice,
        status => OpenError::Call { call, status },
    }
}
