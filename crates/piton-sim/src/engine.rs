//! Who runs what is ready: worker threads, waiting host threads, or, in virtual time, whoever waits.
//!
//! # Protocol
//! - `state` guards what is ready and who sleeps. Whoever makes something ready does it under the lock and
//!   wakes a sleeper under it, so a thread that found nothing and sleeps under the same lock misses nothing.
//! - A host thread sleeps at the `doorbell`, under the same lock, until a queue's counter has grown. Counters grow
//!   outside the lock; that no wake is lost all the same is the doorbell's business.
//! - Nothing is run, woken or dropped under the lock.
//!
//! Lock order: the engine's `state` before a queue's `state` (which queue is earliest is asked under both).
//!
//! In virtual time there are no workers: [`Engine::wait`] runs ready queues itself, one after the other, in an
//! order that the seed decides.

use crate::{
    config::{ClockMode, ScheduleOrder},
    doorbell::Doorbell,
    execute,
    grid::GridJob,
    host_function::HostCall,
    queue::QueueCore,
    ready::Ready,
};
use piton_driver::{DriverError, ErrorKind, Operation, ResourceKind, WaitOutcome};
use piton_sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
    thread,
};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, OnceLock, Weak},
    time::Instant,
};

/// Something to do.
enum Work {
    Queue(Arc<QueueCore>),
    Blocks(Arc<GridJob>),
}

struct State {
    ready: Ready<Arc<QueueCore>>,
    jobs: Vec<Arc<GridJob>>,
    calls: VecDeque<HostCall>,
    has_call_thread: bool,
    idle_workers: usize,
    /// Threads that run a queue or submit to one now; only kept in virtual time.
    running: usize,
    is_closing: bool,
    random: fastrand::Rng,
}

