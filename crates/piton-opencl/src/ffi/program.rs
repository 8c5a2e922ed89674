//! Programs and kernels: building, asking, setting arguments.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL that read and fill what they are given"
)]

use super::{Api, Buffer, Called, Context, DeviceHandle, platform, succeeded};
use opencl_sys as cl;
use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr,
};

/// A program, released when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    api: &'static Api,
    id: cl::cl_program,
}

/// A kernel object, released when dropped. Its arguments belong to it, so one thread uses it at a time.
#[derive(Debug)]
pub(crate) struct RawKernel {
    api: &'static Api,
    id: cl::cl_kernel,
}

/// Where an argument lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentPlace {
    /// Memory of the device.
    Memory,
    /// Passed by value.
    Value,
    /// Something the contract has no word for: memory of a work group, an image.
    Other,
}

// SAFETY: the table is shared; programs may be used by every thread at once (OpenCL 3.0, appendix A.2).
unsafe impl Send for Program {}
// SAFETY: as for `Send`.
unsafe impl Sync for Program {}
// SAFETY: a kernel object may be used by any thread, one at a time; the setters take it exclusively.
unsafe impl Send for RawKernel {}

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
            code => succeeded(code).map(|()| Some(RawKernel { api: self.api, id })),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: one count is ours.
        let _code = unsafe { (self.api.release_program)(self.id) };
    }
}

impl RawKernel {
    pub(super) fn id(&self) -> cl::cl_kernel {
        self.id
    }

    /// How many arguments it takes.
    pub(crate) fn arguments(&self) -> Called<u32> {
        let mut count = 0_u32;
        // SAFETY: the place has the size that is said.
        succeeded(unsafe {
            (self.api.get_kernel_info)(
                self.id,
                cl::CL_KERNEL_NUM_ARGS,
                size_of::<u32>(),
                (&raw mut count).cast(),
                ptr::null_mut(),
            )
        })?;
        Ok(count)
    }

    /// Where an argument lives; nothing where the driver does not say.
    pub(crate) fn place(&self, index: u32) -> Option<ArgumentPlace> {
        let mut place: cl::cl_kernel_arg_address_qualifier = 0;
        // SAFETY: the place has the size that is said.
        let code = unsafe {
            (self.api.get_kernel_arg_info)(
                self.id,
                index,
                cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                size_of_val(&place),
                (&raw mut place).cast(),
                ptr::null_mut(),
            )
        };
        succeeded(code).ok()?;
        Some(match place {
            cl::CL_KERNEL_ARG_ADDRESS_GLOBAL | cl::CL_KERNEL_ARG_ADDRESS_CONSTANT => {
                ArgumentPlace::Memory
            }
            cl::CL_KERNEL_ARG_ADDRESS_PRIVATE => ArgumentPlace::Value,
            _ => ArgumentPlace::Other,
        })
    }

    /// What the type of an argument is called; nothing where the driver does not say.
    pub(crate) fn type_name(&self, index: u32) -> Option<String> {
        let name = platform::read_bytes(|size, value, written| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_kernel_arg_info)(
                    self.id,
                    index,
                    cl::CL_KERNEL_ARG_TYPE_NAME,
                    size,
                    value,
                    written,
                )
            }
        });
        name.ok().map(|name| platform::text(&name))
    }

    /// Whether an argument is memory that the kernel does not write.
    pub(crate) fn is_constant(&self, index: u32) -> bool {
        // Eight bytes by the specification, which drivers insist on; `opencl-sys` has four.
        let mut qualifiers: cl::cl_bitfield = 0;
        // SAFETY: the place has the size that is said.
        let code = unsafe {
            (self.api.get_kernel_arg_info)(
                self.id,
                index,
                cl::CL_KERNEL_ARG_TYPE_QUALIFIER,
                size_of_val(&qualifiers),
                (&raw mut qualifiers).cast(),
                ptr::null_mut(),
            )
        };
        succeeded(code).is_ok() && qualifiers & u64::from(cl::CL_KERNEL_ARG_TYPE_CONST) != 0
    }

    /// The work group that the source demands (`reqd_work_group_size`); one item where it demands nothing.
    pub(crate) fn group(&self, device: DeviceHandle) -> Called<[usize; 3]> {
        let mut group = [0_usize; 3];
        // SAFETY: the place has the size that is said.
        succeeded(unsafe {
            (self.api.get_kernel_work_group_info)(
                self.id,
                device.id(),
                cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                size_of_val(&group),
                group.as_mut_ptr().cast(),
                ptr::null_mut(),
            )
        })?;
        Ok(if group == [0; 3] { [1; 3] } else { group })
    }

    /// Sets an argument that is passed by value.
    pub(crate) fn set_value(&mut self, index: u32, value: &[u8]) -> Called<()> {
        // SAFETY: the bytes are copied before the call returns. The driver refuses another size than the kernel's.
        succeeded(unsafe {
            (self.api.set_kernel_arg)(self.id, index, value.len(), value.as_ptr().cast())
        })
    }

    /// Sets an argument that is an address of shared memory. Nothing is touched by it.
    pub(crate) fn set_address(&mut self, index: u32, address: u64) -> Called<()> {
        let address = usize::try_from(address).unwrap_or(0);
        let pointer: *const c_void = ptr::with_exposed_provenance(address);
        // SAFETY: the pointer is stored, not read.
        succeeded(unsafe { (self.api.set_kernel_arg_svm)(self.id, index, pointer) })
    }

    /// Sets an argument that is a buffer.
    pub(crate) fn set_buffer(&mut self, index: u32, buffer: &Buffer) -> Called<()> {
        let id = buffer.id();
        // SAFETY: the buffer's id is copied before the call returns.
        succeeded(unsafe {
            (self.api.set_kernel_arg)(self.id, index, size_of_val(&id), (&raw const id).cast())
        })
    }
}

impl Drop for RawKernel {
    fn drop(&mut self) {
        // SAFETY: one count is ours.
        let _code = unsafe { (self.api.release_kernel)(self.id) };
    }
}
