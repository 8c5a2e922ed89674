//! Typed device memory, and views of parts of it.

use crate::{
    BufferError,
    arguments::{Holder, Named},
    device_memory::DeviceMemory,
};
use bytemuck::Pod;
use piton_driver::{DeviceId, DevicePtr};
use std::{fmt, marker::PhantomData, ops::Range};

/// `len` elements of `T` in a device's memory. Made by [`Stream`](crate::Stream)'s allocating methods.
///
/// The buffer remembers which streams use it: work that touches it is ordered after the work it depends on,
/// on whatever stream, without events. Dropping it gives the memory back in stream order: at once to the
/// stream that used it last, to others when that work is done.
///
/// Elements are types any bits are a value of ([`Pod`]), since fresh memory holds whatever was there.
pub struct DeviceBuffer<T> {
    pub(crate) memory: DeviceMemory,
    len: u64,
    element: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// `memory` holds `len` elements.
    pub(crate) fn new(memory: DeviceMemory, len: u64) -> Self {
        Self {
            memory,
            len,
            element: PhantomData,
        }
    }

    /// How many elements it has; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The device whose memory it is.
    pub fn device(&self) -> DeviceId {
        self.memory.context.id()
    }

    /// The same memory as bytes.
    pub fn into_bytes(self) -> DeviceBuffer<u8> {
        // Does not overflow: the buffer was allocated.
        let len = self.len * size_of::<T>() as u64;
        self.retyped(len)
    }

    /// The same memory as elements of another type. Waits for values in it that are under way are reads from then on, behind which
    /// words of the new size are written.
    ///
    /// # Errors
    /// The buffer itself, where it is no whole number of such elements or not aligned for them.
    pub fn into_elements<U: Pod>(self) -> Result<DeviceBuffer<U>, Box<Self>> {
        let (bytes, each) = (self.len * size_of::<T>() as u64, size_of::<U>() as u64);
        let is_whole = each > 0 && bytes.is_multiple_of(each);
        if !is_whole || !self.ptr().is_aligned_to(align_of::<U>() as u64) {
            return Err(Box::new(self));
        }
        Ok(self.retyped(bytes / each))
    }

    fn retyped<U: Pod>(mut self, len: u64) -> DeviceBuffer<U> {
        self.memory.uses.retype();
        DeviceBuffer::new(self.memory, len)
    }

    /// Its address, for looking at.
    pub fn ptr(&self) -> DevicePtr {
        self.memory.ptr()
    }

    /// Elements `range`, to read.
    ///
    /// # Errors
    /// [`OutOfRange`](BufferError::OutOfRange); an empty range is out of range too.
    pub fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_, T>, BufferError> {
        check_range(&range, self.len)?;
        let Range { start, end } = range;
        Ok(DeviceSlice {
            memory: &self.memory,
            start,
            len: end - start,
            element: PhantomData,
        })
    }

    /// Elements `range`, to write.
    ///
    /// # Errors
    /// As [`slice`](Self::slice).
    pub fn slice_mut(&mut self, range: Range<u64>) -> Result<DeviceSliceMut<'_, T>, BufferError> {
        check_range(&range, self.len)?;
        let Range { start, end } = range;
        Ok(DeviceSliceMut {
            memory: &self.memory,
            start,
            len: end - start,
            element: PhantomData,
        })
    }

    /// The elements before `middle`, and the rest, both to write. Work on the two parts is ordered as if
    /// they were one: the record of uses is the buffer's.
    ///
    /// # Errors
    /// [`OutOfRange`](BufferError::OutOfRange) if either part would be empty.
    pub fn split_at_mut(
        &mut self,
        middle: u64,
    ) -> Result<(DeviceSliceMut<'_, T>, DeviceSliceMut<'_, T>), BufferError> {
        check_range(&(0..middle), self.len)?;
        check_range(&(middle..self.len), self.len)?;
        let part = |start, len| DeviceSliceMut {
            memory: &self.memory,
            start,
            len,
            element: PhantomData,
        };
        Ok((part(0, middle), part(middle, self.len - middle)))
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("device", &self.memory.context.id())
            .field("ptr", &self.memory.ptr())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

fn check_range(range: &Range<u64>, len: u64) -> Result<(), BufferError> {
    if range.start < range.end && range.end <= len {
        return Ok(());
    }
    Err(BufferError::OutOfRange {
        start: range.start,
        end: range.end,
        len,
    })
}

/// Some elements of a [`DeviceBuffer`], to read.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlice<'a, T> {
    pub(crate) memory: &'a DeviceMemory,
    start: u64,
    len: u64,
    element: PhantomData<T>,
}

/// Some elements of a [`DeviceBuffer`], to write. Nobody else has the buffer meanwhile.
#[derive(Debug)]
pub struct DeviceSliceMut<'a, T> {
    pub(crate) memory: &'a DeviceMemory,
    start: u64,
    len: u64,
    element: PhantomData<&'a mut T>,
}

macro_rules! extent {
    ($slice:ident) => {
        impl<T: Pod> $slice<'_, T> {
            /// How many elements it has; never zero.
            #[expect(clippy::len_without_is_empty, reason = "a slice is never empty")]
            pub fn len(&self) -> u64 {
                self.len
            }

            /// Bytes of all elements. Does not overflow: the buffer was allocated.
            pub(crate) fn bytes(&self) -> u64 {
                self.len * size_of::<T>() as u64
            }

            /// Address of the first element.
            pub(crate) fn ptr(&self) -> DevicePtr {
                let base = self.memory.ptr();
                base.checked_add(self.start * size_of::<T>() as u64)
                    .unwrap_or(base)
            }
        }
    };
}

macro_rules! names {
    ($slice:ident) => {
        impl<'a, T: Pod> $slice<'a, T> {
            /// The memory as an argument.
            pub(crate) fn named(&self) -> Named<'a> {
                Named {
                    holder: Holder::Buffer(self.memory),
                    address: self.ptr().address(),
                    bytes: self.bytes(),
                }
            }
        }
    };
}

names!(DeviceSlice);
names!(DeviceSliceMut);

extent!(DeviceSlice);
extent!(DeviceSliceMut);

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        Self {
            memory: &buffer.memory,
            start: 0,
            len: buffer.len,
            element: PhantomData,
        }
    }
}

impl<'a, T: Pod> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        Self {
            memory: &buffer.memory,
            start: 0,
            len: buffer.len,
            element: PhantomData,
        }
    }
}
