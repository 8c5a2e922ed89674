//! A few timepoints, at most one a lane: everything up to each of them.
//!
//! # Invariants
//! Points are sorted by lane slot, and no slot occurs twice. Two points of one slot are ordered by their seq
//! whatever their generations, because seqs grow across generations; the later one stands for both.

use crate::{Timeline, Timepoint};
use smallvec::SmallVec;

/// A set of places in the order of work, reached when all of them are.
///
/// Holds two points without allocating: a block is mostly used on one lane, sometimes on two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frontier {
    points: SmallVec<[Timepoint; 2]>,
}

impl Frontier {
    /// The frontier that is always reached.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The points, sorted by lane slot.
    #[inline]
    pub fn points(&self) -> &[Timepoint] {
        &self.points
    }

    /// Whether nothing is waited for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The only point, if there is exactly one.
    #[inline]
    pub fn single(&self) -> Option<Timepoint> {
        match self.points.as_slice() {
            [point] => Some(*point),
            _ => None,
        }
    }

    /// Adds a point; of two on one lane the later stays.
    pub fn insert(&mut self, point: Timepoint) {
        match self
            .points
            .binary_search_by_key(&point.lane.index, |p| p.lane.index)
        {
            Ok(at) if self.points[at].seq < point.seq => self.points[at] = point,
            Ok(_) => {}
            Err(at) => self.points.insert(at, point),
        }
    }

    /// Adds all points of `other`.
    pub fn join(&mut self, other: &Self) {
        for point in &other.points {
            self.insert(*point);
        }
    }

    /// Drops the points that are complete.
    pub fn retain_pending(&mut self, timeline: &Timeline) {
        self.points.retain(|point| !timeline.is_complete(*point));
    }

    /// Drops the points that are known to be complete: no source is asked.
    pub fn retain_unknown(&mut self, timeline: &Timeline) {
        self.points
            .retain(|point| !timeline.is_known_complete(*point));
    }

    /// Whether every point is complete. Does not block.
    pub fn is_complete(&self, timeline: &Timeline) -> bool {
        self.points.iter().all(|point| timeline.is_complete(*point))
    }
}

impl From<Timepoint> for Frontier {
    #[inline]
    fn from(point: Timepoint) -> Self {
        // Two points fit; the second is not one.
        Self {
            points: SmallVec::from_buf_and_len([point; 2], 1),
        }
    }
}

impl FromIterator<Timepoint> for Frontier {
    fn from_iter<I: IntoIterator<Item = Timepoint>>(points: I) -> Self {
        let mut frontier = Self::new();
        for point in points {
            frontier.insert(point);
        }
        frontier
    }
}
