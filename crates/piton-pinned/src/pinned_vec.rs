//! Elements in page-locked memory that grow and shrink as a `Vec` does.
//!
//! # The idea
//! A block of the pool and a length. Growing takes a larger block, copies, and drops the smaller one, which waits for its
//! last use as any block does. So a device may still read the old memory while the program goes on with the new; what it
//! may not do is write it. Elements are plain data ([`Pod`]): a device writes any bytes it likes.
//!
//! # Invariant
//! The first `len` elements lie inside the block, if there is one; without one `len` is 0.

use crate::{PinnedBlock, PinnedError, PinnedPool};
use bytemuck::Pod;
use piton_timeline::{Frontier, Timepoint};
use std::{io, marker::PhantomData};

/// Plain elements in page-locked memory, as many as there happen to be.
///
/// Nothing blocks on a device. What needs the elements while a device uses them in a way that excludes it is refused with
/// [`PinnedError::InUse`], and then nothing has changed.
#[derive(Debug)]
pub struct PinnedVec<T> {
    pool: PinnedPool,
    block: Option<PinnedBlock>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> PinnedVec<T> {
    /// Without elements, and without memory.
    pub fn new(pool: &PinnedPool) -> Self {
        Self {
            pool: pool.clone(),
            block: None,
            len: 0,
            elements: PhantomData,
        }
    }

    /// Without elements, and with room for at least `capacity` of them.
    ///
    /// # Errors
    /// As [`PinnedPool::allocate`].
    pub fn with_capacity(pool: &PinnedPool, capacity: usize) -> Result<Self, PinnedError> {
        let mut elements = Self::new(pool);
        elements.reserve(capacity)?;
        Ok(elements)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many elements the block has room for.
    pub fn capacity(&self) -> usize {
        let bytes = self.block.as_ref().map_or(0, PinnedBlock::bytes);
        bytes.checked_div(size_of::<T>()).unwrap_or(usize::MAX)
    }

    /// The elements. Devices may be reading.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn try_as_slice(&self) -> Result<&[T], PinnedError> {
        let bytes = match &self.block {
            Some(block) => block.try_as_slice()?,
            None => &[],
        };
        let bytes = bytes.get(..self.len * size_of::<T>()).unwrap_or_default();
        Ok(bytemuck::try_cast_slice(bytes).unwrap_or_default())
    }

    /// The elements, to be changed.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete.
    pub fn try_as_mut_slice(&mut self) -> Result<&mut [T], PinnedError> {
        let len = self.len;
        let room = self.room()?;
        Ok(room.get_mut(..len).unwrap_or_default())
    }

    /// Adds an element.
    ///
    /// # Errors
    /// [`PinnedError::InUse`]; as [`reserve`](Self::reserve).
    pub fn push(&mut self, element: T) -> Result<(), PinnedError> {
        self.extend_from_slice(&[element])
    }

    /// Takes the last element away; none if there is none.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn pop(&mut self) -> Result<Option<T>, PinnedError> {
        let last = self.try_as_slice()?.last().copied();
        self.len = self.len.saturating_sub(1);
        Ok(last)
    }

    /// Adds elements.
    ///
    /// # Errors
    /// [`PinnedError::InUse`]; as [`reserve`](Self::reserve).
    pub fn extend_from_slice(&mut self, elements: &[T]) -> Result<(), PinnedError> {
        self.reserve(elements.len())?;
        let (start, end) = (self.len, self.len.saturating_add(elements.len()));
        if let Some(room) = self.room()?.get_mut(start..end) {
            room.copy_from_slice(elements);
            self.len = end;
        }
        Ok(())
    }

    /// Makes it `len` elements, adding copies of `element` or leaving the last ones away.
    ///
    /// # Errors
    /// [`PinnedError::InUse`]; as [`reserve`](Self::reserve).
    pub fn resize(&mut self, len: usize, element: T) -> Result<(), PinnedError> {
        if let Some(more) = len.checked_sub(self.len).filter(|more| *more > 0) {
            self.reserve(more)?;
            let start = self.len;
            let room = self.room()?;
            room.get_mut(start..len).unwrap_or_default().fill(element);
        }
        self.len = len;
        Ok(())
    }

