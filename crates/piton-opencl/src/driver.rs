//! The way in: the library, a platform, its devices.

use crate::{
    addresses::Addresses,
    binaries::{self, Binaries},
    config::OpenClConfig,
    device::OpenClDevice,
    error::{Lack, OpenError, UnusableDevice},
    ffi::{Api, Context, DeviceHandle, Platform},
    kernel::OpenClModule,
    status::Status,
};
use opencl_sys as cl;
use piton_driver::{Device, DeviceId, Driver, DriverError, Operation};
use piton_native::{
    Driven, Modules, Opened,
    kernels::{DeclaredModule, UNDECLARED},
};
use std::sync::Arc;

/// What all devices of a driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: OpenClConfig,
    pub(crate) context: Context,
    pub(crate) devices: Vec<DeviceHandle>,
    /// Whether device memory is shared virtual memory, and not buffers.
    pub(crate) has_shared_memory: bool,
    /// Of buffers.
    pub(crate) addresses: Addresses,
    pub(crate) modules: Modules<DeclaredModule<()>>,
    pub(crate) binaries: Binaries,
    pub(crate) driven: Arc<Driven<OpenClDevice>>,
    opened: Opened<OpenClDevice>,
}

impl Shared {
    /// The device, opened if it is not yet.
    pub(crate) fn open(self: &Arc<Self>, id: DeviceId) -> Result<Arc<OpenClDevice>, DriverError> {
        self.opened.open(id, || {
            let device = OpenClDevice::open(self, id.0 as usize);
            device.map_err(|status| status.error(Operation::Open, id))
        })
    }

    /// Whether there is such a device.
    pub(crate) fn has(&self, device: DeviceId) -> bool {
        (device.0 as usize) < self.devices.len()
    }

    /// The devices that are open.
    pub(crate) fn all_opened(&self) -> Vec<Arc<OpenClDevice>> {
        self.opened.all()
    }

    /// The device, if it is open.
    pub(crate) fn opened(&self, device: DeviceId) -> Option<Arc<OpenClDevice>> {
        self.opened.get(device)
    }
}

/// OpenCL: the devices of one platform.
#[derive(Debug)]
pub struct OpenClDriver {
    shared: Arc<Shared>,
    platform: String,
}

impl OpenClDriver {
    /// Opens the library, takes the first platform that has a usable device, and makes one context of its usable devices.
    ///
    /// # Errors
    /// [`OpenError`]: no library, no platform, no usable device. Ordinary answers on a machine without OpenCL.
    pub fn open(config: OpenClConfig) -> Result<Self, OpenError> {
        let api = Api::open(config.library.as_deref())?;
        let (platform, name, devices) = find(api, config.platform.as_deref())?;
        let context = Context::new(api, platform, &devices).map_err(called("clCreateContext"))?;
        let driven = Driven::start().map_err(|_| OpenError::NoThread)?;
        let opened = Opened::new(devices.len());
        let binaries = Binaries::new(config.binaries.clone());
        Ok(Self {
            shared: Arc::new(Shared {
                context,
                has_shared_memory: !config.avoids_shared_memory
                    && devices.iter().all(has_shared_memory),
                addresses: Addresses::default(),
                config,
                devices,
                modules: Modules::default(),
                binaries,
                driven: Arc::new(driven),
                opened,
            }),
            platform: name,
        })
    }

    /// The platform's name.
    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// Makes a module loadable on the devices, by its name. One of the same name that was loaded stays what it is for
    /// whoever holds it.
    pub fn register(&self, module: OpenClModule) {
        let module = module.into_declared();
        let name = Arc::clone(module.name());
        self.shared.modules.insert(&name, module);
    }

    /// What the device's compiler makes of this source, for [`ModuleImage::Binary`](piton_driver::ModuleImage::Binary) on the
    /// same device with the same driver; nothing where the driver gives no binaries. May take long.
    ///
    /// # Errors
    /// Those of [`Kernels::load`](piton_driver::Kernels::load).
    pub fn binary(&self, device: DeviceId, source: &str) -> Result<Option<Vec<u8>>, DriverError> {
        let device = self.shared.open(device)?;
        let made = binaries::of_source(&device, source);
        made.map_err(|(status, log)| {
            self.shared.modules.keep_log(UNDECLARED, log);
            device.standing.called(status, Operation::LoadModule)
        })
    }

    /// What the compiler wrote when the module of this name last failed to build. What was loaded from source or a binary, and
    /// not registered, has the empty name.
    pub fn build_log(&self, module: &str) -> Option<String> {
        self.shared.modules.log(module)
    }
}

impl Driver for OpenClDriver {
    fn name(&self) -> &str {
        "opencl"
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
    move |status| OpenError::Call { call, status }
}

type Found = (Platform, String, Vec<DeviceHandle>);

/// The first platform of the name that has a usable device, with those it has.
fn find(api: &'static Api, wanted: Option<&str>) -> Result<Found, OpenError> {
    let platforms = Platform::all(api).map_err(called("clGetPlatformIDs"))?;
    if platforms.is_empty() {
        return Err(OpenError::NoPlatform);
    }
    let mut unusable = Vec::new();
    for platform in platforms {
        let name = platform.name().map_err(called("clGetPlatformInfo"))?;
        if wanted.is_some_and(|wanted| !name.contains(wanted)) {
            continue;
        }
        let mut usable = Vec::new();
        for device in platform.devices().map_err(called("clGetDeviceIDs"))? {
            match lack(device).map_err(called("clGetDeviceInfo"))? {
                None => usable.push(device),
                Some(lacks) => unusable.push(UnusableDevice {
                    name: device.text(cl::CL_DEVICE_NAME).unwrap_or_default(),
                    lacks,
                }),
            }
        }
        if !usable.is_empty() {
            return Ok((platform, name, usable));
        }
    }
    Err(OpenError::NoDevice { unusable })
}

/// Whether a device has shared virtual memory.
fn has_shared_memory(device: &DeviceHandle) -> bool {
    device.shared_memory() & cl::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0
}

/// What a device lacks that this backend needs.
fn lack(device: DeviceHandle) -> Result<Option<Lack>, Status> {
    let has_compiler = device.number32(cl::CL_DEVICE_COMPILER_AVAILABLE)? != 0;
    Ok((!has_compiler).then_some(Lack::Compiler))
}
