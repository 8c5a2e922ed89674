//! Who takes what of the links, and who waits for whom.
//!
//! # The idea
//! A copy says what its plan takes of the links until its round is over. The priority of its stream is its *class*, and between
//! classes the order is strict: a plan does not see what less urgent copies take, and takes no link that a more urgent one
//! is on, since a link divides what it carries evenly. A copy for which nothing is left *waits*: no round of it is under way until one of somebody else's is over. Inside a class
//! links are shared evenly: on the way that is its own a copy may count on its part of what the class has, since that is what
//! links give it; over others' ways it takes only what is free.
//!
//! So that a copy that waits goes on in the end it *ages*: each time the rounds that it saw go by were planned to take
//! [`AGES_AFTER_NS`], it moves up a class and stays there. Time is that of plans: no clock is asked, and virtual time
//! is as good as any.
//!
//! # Invariants
//! - Only copies that have begun are in anybody's way. One that has not may itself be behind a less urgent one in its stream's
//!   order, and each would wait for the other.
//! - A copy waits only while a more urgent one's round is under way. Whoever ends a round wakes all that wait.
//!
//! A leaf lock, but that plans are made under it.

use crate::job::Job;
use piton_driver::Priority;
use piton_stream::Event;
use piton_topology::{BytesPerSec, LinkId, Machine, NodeId, Residual};
use std::collections::{BTreeMap, BTreeSet};

/// A copy that has waited so long moves up a class.
const AGES_AFTER_NS: u64 = 10_000_000;

/// A round that takes of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// A direction of a link, by the node it leads away from.
pub(crate) type Direction = (LinkId, NodeId);

/// Whose plan it is.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Smaller is more urgent.
    pub(crate) class: Priority,
    /// Where it begins.
    pub(crate) start: Event,
}

#[derive(Debug)]
struct Taken {
    claim: Claim,
    uses: Vec<(Direction, BytesPerSec)>,
}

/// A copy that waits.
#[derive(Debug)]
pub(crate) struct Waiting(pub(crate) Box<Job>);

/// What is taken, and who waits.
#[derive(Debug)]
pub(crate) struct Book {
    whole: Residual,
    taken: BTreeMap<Ticket, Taken>,
    next: u64,
    waiting: Vec<Waiting>,
}

impl Book {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self {
            whole: Residual::of(machine),
            taken: BTreeMap::new(),
            next: 0,
            waiting: Vec::new(),
        }
    }

    /// The rounds of more urgent copies, and where those begin.
    pub(crate) fn more_urgent(&self, class: Priority) -> Vec<(Ticket, Event)> {
        let rounds = self.taken.iter();
        let urgent = rounds.filter(|(_, taken)| taken.claim.class < class);
        let urgent = urgent.map(|(ticket, taken)| (*ticket, taken.claim.start.clone()));
        urgent.collect()
    }

    /// What is left to a copy of a class, in whose way are the more urgent rounds in `begun`, and which goes over its
    /// `own` way; and whether any of those is under way.
    pub(crate) fn left(
        &self,
        class: Priority,
        begun: &BTreeSet<Ticket>,
        own: &[Direction],
    ) -> (Residual, bool) {
        let mut left = self.whole.clone();
        let mut is_behind = false;
        for (_, taken) in self
            .taken
            .iter()
            .filter(|(ticket, _)| begun.contains(ticket))
        {
            is_behind = true;
            for ((link, from), _) in &taken.uses {
                left.take(*link, *from, self.whole.free(*link, *from));
            }
        }
        let ours = left.clone();
        let equals = self
            .taken
            .values()
            .filter(|taken| taken.claim.class == class);
        let mut sharing: BTreeMap<Direction, u64> = BTreeMap::new();
        for taken in equals {
            for (at, rate) in &taken.uses {
                left.take(at.0, at.1, *rate);
                *sharing.entry(*at).or_default() += 1;
            }
        }
        for (at, count) in sharing.into_iter().filter(|(at, _)| own.contains(at)) {
            let (free, all) = (left.free(at.0, at.1), ours.free(at.0, at.1));
            let part = all.get() / (count + 1);
            if free.get() < part {
                left = with(left, at, part, &self.whole);
            }
        }
        (left, is_behind)
    }

    /// A round takes so much.
    pub(crate) fn take(&mut self, claim: Claim, uses: Vec<(Direction, BytesPerSec)>) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.taken.insert(ticket, Taken { claim, uses });
        ticket
    }

    /// The round is over.
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        self.taken.remove(&ticket);
    }

    /// The copy waits until one of these rounds is over; it comes back if all are.
    pub(crate) fn wait(
        &mut self,
        job: Box<Job>,
        behind: &BTreeSet<Ticket>,
    ) -> Result<(), Box<Job>> {
        if !behind.iter().any(|ticket| self.taken.contains_key(ticket)) {
            return Err(job);
        }
        self.waiting.push(Waiting(job));
        Ok(())
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// All that wait, which do not any more.
    pub(crate) fn wake(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }
}

/// As `left`, with exactly `rate` free there.
fn with(mut left: Residual, (link, from): Direction, rate: u64, whole: &Residual) -> Residual {
    // Gives back all that was taken, and takes what is to be.
    let all = whole.free(link, from);
    left.give_back(link, from, BytesPerSec::MAX);
    left.take(
        link,
        from,
        BytesPerSec::new(all.get() - rate.min(all.get())),
    );
    left
}

/// How long a copy has waited, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    /// Smaller is more urgent.
    pub(crate) class: Priority,
    /// The most urgent there is.
    pub(crate) highest: Priority,
    /// Nanoseconds since it was made or last moved up.
    waited_ns: u64,
}

impl Age {
    pub(crate) const fn new(class: Priority, highest: Priority) -> Self {
        Self {
            class,
            highest,
            waited_ns: 0,
        }
    }

    /// A round that was to take so long is over, and it waited meanwhile.
    pub(crate) fn waited(&mut self, nanos: u64) {
        self.waited_ns = self.waited_ns.saturating_add(nanos);
        if self.waited_ns >= AGES_AFTER_NS && self.class > self.highest {
            self.class.0 -= 1;
            self.waited_ns = 0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_moves_up_a_class_each_time_it_has_waited_and_never_past_the_highest() {
        let mut age = Age::new(Priority(0), Priority(-2));
        let half = AGES_AFTER_NS / 2 + 1;
        let classes: Vec<i32> = (0..6)
            .map(|_| {
                age.waited(half);
                age.class.0
            })
            .collect();
        assert_eq!(classes, [0, -1, -1, -2, -2, -2]);
    }
}
