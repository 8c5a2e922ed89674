//! What a lane is ordered after: the happens-before clock.
//!
//! # The idea
//! A lane that waits for point (l, s) is from then on ordered after everything lane l did up to s, and after
//! everything that l itself was ordered after *at s*. Each lane keeps `seen`, a sparse map from lane slot to
//! the highest seq it is ordered after, and a short history of what `seen` was, so that whoever waits for an
//! older point joins no more than is true of it.
//!
//! # Invariants
//! - `seen` is sorted by slot and holds each slot once; entries only grow.
//! - History entry `(after, clock)` holds for submissions with `seq > after`; entries are sorted by `after`.
//! - History that was forgotten is under-approximated: the waiter learns (l, s) alone. Sound, not complete.
//!
//! Touched only where lanes cross, under the lane's own lock.

use std::collections::VecDeque;

/// How many past clocks a lane remembers. A point waited for is rarely older than a few waits.
const HISTORY: usize = 16;

/// Slot and seq, sorted by slot.
pub(crate) type Seen = Vec<(u32, u64)>;

/// One lane's clock.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    seen: Seen,
    history: VecDeque<(u64, Seen)>,
}

impl Clock {
    /// Whether the lane is ordered after seq `seq` of slot `slot`.
    pub(crate) fn covers(&self, slot: u32, seq: u64) -> bool {
        lookup(&self.seen, slot).is_some_and(|seen| seen >= seq)
    }

    /// What the lane was ordered after at its own seq `at`, as far as it is remembered.
    pub(crate) fn at(&self, at: u64) -> Seen {
        let entry = self.history.iter().rev().find(|(after, _)| *after < at);
        entry.map(|(_, seen)| seen.clone()).unwrap_or_default()
    }

    /// Submissions after the lane's own `after` are ordered after `joined` too. Entries for which `is_done`
    /// are left out: what is done is ordered before everything to come.
    pub(crate) fn join(&mut self, after: u64, joined: &Seen, is_done: impl Fn(u32, u64) -> bool) {
        self.seen.retain(|(slot, seq)| !is_done(*slot, *seq));
        for (slot, seq) in joined {
            if !is_done(*slot, *seq) {
                raise(&mut self.seen, *slot, *seq);
            }
        }
        self.remember(after);
    }

    /// Forgets everything: a new lane has the slot.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.history.clear();
    }

    fn remember(&mut self, after: u64) {
        match self.history.back_mut() {
            Some((last, seen)) if *last >= after => seen.clone_from(&self.seen),
            _ => self.history.push_back((after, self.seen.clone())),
        }
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

fn lookup(seen: &Seen, slot: u32) -> Option<u64> {
    let at = seen.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    seen.get(at).map(|(_, seq)| *seq)
}

fn raise(seen: &mut Seen, slot: u32, seq: u64) {
    match seen.binary_search_by_key(&slot, |(slot, _)| *slot) {
        Ok(at) => seen[at].1 = seen[at].1.max(seq),
        Err(at) => seen.insert(at, (slot, seq)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn never(_: u32, _: u64) -> bool {
        false
    }

    #[test]
    fn a_waiter_learns_only_what_held_at_the_point() {
        let mut clock = Clock::default();
        clock.join(10, &vec![(1, 5)], never);
        clock.join(20, &vec![(2, 7)], never);
        assert_eq!(clock.at(10), []);
        assert_eq!(clock.at(11), [(1, 5)]);
        assert_eq!(clock.at(21), [(1, 5), (2, 7)]);
    }

    #[test]
    fn forgotten_history_claims_nothing() {
        let mut clock = Clock::default();
        for after in 0..40 {
            clock.join(after, &vec![(1, after)], never);
        }
        assert_eq!(clock.at(1), []);
        assert_eq!(clock.at(40), [(1, 39)]);
    }
}
