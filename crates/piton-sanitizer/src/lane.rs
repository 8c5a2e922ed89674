//! One lane: its clock, what the clock was at each of its places, and what of its program is not looked at yet.
//!
//! # Invariants
//! - History entry `(from, clock)` holds for the places `from..`, up to the next entry; entries are sorted, each
//!   clock includes the one before.
//! - Everything up to `reached` has been looked at. `ahead` is what comes then, in order; it is empty unless the
//!   lane is held.

use crate::{Effect, FunctionId, SignalId, Space, clock::Clock, shadow};
use piton_driver::{MemoryWait, Operation, Origin};
use piton_timeline::{LaneId, Timepoint};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// What one command is.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) effect: Effect,
    pub(crate) operation: Operation,
    pub(crate) origin: Origin,
}

/// What happens at a place of a lane.
#[derive(Debug)]
pub(crate) enum Act {
    /// A command, which takes the place with this seq.
    Command(u64, Step),
    /// A wait that took no command, behind the commands so far.
    WaitLeftOut(Timepoint),
    /// Memory is handed out to the lane.
    HandOut(shadow::Tenancy),
    /// Memory is given back whose last uses reach up to here.
    TakeBack(shadow::Ended),
}

/// An act with what whoever submitted it came after.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) author: Arc<Clock>,
    pub(crate) act: Act,
}

/// What a lane waits for before more of its program can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Another lane was looked at up to here.
    Lane(Timepoint),
    /// A signal that meets the value.
    Signal(SignalId, u64),
    /// A write that meets the condition.
    Word(Space, MemoryWait),
    /// The host function has returned: what it waited for, the rest of the lane comes after.
    Returned(FunctionId),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) label: Option<Arc<str>>,
    pub(crate) clock: Arc<Clock>,
    history: Vec<(u64, Arc<Clock>)>,
    pub(crate) reached: u64,
    pub(crate) ahead: VecDeque<Entry>,
    /// What it is held by, and the place where it is held.
    pub(crate) held: Option<(Until, u64)>,
    pub(crate) is_retired: bool,
    /// The last author's clock, which most authors share.
    last_author: Option<Arc<Clock>>,
}

impl Lane {
    pub(crate) fn new(base: u64, label: Option<Arc<str>>) -> Self {
        Self {
            label,
            clock: Arc::default(),
            history: Vec::new(),
            reached: base,
            ahead: VecDeque::new(),
            held: None,
            is_retired: false,
            last_author: None,
        }
    }

    /// What the lane came after at one of its places.
    pub(crate) fn clock_at(&self, seq: u64) -> Arc<Clock> {
        let known = self.history.partition_point(|(from, _)| *from <= seq);
        let entry = known.checked_sub(1).and_then(|at| self.history.get(at));
        entry
            .map(|(_, clock)| Arc::clone(clock))
            .unwrap_or_default()
    }

    /// From place `from` on the lane comes after what `clock` says.
    pub(crate) fn learn(&mut self, from: u64, clock: &Clock) {
        if self.clock.includes(clock) {
            return;
        }
        Arc::make_mut(&mut self.clock).join(clock);
        match self.history.last_mut() {
            Some((last, known)) if *last >= from => *known = Arc::clone(&self.clock),
            _ => self.history.push((from, Arc::clone(&self.clock))),
        }
    }

    /// As [`learn`](Self::learn), of whoever submitted what comes at `from`.
    pub(crate) fn learn_author(&mut self, from: u64, author: &Arc<Clock>) {
        let is_known = |known: &Arc<Clock>| Arc::ptr_eq(known, author);
        if !self.last_author.as_ref().is_some_and(is_known) {
            self.learn(from, author);
            self.last_author = Some(Arc::clone(author));
        }
    }

    /// Puts an act behind the commands up to `seq`, in front of later ones that are not looked at yet.
    pub(crate) fn put_behind(&mut self, seq: u64, entry: Entry) {
        let is_later = |entry: &Entry| matches!(entry.act, Act::Command(at, _) if at > seq);
        let at = self.ahead.iter().position(is_later);
        self.ahead.insert(at.unwrap_or(self.ahead.len()), entry);
    }

    /// Everything up to `seq` is known to all: nobody asks what the lane came after there.
    pub(crate) fn trim(&mut self, seq: u64, gone: &BTreeSet<LaneId>) {
        let known = self.history.partition_point(|(from, _)| *from <= seq);
        self.history.drain(..known.saturating_sub(1));
        for clock in self.history.iter_mut().map(|(_, clock)| clock) {
            if clock.names_any(gone) {
                Arc::make_mut(clock).forget(gone);
            }
        }
        if self.clock.names_any(gone) {
            Arc::make_mut(&mut self.clock).forget(gone);
        }
        self.last_author = None;
    }

    /// How many clocks are kept.
    pub(crate) fn clocks(&self) -> usize {
        self.history.len()
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        assert!(
            self.held.is_some() || self.ahead.is_empty(),
            "a lane that is not held is behind"
        );
        assert!(
            self.history.is_sorted_by_key(|(from, _)| *from),
            "a clock out of place"
        );
        for pair in self.history.windows(2) {
            assert!(pair[1].1.includes(&pair[0].1), "a clock that forgot");
        }
    }
}
