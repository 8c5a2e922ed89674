//! Which addresses are taken at which times.
//!
//! Time is cut into *buckets* in which about as many blocks are born and die. What lives through all of a
//! bucket *covers* it: such addresses are one set of runs, in which neighbours grow together, so that weights that live
//! through everything are one run. What is born or dies within it is *ragged* there and stands in a list by address, with
//! its times: no more of it than the bucket was cut for. A search looks at lists only in the two buckets at the ends of a
//! lifetime. For the buckets between them it needs to know what *touches* them at any time, runs again, which a tree
//! over the buckets holds for one, two, four and more of them: a lifetime however long is few nodes.
//!
//! Only the lowest free place is ever asked for, and never for fewer bytes than the *slack* of the moment. Smaller gaps
//! between runs are filled, so that what is packed well is one run however many blocks it is: what is walked is what is left
//! open. What touches more buckets than any lifetime still to come spans is not kept.
//!
//! A search walks its sets side by side: each moves the place up until nothing of its own is in the way, and when
//! none moves it any more, the place is the lowest that is free throughout.

use std::ops::Range;

use crate::instants::{Instants, Lifetime, Span};
use crate::ragged::Ragged;
use crate::runs::{Run, Runs};

/// Births and deaths within a bucket, at least: more make the lists longer that searches walk, fewer make more buckets, each
/// with an entry for every block that covers it.
const RAGGED: u32 = 192;
/// Blocks that live at a time to births and deaths within a bucket, for the same reasons where many live.
const LIVE_TO_RAGGED: u32 = 8;

/// One piece of time.
#[derive(Debug, Default, Clone)]
struct Bucket {
    covered: Runs,
    ragged: Ragged,
}

/// What is taken when, and room for the sets of one search.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// The bucket of each instant.
    bucket_of: Vec<u32>,
    /// The first instant of each bucket, and the end of the last.
    starts: Vec<u32>,
    buckets: Vec<Bucket>,
    /// A tree: node 1 is the root, nodes 2n and 2n + 1 are the halves of node n, the last half of them are the buckets.
    touched: Vec<Runs>,
    leaves: u32,
    /// Gaps smaller than this are filled; at least 1.
    slack: u64,
    /// Most buckets that a lifetime to come reaches into.
    widest: u32,
    sets: Vec<Obstacle>,
}

/// One set that a search has to clear, and how far it is cleared.
#[derive(Debug, Clone, Copy)]
struct Obstacle {
    set: Set,
    cursor: u32,
}

#[derive(Debug, Clone, Copy)]
enum Set {
    /// What covers a bucket.
    Covered(u32),
    /// What is ragged in a bucket, and lives at any of these instants.
    Ragged(u32, Span),
    /// What touches the buckets of a node.
    Touched(u32),
}

/// A run of instants in terms of buckets.
#[derive(Debug)]
struct Pieces {
    /// All buckets that it reaches into.
    reached: Range<u32>,
    /// Those of them that lie in it as a whole.
    whole: Range<u32>,
    /// The others: the first, the last.
    ragged: [Option<u32>; 2],
}

impl Occupancy {
    /// Nothing taken, at any time that these instants tell apart.
    pub(crate) fn new(instants: &Instants) -> Self {
        Self::cut(instants, RAGGED.max(instants.mean_live() / LIVE_TO_RAGGED))
    }

    /// With so many births and deaths within a bucket.
    fn cut(instants: &Instants, most: u32) -> Self {
        let mut starts = bucket_starts(instants, most);
        let mut bucket_of = Vec::with_capacity(instants.count as usize);
        for (bucket, ends) in (0_u32..).zip(starts.windows(2)) {
            bucket_of.resize(ends[1] as usize, bucket);
        }
        if starts.len() < 2 {
            starts = vec![0, 0];
        }
        let buckets = starts.len() - 1;
        let leaves = buckets.next_power_of_two();
        Self {
            bucket_of,
            starts,
            buckets: vec![Bucket::default(); buckets],
            touched: vec![Runs::default(); 2 * leaves],
            // Fewer than instants, of which there are fewer than 2^32.
            leaves: u32::try_from(leaves).unwrap_or(u32::MAX),
            slack: 1,
            widest: u32::MAX,
            sets: Vec::new(),
        }
    }

    /// Forgets what was taken and keeps the room. From now on nothing smaller than `slack` is asked for, and for no other
    /// lifetimes than those to come.
    pub(crate) fn clear(&mut self, slack: u64, to_come: impl Iterator<Item = Lifetime>) {
        for bucket in &mut self.buckets {
            bucket.covered.clear();
            bucket.ragged.clear();
        }
        self.touched.iter_mut().for_each(Runs::clear);
        self.slack = slack.max(1);
        let reached = to_come
            .flat_map(Lifetime::spans)
            .map(|span| self.pieces(span).reached.len());
        self.widest = u32::try_from(reached.max().unwrap_or(0)).unwrap_or(u32::MAX);
    }

    /// The lowest address at which so many bytes are free all through the lifetime.
    pub(crate) fn lowest_fit(&mut self, lifetime: Lifetime, bytes: u64) -> u64 {
        let mut sets = std::mem::take(&mut self.sets);
        sets.clear();
        lifetime
            .spans()
            .for_each(|span| self.collect(span, &mut sets));
        let mut place = 0;
        loop {
            let before = place;
            for obstacle in &mut sets {
                place = self.clear_from(place, bytes, obstacle);
            }
            if place == before {
                break;
            }
        }
        self.sets = sets;
        place
    }

