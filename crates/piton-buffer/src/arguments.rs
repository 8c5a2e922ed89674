//! The arguments of a launch: collected in order, checked against the kernel's signature, packed.

use crate::{
    BufferError,
    device_memory::DeviceMemory,
    host_view::HostMemory,
    stream::{Memory, Use},
};
use bytemuck::Pod;
use piton_driver::{Access, DeviceInfo, Parameter, Signature};
use piton_graph::PrivateChunk;
use smallvec::SmallVec;

/// Arguments up to here stay off the heap.
pub(crate) const INLINE_ARGUMENTS: usize = 8;
/// Packed bytes up to here stay off the heap.
const INLINE_BYTES: usize = 128;

/// Whose memory an argument is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder<'a> {
    Buffer(&'a DeviceMemory),
    /// Page-locked memory that the kernel reaches in place.
    Host(&'a HostMemory),
    /// Memory of the graph that the launch becomes a node of.
    Scratch(PrivateChunk),
}

/// Memory that an argument names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) holder: Holder<'a>,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
enum Argument<'a> {
    Memory {
        named: Named<'a>,
        access: Access,
        element: usize,
    },
    Value {
        bytes: SmallVec<[u8; 64]>,
    },
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a>(SmallVec<[Argument<'a>; INLINE_ARGUMENTS]>);

impl<'a> Arguments<'a> {
    pub(crate) fn memory<T: Pod>(&mut self, named: Named<'a>, access: Access) {
        let element = size_of::<T>();
        self.0.push(Argument::Memory {
            named,
            access,
            element,
        });
    }

    pub(crate) fn value<T: Pod>(&mut self, value: T) {
        let bytes = SmallVec::from_slice(bytemuck::bytes_of(&value));
        self.0.push(Argument::Value { bytes });
    }

    /// The memory that arguments name, and what the kernel does with it.
    pub(crate) fn named(&self) -> impl Iterator<Item = (Named<'a>, Access)> {
        self.0.iter().filter_map(|argument| match argument {
            Argument::Memory { named, access, .. } => Some((*named, *access)),
            Argument::Value { .. } => None,
        })
    }

    /// The buffers that arguments name.
    pub(crate) fn uses(&self) -> SmallVec<[Use<'a>; INLINE_ARGUMENTS]> {
        let used = |(named, access): (Named<'a>, Access)| {
            let memory = match named.holder {
                Holder::Buffer(memory) => Memory::Device(memory),
                Holder::Host(memory) => Memory::Host(memory),
                Holder::Scratch(_) => return None,
            };
            let kind = access.into();
            Some(Use { memory, kind })
        };
        self.named().filter_map(used).collect()
    }

    /// The arguments as the device takes them. Takes no memory for more than it passes: a signature may align a byte to gigabytes.
    pub(crate) fn pack(
        &self,
        signature: &Signature,
        device: &DeviceInfo,
    ) -> Result<Packed, BufferError> {
        let (bytes, limit) = (signature.packed_bytes(), device.limits.argument_bytes);
        if bytes > u64::from(limit) {
            return Err(BufferError::ArgumentBytes { bytes, limit });
        }
        let (expected, given) = (signature.parameters().len(), self.0.len());
        if expected != given {
            return Err(BufferError::ArgumentCount { expected, given });
        }
        let mut packed = Packed::default();
        for (index, (parameter, argument)) in signature.parameters().iter().zip(&self.0).enumerate()
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

#[derive(Default)]
pub(crate) struct Packed {
    pub(crate) bytes: SmallVec<[u8; INLINE_BYTES]>,
    pub(crate) extents: SmallVec<[u64; INLINE_ARGUMENTS]>,
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
                Argument::Memory {
                    named: Named { address, bytes, .. },
                    access,
                    element,
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
