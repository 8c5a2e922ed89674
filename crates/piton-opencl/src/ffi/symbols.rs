//! The entry points used, looked up by name once.
//!
//! # Invariants
//! 1. Every pointer came from the library beside it, by the name whose type it has in `opencl-sys`.
//! 2. The library is never closed: drivers start threads of their own, which may be in its code long after the last
//!    object was released. So a table lives for ever ([`Api::open`] leaks it), and handles hold a plain reference.

#![expect(
    unsafe_code,
    reason = "a symbol's type is what the header says, not what the library proves"
)]

use super::library;
use crate::error::OpenError;
use libloading::Library;
use opencl_sys::cl_function_types as types;
use std::{fmt, path::Path};

/// The function type inside the optional one that `opencl-sys` declares.
pub(crate) trait Present {
    /// The function.
    type Function: Copy;
}

impl<F: Copy> Present for Option<F> {
    type Function = F;
}

macro_rules! entry_points {
    (required: $($field:ident $type:ident $symbol:literal,)*; optional: $($maybe:ident $maybe_type:ident $maybe_symbol:literal,)*) => {
        /// The table. See the module.
        pub(crate) struct Api {
            _library: Library,
            $(pub(crate) $field: <types::$type as Present>::Function,)*
            $(pub(crate) $maybe: Option<<types::$maybe_type as Present>::Function>,)*
        }

        impl Api {
            fn of(library: Library, name: &str) -> Result<Self, OpenError> {
                Ok(Self {
                    $($field: {
                        // SAFETY: invariant 1: the type is the one the header gives this name.
                        let symbol = unsafe { library.get(concat!($symbol, "\0").as_bytes()) };
                        *symbol.map_err(|_| OpenError::NoSymbol { library: name.to_owned(), symbol: $symbol })?
                    },)*
                    $($maybe: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get(concat!($maybe_symbol, "\0").as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)*
                    _library: library,
                })
            }
        }
    };
}

entry_points! {
    required:
    get_platform_ids clGetPlatformIDs_t "clGetPlatformIDs",
    get_platform_info clGetPlatformInfo_t "clGetPlatformInfo",
    get_device_ids clGetDeviceIDs_t "clGetDeviceIDs",
    get_device_info clGetDeviceInfo_t "clGetDeviceInfo",
    create_context clCreateContext_t "clCreateContext",
    release_context clReleaseContext_t "clReleaseContext",
    create_queue clCreateCommandQueueWithProperties_t "clCreateCommandQueueWithProperties",
    release_queue clReleaseCommandQueue_t "clReleaseCommandQueue",
    svm_alloc clSVMAlloc_t "clSVMAlloc",
    svm_free clSVMFree_t "clSVMFree",
    create_buffer clCreateBuffer_t "clCreateBuffer",
    create_sub_buffer clCreateSubBuffer_t "clCreateSubBuffer",
    release_memory clReleaseMemObject_t "clReleaseMemObject",
    create_program_with_source clCreateProgramWithSource_t "clCreateProgramWithSource",
    create_program_with_binary clCreateProgramWithBinary_t "clCreateProgramWithBinary",
    build_program clBuildProgram_t "clBuildProgram",
    get_program_build_info clGetProgramBuildInfo_t "clGetProgramBuildInfo",
    get_program_info clGetProgramInfo_t "clGetProgramInfo",
    release_program clReleaseProgram_t "clReleaseProgram",
    create_kernel clCreateKernel_t "clCreateKernel",
    release_kernel clReleaseKernel_t "clReleaseKernel",
    get_kernel_info clGetKernelInfo_t "clGetKernelInfo",
    get_kernel_arg_info clGetKernelArgInfo_t "clGetKernelArgInfo",
    get_kernel_work_group_info clGetKernelWorkGroupInfo_t "clGetKernelWorkGroupInfo",
    set_kernel_arg clSetKernelArg_t "clSetKernelArg",
    set_kernel_arg_svm clSetKernelArgSVMPointer_t "clSetKernelArgSVMPointer",
    enqueue_kernel clEnqueueNDRangeKernel_t "clEnqueueNDRangeKernel",
    enqueue_copy clEnqueueSVMMemcpy_t "clEnqueueSVMMemcpy",
    enqueue_fill clEnqueueSVMMemFill_t "clEnqueueSVMMemFill",
    enqueue_write clEnqueueWriteBuffer_t "clEnqueueWriteBuffer",
    enqueue_read clEnqueueReadBuffer_t "clEnqueueReadBuffer",
    enqueue_copy_buffer clEnqueueCopyBuffer_t "clEnqueueCopyBuffer",
    enqueue_fill_buffer clEnqueueFillBuffer_t "clEnqueueFillBuffer",
    enqueue_barrier clEnqueueBarrierWithWaitList_t "clEnqueueBarrierWithWaitList",
    enqueue_marker clEnqueueMarkerWithWaitList_t "clEnqueueMarkerWithWaitList",
    flush clFlush_t "clFlush",
    wait_for_events clWaitForEvents_t "clWaitForEvents",
    get_event_info clGetEventInfo_t "clGetEventInfo",
    get_event_profile clGetEventProfilingInfo_t "clGetEventProfilingInfo",
    set_event_callback clSetEventCallback_t "clSetEventCallback",
    retain_event clRetainEvent_t "clRetainEvent",
    release_event clReleaseEvent_t "clReleaseEvent",
    ; optional:
    create_program_with_il clCreateProgramWithIL_t "clCreateProgramWithIL",
    get_device_and_host_timer clGetDeviceAndHostTimer_t "clGetDeviceAndHostTimer",
}

impl Api {
    /// Opens the library at `path`, or the usual one, and looks everything up. The table is never freed: see
    /// invariant 2.
    ///
    /// # Errors
    /// [`OpenError::NoLibrary`], [`OpenError::NoSymbol`].
    pub(crate) fn open(path: Option<&Path>) -> Result<&'static Self, OpenError> {
        let (library, name) = library::open(path)?;
        Ok(Box::leak(Box::new(Self::of(library, &name)?)))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}
