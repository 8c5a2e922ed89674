//! Platforms and their devices: what they say of themselves.

#![expect(unsafe_code, reason = "calls of OpenCL that fill what they are given")]

use super::{Api, Called, succeeded};
use opencl_sys as cl;
use std::ptr;

/// A vendor's driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platform {
    api: &'static Api,
    id: cl::cl_platform_id,
}

/// A device of a platform. Root devices are not counted and live as long as their platform, for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceHandle {
    api: &'static Api,
    id: cl::cl_device_id,
}

// SAFETY: the table is shared; the id is a name that every thread may use (OpenCL 3.0, appendix A.2, "Multiple Host
// Threads").
unsafe impl Send for Platform {}
// SAFETY: as for `Send`.
unsafe impl Sync for Platform {}
// SAFETY: as for `Platform`.
unsafe impl Send for DeviceHandle {}
// SAFETY: as for `Send`.
unsafe impl Sync for DeviceHandle {}

impl Platform {
    /// All platforms; none where the loader knows none.
    pub(crate) fn all(api: &'static Api) -> Called<Vec<Self>> {
        let mut count = 0;
        // SAFETY: with no list given only the count is written.
        let code = unsafe { (api.get_platform_ids)(0, ptr::null_mut(), &raw mut count) };
        // Loaders answer "no platform" with a code of `cl_khr_icd`, and some with no code at all.
        if code == cl::CL_PLATFORM_NOT_FOUND_KHR || count == 0 {
            return Ok(Vec::new());
        }
        succeeded(code)?;
        let mut ids = vec![ptr::null_mut(); count as usize];
        // SAFETY: the list has room for `count` ids.
        succeeded(unsafe { (api.get_platform_ids)(count, ids.as_mut_ptr(), ptr::null_mut()) })?;
        Ok(ids.into_iter().map(|id| Self { api, id }).collect())
    }

    /// Its name.
    pub(crate) fn name(self) -> Called<String> {
        let bytes = read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_platform_info)(self.id, cl::CL_PLATFORM_NAME, size, value, written)
            }
        })?;
        Ok(text(&bytes))
    }

    /// All its devices.
    pub(crate) fn devices(self) -> Called<Vec<DeviceHandle>> {
        let api = self.api;
        let list = |room, ids, count: *mut u32| {
            // SAFETY: `ids` has room for `room` ids, or is null and `room` zero.
            unsafe { (api.get_device_ids)(self.id, cl::CL_DEVICE_TYPE_ALL, room, ids, count) }
        };
        let mut count = 0;
        match list(0, ptr::null_mut(), &raw mut count) {
            cl::CL_DEVICE_NOT_FOUND => return Ok(Vec::new()),
            code => succeeded(code)?,
        }
        let mut ids = vec![ptr::null_mut(); count as usize];
        succeeded(list(count, ids.as_mut_ptr(), ptr::null_mut()))?;
        Ok(ids.into_iter().map(|id| DeviceHandle { api, id }).collect())
    }

    pub(crate) fn id(self) -> cl::cl_platform_id {
        self.id
    }
}

impl DeviceHandle {
    pub(crate) fn id(self) -> cl::cl_device_id {
        self.id
    }

    /// A text that the device says of itself.
    pub(crate) fn text(self, what: cl::cl_device_info) -> Called<String> {
        Ok(text(&self.bytes(what)?))
    }

    /// A number of four bytes.
    pub(crate) fn number32(self, what: cl::cl_device_info) -> Called<u32> {
        let bytes = self.bytes(what)?;
        Ok(bytes
            .first_chunk()
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes)))
    }

    /// A number of eight bytes, or of four.
    pub(crate) fn number(self, what: cl::cl_device_info) -> Called<u64> {
        let bytes = self.bytes(what)?;
        let wide = bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
        let narrow = bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        Ok(wide.unwrap_or_else(|| narrow.map_or(0, u64::from)))
    }

    fn bytes(self, what: cl::cl_device_info) -> Called<Vec<u8>> {
        read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe { (self.api.get_device_info)(self.id, what, size, value, written) }
        })
    }

    /// What it has of shared virtual memory, a set of `CL_DEVICE_SVM_*`.
    pub(crate) fn shared_memory(self) -> u64 {
        // A device of OpenCL 1 does not know the question.
        self.number(cl::CL_DEVICE_SVM_CAPABILITIES).unwrap_or(0)
    }

    /// Whether it takes SPIR-V.
    pub(crate) fn takes_intermediate(self) -> bool {
        let version = self.text(cl::CL_DEVICE_IL_VERSION);
        version.is_ok_and(|version| version.contains("SPIR-V"))
    }

    /// Whether it has an extension of this name.
    pub(crate) fn has_extension(self, name: &str) -> bool {
        let all = self.text(cl::CL_DEVICE_EXTENSIONS);
        all.is_ok_and(|all| all.split_whitespace().any(|one| one == name))
    }

    /// The device's clock now, in nanoseconds, where the driver has one to ask.
    pub(crate) fn clock(self) -> Option<u64> {
        let (mut device, mut host) = (0, 0);
        let ask = self.api.get_device_and_host_timer?;
        // SAFETY: both places are ours.
        let code = unsafe { ask(self.id, &raw mut device, &raw mut host) };
        succeeded(code).ok().map(|()| device)
    }
}

/// Asks twice, as OpenCL wants it: how long, then what.
pub(super) fn read_bytes(
    ask: impl Fn(usize, *mut std::ffi::c_void, *mut usize) -> cl::cl_int,
) -> Called<Vec<u8>> {
    let mut size = 0;
    succeeded(ask(0, ptr::null_mut(), &raw mut size))?;
    let mut bytes = vec![0_u8; size];
    succeeded(ask(size, bytes.as_mut_ptr().cast(), ptr::null_mut()))?;
    Ok(bytes)
}

/// Text without the zero byte that ends it.
pub(super) fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().to_owned()
}
