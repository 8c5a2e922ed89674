//! Streams and events: queues of the simulated device, and places on them.

use crate::{codes::Answer, context::Context};
use piton_driver::{
    Admission, Command, HostFunction, Position, Priority, Queue, QueueOptions, TimestampPool,
    WaitOutcome,
};
use piton_sync::Mutex;
use std::{panic::Location, sync::Arc};

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Its context.
    pub context: Arc<Context>,
    /// What stands behind it.
    pub queue: Arc<dyn Queue>,
}

impl Stream {
    /// A stream of this priority.
    ///
    /// # Errors
    /// The library's code.
    pub fn new(context: &Arc<Context>, priority: i32) -> Answer<Self> {
        // The real library clamps; a caller that relies on it is found here.
        let options = QueueOptions {
            priority: Priority(priority),
            ..QueueOptions::default()
        };
        let queue = context.device.queues().create(&options);
        Ok(Self {
            context: Arc::clone(context),
            queue: queue.map_err(|error| context.codes.of(&error))?,
        })
    }

    /// Puts a command at the end; waits for room where there is none, as the real library does.
    ///
    /// # Errors
    /// The library's code.
    ///
    /// # Safety
    /// As [`Queue::submit`].
    #[expect(unsafe_code, reason = "hands commands on")]
    #[track_caller]
    pub unsafe fn submit(&self, command: &Command<'_>) -> Answer<Position> {
        self.context.alive()?;
        loop {
            // SAFETY: the caller's promise.
            let admission = unsafe { self.queue.submit(command, Location::caller()) };
            if let Admission::Accepted(position) =
                admission.map_err(|error| self.context.codes.of(&error))?
            {
                return Ok(position);
            }
            self.make_room()?;
        }
    }

    fn make_room(&self) -> Answer<()> {
        let next = Position::new(self.queue.completed().get() + 1);
        let _reached = self
            .queue
            .wait(next, None)
            .map_err(|error| self.context.codes.of(&error))?;
        Ok(())
    }

    /// Runs a function when all before it has ended.
    ///
    /// # Errors
    /// The library's code.
    pub fn call(&self, function: HostFunction) -> Answer<Position> {
        self.context.alive()?;
        let functions = self
            .context
            .device
            .host_functions()
            .ok_or(self.context.codes.invalid)?;
        let mut function = Some(function);
        loop {
            let called = functions.call(&*self.queue, &mut function, Location::caller());
            if let Admission::Accepted(position) =
                called.map_err(|error| self.context.codes.of(&error))?
            {
                return Ok(position);
            }
            self.make_room()?;
        }
    }

    /// Later commands start when another queue has come so far.
    ///
    /// # Errors
    /// The library's code.
    pub fn order_after(&self, queue: &Arc<dyn Queue>, position: Position) -> Answer<()> {
        let wait = Command::WaitQueue {
            queue: &**queue,
            position,
            inherits: false,
        };
        // SAFETY: the command names no memory.
        #[expect(unsafe_code, reason = "hands a command on")]
        let _position = unsafe { self.submit(&wait) }?;
        Ok(())
    }

    /// Whether everything on it has ended.
    ///
    /// # Errors
    /// That it has not, or its failure.
    pub fn query(&self) -> Answer<()> {
        let is_idle = self.queue.completed() == self.queue.submitted();
        self.context.look_at(&*self.queue)?;
        if is_idle {
            Ok(())
        } else {
            Err(self.context.codes.not_ready)
        }
    }
}

/// Where an event was last recorded.
#[derive(Clone, Debug)]
struct Record {
    queue: Arc<dyn Queue>,
    position: Position,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    /// A slot of the simulated device's, where the event keeps the time.
    time: Option<Arc<dyn TimestampPool>>,
    record: Mutex<Option<Record>>,
}

impl Event {
    /// An event that was never recorded.
    ///
    /// # Errors
    /// The library's code.
    pub fn new(context: &Arc<Context>, keeps_time: bool) -> Answer<Self> {
        let time = if keeps_time {
            let clock = context.device.timestamps().ok_or(context.codes.invalid)?;
            Some(clock.create(1).map_err(|error| context.codes.of(&error))?)
        } else {
            None
        };
        Ok(Self {
            context: Arc::clone(context),
            time,
            record: Mutex::new(None),
        })
    }

    /// Leaves it at the end of a stream of its own context.
    ///
    /// # Errors
    /// The library's code.
    pub fn record(&self, stream: &Stream) -> Answer<()> {
        if !Arc::ptr_eq(&self.context, &stream.context) {
            return Err(self.context.codes.bad_handle);
        }
        self.context.alive()?;
        let position = match &self.time {
            Some(pool) => {
                let command = Command::WriteTimestamp { pool, index: 0 };
                // SAFETY: the command names no memory.
                #[expect(unsafe_code, reason = "hands a command on")]
                let position = unsafe { stream.submit(&command) }?;
                position
            }
            None => stream.queue.submitted(),
        };
        *self.record.lock() = Some(Record {
            queue: Arc::clone(&stream.queue),
            position,
        });
        Ok(())
    }

    fn last(&self) -> Option<Record> {
        self.record.lock().clone()
    }

    /// Whether what was before its mark has ended, well or not. Nothing where it was never recorded.
    pub fn has_passed(&self) -> Option<bool> {
        let record = self.last()?;
        Some(record.queue.completed() >= record.position)
    }

    /// Whether what was before its mark has ended, which it has where it was never recorded.
    ///
    /// # Errors
    /// That it has not; or the failure of its stream.
    pub fn query(&self) -> Answer<()> {
        let Some(record) = self.last() else {
            return self.context.alive();
        };
        let is_over = record.queue.completed() >= record.position;
        self.context.look_at(&*record.queue)?;
        if is_over {
            Ok(())
        } else {
            Err(self.context.codes.not_ready)
        }
    }

    /// Sleeps until what was before its mark has ended, well or not.
    ///
    /// # Errors
    /// The library's code.
    pub fn sleep(&self) -> Answer<()> {
        let Some(record) = self.last() else {
            return self.context.alive();
        };
        let codes = self.context.codes;
        let waited = record.queue.wait(record.position, None);
        match waited.map_err(|error| codes.of(&error))? {
            WaitOutcome::Reached => Ok(()),
            _ => Err(codes.not_ready),
        }
    }

    /// As [`sleep`](Self::sleep), and says how its stream stands.
    ///
    /// # Errors
    /// As there; and the failure of its stream.
    pub fn wait(&self) -> Answer<()> {
        self.sleep()?;
        match self.last() {
            Some(record) => self.context.look_at(&*record.queue),
            None => Ok(()),
        }
    }

    /// Has a stream wait for it.
    ///
    /// # Errors
    /// The library's code.
    pub fn hold(&self, stream: &Stream) -> Answer<()> {
        match self.last() {
            Some(record) => stream.order_after(&record.queue, record.position),
            None => Ok(()),
        }
    }

    /// When it passed, in nanoseconds.
    ///
    /// # Errors
    /// That it has not, or keeps no time.
    pub fn time(&self) -> Answer<u64> {
        self.query()?;
        let pool = self.time.as_ref().ok_or(self.context.codes.bad_handle)?;
        let time = pool
            .read(0)
            .map_err(|error| self.context.codes.of(&error))?;
        time.ok_or(self.context.codes.bad_handle)
    }
}
