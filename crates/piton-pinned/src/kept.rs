//! What a thread keeps of a pool: magazines and tickets, and what a request and a drop do with them.
//!
//! # The idea
//! Where a magazine has a block, or room for one, that is all there is to it: no other thread's memory is touched. At the edge the
//! depot is asked, by half magazines.
//!
//! A block that rests here keeps the ticket that it had, or will have: one is set aside for each, bought and sold with the half
//! magazine. So neither a request nor a drop counts tickets.
//!
//! # Protocol
//! Whoever has it is alone with it: its thread, or a visitor ([`Recallable`](crate::recall::Recallable)). Counters are the thread's,
//! written by who has what it keeps.
//!
//! # Invariants
//! 1. As many tickets are set aside from the purse as there are blocks in the magazines.
//! 2. Without a purse, after everything was taken, there is neither a block in the magazines nor room for one.
//!
//! # Not here
//! Where it is found, and by whom: [`thread_cache`](crate::thread_cache).

#![expect(
    unsafe_code,
    reason = "tickets that rest with blocks are counted with them"
)]

use crate::{
    class_counts::ClassCounters,
    core::{Core, Taken},
    magazine::{Batch, Magazine},
    record::Record,
    shelf::Shelves,
    tickets::{Purse, Ticket},
};

#[derive(Debug)]
pub(crate) struct Kept {
    purse: Option<Purse<Core>>,
    shelves: Shelves,
}

pub(crate) type Magazines = Box<[Magazine<Box<Record>>]>;

/// Everything that was kept.
#[derive(Debug)]
pub(crate) struct Everything {
    pub(crate) purse: Purse<Core>,
    pub(crate) magazines: Magazines,
}

/// Empty magazines of a pool's classes.
pub(crate) fn magazines(core: &Core) -> Magazines {
    core.halves
        .iter()
        .map(|half| Magazine::new(*half))
        .collect()
}

/// As many magazines that have room for nothing.
pub(crate) fn no_magazines(classes: usize) -> Magazines {
    (0..classes).map(|_| Magazine::new(0)).collect()
}

impl Kept {
    /// Nothing but a ticket.
    pub(crate) fn new(core: &Ticket<Core>, shelves: Shelves) -> Self {
        // INVARIANT: 1 holds, the shelves of a thread that begins are empty.
        Self {
            purse: Some(Purse::new(core.clone())),
            shelves,
        }
    }

    /// Whether everything was taken, the purse too.
    pub(crate) fn is_over(&self) -> bool {
        self.purse.is_none()
    }

    /// Takes a free block of a class, for a request of `asked` bytes, if there is one in the loaded stack. Calls nobody.
    ///
    /// # Safety
    /// `core` is of the pool that this is kept of, or everything was taken.
    #[inline]
    pub(crate) unsafe fn take(
        &mut self,
        core: &Ticket<Core>,
        class: usize,
        asked: u64,
    ) -> Option<Taken> {
        let (magazine, counters) = self.shelves.get(class)?;
        let record = magazine.pop_loaded()?;
        counters.hand_out(asked);
        // SAFETY: there is one block less in the magazines, and its ticket is this (invariant 1).
        Some((record, unsafe { core.take_up() }))
    }

    /// Takes a free block of a class: from either stack, or from the depot with what comes with it.
    pub(crate) fn take_or_fetch(&mut self, class: usize, asked: u64) -> Option<Taken> {
        let (purse, magazine, counters) = self.open(class)?;
        let record = match magazine.pop() {
            Some(record) => record,
            None => fetch(purse, magazine, counters, class)?,
        };
        counters.hand_out(asked);
        // SAFETY: there is one block less in the magazines, and its ticket is this (invariant 1).
        Some((record, unsafe { purse.take_up() }))
    }

    /// Keeps a dropped block of a size class that was handed out for a request of `asked` bytes, and its ticket. Hands both back
    /// if there is no place for it in the loaded stack. Calls nobody.
    ///
    /// # Safety
    /// The block is of the pool that this is kept of, or everything was taken.
    #[inline]
    pub(crate) unsafe fn take_back(
        &mut self,
        (record, ticket): Taken,
        class: usize,
        asked: u64,
    ) -> Result<(), Taken> {
        let Some((magazine, counters)) = self.shelves.get(class) else {
            return Err((record, ticket));
        };
        match magazine.put(record) {
            Ok(()) => {
                counters.take_back(asked);
                // INVARIANT: 1 holds, there is one block more.
                ticket.set_aside();
                Ok(())
            }
            Err(record) => Err((record, ticket)),
        }
    }

