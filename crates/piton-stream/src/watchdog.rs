//! Commands that take too long are noticed, told, and ended if that is wanted.
//!
//! # The idea
//! A stream works on one command at a time: the oldest that has not ended. A watchdog looks at every stream now and
//! then and remembers since when it has seen the same command there; one that stays past its deadline *expires*, once.
//! A command that only waits for another stream of the runtime does not: the other one's command does. So what expires
//! is where things hang: a kernel that runs for ever, or a wait for something outside that does not come.
//!
//! One look is linear in the number of streams, however many of them expire: they are dumped once for all.
//!
//! Looking is all there is to it, so it is given the time: [`Watchdog::check`]. A program that wants it done by
//! itself [spawns](Watchdog::spawn) it.
//!
//! # Protocol of the spawned form
//! `stop` is set under its lock, and the thread looks at it under that lock before it waits: so it is not missed. The
//! thread holds no lock while it looks at streams and tells.

use crate::{LaneActivity, LaneDump, StreamError, Streams, WaitsFor, dump, lane_state::LaneState};
use piton_driver::Position;
use piton_sync::{Condvar, Mutex, thread};
use piton_timeline::{LaneId, Timeline};
use std::{
    collections::BTreeMap,
    fmt,
    mem::ManuallyDrop,
    sync::Arc,
    time::{Duration, Instant},
};

/// What a watchdog does with a stream whose command has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExpiry {
    /// It tells.
    #[default]
    Tell,
    /// It tells, having [aborted](crate::Stream::abort) the stream.
    Abort,
}

/// A command that took too long.
#[derive(Debug)]
#[non_exhaustive]
pub struct Expiry {
    /// Its stream, as it was then.
    pub lane: LaneDump,
    /// For how long it was seen at the front of its stream.
    pub seen_for: Duration,
    /// How the abort went, if there was one.
    pub aborted: Option<Result<(), StreamError>>,
    /// Every stream, as it was then, with the ages of their oldest commands. Shared by all that expired at one look, and
    /// made before any of them was aborted.
    pub all: Arc<[LaneDump]>,
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.lane.name;
        write!(f, "stream {name} is stuck for {:?}:", self.seen_for)?;
        for lane in &*self.all {
            write!(f, "\n  {lane}")?;
        }
        Ok(())
    }
}

/// The command at the front of a lane.
struct Seen {
    completed: u64,
    since: Instant,
    was_told: bool,
}

/// Looks for commands that take too long. See the module.
pub struct Watchdog {
    streams: Streams,
    deadline: Duration,
    on_expiry: OnExpiry,
    seen: BTreeMap<LaneId, Seen>,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("deadline", &self.deadline)
            .field("on_expiry", &self.on_expiry)
            .finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Watches these streams. A command may stay at the front of its stream for `deadline`, or for as long as
    /// [its stream](crate::StreamOptions::command_deadline) or [who submitted it](crate::Event::set_command_deadline) says.
    pub fn new(streams: &Streams, deadline: Duration, on_expiry: OnExpiry) -> Self {
        Self {
            streams: streams.clone(),
            deadline,
            on_expiry,
            seen: BTreeMap::new(),
        }
    }

    /// Looks at every stream; returns what has expired since the last look, each command once. `now` is never before
    /// that of an earlier look. A command's time begins at the first look that sees it. Does not block for long.
    pub fn check(&mut self, now: Instant) -> Vec<Expiry> {
        let lanes = self.streams.registry().open_lanes();
        // In the order of their ids, as the lanes are: one has each slot.
        let is_open = |id: &LaneId| lanes.binary_search_by_key(id, |lane| lane.id()).is_ok();
        self.seen.retain(|id, _| is_open(id));
        let is_late: Vec<bool> = lanes.iter().map(|lane| self.look(lane, now)).collect();
        if !is_late.contains(&true) {
            return Vec::new();
        }
        let all = self.dump(&lanes, now);
        let late = is_late.iter().zip(&lanes).zip(&*all);
        let late = late.filter(|((is_late, _), _)| **is_late);
        late.filter_map(|((_, lane), dump)| self.expire(lane, dump, &all))
            .collect()
    }