struct Shared {
    state: Mutex<State>,
    /// Workers sleep here.
    work: Condvar,
    /// Waiting host threads sleep here.
    hosts: Doorbell,
    /// The host functions' thread sleeps here.
    calls: Condvar,
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
    ) -> Result<Arc<Self>, DriverError> {
        match (clock, workers) {
            (ClockMode::Virtual { .. }, _) => Self::with_workers(clock, 0),
            (ClockMode::Real, Some(workers)) => Self::with_workers(clock, workers),
            (ClockMode::Real, None) => Self::of_process(),
        }
    }

    /// The engine all machines of the process share, so that threads match cores whatever the number of
    /// devices.
    fn of_process() -> Result<Arc<Self>, DriverError> {
        // GLOBAL: cores belong to the process. Two machines with threads of their own would have twice as
        // many threads as cores. It holds no configuration, and ends with the last machine.
        static SHARED: OnceLock<Mutex<Weak<Engine>>> = OnceLock::new();
        let mut shared = SHARED.get_or_init(|| Mutex::new(Weak::new())).lock();
        if let Some(engine) = shared.upgrade() {
            return Ok(engine);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = u32::try_from(cores.saturating_sub(1).max(1)).unwrap_or(1);
        let engine = Self::with_workers(ClockMode::Real, workers)?;
        *shared = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn with_workers(clock: ClockMode, workers: u32) -> Result<Arc<Self>, DriverError> {
        let seed = match clock {
            ClockMode::Virtual { seed, .. } => seed,
            ClockMode::Real => 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ready: Ready::new(),
                jobs: Vec::new(),
                calls: VecDeque::new(),
                has_call_thread: false,
                idle_workers: 0,
                running: 0,
                is_closing: false,
                random: fastrand::Rng::with_seed(seed),
            }),
            work: Condvar::new(),
            hosts: Doorbell::default(),
            calls: Condvar::new(),
            clock,
            started: Instant::now(),
            virtual_now: AtomicU64::new(0),
            host_now: AtomicU64::new(0),
        });
        let engine = Arc::new(Self {
            shared: Arc::clone(&shared),
        });
        for _ in 0..workers {
            let shared = Arc::clone(&shared);
            spawn(
                "piton-sim core",
                move || shared.run_worker(),
                u64::from(workers),
            )?;
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
        let chosen = self
            .shared
            .state
            .lock()
            .random
            .usize(..candidates.len().max(1));
        candidates.get(chosen).copied().unwrap_or(0)
    }

    /// The virtual time at which the host submits something now.
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

    /// Makes a queue ready. Its owner-to-be is whoever takes it; nobody else may run it.
    pub(crate) fn schedule(&self, queue: Arc<QueueCore>) {
        let mut state = self.shared.state.lock();
        state.ready.push(queue.band(), queue);
        self.shared.wake_one(&state);
    }

    /// Offers a launch's blocks to idle threads.
    pub(crate) fn offer(&self, job: &Arc<GridJob>) {
        let mut state = self.shared.state.lock();
        state.jobs.push(Arc::clone(job));
        for _ in 0..job.wanted().min(state.idle_workers as u64) {
            self.shared.work.notify_one();
        }
        self.shared.hosts.ring_one(&state);
    }

    /// Takes the offer back.
    pub(crate) fn withdraw(&self, job: &Arc<GridJob>) {
        self.shared
            .state
            .lock()
            .jobs
            .retain(|other| !Arc::ptr_eq(other, job));
    }

    /// A counter has grown: host threads that wait look again.
    pub(crate) fn counter_grew(&self) {
        self.shared.hosts.ring(&self.shared.state);
    }

    /// Gives a host function to the thread that runs them, started when first needed; it is dropped where there
    /// can be no such thread.
    pub(crate) fn call_host(&self, call: HostCall) -> Result<(), DriverError> {
        let mut state = self.shared.state.lock();
        if !state.has_call_thread {
            let shared = Arc::clone(&self.shared);
            if let Err(error) = spawn("piton-sim host functions", move || shared.run_calls(), 1) {
                drop(state);
                drop(call);
                return Err(error);
            }
            state.has_call_thread = true;
        }
        state.calls.push_back(call);
        self.shared.calls.notify_one();
        Ok(())
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

    /// Runs `function` as host code in the middle of a queue's run, in virtual time.
    pub(crate) fn as_host<R>(&self, function: impl FnOnce() -> R) -> R {
        self.shared.leave();
        let result = function();
        self.shared.state.lock().running += 1;
        result
    }

    /// Blocks until `is_met`, running what is ready meanwhile.
    ///
    /// # Errors
    /// [`Deadlock`] where nothing can run any more.
    pub(crate) fn wait(
        &self,
        is_met: impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<WaitOutcome, Deadlock> {
        loop {
            if is_met() {
                self.shared.pass_on();
                return Ok(WaitOutcome::Reached);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.shared.pass_on();
                return Ok(WaitOutcome::DeadlinePassed);
            }
            if self.shared.run_one() {
                continue;
            }
            if let Some(outcome) = self.shared.park(&is_met, deadline)? {
                return Ok(outcome);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closing = true;
        self.shared.work.notify_all();
        self.shared.calls.notify_all();
    }
}

impl Shared {
    fn run_worker(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = self.take(&mut state) {
                drop(state);
                self.run(work);
                state = self.state.lock();
            } else if state.is_closing {
                return;
            } else {
                state.idle_workers += 1;
                self.work.wait(&mut state);
                state.idle_workers -= 1;
            }
        }
    }

    fn run_calls(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                drop(state);
                call.run();
                state = self.state.lock();
            } else if state.is_closing {
                return;
            } else {
                self.calls.wait(&mut state);
            }
        }
    }

    /// Runs one ready thing; says whether there was one.
    fn run_one(&self) -> bool {
        let work = self.take(&mut self.state.lock());
        match work {
            Some(work) => {
                self.run(work);
                true
            }
            None => false,
        }
    }

    fn take(&self, state: &mut State) -> Option<Work> {
        if let Some(job) = state.jobs.iter().find(|job| job.wanted() > 0) {
            return Some(Work::Blocks(Arc::clone(job)));
        }
        let queue = match self.clock {
            ClockMode::Real => state.ready.pop(),
            ClockMode::Virtual { order, .. } => {
                let State { ready, random, .. } = &mut *state;
                let choose = |count: usize| random.usize(..count.max(1));
                match order {
                    ScheduleOrder::Seeded => ready.pop_chosen(choose),
                    ScheduleOrder::ByTime => ready.pop_least(|queue| queue.ready_at(), choose),
                }
            }
        }?;
        state.running += usize::from(self.is_virtual());
        Some(Work::Queue(queue))
    }

    fn run(&self, work: Work) {
        match work {
            Work::Blocks(job) => job.take_part(),
            Work::Queue(queue) => {
                execute::run_slice(&queue);
                if self.is_virtual() {
                    self.leave();
                }
            }
        }
    }

    fn is_virtual(&self) -> bool {
        matches!(self.clock, ClockMode::Virtual { .. })
    }

    /// A thread has stopped running a queue in virtual time: another host thread may wait for that.
    fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 {
            self.hosts.ring_held(&state);
        }
    }

    /// Sleeps until woken, unless the condition holds or there is something to run.
    fn park(
        &self,
        is_met: &impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<Option<WaitOutcome>, Deadlock> {
        let mut state = self.state.lock();
        let reason = |state: &State| self.reason_to_stay_awake(state, is_met, deadline);
        match self.hosts.sleep_unless(&mut state, deadline, reason) {
            None => Ok(None),
            Some(reason) => reason,
        }
    }

    /// Why a host thread need not sleep: an outcome, something to run (no outcome yet), or that nothing can ever
    /// happen.
    fn reason_to_stay_awake(
        &self,
        state: &State,
        is_met: &impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Option<Result<Option<WaitOutcome>, Deadlock>> {
        if is_met() {
            return Some(Ok(Some(WaitOutcome::Reached)));
        }
        if !state.ready.is_empty() || state.jobs.iter().any(|job| job.wanted() > 0) {
            return Some(Ok(None));
        }
        if self.is_virtual() && state.running == 0 {
            // Nothing runs and nothing is ready. Time does not pass by itself here.
            return Some(match deadline {
                Some(_) => Ok(Some(WaitOutcome::DeadlinePassed)),
                None => Err(Deadlock),
            });
        }
        None
    }

    /// A wake meant for work may have reached a host thread that now goes away: hand it on.
    fn pass_on(&self) {
        let state = self.state.lock();
        if !state.ready.is_empty() {
            self.wake_one(&state);
        }
    }

    fn wake_one(&self, state: &MutexGuard<'_, State>) {
        if state.idle_workers > 0 {
            self.work.notify_one();
        } else {
            self.hosts.ring_one(state);
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
