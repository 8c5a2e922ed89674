//! Follows a program through a plan and hands out what it expects.
//!
//! # Protocol
//! One owner, no locks. [`PlanCursor::begin_step`] at the start of each step, [`PlanCursor::next`] for each request,
//! [`PlanCursor::free`] for each planned block that is freed, whenever that is. The cursor believes the program nothing:
//! before it hands out a place it looks whether all of it is free. So a program that frees late, in another order or
//! not at all, asks for something else, or begins its step in the middle gets fewer places from the plan, and never one
//! that somebody has.
//!
//! A request that is not the one expected departs. The next one is looked for here (something was put in) and in the
//! [`AHEAD`] requests that follow (something was left out or replaced): the plan goes on from the first place where two
//! requests one after the other are those expected, so that a size that happens to come again does not lead astray.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::{Expected, Plan};

/// How many expected requests beyond the next one are looked at after one that departed.
const AHEAD: usize = 64;

/// What a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// A place that nobody has.
    Planned {
        /// Number of the request in the plan, by which it is freed.
        request: u32,
        /// Where it goes, in bytes.
        offset: u64,
    },
    /// Nothing: the request is to be served from elsewhere. Nothing is to be given back to the cursor.
    Departed(Departure),
}

/// Why a request gets nothing from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// The step has made all requests of the plan.
    Ended,
    /// Other bytes or another stream are expected.
    Unexpected,
    /// It is expected, and was not freed within a round when the step was recorded.
    Unplanned,
    /// A block that is still live has its place, or a part of it.
    Occupied {
        /// That block's number in the plan.
        by: u32,
    },
}

/// A program's place in a plan, and what it has of it.
///
/// # Invariants
/// The ranges in `live` are those of requests that were answered with [`Answer::Planned`] and not freed; no two overlap.
#[derive(Debug, Clone)]
pub struct PlanCursor {
    plan: Arc<Plan>,
    /// The request expected next.
    expected: usize,
    /// Where the plan may go on if the request after is the one expected there.
    candidate: Option<usize>,
    /// The start of each live range to its request.
    live: BTreeMap<u64, u32>,
    served: u64,
    departed: u64,
}

impl PlanCursor {
    /// At the start of a step, with nothing live.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            expected: 0,
            candidate: None,
            live: BTreeMap::new(),
            served: 0,
            departed: 0,
        }
    }

    /// Starts over with the plan's first request. What is live stays so.
    pub fn begin_step(&mut self) {
        self.expected = 0;
        self.candidate = None;
    }

    /// Answers the program's next request, of so many bytes for a stream.
    pub fn next(&mut self, bytes: u64, stream: u32) -> Answer {
        let answer = self.answer(bytes, stream);
        match answer {
            Answer::Planned { .. } => self.served += 1,
            Answer::Departed(_) => self.departed += 1,
        }
        answer
    }

    fn answer(&mut self, bytes: u64, stream: u32) -> Answer {
        let Some(index) = self.find(bytes, stream) else {
            let has_ended = self.expected >= self.plan.requests.len();
            return Answer::Departed(if has_ended {
                Departure::Ended
            } else {
                Departure::Unexpected
            });
        };
        self.expected = index + 1;
        self.candidate = None;
        self.take(index)
    }

    /// The request of the plan that this is, if it is one that the plan goes on with.
    fn find(&mut self, bytes: u64, stream: u32) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(self.plan.alignment)?;
        let requests = &self.plan.requests;
        let is_at = |index: usize| {
            let expected = requests.get(index);
            expected.is_some_and(|expected| (expected.bytes, expected.stream) == (bytes, stream))
        };
        if is_at(self.expected) {
            return Some(self.expected);
        }
        if let Some(candidate) = self.candidate.filter(|candidate| is_at(*candidate)) {
            return Some(candidate);
        }
        let ahead = self.expected + 1..self.expected + 1 + AHEAD;
        // A request that was replaced: the one after it comes next.
        let found = ahead.into_iter().find(|index| is_at(*index));
        self.candidate = Some(found.unwrap_or(self.expected) + 1);
        None
    }

    /// Hands out a request's place if all of it is free.
    fn take(&mut self, index: usize) -> Answer {
        let Some(Expected {
            bytes,
            offset: Some(offset),
            ..
        }) = self.plan.requests.get(index).copied()
        else {
            return Answer::Departed(Departure::Unplanned);
        };
        let below = self.live.range(..offset + bytes).next_back();
        if let Some((start, by)) = below
            && start + self.bytes_of(*by) > offset
        {
            return Answer::Departed(Departure::Occupied { by: *by });
        }
        // A plan has no more requests than `u32` counts.
        let request = u32::try_from(index).unwrap_or(u32::MAX);
        self.live.insert(offset, request);
        Answer::Planned { request, offset }
    }

    /// Takes back a planned block. `false` if it is not live, and then nothing has changed.
    pub fn free(&mut self, request: u32) -> bool {
        let expected = self.plan.requests.get(request as usize);
        let Some(offset) = expected.and_then(|expected| expected.offset) else {
            return false;
        };
        if self.live.get(&offset) != Some(&request) {
            return false;
        }
        self.live.remove(&offset);
        true
    }

    fn bytes_of(&self, request: u32) -> u64 {
        let expected = self.plan.requests.get(request as usize);
        expected.map_or(0, |expected| expected.bytes)
    }

    /// The plan that is followed.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Planned blocks that are live: requests and their offsets, lowest first.
    pub fn live(&self) -> impl Iterator<Item = (u32, u64)> {
        self.live
            .iter()
            .map(|(offset, request)| (*request, *offset))
    }

    /// Requests served from the plan, over all steps.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Requests that departed, over all steps.
    #[must_use]
    pub fn departed(&self) -> u64 {
        self.departed
    }

    /// Do the live ranges lie inside the plan, each at its request's offset, and apart from each other?
    #[must_use]
    pub fn check(&self) -> bool {
        let mut end = 0;
        self.live.iter().all(|(start, request)| {
            let expected = self.plan.requests.get(*request as usize);
            let is_apart = *start >= end;
            end = start.saturating_add(self.bytes_of(*request));
            is_apart
                && end <= self.plan.height
                && expected.is_some_and(|expected| expected.offset == Some(*start))
        })
    }
}
