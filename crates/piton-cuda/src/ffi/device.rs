//! Devices, as long as nothing was made of them: what they say of themselves.

#![expect(unsafe_code, reason = "calls of CUDA that fill what they are given")]

use super::{
    Api, Called,
    declarations::{Attribute, Device},
    succeeded,
};
use piton_driver::PciAddress;
use std::ffi::{c_char, c_int};

/// A device that the driver knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceHandle {
    pub(super) api: &'static Api,
    pub(super) id: Device,
}

impl DeviceHandle {
    /// All devices, once the library is initialised.
    pub(crate) fn all(api: &'static Api) -> Called<Vec<Self>> {
        let mut count: c_int = 0;
        // SAFETY: a place of the right type.
        succeeded(unsafe { (api.core.device_count)(&raw mut count) })?;
        (0..count).map(|ordinal| Self::of(api, ordinal)).collect()
    }

    fn of(api: &'static Api, ordinal: c_int) -> Called<Self> {
        let mut id: Device = 0;
        // SAFETY: a place of the right type.
        succeeded(unsafe { (api.core.device_get)(&raw mut id, ordinal) })?;
        Ok(Self { api, id })
    }

    pub(crate) fn name(self) -> Called<String> {
        // Longer names are cut.
        let mut name = [0_u8; 256];
        let start = name.as_mut_ptr().cast::<c_char>();
        let length = c_int::try_from(name.len()).unwrap_or(c_int::MAX);
        // SAFETY: the buffer has the length that is said.
        succeeded(unsafe { (self.api.core.device_name)(start, length, self.id) })?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// Bytes of memory it has.
    pub(crate) fn memory_bytes(self) -> Called<u64> {
        let mut bytes = 0_usize;
        // SAFETY: a place of the right type.
        succeeded(unsafe { (self.api.core.device_memory)(&raw mut bytes, self.id) })?;
        Ok(bytes as u64)
    }

    /// The answer to a question about the device.
    pub(crate) fn attribute(self, attribute: Attribute) -> Called<i32> {
        let mut value: c_int = 0;
        // SAFETY: a place of the right type. Questions that the driver does not know are answered with an error.
        let code = unsafe {
            (self.api.core.device_attribute)(&raw mut value, attribute as c_int, self.id)
        };
        succeeded(code).map(|()| value)
    }

    /// Whether the device says yes; a driver that does not know the question says no.
    pub(crate) fn has(self, attribute: Attribute) -> bool {
        self.attribute(attribute).is_ok_and(|value| value != 0)
    }

    /// Its place on the PCI bus, where it says so.
    pub(crate) fn pci(self) -> Option<PciAddress> {
        let part = |attribute| u32::try_from(self.attribute(attribute).ok()?).ok();
        Some(PciAddress {
            domain: part(Attribute::PciDomain)?,
            bus: u8::try_from(part(Attribute::PciBus)?).ok()?,
            device: u8::try_from(part(Attribute::PciDevice)?).ok()?,
            function: 0,
        })
    }
}
