//! Who takes what of the links, and who waits for whom.
//!
//! # The idea
//! A copy says what its plan takes of the links until its round is over. The priority of its stream is its *class*, and between
//! classes the order is strict: a plan does not see what less urgent copies take, and takes no link that a more urgent one
//! is on, since a link divides what it carries evenly. A copy for which nothing is left *waits*: no round of it is under way until one of somebody else's is over. Inside a class
//! links are shared by weights: on the way that is its own a copy may count on its part of what the class has, since that is what
//! links give it; of others' ways it takes its part of what those do not need whose own they are.
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

use crate::{CopyWeight, job::Job};
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
    /// What it gets beside others of its class.
    pub(crate) weight: CopyWeight,
    /// Where it begins.
    pub(crate) start: Event,
}

/// What a round takes of a direction of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) at: Direction,
    pub(crate) rate: BytesPerSec,
    /// The copy's own way leads over it.
    pub(crate) is_own: bool,
}

#[derive(Debug)]
struct Taken {
    claim: Claim,
    uses: Vec<Use>,
    /// What its own way carries alone.
    wanted: BytesPerSec,
}

impl Taken {
    /// The directions it uses, each once, and whether each is of its own way.
    fn directions(&self) -> BTreeMap<Direction, bool> {
        let mut directions = BTreeMap::new();
        for used in &self.uses {
            *directions.entry(used.at).or_default() |= used.is_own;
        }
        directions
    }
}

/// What the copies of one class make of a direction.
#[derive(Debug, Default)]
struct Sharing {
    /// Of all that are on it.
    weight: u64,
    /// Of those whose own way it is not.
    passing: u64,
    /// What those could use whose own way it is.
    wanted: u64,
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

    /// What is left to a copy, in whose way are the more urgent rounds in `begun`, and which goes over its `own` way; and
    /// whether any of those is under way.
    pub(crate) fn left(
        &self,
        claim: &Claim,
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
            for Use { at, .. } in &taken.uses {
                left.take(at.0, at.1, self.whole.free(at.0, at.1));
            }
        }
        let of_class = left.clone();
        let sharing = self.take_equals(claim.class, &mut left);
        let weight = u64::from(claim.weight.get());
        for (at, others) in sharing {
            let (free, all) = (left.free(at.0, at.1).get(), of_class.free(at.0, at.1).get());
            let part = others.leave(own.contains(&at), (free, all), weight);
            if part != free {
                left = with(left, at, part, &self.whole);
            }
        }
        (left, is_behind)
    }

    /// Takes what copies of a class have off `left`, and says who shares which direction.
    fn take_equals(&self, class: Priority, left: &mut Residual) -> BTreeMap<Direction, Sharing> {
        let mut sharing: BTreeMap<Direction, Sharing> = BTreeMap::new();
        let taken = self.taken.values();
        for taken in taken.filter(|taken| taken.claim.class == class) {
            for used in &taken.uses {
                left.take(used.at.0, used.at.1, used.rate);
            }
            let weight = u64::from(taken.claim.weight.get());
            for (at, is_own) in taken.directions() {
                let on = sharing.entry(at).or_default();
                on.weight += weight;
                if is_own {
                    on.wanted = on.wanted.saturating_add(taken.wanted.get());
                } else {
                    on.passing += weight;
                }
            }
        }
        sharing
    }

    /// A round takes so much.
    pub(crate) fn take(&mut self, claim: Claim, uses: Vec<Use>) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let own = uses.iter().filter(|used| used.is_own);
        let carried = own.map(|Use { at, .. }| self.whole.free(at.0, at.1));
        let wanted = carried.min().unwrap_or(BytesPerSec::new(0));
        let taken = Taken {
            claim,
            uses,
            wanted,
        };
        self.taken.insert(ticket, taken);
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

impl Sharing {
    /// What they leave to a copy of this weight whose own way it is, or not: of `all` that the class has, of which so much is
    /// `free`.
    fn leave(&self, is_own: bool, (free, all): (u64, u64), weight: u64) -> u64 {
        if is_own {
            return free.max(part_of(all, weight, self.weight));
        }
        // What nobody needs whose own way it is.
        let rest = all.saturating_sub(self.wanted);
        free.min(rest).max(part_of(rest, weight, self.passing))
    }
}

/// The part of a copy of this weight, beside others that weigh so much together.
fn part_of(all: u64, weight: u64, others: u64) -> u64 {
    let part = u128::from(all) * u128::from(weight) / u128::from((weight + others).max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
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
    fn a_copy_gets_its_part_of_its_own_way_and_of_others_what_those_do_not_need() {
        let others = Sharing {
            weight: 3,
            passing: 2,
            wanted: 40,
        };
        // Nothing is free: what weighs three is half beside others that weigh three.
        assert_eq!(others.leave(true, (0, 100), 3), 50);
        assert_eq!(others.leave(true, (90, 100), 1), 90);
        // Those who pass share what is left, and what is free of what is wanted is not theirs.
        assert_eq!(others.leave(false, (0, 100), 1), 20);
        assert_eq!(others.leave(false, (0, 100), 2), 30);
        assert_eq!(others.leave(false, (90, 100), 1), 60);
        let all = Sharing {
            wanted: 100,
            ..others
        };
        assert_eq!(all.leave(false, (50, 100), 8), 0);
    }

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
