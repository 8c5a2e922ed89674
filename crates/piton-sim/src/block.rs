//! What a kernel sees: one block of its grid, its arguments, and device memory in checked slices.
//!
//! # Why slices are sound
//! A slice is handed out only after four checks: it lies within what the launch said the buffer reaches, the
//! bytes are mapped in the device that owns them (`AddressSpace::resolve`), the address suits the element type,
//! and no other slice of this launch conflicts ([`Claims`](crate::claims::Claims)). Other commands do not use the bytes meanwhile: whoever submitted the
//! launch promised that (`Queue::launch`). Slices live no longer than the block's borrow, and the launch does
//! not end before its blocks have returned.

#![expect(unsafe_code, reason = "turns checked device ranges into slices")]

use crate::grid::GridJob;
use bytemuck::{AnyBitPattern, Pod};
use piton_driver::{Access, DevicePtr, DeviceRange, Fault, Grid, Parameter};
use std::{ops::Range, slice};

/// Which block of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockIndex {
    /// Along x, below [`Grid::x`].
    pub x: u32,
    /// Along y, below [`Grid::y`].
    pub y: u32,
    /// Along z, below [`Grid::z`].
    pub z: u32,
}

/// One block of a launch.
#[derive(Debug)]
pub struct Block<'a> {
    job: &'a GridJob<'a>,
    index: BlockIndex,
}

impl<'a> Block<'a> {
    pub(crate) fn new(job: &'a GridJob<'a>, number: u64) -> Self {
        let (x, y) = (u64::from(job.grid.x), u64::from(job.grid.y));
        let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let index = BlockIndex {
            x: part(number % x),
            y: part(number / x % y),
            z: part(number / x / y),
        };
        Self { job, index }
    }

    /// Which block this is.
    pub fn index(&self) -> BlockIndex {
        self.index
    }

    /// How many blocks there are.
    pub fn grid(&self) -> Grid {
        self.job.grid
    }

    /// Whether the launch's queue was aborted after the launch had started. Blocks that have not started do not then; one
    /// that runs long looks here now and then, and returns: nobody stops it otherwise.
    pub fn is_aborted(&self) -> bool {
        self.job.is_aborted()
    }

    /// The argument passed by value as parameter `index`: a number or a struct of tiling data.
    ///
    /// # Errors
    /// [`Fault::WrongArgument`] if that parameter is not a value of `T`'s size.
    pub fn value<T: AnyBitPattern>(&self, index: u32) -> Result<T, Fault> {
        match self.parameter(index)? {
            Parameter::Value { bytes, .. } if bytes as usize == size_of::<T>() => {}
            _ => return Err(Fault::WrongArgument { index }),
        }
        Ok(bytemuck::pod_read_unaligned(
            self.packed(index, size_of::<T>())?,
        ))
    }

    /// Elements `elements` of the buffer passed as parameter `index`, to read.
    ///
    /// # Errors
    /// [`Fault::WrongArgument`], [`Fault::OutOfBounds`], [`Fault::Misaligned`], and [`Fault::Race`] if any of
    /// the bytes is written by this launch.
    pub fn read<T: Pod>(&self, index: u32, elements: Range<u64>) -> Result<&[T], Fault> {
        let range = self.range::<T>(index, Access::Read, &elements)?;
        let Some(range) = range else { return Ok(&[]) };
        let (start, count) = self.resolve::<T>(range)?;
        if !self.job.claims.read(range) {
            return Err(Fault::Race {
                address: range.start,
                bytes: range.bytes,
            });
        }
        // SAFETY: `resolve` found `count` elements mapped and aligned; the claim says that no exclusive slice
        // of this launch holds any of them, and the launch's submitter that nobody else writes them. Any
        // bytes are a `T: Pod`.
        Ok(unsafe { slice::from_raw_parts(start, count) })
    }

