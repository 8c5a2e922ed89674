//! Streams and events: queues of the simulated device, and places on them.

use crate::{
    context::{FakeContext, Write, code},
    world::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_READY},
};
use piton_driver::{
    Admission, Command, HostFunction, Position, Priority, Queue, QueueOptions, TimestampPool,
    WaitOutcome,
};
use piton_sync::{Mutex, atomic::AtomicU64, atomic::Ordering};
use std::{
    collections::{BTreeMap, HashMap},
    panic::Location,
    sync::Arc,
};

#[derive(Debug)]
pub(crate) struct FakeStream {
    pub(crate) context: Arc<FakeContext>,
    pub(crate) queue: Arc<dyn Queue>,
}

type Writes = HashMap<u64, BTreeMap<u64, Write>>;

// GLOBAL: what streams were told to write where: counters are known to every context of the process.
static WRITES: Mutex<Option<Writes>> = Mutex::new(None);

impl FakeStream {
    pub(crate) fn new(context: &Arc<FakeContext>, priority: i32) -> Answer<Self> {
        // The real library clamps; a caller that relies on it is found here.
        let options = QueueOptions {
            priority: Priority(priority),
            ..QueueOptions::default()
        };
        let queue = context.device.queues().create(&options);
        Ok(Self {
            context: Arc::clone(context),
            queue: queue.map_err(|error| code(&error))?,
        })
    }

    /// Puts a command at the end; waits for room where there is none, as the real library does.
    ///
    /// # Safety
    /// As [`Queue::submit`].
    #[expect(unsafe_code, reason = "hands commands on")]
    #[track_caller]
    pub(crate) unsafe fn submit(&self, command: &Command<'_>) -> Answer<Position> {
        self.context.alive()?;
        loop {
            // SAFETY: the caller's promise.
            let admission = unsafe { self.queue.submit(command, Location::caller()) };
            if let Admission::Accepted(position) = admission.map_err(|error| code(&error))? {
                return Ok(position);
            }
            self.make_room()?;
        }
    }

    fn make_room(&self) -> Answer<()> {
        let next = Position::new(self.queue.completed().get() + 1);
        let _reached = self.queue.wait(next, None).map_err(|error| code(&error))?;
        Ok(())
    }

    /// Runs a function when all before it has ended.
    fn call(&self, function: HostFunction) -> Answer<Position> {
        self.context.alive()?;
        let functions = self.context.device.host_functions().ok_or(INVALID_VALUE)?;
        let mut function = Some(function);
        loop {
            let called = functions.call(&*self.queue, &mut function, Location::caller());
            if let Admission::Accepted(position) = called.map_err(|error| code(&error))? {
                return Ok(position);
            }
            self.make_room()?;
        }
    }

    /// Writes a counter when all before it has ended.
    pub(crate) fn write(&self, at: u64, value: u64) -> Answer<()> {
        let mut all = WRITES.lock();
        let writes = all.get_or_insert_default().entry(at).or_default();
        // What is done is known by the counter itself.
        writes.retain(|_, write| write.position > write.queue.completed());
        let position = self.call(Box::new(move || word(at).store(value, Ordering::Release)))?;
        let queue = Arc::clone(&self.queue);
        writes.insert(value, Write { queue, position });
        Ok(())
    }

    /// Later commands start when a counter shows a value, which some stream must have been told to write.
    pub(crate) fn wait_for(&self, at: u64, value: u64) -> Answer<()> {
        let all = WRITES.lock();
        if word(at).load(Ordering::Acquire) >= value {
            return Ok(());
        }
        let writes = all.as_ref().and_then(|all| all.get(&at));
        // Nobody would ever end such a wait.
        let (_, write) = writes
            .and_then(|writes| writes.range(value..).next())
            .ok_or(INVALID_VALUE)?;
        self.order_after(&write.queue, write.position)
    }

    /// Later commands start when another queue has come so far.
    pub(crate) fn order_after(&self, queue: &Arc<dyn Queue>, position: Position) -> Answer<()> {
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
    pub(crate) fn query(&self) -> Answer<()> {
        let is_idle = self.queue.completed() == self.queue.submitted();
        self.context.look_at(&*self.queue)?;
        if is_idle { Ok(()) } else { Err(NOT_READY) }
    }
}

/// A counter of the program's.
#[expect(unsafe_code, reason = "memory of the program's, by its address")]
fn word(at: u64) -> &'static AtomicU64 {
    let at = std::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0));
    // SAFETY: whoever names a counter to a stream keeps it, aligned, until the stream has done with it, and treats it as an
    // atomic number.
    unsafe { AtomicU64::from_ptr(at) }
}

/// Where an event was last recorded.
#[derive(Clone, Debug)]
struct Record {
    queue: Arc<dyn Queue>,
    position: Position,
}

#[derive(Debug)]
pub(crate) struct FakeEvent {
    context: Arc<FakeContext>,
    /// A slot of the simulated device's, where the event keeps the time.
    time: Option<Arc<dyn TimestampPool>>,
    record: Mutex<Option<Record>>,
}

impl FakeEvent {
    pub(crate) fn new(context: &Arc<FakeContext>, keeps_time: bool) -> Answer<Self> {
        let time = if keeps_time {
            let clock = context.device.timestamps().ok_or(INVALID_VALUE)?;
            Some(clock.create(1).map_err(|error| code(&error))?)
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
    pub(crate) fn record(&self, stream: &FakeStream) -> Answer<()> {
        if !Arc::ptr_eq(&self.context, &stream.context) {
            return Err(INVALID_HANDLE);
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

    pub(crate) fn query(&self) -> Answer<()> {
        let Some(record) = self.last() else {
            return self.context.alive();
        };
        let is_over = record.queue.completed() >= record.position;
        self.context.look_at(&*record.queue)?;
        if is_over { Ok(()) } else { Err(NOT_READY) }
    }

    pub(crate) fn wait(&self) -> Answer<()> {
        let Some(record) = self.last() else {
            return self.context.alive();
        };
        let waited = record.queue.wait(record.position, None);
        let WaitOutcome::Reached = waited.map_err(|error| code(&error))? else {
            return Err(NOT_READY);
        };
        self.context.look_at(&*record.queue)
    }

    /// Has a stream wait for it.
    pub(crate) fn hold(&self, stream: &FakeStream) -> Answer<()> {
        match self.last() {
            Some(record) => stream.order_after(&record.queue, record.position),
            None => Ok(()),
        }
    }

    /// When it passed, in nanoseconds.
    pub(crate) fn time(&self) -> Answer<u64> {
        self.query()?;
        let pool = self.time.as_ref().ok_or(INVALID_HANDLE)?;
        let time = pool.read(0).map_err(|error| code(&error))?;
        time.ok_or(INVALID_HANDLE)
    }
}
