//! Which native queue a queue of the contract is on.
//!
//! OpenCL has as many queues as one likes and says nothing of the hardware under them. The contract counts *hardware
//! queues* that do not run two things at once; an in-order queue of OpenCL is just that. So a device has a fixed number
//! of native queues, made when first needed, and several of ours may share one: nothing that waits for the host is ever
//! handed to them (see `queue`), so sharing costs order and never a deadlock.

use crate::ffi::NativeQueue;
use piton_driver::{ErrorKind, HardwareQueue, Placement, ResourceKind};
use piton_sync::Mutex;
use std::sync::Arc;

/// Native queues of a device.
pub(crate) const COUNT: u32 = 16;

#[derive(Debug, Default)]
struct Slot {
    users: u32,
    is_exclusive: bool,
    native: Option<Arc<NativeQueue>>,
}

/// The native queues of a device and who is on them.
#[derive(Debug)]
pub(crate) struct Places(Mutex<Vec<Slot>>);

/// A place on a native queue, left when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    index: usize,
    pub(crate) native: Arc<NativeQueue>,
}

/// Why there is no place.
pub(crate) enum NoPlace {
    /// The contract says so.
    Refused(ErrorKind),
    /// OpenCL does.
    Native(crate::status::Status),
}

impl Places {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(
            (0..COUNT).map(|_| Slot::default()).collect(),
        )))
    }

    /// A place as `placement` says; `create` makes the native queue where there is none yet.
    pub(crate) fn take(
        self: &Arc<Self>,
        placement: Placement,
        create: impl FnOnce() -> crate::ffi::Called<NativeQueue>,
    ) -> Result<Place, NoPlace> {
        let mut slots = self.0.lock();
        let index = choose(&slots, placement).map_err(NoPlace::Refused)?;
        let slot = &mut slots[index];
        let native = match &slot.native {
            Some(native) => Arc::clone(native),
            None => Arc::new(create().map_err(NoPlace::Native)?),
        };
        slot.native = Some(Arc::clone(&native));
        slot.users += 1;
        slot.is_exclusive = placement == Placement::Exclusive;
        drop(slots);
        Ok(Place {
            places: Arc::clone(self),
            index,
            native,
        })
    }
}

/// The slot that a placement means.
fn choose(slots: &[Slot], placement: Placement) -> Result<usize, ErrorKind> {
    let exhausted = ErrorKind::OutOfResources {
        resource: ResourceKind::HardwareQueues,
        limit: COUNT.into(),
    };
    let open = || {
        slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| !slot.is_exclusive)
    };
    match placement {
        Placement::LeastLoaded => open()
            .min_by_key(|(_, slot)| slot.users)
            .map(|(index, _)| index)
            .ok_or(exhausted),
        Placement::Exclusive => open()
            .find(|(_, slot)| slot.users == 0)
            .map(|(index, _)| index)
            .ok_or(exhausted),
        Placement::Explicit(HardwareQueue(number)) => {
            let (index, limit) = (u64::from(number), COUNT.into());
            match slots.get(number as usize) {
                None => Err(ErrorKind::InvalidIndex { index, limit }),
                Some(slot) if slot.is_exclusive => Err(exhausted),
                Some(_) => Ok(number as usize),
            }
        }
    }
}

impl Place {
    /// The number of the native queue.
    pub(crate) fn number(&self) -> HardwareQueue {
        HardwareQueue(u32::try_from(self.index).unwrap_or(u32::MAX))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut slots = self.places.0.lock();
        let slot = &mut slots[self.index];
        slot.users -= 1;
        slot.is_exclusive = false;
    }
}
