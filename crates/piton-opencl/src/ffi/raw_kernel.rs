//! Kernel objects: what the driver says of their arguments, and setting those.

#![expect(
    unsafe_code,
    reason = "calls of OpenCL that read and fill what they are given"
)]

use super::{Api, Buffer, Called, DeviceHandle, platform, succeeded};
use opencl_sys as cl;
use std::{ffi::c_void, ptr};

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

// SAFETY: a kernel object may be used by any thread, one at a time; the setters take it exclusively.
unsafe impl Send for RawKernel {}

impl RawKernel {
    /// The object of this id, whose one count becomes the value's.
    pub(super) fn from_raw(api: &'static Api, id: cl::cl_kernel) -> Self {
        Self { api, id }
    }

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
