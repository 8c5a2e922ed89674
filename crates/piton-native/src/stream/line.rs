//! A stream: its ordinals, what it left, and what it waits for.
//!
//! # Protocol
//! - `line` (a lock) orders ordinals as the stream's commands: it is held while a command is handed over.
//! - `ended` only grows. With a counter it is what the counter showed last, once it is released; without, the ordinal of the
//!   last event seen over. Stored with Release after the event was asked, loaded with Acquire.
//! - A wait for another stream's counter is handed over only after the write that will satisfy it: `barrier` flushes first.
//!   So no stream waits for what only the host could bring.
//! - When its fate is sealed, its counter is released, after `ended` was stored.

use super::{
    Kept, StreamStatus, Ticket, VendorEvent, VendorStream, listening::Listening, listening::Told,
};
use piton_sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    thread,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

/// Looks at a stream before the vendor is asked whether it still lives.
const LOOKS: u32 = 64;

/// A stream, in order.
#[derive(Debug)]
pub struct Stream<V: VendorStream> {
    pub(super) vendor: V,
    line: Mutex<Line<V>>,
    ended: AtomicU64,
    /// Whether flushes leave an event.
    leaves_events: AtomicBool,
    looks: AtomicU32,
    listening: Listening<V>,
}

/// What has been handed over.
#[derive(Debug)]
struct Line<V: VendorStream> {
    /// The last ordinal given out.
    handed: u64,
    /// The last ordinal that something will tell of.
    told: u64,
    /// Events left in the stream, each with the ordinal that has ended when it is over.
    marks: VecDeque<(u64, Arc<V::Event>)>,
    /// Events that are over, to be used again.
    spare: Vec<Arc<V::Event>>,
    /// What streams of another fate must end first.
    awaited: Vec<(Weak<Stream<V>>, u64)>,
}

impl<V: VendorStream> Line<V> {
    const EMPTY: Self = Self {
        handed: 0,
        told: 0,
        marks: VecDeque::new(),
        spare: Vec::new(),
        awaited: Vec::new(),
    };

    /// The event of the first mark is over.
    fn pass(&mut self) {
        let passed = self.marks.pop_front().map(|(_, event)| event);
        self.spare.extend(passed.filter(|_| V::RECORDS_AGAIN));
    }
}

impl<V: VendorStream> Stream<V> {
    /// A stream that was just made.
    pub fn new(vendor: V) -> Arc<Self> {
        let stream = Arc::new(Self {
            leaves_events: AtomicBool::new(vendor.counter().is_none()),
            vendor,
            line: Mutex::new(Line::EMPTY),
            ended: AtomicU64::new(0),
            looks: AtomicU32::new(0),
            listening: Listening::default(),
        });
        stream.vendor.fate().note(&stream);
        stream
    }

    /// The vendor's.
    pub const fn vendor(&self) -> &V {
        &self.vendor
    }

    /// Hands one command over: `call` asks the vendor for it.
    ///
    /// # Errors
    /// The vendor's code: no ordinal was given out.
    pub fn hand_over(
        self: &Arc<Self>,
        call: impl FnOnce(&V) -> Result<(), V::Status>,
    ) -> Result<Ticket<V>, V::Status> {
        let mut line = self.line.lock();
        call(&self.vendor)?;
        line.handed += 1;
        Ok(self.ticket(line.handed))
    }

    pub(super) fn ticket(self: &Arc<Self>, ordinal: u64) -> Ticket<V> {
        Ticket::new(Arc::clone(self), ordinal)
    }

    /// Has the stream tell of what was handed over.
    ///
    /// # Errors
    /// The vendor's code.
    pub fn flush(&self) -> Result<(), V::Status> {
        self.tell_of(&mut self.line.lock())
    }

    fn tell_of(&self, line: &mut Line<V>) -> Result<(), V::Status> {
        let last = line.handed;
        if last == line.told {
            return Ok(());
        }
        if self.vendor.counter().is_some() {
            self.vendor.write_counter(last)?;
        }
        if self.leaves_events.load(Ordering::Relaxed) {
            self.leave_event(line)?;
        }
        line.told = last;
        Ok(())
    }

