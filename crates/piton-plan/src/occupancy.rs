//! Which addresses are taken at which times: a segment tree over time whose nodes hold runs of addresses.
//!
//! A node stands for an interval of instants. What lives at any instant of it *touches* it; what lives through all of
//! it *covers* it. A lifetime falls into few nodes, twice the logarithm of the instants at most. What is in the way of a
//! block is in few sets: what touches the nodes of its lifetime, and what covers nodes above them.
//!
//! With many long-lived blocks the sets on the way down would each hold some of them, scattered, and a search would
//! walk them all. So there is one level of *buckets*, nodes about as wide as blocks live at a time, at which everything
//! that covers a bucket is in one set, and above which what touches a node is known in full and nobody has to look further
//! up. Long-lived blocks pay for it with an entry in each bucket they cover.
//!
//! Only the lowest free place is ever asked for, and never for fewer bytes than the *slack* of the moment. Smaller gaps
//! are filled, so that what is packed well is one run however many blocks it is: what is walked is what is left open.
//!
//! A search walks its sets side by side: each moves the place up until nothing of its own is in the way, and when
//! none moves it any more, the place is the lowest that is free throughout.

use crate::instants::{Lifetime, Span};
use crate::runs::{Run, Runs};

#[derive(Debug, Default, Clone)]
struct Node {
    covered: Runs,
    touched: Runs,
}

/// The tree, and room for the sets of one search.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// Node 1 is the root, nodes 2n and 2n + 1 are the halves of node n.
    nodes: Vec<Node>,
    leaves: u32,
    /// Instants of a bucket: a power of two.
    bucket: u32,
    /// Gaps smaller than this are filled; at least 1.
    slack: u64,
    sets: Vec<Obstacle>,
}

/// One set of runs that a search has to clear.
#[derive(Debug, Clone, Copy)]
struct Obstacle {
    node: u32,
    is_above: bool,
    cursor: u32,
}

impl Occupancy {
    /// For so many instants, with buckets of so many.
    pub(crate) fn new(instants: u32, bucket: u32) -> Self {
        let leaves = instants.max(1).next_power_of_two();
        Self {
            nodes: vec![Node::default(); 2 * leaves as usize],
            leaves,
            bucket: bucket.max(1).next_power_of_two(),
            slack: 1,
            sets: Vec::new(),
        }
    }

    /// Forgets what was taken and keeps the room. From now on nothing smaller than `slack` is asked for.
    pub(crate) fn clear(&mut self, slack: u64) {
        for node in &mut self.nodes {
            node.covered.clear();
            node.touched.clear();
        }
        self.slack = slack.max(1);
    }

    /// The lowest address at which so many bytes are free all through the lifetime.
    pub(crate) fn lowest_fit(&mut self, lifetime: Lifetime, bytes: u64) -> u64 {
        let mut sets = std::mem::take(&mut self.sets);
        sets.clear();
        for span in lifetime.spans() {
            self.collect(1, 0, self.leaves, span, &mut sets);
        }
        let mut place = 0;
        loop {
            let before = place;
            for set in &mut sets {
                let node = &self.nodes[set.node as usize];
                let runs = if set.is_above {
                    &node.covered
                } else {
                    &node.touched
                };
                place = runs.clear_from(place, bytes, &mut set.cursor);
            }
            if place == before {
                break;
            }
        }
        self.sets = sets;
        place
    }

    /// Gathers what is in the way in the node that stands for `width` instants from `first` on.
    fn collect(&self, node: u32, first: u32, width: u32, span: Span, sets: &mut Vec<Obstacle>) {
        let is_above = !span.covers(first, width);
        let entry = &self.nodes[node as usize];
        let runs = if is_above {
            &entry.covered
        } else {
            &entry.touched
        };
        if !runs.is_empty() {
            sets.push(Obstacle {
                node,
                is_above,
                cursor: 0,
            });
        }
        if is_above {
            for (half, first) in span.halves(first, width) {
                self.collect(2 * node + half, first, width / 2, span, sets);
            }
        }
    }

    /// Takes a run of addresses all through the lifetime.
    pub(crate) fn take(&mut self, lifetime: Lifetime, run: Run) {
        for span in lifetime.spans() {
            self.take_in(1, 0, self.leaves, span, run);
        }
    }

    fn take_in(&mut self, node: u32, first: u32, width: u32, span: Span, run: Run) {
        let is_covered = span.covers(first, width);
        let entry = &mut self.nodes[node as usize];
        entry.touched.add(run, self.slack);
        if is_covered && width <= self.bucket {
            entry.covered.add(run, self.slack);
            return;
        }
        // Above the buckets a covered node has covered halves, down to the buckets.
        for (half, first) in span.halves(first, width) {
            self.take_in(2 * node + half, first, width / 2, span, run);
        }
    }
}
