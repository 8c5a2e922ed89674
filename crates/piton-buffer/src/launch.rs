//! Launching kernels with checked arguments.

#![expect(
    unsafe_code,
    reason = "submits launches whose arguments it has checked and ordered"
)]

use crate::{
    BufferError, DeviceSlice, DeviceSliceMut, Stream, device_memory::DeviceMemory, stream::Use,
};
use bytemuck::Pod;
use piton_driver::{Access, Grid, Kernel, Launch, Parameter};
use smallvec::SmallVec;
use std::sync::Arc;

/// Arguments up to here stay off the heap.
const INLINE_ARGUMENTS: usize = 8;
/// Packed bytes up to here stay off the heap.
const INLINE_BYTES: usize = 128;

#[derive(Debug)]
enum Argument<'a> {
    Buffer {
        memory: &'a DeviceMemory,
        address: u64,
        bytes: u64,
        access: Access,
        element: usize,
    },
    Value {
        bytes: SmallVec<[u8; 64]>,
    },
}

/// A launch being put together: arguments in the order of the kernel's parameters, then
/// [`submit`](Self::submit).
#[must_use = "a launch does nothing before it is submitted"]
#[derive(Debug)]
pub struct KernelLaunch<'a> {
    stream: &'a Stream,
    kernel: &'a Arc<dyn Kernel>,
    grid: Grid,
    arguments: SmallVec<[Argument<'a>; INLINE_ARGUMENTS]>,
}

impl<'a> KernelLaunch<'a> {
    pub(crate) fn new(stream: &'a Stream, kernel: &'a Arc<dyn Kernel>, grid: Grid) -> Self {
        Self {
            stream,
            kernel,
            grid,
            arguments: SmallVec::new(),
        }
    }

    /// The next argument: memory the kernel reads.
    pub fn read<T: Pod>(self, memory: impl Into<DeviceSlice<'a, T>>) -> Self {
        let slice = memory.into();
        let (address, bytes) = (slice.ptr().address(), slice.bytes());
        self.buffer::<T>(slice.memory, address, bytes, Access::Read)
    }

    /// The next argument: memory the kernel writes.
    pub fn write<T: Pod>(self, memory: impl Into<DeviceSliceMut<'a, T>>) -> Self {
        let slice = memory.into();
        let (address, bytes) = (slice.ptr().address(), slice.bytes());
        self.buffer::<T>(slice.memory, address, bytes, Access::Write)
    }

    /// The next argument: a number, or a struct of tiling data, by value.
    pub fn value<T: Pod>(mut self, value: T) -> Self {
        let bytes = SmallVec::from_slice(bytemuck::bytes_of(&value));
        self.arguments.push(Argument::Value { bytes });
        self
    }

    /// Submits the launch. It runs after everything submitted to the stream before, and after the work on other
    /// streams that its buffers depend on. Blocks only while the stream has no room.
    ///
    /// # Errors
    /// [`ArgumentCount`](BufferError::ArgumentCount), [`ArgumentMismatch`](BufferError::ArgumentMismatch),
    /// [`OtherDevice`](BufferError::OtherDevice), [`OtherRuntime`](BufferError::OtherRuntime), and what the
    /// stream refuses: a grid without blocks or with too many, a kernel of another device. Nothing was launched.
    #[track_caller]
    pub fn submit(self) -> Result<(), BufferError> {
        let packed = self.pack()?;
        let uses: SmallVec<[Use<'_>; INLINE_ARGUMENTS]> =
            self.arguments.iter().filter_map(Argument::as_use).collect();
        let launch = Launch {
            kernel: self.kernel,
            grid: self.grid,
            arguments: &packed.bytes,
            extents: &packed.extents,
        };
        let ordered = self.stream.order(&uses)?;
        // SAFETY: each buffer argument is a `DeviceMemory` of this device (`order` checks), which lives until the
        // uses noted in it have ended (its invariant 2), and this one is noted below. Its extent is passed along.
        // `order` has made the stream wait for every conflicting use, and later ones will wait for this:
        // exclusive borrows (`DeviceSliceMut`) and shared ones keep others out meanwhile.
        let point = unsafe { self.stream.raw().launch(launch)? };
        ordered.note(&point.into());
        Ok(())
    }

    fn buffer<T: Pod>(
        mut self,
        memory: &'a DeviceMemory,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Self {
        let element = size_of::<T>();
        self.arguments.push(Argument::Buffer {
            memory,
            address,
            bytes,
            access,
            element,
        });
        self
    }

    fn pack(&self) -> Result<Packed, BufferError> {
        let signature = self.kernel.signature();
        let (expected, given) = (signature.parameters().len(), self.arguments.len());
        if expected != given {
            return Err(BufferError::ArgumentCount { expected, given });
        }
        let mut packed = Packed::default();
        for (index, (parameter, argument)) in signature
            .parameters()
            .iter()
            .zip(&self.arguments)
            .enumerate()
        {
            let offset = signature
                .offset(index)
                .and_then(|offset| usize::try_from(offset).ok());
            let suits = offset.is_some_and(|offset| packed.push(offset, *parameter, argument));
            if !suits {
                return Err(BufferError::ArgumentMismatch {
                    index,
                    expected: *parameter,
                });
            }
        }
        Ok(packed)
    }
}

impl<'a> Argument<'a> {
    fn as_use(&self) -> Option<Use<'a>> {
        match self {
            Self::Buffer { memory, access, .. } => Some(Use {
                memory,
                access: *access,
            }),
            Self::Value { .. } => None,
        }
    }
}

#[derive(Default)]
struct Packed {
    bytes: SmallVec<[u8; INLINE_BYTES]>,
    extents: SmallVec<[u64; INLINE_ARGUMENTS]>,
}

impl Packed {
    /// Adds an argument at `offset`; `false` if it does not suit the parameter.
    fn push(&mut self, offset: usize, parameter: Parameter, argument: &Argument<'_>) -> bool {
        self.bytes.resize(offset.max(self.bytes.len()), 0);
        match (parameter, argument) {
            (
                Parameter::Buffer {
                    access: wanted,
                    element_bytes,
                },
                Argument::Buffer {
                    address,
                    bytes,
                    access,
                    element,
                    ..
                },
            ) if element_bytes as usize == *element
                && (wanted == *access || wanted == Access::Read) =>
            {
                self.bytes.extend_from_slice(&address.to_ne_bytes());
                self.extents.push(*bytes);
                true
            }
            (Parameter::Value { bytes: wanted, .. }, Argument::Value { bytes })
                if wanted as usize == bytes.len() =>
            {
                self.bytes.extend_from_slice(bytes);
                true
            }
            _ => false,
        }
    }
}
