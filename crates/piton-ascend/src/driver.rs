//! The way in: the library, its devices.

#![expect(unsafe_code, reason = "initialises the library")]

use crate::{
    OpenError,
    config::AscendConfig,
    device::AscendDevice,
    ffi::{Api, DeviceHandle, succeeded},
    kernel::AscendModule,
    status::Status,
};
use piton_driver::{Device, DeviceId, Driver, DriverError, Operation};
use piton_native::{Driven, MissingAbility, Modules, Opened, kernels::DeclaredModule};
use std::{ptr, sync::Arc};

/// What all devices of a driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: AscendConfig,
    pub(crate) devices: Vec<DeviceHandle>,
    pub(crate) modules: Modules<DeclaredModule<()>>,
    pub(crate) driven: Arc<Driven<AscendDevice>>,
    opened: Opened<AscendDevice>,
}

impl Shared {
    /// The device's handle.
    pub(crate) fn handle(&self, device: DeviceId) -> Option<DeviceHandle> {
        self.devices.get(device.0 as usize).copied()
    }

    /// The device, opened if it is not yet.
    pub(crate) fn open(self: &Arc<Self>, id: DeviceId) -> Result<Arc<AscendDevice>, DriverError> {
        self.opened.open(id, || {
            let device = AscendDevice::open(self, id);
            device.map_err(|status| status.error(Operation::Open, id))
        })
    }

    /// The device, if it is open.
    pub(crate) fn opened(&self, device: DeviceId) -> Option<Arc<AscendDevice>> {
        self.opened.get(device)
    }
}

/// Ascend: the devices that the host runtime shows this process.
#[derive(Debug)]
pub struct AscendDriver {
    api: &'static Api,
    shared: Arc<Shared>,
}

impl AscendDriver {
    /// Opens the library, initialises it and counts its devices. Nothing is made on a device yet. A program that has
    /// initialised the runtime itself is as good; nobody's initialisation is undone here.
    ///
    /// # Errors
    /// [`OpenError`]: no library, a function missing, no device. Ordinary answers on a machine without Ascend.
    pub fn open(config: AscendConfig) -> Result<Self, OpenError> {
        let api = Api::open(config.library.as_deref())?;
        // SAFETY: a null path stands for no file of settings.
        match succeeded(unsafe { (api.core.init)(ptr::null()) }) {
            Ok(()) | Err(Status::REPEATED_INITIALIZE) => {}
            Err(status) => return Err(called("aclInit")(status)),
        }
        let devices = DeviceHandle::all(api).map_err(called("aclrtGetDeviceCount"))?;
        if devices.is_empty() {
            return Err(OpenError::NoDevice);
        }
        let driven = Driven::start().map_err(|_| OpenError::NoThread)?;
        Ok(Self {
            api,
            shared: Arc::new(Shared {
                config,
                opened: Opened::new(devices.len()),
                devices,
                modules: Modules::default(),
                driven: Arc::new(driven),
            }),
        })
    }

    /// What the library lacks, and so its devices.
    pub fn missing(&self) -> &[MissingAbility] {
        &self.api.missing
    }

    /// Makes a module loadable on the devices, by its name. One of the same name that was loaded stays what it is for
    /// whoever holds it.
    pub fn register(&self, module: AscendModule) {
        let module = module.into_declared();
        let name = Arc::clone(module.name());
        self.shared.modules.insert(&name, module);
    }

    /// What the runtime said when the module of this name last failed to load.
    pub fn build_log(&self, module: &str) -> Option<String> {
        self.shared.modules.log(module)
    }
}

impl Driver for AscendDriver {
    fn name(&self) -> &str {
        "ascend"
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