    /// Whether the lane's oldest command has been there for too long, and that was not told.
    fn look(&mut self, lane: &LaneState, now: Instant) -> bool {
        let completed = lane.link().refresh();
        if completed >= lane.link().submitted() {
            self.seen.remove(&lane.id());
            return false;
        }
        let fresh = || Seen {
            completed: completed.get(),
            since: now,
            was_told: false,
        };
        let seen = self.seen.entry(lane.id()).or_insert_with(fresh);
        if seen.completed != completed.get() {
            *seen = fresh();
        }
        let oldest = Position::new(completed.get().saturating_add(1));
        let deadline = lane.command_deadline(oldest).unwrap_or(self.deadline);
        !seen.was_told && now.saturating_duration_since(seen.since) >= deadline
    }

    /// Every lane, with the age of its oldest command; of one that has ended since it was seen no age is told.
    fn dump(&self, lanes: &[Arc<LaneState>], now: Instant) -> Arc<[LaneDump]> {
        let mut all = dump::dump(self.streams.registry(), lanes);
        for (dump, lane) in all.iter_mut().zip(lanes) {
            let seen = self.seen.get(&lane.id());
            let seen = seen.filter(|seen| seen.completed == dump.completed);
            dump.seen_for = seen.map(|seen| now.saturating_duration_since(seen.since));
        }
        all.into()
    }

    /// A lane's oldest command has expired, unless it has just ended or hangs on another stream's.
    fn expire(
        &mut self,
        lane: &LaneState,
        dump: &LaneDump,
        all: &Arc<[LaneDump]>,
    ) -> Option<Expiry> {
        let seen_for = dump.seen_for?;
        if let LaneActivity::Waiting(_, WaitsFor::Stream(..)) = dump.activity {
            return None;
        }
        self.seen.get_mut(&lane.id())?.was_told = true;
        let aborted = match self.on_expiry {
            OnExpiry::Tell => None,
            OnExpiry::Abort => lane
                .link()
                .queue()
                .map(|queue| queue.abort().map_err(Into::into)),
        };
        Some(Expiry {
            lane: dump.clone(),
            seen_for,
            aborted,
            all: Arc::clone(all),
        })
    }

    /// Looks every `period` on a thread of its own, and calls `tell` there with what expires.
    ///
    /// # Errors
    /// Where the system starts no thread: its error.
    pub fn spawn(
        mut self,
        period: Duration,
        mut tell: impl FnMut(&Expiry) + Send + 'static,
    ) -> std::io::Result<WatchdogThread> {
        let stop = Arc::new(Stop::default());
        let timeline = Arc::clone(self.streams.timeline());
        let asked = Arc::clone(&stop);
        let builder = thread::Builder::new().name("piton-watchdog".to_owned());
        let thread = builder.spawn(move || {
            while !asked.comes_within(period) {
                self.check(Instant::now()).iter().for_each(&mut tell);
            }
        })?;
        Ok(WatchdogThread {
            stop,
            thread: Some(thread),
            timeline,
        })
    }
}

/// Says to the thread that it is to end.
#[derive(Debug, Default)]
struct Stop {
    is_asked: Mutex<bool>,
    asked: Condvar,
}

impl Stop {
    fn ask(&self) {
        *self.is_asked.lock() = true;
        self.asked.notify_all();
    }

    /// Waits for `period`, less if the thread is to end.
    fn comes_within(&self, period: Duration) -> bool {
        let end = Instant::now().checked_add(period);
        let mut is_asked = self.is_asked.lock();
        while !*is_asked {
            let Some(end) = end else {
                self.asked.wait(&mut is_asked);
                continue;
            };
            if self.asked.wait_until(&mut is_asked, end).timed_out() {
                return *is_asked;
            }
        }
        true
    }
}

/// A watchdog that runs by itself. Dropping it ends its thread and waits for that, unless it is dropped by its own
/// callback.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct WatchdogThread {
    stop: Arc<Stop>,
    thread: Option<thread::JoinHandle<()>>,
    timeline: Arc<Timeline>,
}

impl Drop for WatchdogThread {
    fn drop(&mut self) {
        if self.timeline.is_forked() {
            // There is no such thread here to be told, waited for or detached.
            let _left = ManuallyDrop::new(self.thread.take());
            return;
        }
        self.stop.ask();
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() != thread::current().id() {
            // A panic of the callback ended the watch then, and was the callback's.
            drop(thread.join());
        }
    }
}