    /// Leaves an event behind what was handed over.
    fn leave_event(&self, line: &mut Line<V>) -> Result<Arc<V::Event>, V::Status> {
        let ended = self.ended();
        while line.marks.front().is_some_and(|(at, _)| *at <= ended) {
            line.pass();
        }
        // One that somebody still holds may be slept on: it is not recorded again.
        let free = line
            .spare
            .iter()
            .position(|event| Arc::strong_count(event) == 1);
        let event = match free {
            Some(index) => line.spare.swap_remove(index),
            None => Arc::new(self.vendor.make_event()?),
        };
        self.vendor.record(&event)?;
        line.marks.push_back((line.handed, Arc::clone(&event)));
        Ok(event)
    }

    /// The last ordinal that has ended, as far as is known without asking the vendor.
    pub(super) fn ended(&self) -> u64 {
        let shown = self.vendor.counter().and_then(super::Counter::shown);
        shown.unwrap_or_else(|| self.ended.load(Ordering::Acquire))
    }

    /// Its fate is sealed: who waits for the counter goes on.
    pub(super) fn release(&self) {
        let Some(counter) = self.vendor.counter() else {
            return;
        };
        if let Some(shown) = counter.shown() {
            self.ended.store(shown, Ordering::Release);
            counter.release();
        }
    }

    /// Whether an ordinal has ended. Asks the vendor now and then, as what a dead stream leaves stands still.
    pub(super) fn has_ended(&self, ordinal: u64) -> bool {
        if self.ended() >= ordinal {
            return true;
        }
        if self.vendor.counter().is_none() {
            self.look_at_events();
        }
        let is_time = || self.looks.fetch_add(1, Ordering::Relaxed) % LOOKS == LOOKS - 1;
        if self.ended() < ordinal && is_time() {
            self.ask();
        }
        self.ended() >= ordinal
    }

    /// Asks the vendor whether the stream lives, and those that it waits for. What is wrong seals their fate.
    pub(super) fn ask(&self) {
        self.confirm();
        for (other, ordinal) in self.awaited() {
            if other.ended() < ordinal {
                other.confirm();
            }
        }
    }

    /// Whether the stream lives; if not, its fate is sealed.
    fn confirm(&self) -> bool {
        let asked = self.vendor.ask();
        asked
            .inspect_err(|status| self.vendor.fate().give_up(*status))
            .is_ok()
    }

    /// Streams of another fate that this one waits for.
    fn awaited(&self) -> Vec<(Arc<Self>, u64)> {
        let line = self.line.lock();
        let alive = |(other, ordinal): &(Weak<Self>, u64)| Some((other.upgrade()?, *ordinal));
        line.awaited.iter().filter_map(alive).collect()
    }

    /// Asks events in order, without a counter.
    fn look_at_events(&self) {
        let Some(mut line) = self.line.try_lock() else {
            return;
        };
        while let Some((ordinal, event)) = line.marks.front() {
            if !matches!(event.is_over(), Ok(true)) || self.vendor.fate().failure().is_some() {
                return;
            }
            if V::PASSES_FAILURES && !self.confirm() {
                return;
            }
            self.ended.store(*ordinal, Ordering::Release);
            line.pass();
        }
    }

    /// An event that is over when `ordinal` has ended: the first such, or one that is left now.
    pub(super) fn event_behind(&self, ordinal: u64) -> Result<Arc<V::Event>, V::Status> {
        self.leaves_events.store(true, Ordering::Relaxed);
        let mut line = self.line.lock();
        let known = line.marks.iter().find(|(at, _)| *at >= ordinal);
        if let Some((_, event)) = known {
            return Ok(Arc::clone(event));
        }
        self.tell_of(&mut line)?;
        match line.marks.back() {
            Some((at, event)) if *at >= ordinal => Ok(Arc::clone(event)),
            _ => self.leave_event(&mut line),
        }
    }

    /// Sleeps until the next event that is left has passed, and leaves one if there is none.
    pub(super) fn sleep(&self) {
        match self.event_behind(self.ended() + 1) {
            Ok(event) => {
                if let Err(status) = event.wait() {
                    self.vendor.fate().give_up(status);
                }
            }
            // No event to be had for now.
            Err(_) => thread::yield_now(),
        }
        if self.vendor.counter().is_none() {
            self.look_at_events();
        }
    }

