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
use piton_timeline::{Frontier, Timeline, Timepoint};
use std::{fmt, ptr::NonNull, sync::Arc};

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
/// the memory moves to the pool's [`Leftovers`]; nothing blocks.
#[derive(Debug)]
pub struct RegisteredMemory {
    visible: Visible,
    /// Absent once the box was given back.
    registered: Option<RegisteredBox>,
    source: Arc<Source>,
    timeline: Arc<Timeline>,
    leftovers: Leftovers,
}

impl RegisteredMemory {
    pub(crate) fn new(
        memory: Box<[u8]>,
        source: Arc<Source>,
        timeline: Arc<Timeline>,
        leftovers: Leftovers,
    ) -> Result<Self, Refused<Box<[u8]>>> {
        if memory.is_empty() {
            let error = PinnedError::InvalidSize {
                given: 0,
                maximum: isize::MAX as u64,
            };
            return Err(Refused { memory, error });
        }
        let bytes = memory.len();
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
            registered: Some(RegisteredBox { memory: whole }),
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
    pub fn into_inner(mut self) -> Result<Box<[u8]>, Refused<Self>> {
        if let Err(error) = self.try_as_mut_slice().map(drop) {
            return Err(Refused {
                memory: self,
                error,
            });
        }
        let Some(registered) = self.registered.take() else {
            return Ok(Box::default());
        };
        // SAFETY: all recorded uses are complete, and `registered` ends here unless this fails.
        match unsafe { registered.unregister(&self.source) } {
            Ok(memory) => Ok(memory),
            Err(error) => {
                self.registered = Some(registered);
                Err(Refused {
                    memory: self,
                    error,
                })
            }
        }
    }

    /// First byte, for commands that name the memory.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.visible.start()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.visible.bytes()
    }

    /// As [`PinnedBlock::try_as_slice`](crate::PinnedBlock::try_as_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn try_as_slice(&self) -> Result<&[u8], PinnedError> {
        self.visible.as_slice(&self.timeline)
    }

    /// As [`PinnedBlock::try_as_mut_slice`](crate::PinnedBlock::try_as_mut_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete.
    pub fn try_as_mut_slice(&mut self) -> Result<&mut [u8], PinnedError> {
        self.visible.as_mut_slice(&self.timeline)
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

impl Drop for RegisteredMemory {
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
