//! Times of events: slots of the device's timestamp pools, used again and again.
//!
//! # The idea
//! A slot belongs to one lane for good. When its event is read or dropped it goes back to the lane, even if the
//! device has not written it yet: the next use of the slot is a later command of the same lane, so it is
//! written after. A slot is read only when its event is complete, so what is read is its own time.
//!
//! What an event keeps its time in is used again too, once no copy of the event is left: a record asks the heap for nothing
//! as long as there are not more events than there were.

#![expect(unsafe_code, reason = "submits commands that name no memory")]

use crate::{
    Event, Facet, Offence, Stream, StreamError, Submission,
    admission::{Admitting, Work},
    witness::Submitted,
};
use piton_driver::{Command, DriverError, Operation, Origin, TimestampPool, Timestamps};
use piton_sync::Mutex;
use piton_timeline::Timeline;
use std::{fmt, future::Future, mem, panic::Location, sync::Arc};

/// Slots asked of the device at a time.
const SLOTS: u32 = 64;

/// What one lane uses again.
pub(crate) struct Stamps {
    timeline: Arc<Timeline>,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    slots: Vec<(Arc<dyn TimestampPool>, u32)>,
    /// Of events that are gone; no more than a pool has slots. Each is held here alone, and holds no slot.
    stamps: Vec<Arc<Stamp>>,
}

impl fmt::Debug for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamps")
            .field("free", &self.free.lock().slots.len())
            .finish()
    }
}

impl Stamps {
    /// None yet, for a lane of this timeline.
    pub(crate) fn new(timeline: &Arc<Timeline>) -> Self {
        Self {
            timeline: Arc::clone(timeline),
            free: Mutex::default(),
        }
    }

    fn take(self: &Arc<Self>, facet: &dyn Timestamps) -> Result<Slot, DriverError> {
        let free = self.free.lock().slots.pop();
        let (pool, index) = match free {
            Some(slot) => slot,
            None => (self.grow(facet)?, 0),
        };
        Ok(Slot {
            home: Arc::clone(self),
            pool,
            index,
        })
    }

    /// A new pool, whose slots but the first are free. The driver is called under no lock: two threads at once
    /// make two pools.
    fn grow(&self, facet: &dyn Timestamps) -> Result<Arc<dyn TimestampPool>, DriverError> {
        let pool = facet.create(SLOTS)?;
        let others = (1..SLOTS).rev().map(|index| (Arc::clone(&pool), index));
        let mut free = self.free.lock();
        // Room for the first, too, which comes home one day.
        free.slots.reserve(SLOTS as usize);
        free.slots.extend(others);
        drop(free);
        Ok(pool)
    }

    /// What an event keeps the time in that the slot will hold.
    fn stamp(&self, slot: Slot) -> Arc<Stamp> {
        let used = self.free.lock().stamps.pop();
        let held = Held::Slot(slot);
        match used {
            Some(stamp) => {
                *stamp.held.lock() = held;
                stamp
            }
            None => Arc::new(Stamp {
                held: Mutex::new(held),
            }),
        }
    }

    /// An event of the lane is gone. If it was the last with this stamp, that is used again, and its slot is free. Of two that
    /// go at once neither may find itself the last: then the stamp is dropped as usual.
    pub(crate) fn take_back(&self, mut stamp: Arc<Stamp>) {
        if self.timeline.is_forked() || Arc::get_mut(&mut stamp).is_none() {
            return;
        }
        let before = mem::replace(&mut *stamp.held.lock(), Held::Read(None));
        drop(before);
        let mut free = self.free.lock();
        if free.stamps.len() < SLOTS as usize {
            free.stamps.push(stamp);
        }
    }
}

/// A slot in use; goes home when dropped.
struct Slot {
    home: Arc<Stamps>,
    pool: Arc<dyn TimestampPool>,
    index: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.home.timeline.is_forked() {
            return;
        }
        let slot = (Arc::clone(&self.pool), self.index);
        self.home.free.lock().slots.push(slot);
    }
}

enum Held {
    /// In the device's slot.
    Slot(Slot),
    /// Read out, in nanoseconds.
    Read(Option<u64>),
}

/// The time of one event.
pub(crate) struct Stamp {
    held: Mutex<Held>,
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamp").finish_non_exhaustive()
    }
}

impl Stamp {
    /// Reads the time of a complete event; the first read gives the slot back.
    pub(crate) fn read(&self) -> Result<Option<u64>, DriverError> {
        let mut held = self.held.lock();
        let slot = match &*held {
            Held::Read(time) => return Ok(*time),
            Held::Slot(slot) => slot,
        };
        let time = slot.pool.read(slot.index)?;
        let before = mem::replace(&mut *held, Held::Read(time));
        drop(held);
        drop(before);
        Ok(time)
    }
}

impl Stream {
    /// As [`record`](Stream::record), with the device's time when the place is reached. Submits one command.
    ///
    /// # Errors
    /// [`Unsupported`](StreamError::Unsupported) where the device has no clock; otherwise as every submission.
    #[track_caller]
    pub fn record_timed(&self) -> Result<Event, StreamError> {
        self.admit(StampWork::default(), Location::caller())
    }

    /// As [`record_timed`](Self::record_timed), and never blocks.
    ///
    /// # Errors
    /// As [`record_timed`](Self::record_timed), without the two about room.
    #[track_caller]
    pub fn try_record_timed(&self) -> Result<Submission<Event>, StreamError> {
        StampWork::default().offer(self, Location::caller())
    }

    /// As [`record_timed`](Self::record_timed), as a future that waits for room and ends when the record is accepted.
    #[track_caller]
    pub fn record_timed_async(
        &self,
    ) -> impl Future<Output = Result<Event, StreamError>> + Send + '_ {
        Admitting::new(self, StampWork::default(), Location::caller())
    }
}

/// A time to be written.
#[derive(Default)]
struct StampWork {
    /// Where to, from the first offer until it is taken.
    slot: Option<Slot>,
}

impl Work for StampWork {
    type Output = Event;

    fn offer(&mut self, stream: &Stream, origin: Origin) -> Result<Submission<Event>, StreamError> {
        let offence = Offence::Command(Operation::WriteTimestamp);
        stream.not_in_capture(offence, origin)?;
        stream.state().not_forked()?;
        let Some(facet) = stream.device().timestamps() else {
            return Err(stream.lacks(Facet::Timestamps));
        };
        let slot = match self.slot.take() {
            Some(slot) => slot,
            None => stream.state().stamps.take(facet)?,
        };
        let command = Command::WriteTimestamp {
            pool: &slot.pool,
            index: slot.index,
        };
        // SAFETY: the command names no memory.
        let taken = stream.put(Submitted::Command(&command), origin, || unsafe {
            stream.queue().submit(&command, origin)
        })?;
        let Submission::Accepted(point) = taken else {
            self.slot = Some(slot);
            return Ok(Submission::Full);
        };
        let state = Arc::clone(stream.state());
        let stamp = state.stamps.stamp(slot);
        let event = Event::new(state, point, Some(stamp));
        Ok(Submission::Accepted(event))
    }
}
