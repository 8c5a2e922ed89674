//! Memory that the program has and keeps, made usable in copies for a scope.
//!
//! # The problem
//! A guard over borrowed memory would have to undo the registration, and wait for the device, when it is dropped. It
//! need not be dropped: forgetting it is safe, and the borrow would end while the device still writes.
//!
//! # The idea
//! The guard stays here, and a closure gets a view of it. However the closure ends, returning or unwinding, and whatever it
//! did with the view, the guard's destructor runs behind it: it waits until every recorded use is complete, then undoes the
//! registration, and only then does the borrow end. How to wait is the caller's to say, since this crate knows no streams; that it
//! was waited long enough is asked here, each time.

#![expect(
    unsafe_code,
    reason = "borrowed memory is registered, and reached by devices until the scope's end"
)]

use crate::{PinnedError, PinnedPool, source::Source, visible::Visible};
use bytemuck::Pod;
use piton_driver::DevicePtr;
use piton_sync::thread;
use piton_timeline::{Frontier, Timeline, Timepoint};
use std::{marker::PhantomData, ptr::NonNull, sync::Arc};

/// Borrowed memory that is registered. Dropped, it waits for the device by asking, and undoes that.
#[derive(Debug)]
struct Registration {
    visible: Visible,
    source: Arc<Source>,
    timeline: Arc<Timeline>,
}

/// A scope: waits as it was told before the registration ends.
struct Scope<W: FnMut(&Frontier)> {
    registration: Registration,
    wait: W,
}

/// The program's own memory in a scope of [`PinnedPool::lend`]: page-locked, and known to the driver.
///
/// A view: dropping or forgetting it does nothing, and it cannot leave the scope. Reached like a
/// [`PinnedBlock`](crate::PinnedBlock): by the host as far as no recorded use conflicts, by commands whose uses are recorded.
#[derive(Debug)]
pub struct LentMemory<'scope, T> {
    registration: &'scope mut Registration,
    elements: PhantomData<&'scope mut [T]>,
}

impl PinnedPool {
    /// Lends memory to the device for as long as `act` runs, and until every use recorded in it is complete: page-locked where it
    /// is, and the program's again when this returns. For memory that cannot be [given away](Self::register) meanwhile.
    ///
    /// Blocks on the driver, and at the end on the device: `wait` is called with the uses that are not complete as long as
    /// there are any, and may return early. What it waits for must not depend on what this thread would do next. A refusal to
    /// let the memory go is told to the device, and it stays locked.
    ///
    /// # Errors
    /// [`PinnedError::InvalidSize`] for no memory, [`PinnedError::Driver`]; `act` was not called then.
    ///
    /// # Example
    /// The view does not leave the scope:
    /// ```compile_fail
    /// # fn main() {}
    /// fn escape<'a>(pool: &piton_pinned::PinnedPool, memory: &'a mut [u8]) {
    ///     let lent = pool.lend(memory, |_| (), |lent| lent);
    /// }
    /// ```
    pub fn lend<T: Pod, R>(
        &self,
        memory: &mut [T],
        wait: impl FnMut(&Frontier),
        act: impl FnOnce(LentMemory<'_, T>) -> R,
    ) -> Result<R, PinnedError> {
        let (source, timeline) = self.shared();
        if timeline.is_forked() {
            return Err(source.refuse_in_fork());
        }
        let bytes = size_of_val(memory);
        if bytes == 0 {
            return Err(PinnedError::nothing());
        }
        let start = NonNull::from(memory).cast::<u8>();
        // SAFETY: borrowed memory is valid and stays where it is until the borrow ends, which is after the scope below has
        // undone this. That it is registered by nobody else is for the driver to say, as for a box.
        unsafe { source.register(start, bytes) }?;
        let registration = Registration {
            // SAFETY: plain elements, borrowed exclusively and initialised; no device knew them before.
            visible: unsafe { Visible::new(start, bytes) },
            source,
            timeline,
        };
        let mut scope = Scope { registration, wait };
        Ok(act(LentMemory {
            registration: &mut scope.registration,
            elements: PhantomData,
        }))
    }
}

impl Registration {
    /// What has to be waited for.
    fn pending(&self) -> Frontier {
        let mut uses = self.visible.uses();
        uses.retain_pending(&self.timeline);
        uses
    }
}

impl<W: FnMut(&Frontier)> Drop for Scope<W> {
    fn drop(&mut self) {
        if self.registration.timeline.is_forked() {
            return;
        }
        loop {
            let pending = self.registration.pending();
            if pending.is_empty() {
                return;
            }
            // If this unwinds, the registration still asks for itself.
            (self.wait)(&pending);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            return;
        }
        while !self.pending().is_empty() {
            thread::yield_now();
        }
        // SAFETY: it was registered when this was made, and every use is complete.
        let let_go = unsafe { self.source.unregister(self.visible.start()) };
        if let Err(PinnedError::Driver(error)) = let_go {
            self.source.record(error);
        }
    }
}

impl<T: Pod> LentMemory<'_, T> {
    /// First byte, for commands that name the memory.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.registration.visible.start()
    }

    /// Where kernels of the device read and write the memory without a copy; none if they cannot.
    pub fn device_address(&self) -> Option<DevicePtr> {
        self.registration.source.device_address(self.as_ptr())
    }

    /// As [`PinnedBlock::try_as_slice`](crate::PinnedBlock::try_as_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device write is not complete.
    pub fn try_as_slice(&self) -> Result<&[T], PinnedError> {
        let registration = &*self.registration;
        let bytes = registration.visible.as_slice(&registration.timeline)?;
        Ok(bytemuck::try_cast_slice(bytes).unwrap_or_default())
    }

    /// As [`PinnedBlock::try_as_mut_slice`](crate::PinnedBlock::try_as_mut_slice).
    ///
    /// # Errors
    /// [`PinnedError::InUse`] while a recorded device use is not complete.
    pub fn try_as_mut_slice(&mut self) -> Result<&mut [T], PinnedError> {
        let registration = &mut *self.registration;
        let bytes = registration.visible.as_mut_slice(&registration.timeline)?;
        Ok(bytemuck::try_cast_slice_mut(bytes).unwrap_or_default())
    }

    /// As [`PinnedBlock::record_read`](crate::PinnedBlock::record_read).
    pub fn record_read(&self, point: Timepoint) {
        self.registration.visible.record_read(point);
    }

    /// As [`PinnedBlock::record_write`](crate::PinnedBlock::record_write).
    pub fn record_write(&mut self, point: Timepoint) {
        self.registration.visible.record_write(point);
    }

    /// Every device write recorded.
    pub fn writes(&self) -> &Frontier {
        self.registration.visible.writes()
    }

    /// Every device use recorded.
    pub fn uses(&self) -> Frontier {
        self.registration.visible.uses()
    }
}