    /// Elements `elements` of the buffer passed as parameter `index`, to write. They hold what is there.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Fault::WrongArgument`] for a buffer declared read only; [`Fault::Race`] if
    /// any of the bytes is used by this launch already, by this block or another.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by its claim, which is never given twice"
    )]
    pub fn write<T: Pod>(&self, index: u32, elements: Range<u64>) -> Result<&mut [T], Fault> {
        let range = self.range::<T>(index, Access::Write, &elements)?;
        let Some(range) = range else {
            return Ok(&mut []);
        };
        let (start, count) = self.resolve::<T>(range)?;
        if !self.job.claims.write(range) {
            return Err(Fault::Race {
                address: range.start,
                bytes: range.bytes,
            });
        }
        // SAFETY: as in `read`; the claim says that no other slice of this launch holds any of the elements.
        Ok(unsafe { slice::from_raw_parts_mut(start.cast_mut(), count) })
    }

    fn parameter(&self, index: u32) -> Result<Parameter, Fault> {
        let parameters = self.job.kernel.definition.signature().parameters();
        parameters
            .get(index as usize)
            .copied()
            .ok_or(Fault::WrongArgument { index })
    }

    fn packed(&self, index: u32, bytes: usize) -> Result<&[u8], Fault> {
        let offset = self
            .job
            .kernel
            .definition
            .signature()
            .offset(index as usize);
        let start = offset.and_then(|offset| usize::try_from(offset).ok());
        start
            .and_then(|start| self.job.arguments.get(start..start.checked_add(bytes)?))
            .ok_or(Fault::WrongArgument { index })
    }

    /// The bytes of some elements of a buffer; `None` if there are none.
    fn range<T>(
        &self,
        index: u32,
        wanted: Access,
        elements: &Range<u64>,
    ) -> Result<Option<DeviceRange>, Fault> {
        let size = size_of::<T>() as u64;
        match self.parameter(index)? {
            Parameter::Buffer {
                access,
                element_bytes,
            } if u64::from(element_bytes) == size
                && size > 0
                && (access == Access::Write || wanted == Access::Read) => {}
            _ => return Err(Fault::WrongArgument { index }),
        }
        let base = DevicePtr::new(bytemuck::pod_read_unaligned(self.packed(index, 8)?));
        if elements.start >= elements.end {
            return Ok(None);
        }
        let skipped = elements.start.checked_mul(size);
        let bytes = (elements.end - elements.start).checked_mul(size);
        let start = skipped.and_then(|skipped| base.checked_add(skipped));
        let end = elements
            .end
            .checked_mul(size)
            .filter(|end| *end <= self.extent(index));
        match (start, bytes, end) {
            (Some(start), Some(bytes), Some(_)) => Ok(Some(DeviceRange { start, bytes })),
            (start, bytes, _) => Err(Fault::OutOfBounds {
                address: start.unwrap_or(base),
                bytes: bytes.unwrap_or(u64::MAX),
            }),
        }
    }

    /// How many bytes the buffer passed as parameter `index` reaches, as far as the launch says.
    fn extent(&self, index: u32) -> u64 {
        let signature = self.job.kernel.definition.signature();
        let packed = usize::try_from(signature.packed_bytes()).unwrap_or(usize::MAX);
        let at = packed.saturating_add(8 * signature.buffers_before(index as usize));
        let bytes = self.job.arguments.get(at..at.saturating_add(8));
        bytes.map_or(u64::MAX, bytemuck::pod_read_unaligned)
    }

    fn resolve<T>(&self, range: DeviceRange) -> Result<(*const T, usize), Fault> {
        let outside = Fault::OutOfBounds {
            address: range.start,
            bytes: range.bytes,
        };
        let alignment = align_of::<T>() as u64;
        if !range.start.is_aligned_to(alignment) {
            return Err(Fault::Misaligned {
                address: range.start,
                alignment,
            });
        }
        let start = self
            .job
            .device
            .resolve_reachable(range)
            .map_err(|_| outside)?;
        let bytes = usize::try_from(range.bytes).map_err(|_| outside)?;
        // Device addresses and window addresses agree modulo the page, so the pointer is aligned too.
        Ok((start.as_ptr().cast_const().cast(), bytes / size_of::<T>()))
    }
}
