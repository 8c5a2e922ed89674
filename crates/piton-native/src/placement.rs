//! Which native queue a queue of the contract is on.
//!
//! Vendors have as many queues as one likes and say nothing of the hardware under them. The contract counts *hardware
//! queues* that do not run two things at once; an in-order queue of a vendor's is just that. So a device has a fixed number
//! of places with a native queue each, made when first needed, and several of ours may share one: nothing that waits for the
//! host is ever handed to them (see `queue`), so sharing costs order and never a deadlock. A native queue has one priority;
//! where queues of several share a place, it has a native queue for each.

use piton_driver::{ErrorKind, HardwareQueue, Placement, Priority, ResourceKind};
use piton_sync::Mutex;
use std::sync::Arc;

/// Places of a device, which are the hardware queues that its limits say it has.
pub const HARDWARE_QUEUES: u32 = 16;

#[derive(Debug)]
struct Slot<Q> {
    users: u32,
    is_exclusive: bool,
    natives: Vec<(Priority, Arc<Q>)>,
}

/// The native queues of a device and who is on them.
#[derive(Debug)]
pub(crate) struct Places<Q>(Mutex<Vec<Slot<Q>>>);

/// A place on a native queue, left when dropped.
#[derive(Debug)]
pub(crate) struct Place<Q> {
    places: Arc<Places<Q>>,
    index: usize,
    pub(crate) native: Arc<Q>,
}

/// Why there is no place.
pub(crate) enum NoPlace<S> {
    /// The contract says so.
    Refused(ErrorKind),
    /// The vendor does.
    Native(S),
}

impl<Q> Places<Q> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(
            (0..HARDWARE_QUEUES)
                .map(|_| Slot {
                    users: 0,
                    is_exclusive: false,
                    natives: Vec::new(),
                })
                .collect(),
        )))
    }

    /// A place as `placement` says; `create` makes the native queue where there is none yet.
    pub(crate) fn take<S>(
        self: &Arc<Self>,
        placement: Placement,
        priority: Priority,
        create: impl FnOnce() -> Result<Q, S>,
    ) -> Result<Place<Q>, NoPlace<S>> {
        let mut slots = self.0.lock();
        let index = choose(&slots, placement).map_err(NoPlace::Refused)?;
        let slot = &mut slots[index];
        let known = slot.natives.iter().find(|(of, _)| *of == priority);
        let native = match known {
            Some((_, native)) => Arc::clone(native),
            None => {
                let native = Arc::new(create().map_err(NoPlace::Native)?);
                slot.natives.push((priority, Arc::clone(&native)));
                native
            }
        };
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
fn choose<Q>(slots: &[Slot<Q>], placement: Placement) -> Result<usize, ErrorKind> {
    let exhausted = ErrorKind::OutOfResources {
        resource: ResourceKind::HardwareQueues,
        limit: HARDWARE_QUEUES.into(),
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
            let (index, limit) = (u64::from(number), HARDWARE_QUEUES.into());
            match slots.get(number as usize) {
                None => Err(ErrorKind::InvalidIndex { index, limit }),
                Some(slot) if slot.is_exclusive => Err(exhausted),
                Some(_) => Ok(number as usize),
            }
        }
    }
}

impl<Q> Place<Q> {
    /// The number of the native queue.
    pub(crate) fn number(&self) -> HardwareQueue {
        HardwareQueue(u32::try_from(self.index).unwrap_or(u32::MAX))
    }
}

impl<Q> Drop for Place<Q> {
    fn drop(&mut self) {
        let mut slots = self.places.0.lock();
        let slot = &mut slots[self.index];
        slot.users -= 1;
        slot.is_exclusive = false;
    }
}
