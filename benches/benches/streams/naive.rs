//! What someone writes in an afternoon: boxed closures on a thread or a pool, and an event that is a flag, a lock and
//! a condition variable.
//!
//! | name | a stream is |
//! |---|---|
//! | crossbeam | a thread and an unbounded crossbeam channel |
//! | rayon | nothing: each task is spawned on the global pool, in no order |
//! | tokio | nothing: each task is spawned on a multi-threaded runtime, in no order |
//! | flume | a thread and an unbounded flume channel |
//!
//! Operations that need order have no figure where there is none.

use crate::{
    measure::Samples,
    pools::{Rayon, Tokio},
};
use piton_sync::thread;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Their names, in the order of the columns.
pub(crate) const NAMES: [&str; 4] = ["crossbeam", "rayon", "tokio", "flume"];

type Task = Box<dyn FnOnce() + Send>;

/// An event: set once.
#[derive(Debug, Default)]
pub(crate) struct Event {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub(crate) fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    pub(crate) fn query(&self) -> bool {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait(&self) {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.changed.wait_while(is_set, |is_set| !*is_set);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Something that runs closures.
pub(crate) trait Lane: Clone + Send + Sync + 'static {
    fn spawn(&self, task: impl FnOnce() + Send + 'static);

    /// Blocks until what was spawned before is done, or nearly so where there is no order.
    fn synchronize(&self) {
        let done = Arc::new(Event::default());
        let own = Arc::clone(&done);
        self.spawn(move || own.set());
        done.wait();
    }
}

/// Something that makes lanes.
pub(crate) trait Runtime {
    type Lane: Lane;

    /// Whether the tasks of a lane run in order.
    const IS_ORDERED: bool;

    fn lane(&self) -> Self::Lane;

    /// How many tasks that block stop a lane.
    fn width(&self) -> usize;

    /// Stops a lane until the event is set.
    fn hold(&self, lane: &Self::Lane) -> Arc<Event> {
        let gate = Arc::new(Event::default());
        for _ in 0..self.width() {
            let own = Arc::clone(&gate);
            lane.spawn(move || own.wait());
        }
        gate
    }
}

/// One thing measured on any of them.
pub(crate) trait Measured {
    /// `None` where the runtime has no such operation.
    fn on<R: Runtime>(&self, runtime: &R) -> Option<Samples>;
}

/// All four.
#[derive(Debug)]
pub(crate) struct Baselines {
    tokio: Tokio,
}

impl Baselines {
    pub(crate) fn new() -> Self {
        Self {
            tokio: Tokio::new(),
        }
    }

    /// Measures on each, in the order of [`NAMES`].
    pub(crate) fn measure(&self, measured: &impl Measured) -> [Option<Samples>; 4] {
        [
            measured.on(&Crossbeam),
            measured.on(&Rayon),
            measured.on(&self.tokio),
            measured.on(&Flume),
        ]
    }
}

/// A thread and a crossbeam channel a lane.
#[derive(Debug)]
pub(crate) struct Crossbeam;

impl Runtime for Crossbeam {
    type Lane = crossbeam_channel::Sender<Task>;
    const IS_ORDERED: bool = true;

    fn lane(&self) -> Self::Lane {
        let (sender, receiver) = crossbeam_channel::unbounded::<Task>();
        thread::spawn(move || receiver.into_iter().for_each(|task| task()));
        sender
    }

    fn width(&self) -> usize {
        1
    }
}

impl Lane for crossbeam_channel::Sender<Task> {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let _sent = self.send(Box::new(task));
    }
}

/// A thread and a flume channel a lane.
#[derive(Debug)]
pub(crate) struct Flume;

impl Runtime for Flume {
    type Lane = flume::Sender<Task>;
    const IS_ORDERED: bool = true;

    fn lane(&self) -> Self::Lane {
        let (sender, receiver) = flume::unbounded::<Task>();
        thread::spawn(move || receiver.into_iter().for_each(|task| task()));
        sender
    }

    fn width(&self) -> usize {
        1
    }
}

impl Lane for flume::Sender<Task> {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let _sent = self.send(Box::new(task));
    }
}