    /// Later commands of this stream start when the other's have come so far.
    ///
    /// # Errors
    /// The vendor's code: nothing was handed over.
    pub fn barrier(self: &Arc<Self>, awaited: &Ticket<V>) -> Result<Ticket<V>, V::Status> {
        let other = awaited.stream();
        if Arc::ptr_eq(self, other) {
            // In order as it is: it has ended when what was handed over before has.
            let handed = self.line.lock().handed;
            return Ok(self.ticket(handed));
        }
        other.flush()?;
        let counted = self.vendor.counter().and(other.vendor.counter()).is_some();
        // Not under this stream's lock, as it takes the other's.
        let event = if counted || self.vendor.waits_for(&other.vendor) {
            None
        } else {
            Some(other.event_behind(awaited.ordinal())?)
        };
        let mut line = self.line.lock();
        if !Arc::ptr_eq(self.vendor.fate(), other.vendor.fate()) {
            line.awaited
                .retain(|(other, at)| other.upgrade().is_some_and(|other| other.ended() < *at));
            line.awaited
                .push((Arc::downgrade(other), awaited.ordinal()));
        }
        let kept = match event {
            _ if counted => {
                let value = awaited.ordinal();
                self.vendor.wait_counter(&other.vendor, value)?;
                None
            }
            Some(event) => {
                self.vendor.wait_event(&event)?;
                // Not to be recorded again before this stream is past it.
                Some(event as Kept)
            }
            None => Some(self.vendor.wait_stream(&other.vendor)?),
        };
        line.handed += 1;
        let ticket = self.ticket(line.handed);
        Ok(match kept {
            Some(kept) => ticket.keeping(kept),
            None => ticket,
        })
    }

    /// Tells who asked for an ordinal, on a thread of the stream's.
    pub(super) fn listen(self: &Arc<Self>, ordinal: u64, told: Told) -> Result<(), V::Status> {
        self.leaves_events.store(true, Ordering::Relaxed);
        for (other, at) in self.awaited() {
            // So that somebody notices should that stream die.
            other.listening.post(&other, at, Box::new(|| {}));
        }
        if self.listening.post(self, ordinal, told) {
            Ok(())
        } else {
            Err(V::Status::UNAVAILABLE)
        }
    }
}

impl<V: VendorStream> Drop for Stream<V> {
    fn drop(&mut self) {
        let line = self.line.get_mut();
        let ended = match self.vendor.counter() {
            Some(counter) => counter.shown().unwrap_or(u64::MAX),
            None => u64::MAX,
        };
        let is_idle = line.handed <= ended;
        self.vendor.close(is_idle);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::stream::modelled::{Code, Vendor};
    use piton_sync::model;

    #[test]
    fn who_sees_that_a_command_has_ended_sees_what_it_did() {
        model(|| {
            let stream = Vendor::stream(0, false);
            let _ticket = Vendor::hand(&stream);
            stream.flush().unwrap();
            let reader = {
                let stream = Arc::clone(&stream);
                thread::spawn(move || {
                    if stream.ended() >= 1 {
                        let done = stream.vendor.done.load(Ordering::Relaxed);
                        assert_eq!(done, 1, "what the command did is not there");
                    }
                })
            };
            stream.vendor.done.store(1, Ordering::Release);
            assert!(stream.has_ended(1));
            reader.join().unwrap();
        });
    }

    #[test]
    fn who_sees_a_released_counter_finds_what_it_had_shown_and_why() {
        model(|| {
            let stream = Vendor::stream(0, true);
            let _tickets = [Vendor::hand(&stream), Vendor::hand(&stream)];
            if let Some(counter) = stream.vendor.counter() {
                counter.write(1);
            }
            let reader = {
                let stream = Arc::clone(&stream);
                thread::spawn(move || {
                    let counter = stream.vendor.counter();
                    if counter.is_some_and(|counter| counter.shown().is_none()) {
                        assert_eq!(stream.vendor.fate().failure(), Some(Code(7)));
                    }
                    assert_eq!(stream.ended(), 1);
                })
            };
            stream.vendor.fate().give_up(Code(7));
            reader.join().unwrap();
        });
    }
}