    /// As [`take_back`](Self::take_back), and where the loaded stack is full, makes room, by way of the depot if it must. Hands
    /// both back if nothing is kept, or the class is none.
    ///
    /// # Safety
    /// As [`take_back`](Self::take_back).
    pub(crate) unsafe fn take_back_or_leave(
        &mut self,
        (record, ticket): Taken,
        class: usize,
        asked: u64,
    ) -> Result<(), Taken> {
        let Some((purse, magazine, counters)) = self.open(class) else {
            return Err((record, ticket));
        };
        counters.take_back(asked);
        ticket.set_aside();
        push(purse, magazine, counters, (record, class));
        Ok(())
    }

    /// Keeps a block that has become free, of the size class of this index. Hands it back if there is no place for it.
    pub(crate) fn keep(&mut self, record: Box<Record>, class: usize) -> Result<(), Box<Record>> {
        let Some((purse, magazine, counters)) = self.open(class) else {
            return Err(record);
        };
        counters.came(1);
        purse.set_aside(1);
        push(purse, magazine, counters, (record, class));
        Ok(())
    }

    /// Counts a block that went out, of this class or of none, and came from elsewhere than a magazine. Its ticket.
    pub(crate) fn note_out(&mut self, class: Option<usize>, asked: u64) -> Option<Ticket<Core>> {
        let purse = self.purse.as_mut()?;
        let counters = self.shelves.counters(class)?;
        counters.came(1);
        counters.hand_out(asked);
        Some(purse.take())
    }

    /// Counts a block that was dropped, of this class or of none, and goes elsewhere than into a magazine.
    pub(crate) fn note_back(&mut self, class: Option<usize>, asked: u64) -> Option<()> {
        self.purse.as_ref()?;
        let counters = self.shelves.counters(class)?;
        counters.left(1);
        counters.take_back(asked);
        Some(())
    }

    /// Puts fresh magazines in place of those in use, whose blocks are counted as gone. Allocates nothing: they were made
    /// before. None if everything was taken.
    pub(crate) fn swap(&mut self, mut fresh: Magazines) -> Option<Magazines> {
        let purse = self.purse.as_mut()?;
        let gone = self.shelves.swap(&mut fresh);
        // SAFETY: so many blocks go, and what was set aside for them with them (invariant 1).
        unsafe { purse.give_back(gone) };
        Some(fresh)
    }

    /// Takes everything, and leaves [no magazines](no_magazines) in its place.
    pub(crate) fn take_all(&mut self, none: Magazines) -> Option<Everything> {
        let magazines = self.swap(none)?;
        // INVARIANT: 2 holds, these magazines have room for nothing.
        let purse = self.purse.take()?;
        Some(Everything { purse, magazines })
    }

    /// What there is of a class, unless everything was taken.
    fn open(&mut self, class: usize) -> Option<Open<'_>> {
        let purse = self.purse.as_mut()?;
        let (magazine, counters) = self.shelves.get(class)?;
        Some((purse, magazine, counters))
    }
}

/// What there is of a class.
type Open<'a> = (
    &'a mut Purse<Core>,
    &'a mut Magazine<Box<Record>>,
    &'a ClassCounters,
);

/// Takes a block from the depot, and if there are magazines of its class, what came with it.
fn fetch(
    purse: &mut Purse<Core>,
    magazine: &mut Magazine<Box<Record>>,
    counters: &ClassCounters,
    class: usize,
) -> Option<Box<Record>> {
    let depot = purse.depots.get(class)?;
    if !magazine.is_used() {
        let record = depot.take_one()?;
        counters.came(1);
        purse.set_aside(1);
        return Some(record);
    }
    let came = magazine.load(|room| depot.fetch(room));
    // INVARIANT: 1 holds, and again when the block is handed out, with its ticket.
    counters.came(came);
    purse.set_aside(came);
    magazine.pop_loaded()
}

/// Puts a block whose ticket is set aside on the stacks, and what is too much for them into the depot.
fn push(
    purse: &mut Purse<Core>,
    magazine: &mut Magazine<Box<Record>>,
    counters: &ClassCounters,
    (record, class): (Box<Record>, usize),
) {
    let mut leave = |surplus: &mut Batch<Box<Record>>| {
        counters.left(surplus.len());
        // SAFETY: so many blocks go, and what was set aside for them with them (invariant 1).
        unsafe { purse.give_back(surplus.len()) };
        if let Some(depot) = purse.depots.get(class) {
            depot.leave(surplus);
        }
    };
    if magazine.is_used() {
        magazine.push(record, leave);
    } else {
        leave(&mut vec![record]);
    }
}

/// Gives everything in magazines to the depots.
pub(crate) fn empty(core: &Core, magazines: Option<Magazines>) {
    let mut magazines = magazines.unwrap_or_default();
    for (depot, magazine) in core.depots.iter().zip(&mut magazines) {
        for batch in magazine.unload() {
            depot.put(batch);
        }
    }
}
