//! Typed page-locked host memory.

use crate::{BufferError, DeviceContext, stream::size_in_bytes};
use bytemuck::Pod;
use piton_pinned::PinnedBlock;
use piton_timeline::Timepoint;
use std::{fmt, marker::PhantomData, ptr::NonNull, sync::Arc};

/// `len` elements of `T` in page-locked host memory, which devices copy from and to by themselves.
///
/// Its content is the program's whenever the program has it: a copy takes the buffer and gives it back when the
/// copy has ended. Dropping it returns it to its pool.
pub struct PinnedBuffer<T> {
    context: Arc<DeviceContext>,
    block: PinnedBlock,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> PinnedBuffer<T> {
    /// `len` elements, all bytes zero, from the context's pool.
    ///
    /// # Errors
    /// [`InvalidLength`](BufferError::InvalidLength); [`Pinned`](BufferError::Pinned) where the pool has none
    /// left or the system refuses to lock it.
    pub fn zeroed(context: &Arc<DeviceContext>, len: usize) -> Result<Self, BufferError> {
        let (elements, element_bytes) = (len as u64, size_of::<T>() as u64);
        let invalid = BufferError::InvalidLength {
            elements,
            element_bytes,
        };
        let bytes = usize::try_from(size_in_bytes::<T>(elements)?).map_err(|_| invalid)?;
        let block = context.pinned.allocate(bytes)?;
        if let Some(sanitizer) = context.streams.sanitizer() {
            // What used it before is over: that is the pool's promise.
            sanitizer.forget_host(block.as_ptr(), block.capacity());
        }
        let mut buffer = Self {
            context: Arc::clone(context),
            block,
            len,
            element: PhantomData,
        };
        buffer.as_mut_slice().fill(T::zeroed());
        Ok(buffer)
    }

    /// How many elements it has; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        // INVARIANT: whoever has the buffer got it when its last copy had ended, so the block is not in use.
        let bytes = self.block.try_as_slice().unwrap_or_default();
        elements(bytes, self.len)
    }

    /// The elements, to write.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        let bytes = self.block.try_as_mut_slice().unwrap_or_default();
        let bytes = bytes
            .get_mut(..self.len * size_of::<T>())
            .unwrap_or_default();
        bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
    }

    /// First byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.block.as_ptr()
    }

    /// A device reads the memory until `point`.
    pub(crate) fn note_read(&self, point: Timepoint) {
        self.block.record_read(point);
    }

    /// A device writes the memory until `point`.
    pub(crate) fn note_write(&mut self, point: Timepoint) {
        self.block.record_write(point);
    }

    pub(crate) fn context(&self) -> &DeviceContext {
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
