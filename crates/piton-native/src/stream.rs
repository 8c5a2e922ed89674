//! Vendors' streams that say how far they have come, made into queues of tickets.
//!
//! # The idea
//! Each command handed to a stream gets the next *ordinal*, and whoever hands it over a [`Ticket`]. When what was handed over
//! is flushed, the stream leaves something that tells of the last ordinal: a [`Counter`] in memory that it writes, where the
//! vendor has such an operation; an event otherwise. "Has it ended?" is then a load, or a question of the first event that
//! is left. Nobody can sleep on a counter, so from the first time that somebody must sleep on a stream, its flushes leave
//! events as well, and sleepers sleep on those.
//!
//! What a vendor brings is [`VendorStream`] and [`VendorEvent`]; what is common is here:
//! | file | what |
//! |---|---|
//! | `line` | the stream: ordinals, what was left in it, waits for other streams |
//! | `ticket` | a place on it |
//! | `counter` | the number in memory |
//! | `fate` | whether what it belongs to has failed |
//! | `listening` | the thread that sleeps for who wants to be told |

mod counter;
mod fate;
mod line;
mod listening;
#[cfg(all(test, loom))]
mod modelled;
mod ticket;

pub use counter::Counter;
pub use fate::Fate;
pub use line::Stream;
pub use ticket::Ticket;

use crate::backend::VendorStatus;
use std::{any::Any, fmt::Debug, sync::Arc};

/// What is kept until a command has ended: a loaded module, arguments, a handle.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// A vendor's codes, as streams keep them.
pub trait StreamStatus: VendorStatus {
    /// What a stream answers where the system has no thread left.
    const UNAVAILABLE: Self;

    /// Its number, which is not zero for a failure.
    fn code(self) -> u32;

    /// The code of this number.
    fn from_code(code: u32) -> Self;
}

/// A mark in a stream that can be slept on. Given back when dropped, passed or not.
pub trait VendorEvent: Debug + Send + Sync + 'static {
    /// The vendor's codes.
    type Status: StreamStatus;

    /// Whether everything before its mark has ended. Does not block.
    ///
    /// # Errors
    /// The vendor's code.
    fn is_over(&self) -> Result<bool, Self::Status>;

    /// Sleeps until everything before its mark has ended; what that wrote is then visible to the host.
    ///
    /// # Errors
    /// The vendor's code: nothing before its mark runs any more.
    fn wait(&self) -> Result<(), Self::Status>;
}

/// A stream of a vendor's, in order.
pub trait VendorStream: Debug + Send + Sync + Sized + 'static {
    /// The backend's name, for its threads.
    const NAME: &'static str;

    /// Whether an event that is over may be recorded again.
    const RECORDS_AGAIN: bool;

    /// Whether an event passes also where what was before it has failed: then the stream is asked each time one has.
    const PASSES_FAILURES: bool;

    /// The vendor's codes.
    type Status: StreamStatus;
    /// Its events.
    type Event: VendorEvent<Status = Self::Status>;

    /// What it fails with: its own, or its context's.
    fn fate(&self) -> &Arc<Fate<Self>>;

    /// A new event, to sleep on.
    ///
    /// # Errors
    /// The vendor's code.
    fn make_event(&self) -> Result<Self::Event, Self::Status>;

    /// Leaves an event at the end.
    ///
    /// # Errors
    /// The vendor's code.
    fn record(&self, event: &Self::Event) -> Result<(), Self::Status>;

    /// Later commands start when the event, of whatever stream, has passed.
    ///
    /// # Errors
    /// The vendor's code.
    fn wait_event(&self, event: &Self::Event) -> Result<(), Self::Status>;

    /// Asks the vendor whether the stream lives, without blocking while it does.
    ///
    /// # Errors
    /// The vendor's code: nothing of it runs any more.
    fn ask(&self) -> Result<(), Self::Status>;

    /// The number in memory that it writes, where there is one.
    fn counter(&self) -> Option<&Counter> {
        None
    }

    /// Has the stream write the counter when all before has ended. Called where there is one.
    ///
    /// # Errors
    /// The vendor's code.
    fn write_counter(&self, _value: u64) -> Result<(), Self::Status> {
        Ok(())
    }

    /// Later commands start when another stream's counter has come so far. Called where both have one.
    ///
    /// # Errors
    /// The vendor's code.
    fn wait_counter(&self, _other: &Self, _value: u64) -> Result<(), Self::Status> {
        Ok(())
    }

    /// Later commands start when all that was handed to the other stream until now has ended, by something of the vendor's
    /// that is neither counter nor event; what is answered is kept for as long. Called where
    /// [`waits_for`](Self::waits_for) says so.
    ///
    /// # Errors
    /// The vendor's code.
    fn wait_stream(&self, _other: &Self) -> Result<Kept, Self::Status> {
        Err(Self::Status::UNAVAILABLE)
    }

    /// Whether it waits for another stream by [`wait_stream`](Self::wait_stream).
    fn waits_for(&self, _other: &Self) -> bool {
        false
    }

    /// Gives the stream back: nobody uses it any more. What it has may still run, if it is not idle.
    fn close(&mut self, is_idle: bool);
}
