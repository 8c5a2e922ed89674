//! Follows a program through a plan and hands out what it expects.
//!
//! # Protocol
//! One owner, no locks. [`PlanCursor::begin_step`] at the start of each step, [`PlanCursor::next`] for each request,
//! [`PlanCursor::free`] for each planned block that is freed, whenever that is. The next request of the program is looked
//! up by its number in the step; only what departs is searched for. The cursor believes the program nothing: before it hands
//! out a place it looks whether all of it is free, at the bits of its [pieces](Plan::pieces). So a program that frees late, in another order or
//! not at all, asks for something else, or begins its step in the middle gets fewer places from the plan, and never one
//! that somebody has.
//!
//! A request that is not the one expected departs. The next one is looked for here (something was put in) and in the
//! [`AHEAD`] requests that follow (something was left out or replaced): the plan goes on from the first place where two
//! requests one after the other are those expected, so that a size that happens to come again does not lead astray.

use std::sync::Arc;

use crate::pieces::PieceSet;
use crate::plan::Plan;

/// How many expected requests beyond the next one are looked at after one that departed.
const AHEAD: usize = 64;

/// What a request gets from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// A free place.
    Planned {
        /// Number of the request in the plan, by which it is freed.
        request: u32,
        /// Where it goes, in bytes.
        offset: u64,
    },
    /// Nothing: serve the request from elsewhere, and do not give it back to the cursor.
    Departed(Departure),
}

/// Why a request gets nothing from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// The step has made all requests of the plan.
    Ended,
    /// The plan expects other bytes or another stream.
    Unexpected,
    /// It is the expected one, but was not freed within a round when the step was recorded, so it has no place.
    Unplanned,
    /// A block that is still live has its place, or a part of it.
    Occupied {
        /// That block's number in the plan.
        by: u32,
    },
}

/// A program's position in a plan, and the blocks it has from it.
///
/// # Invariants
/// 1. A request is *live* if it was answered with [`Answer::Planned`] and not freed. `taken` holds all pieces of live requests,
///    each of which is one request's, and `starts` the first piece of each.
/// 2. `owners` has the request at its first piece, and is meaningless at pieces that are not in `starts`.
#[derive(Debug, Clone)]
pub struct PlanCursor {
    plan: Arc<Plan>,
    /// The request expected next.
    expected: usize,
    /// Where the plan may go on if the request after is the one expected there.
    candidate: Option<usize>,
    taken: PieceSet,
    starts: PieceSet,
    owners: Vec<u32>,
    served: u64,
    departed: u64,
}

impl PlanCursor {
    /// Follows `plan` from its first request, with nothing live.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let pieces = plan.piece_count();
        Self {
            plan,
            expected: 0,
            candidate: None,
            taken: PieceSet::new(pieces),
            starts: PieceSet::new(pieces),
            owners: vec![0; pieces as usize],
            served: 0,
            departed: 0,
        }
    }

    /// Starts over with the plan's first request. What is live stays so.
    pub fn begin_step(&mut self) {
        self.expected = 0;
        self.candidate = None;
    }

    /// Answers the program's next request: `bytes` bytes for a stream.
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
        let offset = self
            .plan
            .requests
            .get(index)
            .and_then(|expected| expected.offset);
        let Some(offset) = offset else {
            return Answer::Departed(Departure::Unplanned);
        };
        // A plan has no more requests than `u32` counts.
        let request = u32::try_from(index).unwrap_or(u32::MAX);
        let pieces = self.plan.pieces(request);
        if let Some(taken) = self.taken.first_in(pieces.clone()) {
            let by = self.owner(taken);
            return Answer::Departed(Departure::Occupied { by });
        }
        self.starts.add(pieces.start..pieces.start + 1);
        self.owners[pieces.start as usize] = request;
        self.taken.add(pieces);
        Answer::Planned { request, offset }
    }

    /// Takes back the block of a request. `false` if it is not live; then nothing has changed.
    pub fn free(&mut self, request: u32) -> bool {
        if !self.is_live(request) {
            return false;
        }
        let pieces = self.plan.pieces(request);
        self.starts.remove(pieces.start..pieces.start + 1);
        self.taken.remove(pieces);
        true
    }

    /// Whether the request's block is handed out and not freed.
    #[must_use]
    pub fn is_live(&self, request: u32) -> bool {
        let pieces = self.plan.pieces(request);
        let first = pieces.start..pieces.end.min(pieces.start + 1);
        self.starts
            .first_in(first)
            .is_some_and(|first| self.owners[first as usize] == request)
    }

    /// The live request that has a taken piece.
    fn owner(&self, taken: u32) -> u32 {
        let first = self.starts.last_upto(taken).unwrap_or(taken);
        self.owners[first as usize]
    }

    /// The live request whose place contains an offset, at its start or elsewhere.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<u32> {
        let piece = self.plan.pieces.at(offset)?;
        let taken = self.taken.first_in(piece..piece + 1)?;
        Some(self.owner(taken))
    }

    /// The plan that is followed.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Planned blocks that are live: requests and their offsets, lowest first.
    pub fn live(&self) -> impl Iterator<Item = (u32, u64)> {
        self.starts.iter().filter_map(|first| {
            let request = *self.owners.get(first as usize)?;
            Some((request, self.plan.requests.get(request as usize)?.offset?))
        })
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

    /// Whether the live ranges lie inside the plan and do not overlap, and nothing else is taken.
    #[must_use]
    pub fn check(&self) -> bool {
        let (mut end, mut pieces) = (0, 0);
        let are_apart = self.live().all(|(request, start)| {
            let expected = self.plan.requests.get(request as usize);
            let is_apart = start >= end;
            end = start.saturating_add(expected.map_or(0, |expected| expected.bytes));
            pieces += self.plan.pieces(request).len();
            is_apart && end <= self.plan.height
        });
        are_apart && self.taken.iter().count() == pieces
    }
}
