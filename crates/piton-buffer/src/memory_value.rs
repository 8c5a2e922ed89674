//! Waits for a value in a buffer, and writes of one, in a stream's order.
//!
//! # The idea
//! One element of a buffer is a flag: streams wait for it and write it. A wait comes after whatever filled the buffer,
//! and has no order to [`write_value`](Stream::write_value), which is what ends it, whether submitted before or after.
//! To everything else it is a read: a copy or a kernel that writes the buffer starts when the wait has ended, and the
//! buffer's memory is nobody else's before. Words of two sizes are ordered: see `uses.rs`.

#![expect(
    unsafe_code,
    reason = "submits waits and writes of words that it has checked and ordered"
)]

use crate::{BufferError, DeviceSlice, DeviceSliceMut, Stream, stream::Use, uses::UseKind};
use bytemuck::Pod;
use piton_driver::{Command, Comparison, DevicePtr, MemoryWait, MemoryWord};

/// An element that streams wait for and write: `u32` or `u64`.
pub trait Word: sealed::Sealed {}

impl Word for u32 {}
impl Word for u64 {}

mod sealed {
    use super::{MemoryWord, Pod};

    /// Sealed, since the size of what is read and written in memory is believed to be the element's.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed: Pod {
        fn in_memory(self) -> MemoryWord;
    }

    impl Sealed for u32 {
        fn in_memory(self) -> MemoryWord {
            MemoryWord::U32(self)
        }
    }

    impl Sealed for u64 {
        fn in_memory(self) -> MemoryWord {
            MemoryWord::U64(self)
        }
    }
}

impl Stream {
    /// Later work of this stream starts when element `index` compares so with `value`. Holds no host thread. Nothing
    /// bounds the wait but an [`abort`](Self::abort), or a [watchdog](crate::DeviceContext::watchdog).
    ///
    /// It is ended by a [`write_value`](Self::write_value) of another stream. Work of other kinds that writes the buffer
    /// and is submitted later comes after the wait, so it cannot be what ends it.
    ///
    /// # Errors
    /// [`OutOfRange`](BufferError::OutOfRange), [`OtherDevice`](BufferError::OtherDevice),
    /// [`OtherRuntime`](BufferError::OtherRuntime); [`Stream`](BufferError::Stream) where the device waits for no
    /// values, and what the stream refuses. Nothing was submitted.
    #[track_caller]
    pub fn wait_value<'a, W: Word>(
        &self,
        flags: impl Into<DeviceSlice<'a, W>>,
        index: u64,
        comparison: Comparison,
        value: W,
    ) -> Result<(), BufferError> {
        let flags = flags.into();
        let at = element::<W>(flags.ptr(), flags.len(), index)?;
        let wait = MemoryWait {
            at,
            comparison,
            value: value.in_memory(),
        };
        let uses = [Use::of(flags.memory, UseKind::WaitWord)];
        let ordered = self.order(&uses)?;
        // SAFETY: the word is an element of a buffer of this device (`element` and `order` check), aligned as `W` is,
        // kept alive by the use noted in it. It comes after what has written the buffer in parts, and what will write it
        // so comes after the wait; meanwhile whole words are written, of this size.
        unsafe { self.submit_ordered(ordered, &Command::WaitMemory(wait))? };
        Ok(())
    }

    /// Writes `value` to element `index` when all earlier work of this stream has ended, and after the uses of the
    /// buffer that it depends on, waits for values excepted: those it sets going. After a failure of the stream it is not
    /// written.
    ///
    /// # Errors
    /// As [`wait_value`](Self::wait_value).
    #[track_caller]
    pub fn write_value<'a, W: Word>(
        &self,
        flags: impl Into<DeviceSliceMut<'a, W>>,
        index: u64,
        value: W,
    ) -> Result<(), BufferError> {
        let flags = flags.into();
        let at = element::<W>(flags.ptr(), flags.len(), index)?;
        let value = value.in_memory();
        let command = Command::WriteMemory { at, value };
        let uses = [Use::of(flags.memory, UseKind::WriteWord)];
        let ordered = self.order(&uses)?;
        // SAFETY: as in `wait_value`; all that uses the buffer at the same time are waits for such words. The borrow is
        // exclusive, so no use is submitted between the look at the record and the note in it.
        unsafe { self.submit_ordered(ordered, &command)? };
        Ok(())
    }
}

/// The address of an element.
fn element<W>(start: DevicePtr, len: u64, index: u64) -> Result<DevicePtr, BufferError> {
    let is_there = index < len;
    let offset = index.checked_mul(size_of::<W>() as u64);
    let at = offset.and_then(|offset| start.checked_add(offset));
    at.filter(|_| is_there).ok_or(BufferError::OutOfRange {
        start: index,
        end: index.saturating_add(1),
        len,
    })
}