    fn clear_from(&self, place: u64, bytes: u64, obstacle: &mut Obstacle) -> u64 {
        let cursor = &mut obstacle.cursor;
        match obstacle.set {
            Set::Covered(bucket) => {
                let covered = &self.buckets[bucket as usize].covered;
                covered.clear_from(place, bytes, cursor)
            }
            Set::Ragged(bucket, span) => {
                let ragged = &self.buckets[bucket as usize].ragged;
                ragged.clear_from(place, bytes, span, cursor)
            }
            Set::Touched(node) => self.touched[node as usize].clear_from(place, bytes, cursor),
        }
    }

    /// Gathers what may be in the way during a run of instants.
    fn collect(&self, span: Span, sets: &mut Vec<Obstacle>) {
        let mut add = |set| sets.push(Obstacle { set, cursor: 0 });
        let pieces = self.pieces(span);
        for bucket in pieces.ragged.into_iter().flatten() {
            add(Set::Covered(bucket));
            add(Set::Ragged(bucket, span));
        }
        let (mut low, mut high) = (
            pieces.whole.start + self.leaves,
            pieces.whole.end + self.leaves,
        );
        while low < high {
            if low % 2 == 1 {
                add(Set::Touched(low));
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                add(Set::Touched(high));
            }
            (low, high) = (low / 2, high / 2);
        }
    }

    /// Takes a run of addresses all through the lifetime.
    pub(crate) fn take(&mut self, lifetime: Lifetime, run: Run) {
        lifetime.spans().for_each(|span| self.take_in(span, run));
    }

    fn take_in(&mut self, span: Span, run: Run) {
        let pieces = self.pieces(span);
        for bucket in pieces.ragged.into_iter().flatten() {
            self.buckets[bucket as usize].ragged.add(run, span);
        }
        for bucket in pieces.whole {
            self.buckets[bucket as usize].covered.add(run, self.slack);
        }
        let (mut low, mut last) = (
            pieces.reached.start + self.leaves,
            pieces.reached.end - 1 + self.leaves,
        );
        let mut width = 1;
        while low > 0 && width <= self.widest {
            for node in low..=last {
                self.touched[node as usize].add(run, self.slack);
            }
            (low, last, width) = (low / 2, last / 2, width.saturating_mul(2));
        }
    }

    fn pieces(&self, span: Span) -> Pieces {
        let first = self.bucket_of[span.first as usize];
        let last = self.bucket_of[span.end as usize - 1];
        let begins_whole = self.starts[first as usize] == span.first;
        let ends_whole = self.starts[last as usize + 1] == span.end;
        let whole = first + u32::from(!begins_whole)..last + u32::from(ends_whole);
        let ends_apart = !ends_whole && (last != first || begins_whole);
        Pieces {
            reached: first..last + 1,
            // A bucket that is ragged at both ends.
            whole: whole.start..whole.end.max(whole.start),
            ragged: [(!begins_whole).then_some(first), ends_apart.then_some(last)],
        }
    }
}

/// Where buckets begin, and where the last ends. An instant with more births and deaths than a bucket is cut for begins one,
/// in which all of them fall on its start.
fn bucket_starts(instants: &Instants, most: u32) -> Vec<u32> {
    let mut changes = vec![0_u32; instants.count as usize + 1];
    for span in instants
        .lifetimes
        .iter()
        .flat_map(|lifetime| lifetime.spans())
    {
        changes[span.first as usize] += 1;
        changes[span.end as usize] += 1;
    }
    let mut starts = Vec::new();
    let mut within = 0;
    for (instant, changes) in (0..instants.count).zip(changes) {
        if instant == 0 || changes > most - within {
            starts.push(instant);
            within = 0;
        } else {
            within += changes;
        }
    }
    starts.push(instants.count);
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::Block;

    const TIMES: u64 = 40;

    fn blocks() -> impl Strategy<Value = Vec<Block>> {
        let block = (1_u64..9, 0..TIMES, 0..TIMES);
        let block = block.prop_map(|(bytes, birth, death)| Block {
            bytes,
            birth,
            death,
        });
        prop::collection::vec(block, 0..50)
    }

    proptest! {
        #[test]
        fn however_time_is_cut_the_lowest_free_place_is_found(blocks in blocks(), most in 0_u32..20) {
            let instants = Instants::of(&blocks);
            let mut occupancy = Occupancy::cut(&instants, most);
            occupancy.clear(1, instants.lifetimes.iter().copied());
            let mut placed: Vec<(Lifetime, u64, u64)> = Vec::new();
            for (lifetime, block) in instants.lifetimes.iter().zip(&blocks) {
                let is_free = |place: &u64| placed.iter().all(|(other, start, end)| {
                    !other.meets(*lifetime) || *end <= *place || place + block.bytes <= *start
                });
                let lowest = (0..).find(is_free).unwrap();
                prop_assert_eq!(occupancy.lowest_fit(*lifetime, block.bytes), lowest);
                let end = lowest + block.bytes;
                occupancy.take(*lifetime, Run { start: lowest, end });
                placed.push((*lifetime, lowest, end));
            }
        }
    }
}
