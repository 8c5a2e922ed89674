//! What a thread keeps of a pool: magazines and tickets, and what a request and a drop do with them.
//!
//! # The idea
//! Where a magazine has a block, or room for one, that is all there is to it: no other thread's memory is touched. At the edge the
//! depot is asked, by half magazines.
//!
//! # Protocol
//! Whoever has it is alone with it: its thread, or a visitor ([`Recallable`](crate::recall::Recallable)). Counters are the thread's,
//! written by who has what it keeps.
//!
//! # Not here
//! Where it is found, and by whom: [`thread_cache`](crate::thread_cache).

use crate::{
    class_counts::ClassCounters,
    core::{Core, Taken},
    magazine::{Batch, Magazine},
    record::Record,
    tickets::{Purse, Ticket},
};

#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) purse: Purse<Core>,
    /// By number of the class; classes of larger blocks have none.
    pub(crate) magazines: Magazines,
}

pub(crate) type Magazines = Box<[Magazine<Box<Record>>]>;

/// Empty magazines of a pool's classes.
pub(crate) fn magazines(core: &Core) -> Magazines {
    core.halves
        .iter()
        .map(|half| Magazine::new(*half))
        .collect()
}

impl Kept {
    /// Nothing but a ticket.
    pub(crate) fn new(core: &Ticket<Core>) -> Self {
        Self {
            magazines: magazines(core),
            purse: Purse::new(core.clone()),
        }
    }

    /// Takes a free block of a class, for a request of `asked` bytes.
    #[inline]
    pub(crate) fn take(
        &mut self,
        counters: &[ClassCounters],
        class: usize,
        asked: u64,
    ) -> Option<Taken> {
        let count = counters.get(class)?;
        let kept = self.magazines.get_mut(class).and_then(Magazine::pop);
        let record = match kept {
            Some(record) => record,
            None => self.fetch(counters, class)?,
        };
        count.hand_out(asked);
        Some((record, self.purse.take()))
    }

    /// Takes a block from the depot, and if there are magazines of its class, what came with it.
    #[cold]
    fn fetch(&mut self, counters: &[ClassCounters], class: usize) -> Option<Box<Record>> {
        let mut batch = self.purse.depots.get(class)?.take()?;
        counters.get(class)?.came(batch.len());
        match self.magazines.get_mut(class) {
            Some(magazine) => {
                magazine.load(batch);
                magazine.pop()
            }
            None => batch.pop(),
        }
    }

    /// Keeps a dropped block of a size class that was handed out for a request of `asked` bytes, and its ticket.
    #[inline]
    pub(crate) fn take_back(
        &mut self,
        counters: &[ClassCounters],
        (record, ticket): Taken,
        class: usize,
        asked: u64,
    ) {
        if let Some(counters) = counters.get(class) {
            counters.take_back(asked);
        }
        self.purse.put(ticket);
        self.keep(counters, record, class);
    }

    /// Keeps a free block of a size class.
    #[inline]
    pub(crate) fn keep(&mut self, counters: &[ClassCounters], record: Box<Record>, class: usize) {
        let kept = match self.magazines.get_mut(class) {
            Some(magazine) => magazine.put(record),
            None => Err(record),
        };
        if let Err(record) = kept {
            self.keep_at_edge(counters, record, class);
        }
    }

    /// As [`keep`](Self::keep), where the stack is full or there is none.
    #[cold]
    fn keep_at_edge(&mut self, counters: &[ClassCounters], record: Box<Record>, class: usize) {
        let surplus = match self.magazines.get_mut(class) {
            Some(magazine) => magazine.push(record),
            None => Some(vec![record]),
        };
        if let Some(surplus) = surplus {
            self.leave(counters, class, surplus);
        }
    }

    /// Leaves a batch in the depot.
    fn leave(&self, counters: &[ClassCounters], class: usize, batch: Batch<Box<Record>>) {
        if let Some(counters) = counters.get(class) {
            counters.left(batch.len());
        }
        if let Some(depot) = self.purse.depots.get(class) {
            depot.put(batch);
        }
    }
}

/// Puts fresh magazines in place of those in use, which are counted as gone. Allocates nothing: they were made before.
pub(crate) fn swap(
    kept: Option<&mut Kept>,
    fresh: Magazines,
    counters: &[ClassCounters],
) -> Option<Magazines> {
    let magazines = std::mem::replace(&mut kept?.magazines, fresh);
    count_out(counters, &magazines);
    Some(magazines)
}

/// Takes everything that is kept.
pub(crate) fn take_all(kept: &mut Option<Kept>, counters: &[ClassCounters]) -> Option<Kept> {
    let kept = kept.take()?;
    count_out(counters, &kept.magazines);
    Some(kept)
}

/// Counts what is in magazines as gone from them.
fn count_out(counters: &[ClassCounters], magazines: &[Magazine<Box<Record>>]) {
    for (counters, magazine) in counters.iter().zip(magazines) {
        counters.left(magazine.len());
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