    /// Leaves away all but the first `len` elements. The memory stays.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Leaves all elements away. The memory stays.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Makes room for at least `more` elements besides those there are; at least doubles the room, if there is to be more.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSize`], also for elements of no bytes, which are not in memory; as [`PinnedPool::allocate`];
    /// [`PinnedError::InUse`] while a device writes the elements, which cannot be copied then.
    pub fn reserve(&mut self, more: usize) -> Result<(), PinnedError> {
        if size_of::<T>() == 0 && more > 0 {
            return Err(PinnedError::nothing());
        }
        let wanted = self.len.saturating_add(more);
        if wanted <= self.capacity() {
            return Ok(());
        }
        self.move_to(wanted.max(self.capacity().saturating_mul(2)))
    }

    /// Gives memory back that the elements there are do not need.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); the elements stay where they are.
    pub fn shrink_to_fit(&mut self) -> Result<(), PinnedError> {
        let bytes = self.len * size_of::<T>();
        let Some(block) = &self.block else {
            return Ok(());
        };
        if bytes == 0 {
            self.block = None;
        } else if self.pool.rounded(bytes)? < block.bytes() {
            self.move_to(self.len)?;
        }
        Ok(())
    }

    /// The block the elements lie in, for commands that name it; none as long as there was no room for any.
    pub fn block(&self) -> Option<&PinnedBlock> {
        self.block.as_ref()
    }

    /// As [`PinnedBlock::record_read`].
    pub fn record_read(&self, point: Timepoint) {
        if let Some(block) = &self.block {
            block.record_read(point);
        }
    }

    /// As [`PinnedBlock::record_write`].
    pub fn record_write(&mut self, point: Timepoint) {
        if let Some(block) = &mut self.block {
            block.record_write(point);
        }
    }

    /// As [`PinnedBlock::uses`].
    pub fn uses(&self) -> Frontier {
        self.block
            .as_ref()
            .map_or_else(Frontier::new, PinnedBlock::uses)
    }

    /// Takes a block for `capacity` elements and copies what there is.
    fn move_to(&mut self, capacity: usize) -> Result<(), PinnedError> {
        let bytes = capacity.saturating_mul(size_of::<T>());
        // All of what the block is rounded to is room.
        let bytes = self.pool.rounded(bytes)?;
        let mut block = self.pool.allocate_aligned(bytes, align_of::<T>())?;
        let elements = bytemuck::cast_slice(self.try_as_slice()?);
        let room = block.try_as_mut_slice()?;
        if let Some(room) = room.get_mut(..elements.len()) {
            room.copy_from_slice(elements);
        }
        self.block = Some(block);
        Ok(())
    }

    /// The whole block as elements.
    fn room(&mut self) -> Result<&mut [T], PinnedError> {
        let whole = self.capacity().checked_mul(size_of::<T>());
        let bytes = match &mut self.block {
            Some(block) => block.try_as_mut_slice()?,
            None => &mut [],
        };
        let bytes = bytes.get_mut(..whole.unwrap_or(0)).unwrap_or_default();
        Ok(bytemuck::try_cast_slice_mut(bytes).unwrap_or_default())
    }
}

impl PinnedVec<u8> {
    /// Reads at most `most` bytes to the end of what there is, in one call of `reader`; how many came. No bytes are copied
    /// besides `reader`'s own.
    ///
    /// # Errors
    /// The reader's; as [`reserve`](Self::reserve) otherwise.
    pub fn read_from(&mut self, mut reader: impl io::Read, most: usize) -> io::Result<usize> {
        self.reserve(most).map_err(io::Error::other)?;
        let (start, end) = (self.len, self.len + most);
        let room = self.room().map_err(io::Error::other)?;
        let room = room.get_mut(start..end).unwrap_or_default();
        // What a reader claims beyond what it was given to fill is not believed.
        let came = reader.read(room)?.min(most);
        self.len += came;
        Ok(came)
    }
}

/// Adds what is written to the end. To read, take [`PinnedVec::try_as_slice`]: a slice of bytes is a reader.
impl io::Write for PinnedVec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
