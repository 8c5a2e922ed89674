//! The threads that run host functions.
//!
//! # The idea
//! One thread runs them, one after the other. But a function may be held up by what the program has it wait for on the
//! host: another queue, whose own function has yet to run here; a future of one; a word that another function writes. So
//! while functions are left to run a second thread *watches*: where none was taken for [`PATIENCE`] it takes one itself,
//! and a third watches in its place. Short functions run on one thread, however many queues have some, and functions that
//! wait for each other all get to run.
//!
//! # Protocol
//! All of it is under one lock, and who sleeps is woken under it. A thread is *idle*, watches, or *serves*: it is in a
//! function, or about to be. While functions wait somebody serves or is on his way, and if somebody serves somebody
//! watches: [`muster`](Calls::muster) is called wherever that could end. A thread is counted as idle from before it starts
//! until it first looks, so of many functions that come meanwhile none starts another.
//!
//! Threads are kept: there are two more than functions were ever held up at once, at most.

use super::spawn;
use piton_driver::DriverError;
use piton_sync::{Condvar, Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long no function may be taken before somebody else takes one. It is what a wait of one function for another costs.
const PATIENCE: Duration = Duration::from_micros(500);

/// Functions, of type `C`, and the threads that run them.
pub(super) struct Calls<C> {
    desk: Mutex<Desk<C>>,
    /// Idle threads sleep here.
    bell: Condvar,
    /// The one that watches sleeps here, and is rung when all is over.
    watch: Condvar,
    run: fn(C),
}

struct Desk<C> {
    waiting: VecDeque<C>,
    threads: u32,
    idle: u32,
    serving: u32,
    is_watched: bool,
    /// Functions taken so far.
    taken: u64,
    is_closing: bool,
}

impl<C: Send + 'static> Calls<C> {
    /// No thread yet; `run` runs a function, and does not panic.
    pub(super) fn new(run: fn(C)) -> Self {
        Self {
            desk: Mutex::new(Desk {
                waiting: VecDeque::new(),
                threads: 0,
                idle: 0,
                serving: 0,
                is_watched: false,
                taken: 0,
                is_closing: false,
            }),
            bell: Condvar::new(),
            watch: Condvar::new(),
            run,
        }
    }

    /// Takes a function to be run by one of the threads; hands it back where there can be none.
    pub(super) fn hand_in(self: &Arc<Self>, call: C) -> Result<(), (DriverError, Option<C>)> {
        let mut desk = self.desk.lock();
        desk.waiting.push_back(call);
        match self.muster(&mut desk) {
            // Where there is any thread it goes on without a second, as long as no function is held up.
            Err(error) if desk.threads == 0 => Err((error, desk.waiting.pop_back())),
            _ => Ok(()),
        }
    }

    /// Nothing will be handed in any more: threads end when they have nothing to do.
    pub(super) fn close(&self) {
        let mut desk = self.desk.lock();
        desk.is_closing = true;
        self.bell.notify_all();
        self.watch.notify_all();
    }

    /// Sees to it that somebody comes for what waits or, where somebody serves, watches whether he does.
    fn muster(self: &Arc<Self>, desk: &mut Desk<C>) -> Result<(), DriverError> {
        if desk.waiting.is_empty() || (desk.serving > 0 && desk.is_watched) {
            return Ok(());
        }
        if desk.idle > 0 {
            self.bell.notify_one();
            return Ok(());
        }
        let calls = Arc::clone(self);
        let wanted = u64::from(desk.threads) + 1;
        spawn("piton-sim host functions", move || calls.serve(), wanted)?;
        desk.threads += 1;
        desk.idle += 1;
        Ok(())
    }

    fn serve(self: &Arc<Self>) {
        let mut desk = self.desk.lock();
        desk.idle -= 1;
        loop {
            if desk.waiting.is_empty() && desk.is_closing {
                return;
            }
            if !self.is_turn(&mut desk) {
                continue;
            }
            let Some(call) = desk.waiting.pop_front() else {
                continue;
            };
            desk.taken += 1;
            desk.serving += 1;
            // Without a watcher, for want of threads, the next function waits for this one.
            let _ = self.muster(&mut desk);
            drop(desk);
            (self.run)(call);
            desk = self.desk.lock();
            desk.serving -= 1;
        }
    }

    /// Whether the calling thread is to take a function, as far as it knows after it has idled or watched for a while.
    fn is_turn(&self, desk: &mut MutexGuard<'_, Desk<C>>) -> bool {
        if desk.waiting.is_empty() || (desk.serving > 0 && desk.is_watched) {
            desk.idle += 1;
            self.bell.wait(desk);
            desk.idle -= 1;
            return false;
        }
        desk.serving == 0 || self.are_others_held_up(desk)
    }

    fn are_others_held_up(&self, desk: &mut MutexGuard<'_, Desk<C>>) -> bool {
        let (taken, until) = (desk.taken, Instant::now() + PATIENCE);
        desk.is_watched = true;
        while !desk.is_closing && !self.watch.wait_until(desk, until).timed_out() {}
        desk.is_watched = false;
        desk.taken == taken
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use piton_sync::model;

    /// What counts that it was run, and tells.
    type Call = Arc<(Mutex<u32>, Condvar)>;

    fn run(call: Call) {
        *call.0.lock() += 1;
        call.1.notify_all();
    }

    /// The second comes while the first runs, or as its thread goes idle. A function that nobody runs is a deadlock, which
    /// the model reports, and so is a thread that does not end.
    #[test]
    fn every_function_is_run_and_every_thread_ends() {
        model(|| {
            let (calls, call) = (Arc::new(Calls::new(run)), Call::default());
            for _ in 0..2 {
                assert!(calls.hand_in(Arc::clone(&call)).is_ok());
            }
            let mut ran = call.0.lock();
            while *ran < 2 {
                call.1.wait(&mut ran);
            }
            drop(ran);
            calls.close();
        });
    }
}
