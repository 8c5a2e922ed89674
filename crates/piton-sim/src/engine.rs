//! Who runs what is ready: worker threads, waiting host threads, or, in virtual time, whoever waits.
//!
//! Who sleeps, and who is woken for what, is in `sleep`. Nothing is run, woken or dropped under the lock.
//!
//! Lock order: the engine's `state` before a queue's times (which queue is earliest is asked under both).
//!
//! In virtual time there are no workers: [`Engine::wait`] runs ready queues itself, one after the other, in an
//! order that the seed decides.

mod calls;
mod of_process;
mod offer;
mod sleep;
mod worker;

use crate::{
    config::{ClockMode, ScheduleOrder},
    execute,
    host_function::HostCall,
    idle::{SPIN, Spinners},
    progress::Progress,
    queue::{QueueCore, Watcher},
    ready::Ready,
    runner::{Awaited, Runner},
    tally::Bell,
};
use calls::Calls;
use of_process::OfProcess;
use offer::Offer;
use piton_driver::{DriverError, ErrorKind, Operation, ResourceKind, WaitOutcome, shield};
use piton_sync::{
    CachePadded, Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    thread,
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Something to do.
enum Work {
    Queue(Arc<QueueCore>),
    Blocks(Offer),
}

/// Ready things are queues, except in models.
struct State<T = Arc<QueueCore>> {
    ready: Ready<T>,
    offers: Vec<Offer>,
    /// Workers that sleep until they are woken, and workers that nap.
    asleep: usize,
    napping: usize,
    /// Host threads that sleep.
    hosts: usize,
    /// Threads that run a queue or submit to one now; only kept in virtual time.
    running: usize,
    is_closing: bool,
    random: fastrand::Rng,
}

/// What threads write as they go lies apart from what every submission reads.
struct Shared<T = Arc<QueueCore>> {
    state: CachePadded<Mutex<State<T>>>,
    /// Workers sleep here.
    work: Condvar,
    /// Waiting host threads sleep here.
    hosts: Condvar,
    /// Owners of launches sleep here until their guests have left.
    guests_left: Bell,
    pending: CachePadded<AtomicUsize>,
    /// Threads that could be woken for what is pending.
    resting: AtomicUsize,
    /// Submissions since a wake was left out; 0 while none was.
    unannounced: AtomicU32,
    spinners: CachePadded<Spinners>,
    clock: ClockMode,
    started: Instant,
    /// The latest time anything ended, in virtual time.
    virtual_now: AtomicU64,
    /// The time the host has seen: it is infinitely fast, and later than whatever it waited for.
    host_now: AtomicU64,
}

/// Nothing runs, nothing is ready, and time does not pass by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlock;

/// The threads that run a machine. The last owner's drop lets them end once nothing is left to run.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    calls: Arc<Calls<HostCall>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("clock", &self.shared.clock)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The engine a machine with this configuration runs on.
    pub(crate) fn for_machine(
        clock: ClockMode,
        workers: Option<u32>,
        spin: Option<Duration>,
    ) -> Result<Arc<Self>, DriverError> {
        if let ClockMode::Virtual { .. } = clock {
            return Self::with_workers(clock, 0, Duration::ZERO);
        }
        let of_process = OfProcess::get()?;
        if workers.is_none() && spin.is_none() {
            return of_process.engine();
        }
        let workers = workers.unwrap_or_else(of_process::workers);
        Self::with_workers(clock, workers, spin.unwrap_or(SPIN))
    }

    fn with_workers(
        clock: ClockMode,
        workers: u32,
        spin: Duration,
    ) -> Result<Arc<Self>, DriverError> {
        let shared = Arc::new(Shared::new(clock, spin));
        let engine = Arc::new(Self {
            shared: Arc::clone(&shared),
            calls: Arc::new(Calls::new(HostCall::run)),
        });
        for _ in 0..workers {
            let shared = Arc::clone(&shared);
            let body = move || shared.run_worker();
            spawn("piton-sim core", body, u64::from(workers))?;
        }
        Ok(engine)
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.shared.is_virtual()
    }

    /// The device clock, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        if self.is_virtual() {
            self.shared.virtual_now.load(Ordering::Acquire)
        } else {
            u64::try_from(self.shared.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
        }
    }

    /// Which of `count` ready things goes first: in virtual time as the order and the seed say, else the first.
    pub(crate) fn choose(&self, count: usize, ready_at: impl Fn(usize) -> u64) -> usize {
        let ClockMode::Virtual { order, .. } = self.shared.clock else {
            return 0;
        };
        let candidates: Vec<usize> = match order {
            ScheduleOrder::Seeded => (0..count).collect(),
            ScheduleOrder::ByTime => {
                let earliest = (0..count).map(&ready_at).min();
                (0..count)
                    .filter(|index| Some(ready_at(*index)) == earliest)
                    .collect()
            }
        };
        let state = &mut self.shared.state.lock();
        let chosen = state.random.usize(..candidates.len().max(1));
        candidates.get(chosen).copied().unwrap_or(0)
    }

    /// The virtual time at which the host submits something now; 0 in real time.
    pub(crate) fn host_now(&self) -> u64 {
        self.shared.host_now.load(Ordering::Acquire)
    }

    /// Something ended at `time`.
    pub(crate) fn pass_time(&self, time: u64) {
        self.shared.virtual_now.fetch_max(time, Ordering::AcqRel);
    }

    /// The host has waited for something that ended at `time`.
    pub(crate) fn host_saw(&self, time: u64) {
        self.shared.host_now.fetch_max(time, Ordering::AcqRel);
    }

    /// Makes a queue ready. Its owner-to-be is whoever takes it; nobody else may run it. A thread that does not go on
    /// to look for work itself calls [`share`](Self::share) afterwards.
    pub(crate) fn schedule(&self, queue: &Arc<QueueCore>) {
        let mut state = self.shared.state.lock();
        self.shared
            .push(&mut state, queue.band(), Arc::clone(queue));
    }

    /// As [`schedule`](Self::schedule), for a queue that was idle and got a command.
    pub(crate) fn schedule_submitted(&self, queue: &Arc<QueueCore>) {
        let mut state = self.shared.state.lock();
        let is_announced = self
            .shared
            .push(&mut state, queue.band(), Arc::clone(queue));
        if !is_announced && state.hosts > 0 {
            self.shared.hosts.notify_one();
        }
    }

    /// `count` commands were submitted to a queue that was scheduled already.
    pub(crate) fn submitted(&self, count: u32) {
        self.shared.submitted(count);
    }

    /// Wakes a worker for what is ready.
    pub(crate) fn announce(&self) {
        self.shared.announce();
    }

    /// The calling thread is about to do something else: if anything is ready and somebody rests, that somebody is
    /// woken.
    pub(crate) fn share(&self) {
        self.shared.share();
    }

    /// Whether anything waits for a thread to run it.
    pub(crate) fn has_pending(&self) -> bool {
        self.shared.pending.load(Ordering::Relaxed) > 0
    }

    /// Takes everything that is ready off the list; nobody runs it.
    pub(crate) fn take_ready(&self) -> Vec<Arc<QueueCore>> {
        let mut state = self.shared.state.lock();
        let ready: Vec<_> = state.ready.drain().collect();
        self.shared
            .pending
            .fetch_sub(ready.len(), Ordering::Relaxed);
        ready
    }

    /// A queue that may be ready has become more urgent.
    pub(crate) fn promote(&self, queue: &Arc<QueueCore>, band: usize) {
        let mut state = self.shared.state.lock();
        state.ready.promote(band, |other| Arc::ptr_eq(other, queue));
    }

    /// A counter has grown for which host threads sleep: they look again.
    pub(crate) fn ring_hosts(&self) {
        let state = self.shared.state.lock();
        self.shared.hosts.notify_all();
        drop(state);
    }

    /// Gives a host function to the threads that run them, started when first needed; it is dropped where there
    /// can be none.
    pub(crate) fn call_host(&self, call: HostCall) -> Result<(), DriverError> {
        self.calls.hand_in(call).map_err(|(error, call)| {
            shield::discard(call);
            error
        })
    }

    /// Runs `function`, which may make something ready: meanwhile nobody concludes that nothing ever will be.
    pub(crate) fn while_submitting<R>(&self, function: impl FnOnce() -> R) -> R {
        if !self.is_virtual() {
            return function();
        }
        self.shared.state.lock().running += 1;
        let result = function();
        self.shared.leave();
        result
    }

    /// Runs `function` as host code in the middle of a queue's run, in virtual time: what it submits is submitted at
    /// `time` or later. So is what the host submits from then on, which may go by what the function has learnt.
    pub(crate) fn as_host<R>(&self, time: u64, function: impl FnOnce() -> R) -> R {
        self.host_saw(time);
        self.shared.leave();
        let result = function();
        self.shared.state.lock().running += 1;
        result
    }

    /// Runs a queue whose front is the caller's until it has reached `number`, or a slice of it at most; waits for nothing.
    pub(crate) fn carry_out(&self, queue: &Arc<QueueCore>, number: u64) {
        let progress = &queue.progress;
        let mut runner = Runner::host(Awaited { progress, number });
        execute::run_slice(queue, &mut runner);
        runner.hand_over();
        self.share();
    }

    /// Blocks until the counter has reached `number`, running what is ready meanwhile, and nothing behind it.
    ///
    /// # Errors
    /// [`Deadlock`] where nothing can run any more.
    pub(crate) fn wait(
        &self,
        progress: &Progress<Watcher>,
        number: u64,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, Deadlock> {
        let awaited = Awaited { progress, number };
        let mut runner = Runner::host(awaited);
        let outcome = self.help(&mut runner, awaited, deadline);
        runner.hand_over();
        outcome
    }

    fn help(
        &self,
        runner: &mut Runner<'_>,
        awaited: Awaited<'_>,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, Deadlock> {
        let is_met = || awaited.is_met();
        loop {
            if is_met() {
                return Ok(WaitOutcome::Reached);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(WaitOutcome::DeadlinePassed);
            }
            if self.shared.run_one(runner) || self.shared.is_worth_spinning(&is_met) {
                continue;
            }
            let listening = awaited.progress.sleeper();
            let outcome = self.shared.park(&is_met, deadline)?;
            drop(listening);
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.close();
        self.calls.close();
    }
}

impl Shared {
    /// Runs what the thread has kept, or one ready thing; says whether there was any.
    fn run_one(&self, runner: &mut Runner<'_>) -> bool {
        if let Some(queue) = runner.next() {
            execute::run_slice(&queue, runner);
            shield::discard(queue);
            return true;
        }
        if self.pending.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let work = self.take(&mut self.state.lock());
        match work {
            Some(work) => {
                self.run(work, runner);
                true
            }
            None => false,
        }
    }

    fn take(&self, state: &mut State) -> Option<Work> {
        if let Some(offer) = self.take_offer(state) {
            return Some(Work::Blocks(offer));
        }
        let queue = match self.clock {
            ClockMode::Real => state.ready.pop(),
            ClockMode::Virtual { order, .. } => {
                let State { ready, random, .. } = &mut *state;
                let choose = |count: usize| random.usize(..count.max(1));
                match order {
                    ScheduleOrder::Seeded => ready.pop_chosen(choose),
                    ScheduleOrder::ByTime => {
                        ready.pop_least(|queue| execute::ready_at(queue), choose)
                    }
                }
            }
        }?;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        state.running += usize::from(self.is_virtual());
        Some(Work::Queue(queue))
    }

    fn run(&self, work: Work, runner: &mut Runner<'_>) {
        match work {
            Work::Blocks(offer) => {
                self.share();
                offer.take_part(&self.guests_left);
            }
            Work::Queue(queue) => {
                execute::run_slice(&queue, runner);
                shield::discard(queue);
                if self.is_virtual() {
                    self.leave();
                }
            }
        }
    }

    /// A thread has stopped running a queue in virtual time: another host thread may wait for that.
    fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 {
            self.hosts.notify_all();
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static, wanted: u64) -> Result<(), DriverError> {
    let kind = ErrorKind::OutOfResources {
        resource: ResourceKind::Threads,
        limit: wanted,
    };
    let error = DriverError {
        kind,
        operation: Operation::Open,
        device: None,
        code: None,
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
        .map_err(|_| error)
}
