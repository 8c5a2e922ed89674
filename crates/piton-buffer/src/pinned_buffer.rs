//! Typed page-locked host memory: of the pool's, or the program's own.

use crate::{BufferError, DeviceContext, stream::size_in_bytes};
use bytemuck::Pod;
use piton_driver::DevicePtr;
use piton_pinned::{PinnedBlock, Refused, RegisteredMemory};
use piton_timeline::Timepoint;
use std::{fmt, marker::PhantomData, ptr::NonNull, sync::Arc};

/// What any block of the pool is aligned to.
const BLOCK_ALIGNMENT: usize = 64;

/// `len` elements of `T` in page-locked host memory, which devices copy from and to by themselves.
///
/// Its content is the program's whenever the program has it: a copy takes the buffer and gives it back when the
/// copy has ended. Dropping it returns it to its pool, or to the program's allocator when the device is done with it.
pub struct PinnedBuffer<T> {
    context: Arc<DeviceContext>,
    memory: Memory<T>,
    len: usize,
    element: PhantomData<T>,
}

/// Where the elements lie.
enum Memory<T> {
    Block(PinnedBlock),
    Registered(RegisteredMemory<T>),
}

impl<T: Pod> PinnedBuffer<T> {
    /// `len` elements, all bytes zero, from the context's pool.
    ///
    /// # Errors
    /// [`InvalidLength`](BufferError::InvalidLength); [`Pinned`](BufferError::Pinned) where the pool has none
    /// left, the system refuses to lock it, or elements want to be aligned to more than 4096 bytes.
    pub fn zeroed(context: &Arc<DeviceContext>, len: usize) -> Result<Self, BufferError> {
        let (elements, element_bytes) = (len as u64, size_of::<T>() as u64);
        let invalid = BufferError::InvalidLength {
            elements,
            element_bytes,
        };
        let bytes = usize::try_from(size_in_bytes::<T>(elements)?).map_err(|_| invalid)?;
        // Every block is aligned so far, and comes quicker from there.
        let block = match align_of::<T>() {
            ..=BLOCK_ALIGNMENT => context.pinned.allocate(bytes)?,
            more => context.pinned.allocate_aligned(bytes, more)?,
        };
        if let Some(sanitizer) = context.streams.sanitizer() {
            // What used it before is over: that is the pool's promise.
            sanitizer.forget_host(block.as_ptr(), block.capacity());
        }
        let mut buffer = Self {
            context: Arc::clone(context),
            memory: Memory::Block(block),
            len,
            element: PhantomData,
        };
        buffer.as_mut_slice().fill(T::zeroed());
        Ok(buffer)
    }

    /// Elements that the program has already, page-locked where they are: a `Vec` or a boxed slice. May block on the driver.
    ///
    /// # Errors
    /// The driver's, and that there are none; the elements come back with the error.
    pub fn register(
        context: &Arc<DeviceContext>,
        elements: impl Into<Box<[T]>>,
    ) -> Result<Self, Refused<Box<[T]>>> {
        let memory = context.pinned.register(elements)?;
        if let Some(sanitizer) = context.streams.sanitizer() {
            sanitizer.forget_host(memory.as_ptr(), memory.bytes() as u64);
        }
        Ok(Self {
            context: Arc::clone(context),
            len: memory.len(),
            memory: Memory::Registered(memory),
            element: PhantomData,
        })
    }

    /// The elements as ordinary memory again: where they are if they were [registered](Self::register), a copy of them if
    /// the memory is the pool's. May block on the driver.
    ///
    /// # Errors
    /// The driver's; the buffer comes back with the error.
    #[expect(
        clippy::result_large_err,
        reason = "a refusal hands the buffer itself back, and is rare"
    )]
    pub fn into_boxed_slice(self) -> Result<Box<[T]>, Refused<Self>> {
        let Self {
            context,
            memory,
            len,
            element,
        } = self;
        match memory {
            Memory::Block(block) => {
                let bytes = block.try_as_slice().unwrap_or_default();
                Ok(elements(bytes, len).into())
            }
            Memory::Registered(memory) => memory.into_inner().map_err(|refused| Refused {
                error: refused.error,
                memory: Self {
                    context,
                    memory: Memory::Registered(refused.memory),
                    len,
                    element,
                },
            }),
        }
    }

    /// Where kernels of the device find the elements without a copy; none if they cannot. For commands that are submitted past
    /// this crate: launches of this crate take the buffer's [view](Self::into_view).
    pub fn device_address(&self) -> Option<DevicePtr> {
        match &self.memory {
            Memory::Block(block) => block.device_address(),
            Memory::Registered(memory) => memory.device_address(),
        }
    }

    /// How many elements it has; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        // INVARIANT: whoever has the buffer got it when its last copy had ended, so the memory is not in use.
        match &self.memory {
            Memory::Block(block) => elements(block.try_as_slice().unwrap_or_default(), self.len),
            Memory::Registered(memory) => memory.try_as_slice().unwrap_or_default(),
        }
    }

    /// The elements, to write.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Block(block) => {
                let bytes = block.try_as_mut_slice().unwrap_or_default();
                let bytes = bytes.get_mut(..self.len * size_of::<T>());
                bytemuck::try_cast_slice_mut(bytes.unwrap_or_default()).unwrap_or_default()
            }
            Memory::Registered(memory) => memory.try_as_mut_slice().unwrap_or_default(),
        }
    }

    /// First byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        match &self.memory {
            Memory::Block(block) => block.as_ptr(),
            Memory::Registered(memory) => memory.as_ptr(),
        }
    }

    /// A device reads the memory until `point`.
    pub(crate) fn note_read(&self, point: Timepoint) {
        match &self.memory {
            Memory::Block(block) => block.record_read(point),
            Memory::Registered(memory) => memory.record_read(point),
        }
    }

    /// A device writes the memory until `point`.
    pub(crate) fn note_write(&mut self, point: Timepoint) {
        match &mut self.memory {
            Memory::Block(block) => block.record_write(point),
            Memory::Registered(memory) => memory.record_write(point),
        }
    }

    pub(crate) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }
}

fn elements<T: Pod>(bytes: &[u8], len: usize) -> &[T] {
    let bytes = bytes.get(..len * size_of::<T>()).unwrap_or_default();
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
