//! What a kernel takes, and how it is packed.
//!
//! Arguments are packed as C lays out a struct: each at the next multiple of its alignment, in order. A buffer
//! is its device address, eight bytes. Real drivers take them apart again by the offsets given here
//! (CUDA's pointer array, OpenCL's argument index) or as they are (Ascend's argument block, Vulkan's push
//! constants).

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and writes, or writes some.
    Write,
}

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Device memory holding elements of a type.
    Buffer {
        /// What the kernel does with it.
        access: Access,
        /// Bytes of an element; the address is a multiple of the element's alignment.
        element_bytes: u32,
    },
    /// Plain bytes passed by value: a number, or a struct of tiling data.
    Value {
        /// Its size.
        bytes: u32,
        /// Its alignment; a power of two, at most 16.
        alignment: u32,
    },
}

impl Parameter {
    /// A buffer of `T` that is read.
    pub const fn read<T>() -> Self {
        Self::Buffer {
            access: Access::Read,
            element_bytes: size_of_u32::<T>(),
        }
    }

    /// A buffer of `T` that is written.
    pub const fn write<T>() -> Self {
        Self::Buffer {
            access: Access::Write,
            element_bytes: size_of_u32::<T>(),
        }
    }

    /// A `T` passed by value.
    pub const fn value<T>() -> Self {
        Self::Value {
            bytes: size_of_u32::<T>(),
            alignment: align_of_u32::<T>(),
        }
    }

    /// Bytes it takes when packed.
    pub const fn packed_bytes(self) -> u32 {
        match self {
            Self::Buffer { .. } => 8,
            Self::Value { bytes, .. } => bytes,
        }
    }

    /// What its offset is a multiple of.
    pub const fn packed_alignment(self) -> u32 {
        match self {
            Self::Buffer { .. } => 8,
            Self::Value { alignment: 0, .. } => 1,
            Self::Value { alignment, .. } => alignment,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturated just before")]
const fn size_of_u32<T>() -> u32 {
    let bytes = size_of::<T>();
    if bytes > u32::MAX as usize {
        u32::MAX
    } else {
        bytes as u32
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "alignments of Rust types are below 2^29"
)]
const fn align_of_u32<T>() -> u32 {
    align_of::<T>() as u32
}

/// What a kernel takes, with the offset of each parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    parameters: Vec<Parameter>,
    offsets: Vec<u64>,
    bytes: u64,
}

impl Signature {
    /// The signature with these parameters.
    pub fn new(parameters: impl IntoIterator<Item = Parameter>) -> Self {
        let mut signature = Self::default();
        for parameter in parameters {
            let offset = signature
                .bytes
                .next_multiple_of(u64::from(parameter.packed_alignment()));
            signature.bytes = offset + u64::from(parameter.packed_bytes());
            signature.offsets.push(offset);
            signature.parameters.push(parameter);
        }
        signature
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Where parameter `index` starts in the packed bytes.
    pub fn offset(&self, index: usize) -> Option<u64> {
        self.offsets.get(index).copied()
    }

    /// How many of the parameters before `index` are buffers: which buffer parameter `index` is, from 0.
    pub fn buffers_before(&self, index: usize) -> usize {
        let before = self.parameters.iter().take(index);
        before
            .filter(|parameter| matches!(parameter, Parameter::Buffer { .. }))
            .count()
    }

    /// How many parameters are buffers.
    pub fn buffers(&self) -> usize {
        self.buffers_before(self.parameters.len())
    }

    /// Bytes of all parameters packed.
    pub fn packed_bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_packed_as_c_packs_a_struct() {
        let signature = Signature::new([
            Parameter::value::<u8>(),
            Parameter::read::<f32>(),
            Parameter::value::<u32>(),
            Parameter::value::<u64>(),
        ]);
        let offsets: Vec<_> = (0..4).filter_map(|index| signature.offset(index)).collect();
        assert_eq!(offsets, [0, 8, 16, 24]);
        assert_eq!(signature.packed_bytes(), 32);
        assert_eq!(signature.offset(4), None);
    }
}
