//! Memory the program owns, made usable in copies for a while.

#![expect(
    unsafe_code,
    reason = "a box is taken apart while the device may write it, and put together after"
)]

use crate::{
    Leftovers, PinnedError,
    leftovers::{Leftover, RegisteredBox, Remains},
    source::Source,
    visible::Visible,
};
use bytemuck::Pod;
use piton_driver::DevicePtr;
use piton_timeline::{Frontier, Timeline, Timepoint};
use std::{alloc::Layout, fmt, marker::PhantomData, ptr::NonNull, sync::Arc};

/// An operation refused, with the memory it was about.
#[derive(Debug)]
pub struct Refused<T> {
    /// What was handed in, unchanged.
    pub memory: T,
    /// Why.
    pub error: PinnedError,
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for Refused<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Memory of the program's own, locked and known to the driver for as long as this guard lives.
///
/// The guard owns the memory and gives it back by [`into_inner`](Self::into_inner). Dropped while a device uses it,
/// the memory moves to the pool's [`Leftovers`]; nothing blocks. Elements are plain data ([`Pod`]): a device writes any bytes
/// it likes.
#[derive(Debug)]
pub struct RegisteredMemory<T> {
    visible: Visible,
    /// Absent once the box was given back. Its layout is that of a boxed slice of `T`.
    registered: Option<RegisteredBox>,
    elements: PhantomData<T>,
    source: Arc<Source>,
    timeline: Arc<Timeline>,
    leftovers: Leftovers,
}

impl<T: Pod> RegisteredMemory<T> {
    pub(crate) fn new(
        memory: Box<[T]>,
        source: Arc<Source>,
        timeline: Arc<Timeline>,
        leftovers: Leftovers,
    ) -> Result<Self, Refused<Box<[T]>>> {
        let layout = Layout::for_value(&*memory);
        let bytes = layout.size();
        if bytes == 0 {
            let error = PinnedError::nothing();
            return Err(Refused { memory, error });
        }
        let whole = NonNull::from(Box::leak(memory));
        let start: NonNull<u8> = whole.cast();
        // SAFETY: a box is valid memory and stays mapped until it is freed, which is after it was unregistered; a box
        // just handed in whole is not registered by anyone who follows this contract.
        if let Err(error) = unsafe { source.register(start, bytes) } {
            // SAFETY: it was a box until two lines ago, and the driver did not take it.
            let memory = unsafe { Box::from_raw(whole.as_ptr()) };
            return Err(Refused { memory, error });
        }
        Ok(Self {
            // SAFETY: the memory was a box's: valid, initialised, and from here on reached through this value only. No
            // device knew it before.
            visible: unsafe { Visible::new(start, bytes) },
            // INVARIANT: out of a box, just registered, referred to by nothing else.
            registered: Some(RegisteredBox { start, layout }),
            elements: PhantomData,
            source,
            timeline,
            leftovers,
        })
    }

    /// Undoes the registration and gives the memory back. May block on the driver, not on the device.
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete; [`PinnedError::Driver`] if the driver refuses.
    /// The guard comes back with the error.
    #[expect(
        clippy::result_large_err,
        reason = "a refusal hands the guard itself back, and is rare"
    )]
    pub fn into_inner(mut self) -> Result<Box<[T]>, Refused<Self>> {
        if let Err(error) = self.try_as_mut_slice().map(drop) {
            return Err(Refused {
                memory: self,
                error,
            });
        }
        let (len, source) = (self.len(), Arc::clone(&self.source));
        let Some(registered) = self.registered.take() else {
            return Ok(Box::default());
        };
        // SAFETY: all recorded uses are complete.
        if let Err(error) = unsafe { registered.unregister(&source) } {
            self.registered = Some(registered);
            return Err(Refused {
                memory: self,
                error,
            });
        }
        let elements = NonNull::slice_from_raw_parts(registered.start.cast::<T>(), len);
        // SAFETY: it came out of a box of as many elements of `T` (the type), which nothing refers to any more.
        Ok(unsafe { Box::from_raw(elements.as_ptr()) })
    }

    /// First byte, for commands that name the memory.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.visible.start()
    }

    /// Where kernels of the device read and write the memory without a copy; none if they cannot. As
    /// [`PinnedBlock::device_address`](crate::PinnedBlock::device_address).
    pub fn device_address(&self) -> Option<DevicePtr> {
        self.source.device_address(self.as_ptr())
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.visible.bytes()
    }

    /// How many elements there are; never zero.
    #[expect(
        clippy::len_without_is_empty,
        reason = "memory without elements is refused"
    )]
    pub fn len(&self) -> usize {
        self.bytes() / size_of::<T>().max(1)
    }

    /// As [`PinnedBlock::try_as_slice`](crate::PinnedBlock::try_as_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn try_as_slice(&self) -> Result<&[T], PinnedError> {
        let bytes = self.visible.as_slice(&self.timeline)?;
        Ok(bytemuck::try_cast_slice(bytes).unwrap_or_default())
    }

    /// As [`PinnedBlock::try_as_mut_slice`](crate::PinnedBlock::try_as_mut_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete.
    pub fn try_as_mut_slice(&mut self) -> Result<&mut [T], PinnedError> {
        let bytes = self.visible.as_mut_slice(&self.timeline)?;
        Ok(bytemuck::try_cast_slice_mut(bytes).unwrap_or_default())
    }

    /// As [`PinnedBlock::record_read`](crate::PinnedBlock::record_read).
    pub fn record_read(&self, point: Timepoint) {
        self.visible.record_read(point);
    }

    /// As [`PinnedBlock::record_write`](crate::PinnedBlock::record_write).
    pub fn record_write(&mut self, point: Timepoint) {
        self.visible.record_write(point);
    }

    /// Every device use recorded.
    pub fn uses(&self) -> Frontier {
        self.visible.uses()
    }
}

impl<T> Drop for RegisteredMemory<T> {
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        let Some(registered) = self.registered.take() else {
            return;
        };
        self.leftovers.keep(Leftover {
            source: Arc::clone(&self.source),
            timeline: Arc::clone(&self.timeline),
            remains: Remains::Registered(registered),
            uses: self.visible.uses(),
        });
    }
}
