//! Programs: made of source, a binary or SPIR-V, built, and asked for what is in them.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL that read and fill what they are given"
)]

use super::{Api, Called, Context, DeviceHandle, RawKernel, platform, succeeded};
use opencl_sys as cl;
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// A program, released when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    api: &'static Api,
    id: cl::cl_program,
}

// SAFETY: the table is shared; programs may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for Program {}
// SAFETY: as for `Send`.
unsafe impl Sync for Program {}
/// Options of every build: kernels' arguments can be asked about.
const OPTIONS: &CStr = c"-cl-kernel-arg-info";

impl Program {
    /// A program of source text, not built yet.
    pub(crate) fn of_source(context: &Context, source: &str) -> Called<Self> {
        let api = context.api();
        let (text, length) = (source.as_ptr().cast::<c_char>(), source.len());
        let mut code = 0;
        // SAFETY: one text of the length said.
        let id = unsafe {
            (api.create_program_with_source)(
                context.id(),
                1,
                (&raw const text).cast_mut(),
                &raw const length,
                &raw mut code,
            )
        };
        succeeded(code)?;
        Ok(Self { api, id })
    }

    /// A program of a binary that this driver gave earlier, whole: drivers trust it.
    pub(crate) fn of_binary(
        context: &Context,
        device: DeviceHandle,
        binary: &[u8],
    ) -> Called<Self> {
        let api = context.api();
        let (device, length) = (device.id(), binary.len());
        let mut start = binary.as_ptr();
        let (mut status, mut code) = (0, 0);
        // SAFETY: one device, one binary of the length said.
        let id = unsafe {
            (api.create_program_with_binary)(
                context.id(),
                1,
                &raw const device,
                &raw const length,
                &raw mut start,
                &raw mut status,
                &raw mut code,
            )
        };
        succeeded(code)?;
        let program = Self { api, id };
        succeeded(status)?;
        Ok(program)
    }

    /// A program of SPIR-V; nothing where the library does not know of such.
    pub(crate) fn of_intermediate(context: &Context, words: &[u8]) -> Option<Called<Self>> {
        let api = context.api();
        let create = api.create_program_with_il?;
        let mut code = 0;
        // SAFETY: as many bytes as said.
        let id = unsafe {
            create(
                context.id(),
                words.as_ptr().cast(),
                words.len(),
                &raw mut code,
            )
        };
        Some(succeeded(code).map(|()| Self { api, id }))
    }

    /// The names of its kernels. It has been built.
    pub(crate) fn kernel_names(&self) -> Called<Vec<String>> {
        let names = platform::read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_program_info)(
                    self.id,
                    cl::CL_PROGRAM_KERNEL_NAMES,
                    size,
                    value,
                    written,
                )
            }
        })?;
        let names = platform::text(&names);
        let names = names.split(';').map(str::trim);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Builds for a device. May take long.
    ///
    /// # Errors
    /// The code, and what the compiler wrote.
    pub(crate) fn build(
        &self,
        device: DeviceHandle,
    ) -> Result<(), (crate::status::Status, String)> {
        let id = device.id();
        // SAFETY: one device, options that end in zero, no callback: the call returns when it is done.
        let code = unsafe {
            (self.api.build_program)(
                self.id,
                1,
                &raw const id,
                OPTIONS.as_ptr(),
                None,
                ptr::null_mut(),
            )
        };
        succeeded(code).map_err(|status| (status, self.log(device)))
    }

    fn log(&self, device: DeviceHandle) -> String {
        let log = platform::read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_program_build_info)(
                    self.id,
                    device.id(),
                    cl::CL_PROGRAM_BUILD_LOG,
                    size,
                    value,
                    written,
                )
            }
        });
        log.map_or_else(|_| String::new(), |bytes| platform::text(&bytes))
    }

    /// The binary for one device of the context, by its place there; nothing where the driver gives none.
    pub(crate) fn binary(&self, device: usize) -> Called<Option<Vec<u8>>> {
        let sizes = self.sizes()?;
        let size = sizes.get(device).copied().unwrap_or(0);
        if size == 0 {
            return Ok(None);
        }
        let mut binary = vec![0_u8; size];
        // The driver leaves out those whose place is null.
        let mut places = vec![ptr::null_mut(); sizes.len()];
        places[device] = binary.as_mut_ptr();
        // SAFETY: as many places as the program has devices; the one that is not null has the size that the driver said.
        succeeded(unsafe {
            (self.api.get_program_info)(
                self.id,
                cl::CL_PROGRAM_BINARIES,
                size_of_val(places.as_slice()),
                places.as_mut_ptr().cast(),
                ptr::null_mut(),
            )
        })?;
        Ok(Some(binary))
    }

    /// Sizes of the binaries, one a device of the context.
    fn sizes(&self) -> Called<Vec<usize>> {
        let bytes = platform::read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_program_info)(
                    self.id,
                    cl::CL_PROGRAM_BINARY_SIZES,
                    size,
                    value,
                    written,
                )
            }
        })?;
        let (sizes, _) = bytes.as_chunks();
        Ok(sizes
            .iter()
            .map(|size| usize::from_ne_bytes(*size))
            .collect())
    }

    /// The kernel of this name; nothing where the program has none.
    pub(crate) fn kernel(&self, name: &str) -> Called<Option<RawKernel>> {
        let Ok(name) = CString::new(name) else {
            return Ok(None);
        };
        let mut code = 0;
        // SAFETY: the name ends in zero.
        let id = unsafe { (self.api.create_kernel)(self.id, name.as_ptr(), &raw mut code) };
        match code {
            cl::CL_INVALID_KERNEL_NAME => Ok(None),
            code => succeeded(code).map(|()| Some(RawKernel::from_raw(self.api, id))),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: one count is ours.
        let _code = unsafe { (self.api.release_program)(self.id) };
    }
}
