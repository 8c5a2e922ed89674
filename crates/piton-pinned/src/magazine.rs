//! Free blocks of one size class that a thread keeps for itself, and the place where threads exchange them.
//!
//! # The idea
//! A *magazine* is two stacks of at most half a magazine each. A thread takes from the one that is *loaded* and puts
//! there too; when that is empty or full it turns to the other. Only when both are empty does it fetch half a magazine
//! from the *depot*, and only when both are full does it leave half a magazine there. So a thread that takes and
//! gives back in any order touches what it shares with others at most once in half a magazine's worth of calls, even
//! where it goes to and fro at the edge; and where one thread only takes and another only gives back, a lock-free
//! queue operation serves a whole half.
//!
//! # Protocol
//! A magazine belongs to one thread and has no protocol. A half in the depot belongs to nobody; what was done with its
//! blocks comes before its `put`, and `put` before `take`, by the free list's own order. `items` and `fewest`
//! are numbers for statistics and for rounds, Relaxed, written beside the list and not under its lock: at rest it is exact.

use crate::{bounded::BoundedQueue, free_list::FreeList};
use piton_sync::{
    atomic::{AtomicUsize, Ordering},
    prefetch_for_write,
};

/// How much room a depot keeps for batches to come.
const ROOMS: usize = 8;

/// A stack of free blocks that changes hands as one.
pub(crate) type Batch<T> = Vec<T>;

/// The free blocks of one class that one thread keeps.
///
/// # Invariants
/// The loaded stack has room for `half` items or fewer, as far as the heap gives what it is asked for.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Magazine<T> {
    loaded: Batch<T>,
    /// Most items of each stack.
    half: usize,
    other: Batch<T>,
    /// Room for a stack, of one that was emptied: blocks come and go without the heap being asked.
    room: Batch<T>,
}

impl<T> Magazine<T> {
    /// An empty magazine of two stacks of `half` items; of none, one that is not used.
    pub(crate) const fn new(half: usize) -> Self {
        Self {
            loaded: Vec::new(),
            half,
            other: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Whether there may ever be something in it.
    pub(crate) fn is_used(&self) -> bool {
        self.half > 0
    }

    /// Takes an item of the loaded stack: what is mostly the case, and nothing else.
    #[inline]
    pub(crate) fn pop_loaded(&mut self) -> Option<T> {
        self.loaded.pop()
    }

    /// Takes an item; none if both stacks are empty.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.pop_loaded().or_else(|| {
            std::mem::swap(&mut self.loaded, &mut self.other);
            // The invariant holds: so had the other when it was loaded.
            self.loaded.pop()
        })
    }

    /// Keeps an item where the loaded stack has room, and hands it back where it has not: what is mostly the case, and nothing
    /// else.
    #[inline]
    pub(crate) fn put(&mut self, item: T) -> Result<(), T> {
        let loaded = &mut self.loaded;
        if loaded.len() == loaded.capacity() {
            return Err(item);
        }
        loaded.push(item);
        Ok(())
    }

    /// Keeps an item; hands out a full stack if both were full, and takes its place from `room` if it has none of its own.
    pub(crate) fn push(
        &mut self,
        item: T,
        room: impl FnOnce() -> Option<Batch<T>>,
    ) -> Option<Batch<T>> {
        let mut full = None;
        if self.loaded.len() >= self.half {
            full = self.turn(room);
        }
        let room = self.half.saturating_sub(self.loaded.len());
        self.loaded.reserve_exact(room);
        self.loaded.push(item);
        full
    }

    /// Keeps a batch that came from the depot; hands out room that it has no more use for. Only an empty magazine asks for one.
    pub(crate) fn load(&mut self, mut batch: Batch<T>) -> Batch<T> {
        debug_assert!(self.loaded.is_empty() && self.other.is_empty());
        batch.shrink_to(self.half);
        let emptied = std::mem::replace(&mut self.loaded, batch);
        std::mem::replace(&mut self.room, emptied)
    }

    /// Items in it.
    pub(crate) fn len(&self) -> usize {
        self.loaded.len() + self.other.len()
    }

    /// Gives up everything it has, in at most two batches.
    pub(crate) fn unload(&mut self) -> [Batch<T>; 2] {
        [
            std::mem::take(&mut self.loaded),
            std::mem::take(&mut self.other),
        ]
    }

    /// Makes room in the loaded stack, which is full.
    #[cold]
    fn turn(&mut self, room: impl FnOnce() -> Option<Batch<T>>) -> Option<Batch<T>> {
        std::mem::swap(&mut self.loaded, &mut self.other);
        if self.loaded.is_empty() {
            return None;
        }
        let mut own = std::mem::take(&mut self.room);
        if own.capacity() == 0 {
            own = room().unwrap_or_default();
        }
        Some(std::mem::replace(&mut self.loaded, own))
    }
}

/// Asks for all lines of a batch at once: another thread has had them, and item by item each would be waited for.
fn call_here<T>(batch: &[T]) {
    const LINE: usize = 64;
    let items = LINE / size_of::<T>().clamp(1, LINE);
    batch.iter().step_by(items).for_each(prefetch_for_write);
}

/// Where threads leave batches for each other. Any thread may call anything.
#[derive(Debug)]
pub(crate) struct Depot<T> {
    list: FreeList<Batch<T>>,
    /// Room for batches, of those that were emptied. Where one thread takes and another gives back, room would else come from the
    /// heap on one side and go there on the other, and they would wait for each other there.
    rooms: BoundedQueue<Batch<T>>,
    items: AtomicUsize,
    /// The fewest items there were since a round began.
    fewest: AtomicUsize,
}

impl<T> Depot<T> {
    /// An empty depot whose lock-free part holds `batches` batches.
    pub(crate) fn new(batches: usize) -> Self {
        Self {
            list: FreeList::new(batches),
            rooms: BoundedQueue::new(ROOMS),
            items: AtomicUsize::new(0),
            fewest: AtomicUsize::new(0),
        }
    }

    /// Leaves a batch. An empty one is not kept.
    pub(crate) fn put(&self, batch: Batch<T>) {
        if !batch.is_empty() {
            self.items.fetch_add(batch.len(), Ordering::Relaxed);
            self.list.push(batch);
        }
    }

    /// Takes a batch of at least one item.
    pub(crate) fn take(&self) -> Option<Batch<T>> {
        let batch = self.list.pop()?;
        call_here(&batch);
        let before = self.items.fetch_sub(batch.len(), Ordering::Relaxed);
        let left = before.saturating_sub(batch.len());
        // Mostly it is not less, and a load of a word that nobody writes is all there is to it.
        if left < self.fewest.load(Ordering::Relaxed) {
            self.fewest.fetch_min(left, Ordering::Relaxed);
        }
        Some(batch)
    }

    /// Leaves room for a batch to whoever needs some.
    pub(crate) fn leave_room(&self, room: Batch<T>) {
        if room.capacity() > 0 {
            // What is too much goes to the heap.
            drop(self.rooms.push(room));
        }
    }

    /// Room for a batch, if somebody left some.
    pub(crate) fn take_room(&self) -> Option<Batch<T>> {
        let mut room = self.rooms.pop()?;
        call_here(room.spare_capacity_mut());
        Some(room)
    }

    /// Takes all that is there.
    pub(crate) fn drain(&self) -> Vec<Batch<T>> {
        let batches = self.list.drain();
        let items = batches.iter().map(Vec::len).sum();
        self.items.fetch_sub(items, Ordering::Relaxed);
        batches
    }

    /// Ends a round: takes, in whole batches, at most as many items as there were at every moment of it.
    pub(crate) fn take_unneeded(&self) -> Vec<Batch<T>> {
        let mut unneeded = self.fewest.load(Ordering::Relaxed);
        let mut batches = Vec::new();
        while unneeded > 0
            && let Some(batch) = self.take()
        {
            if batch.len() > unneeded {
                self.put(batch);
                break;
            }
            unneeded -= batch.len();
            batches.push(batch);
        }
        self.fewest.store(self.items(), Ordering::Relaxed);
        batches
    }

    /// How many items there are; a guess while other threads are at it.
    pub(crate) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_what_nobody_needed_in_it() {
        let depot = Depot::new(8);
        (0..4).for_each(|item| depot.put(vec![item; 3]));
        assert_eq!(
            depot.take_unneeded(),
            Vec::<Vec<i32>>::new(),
            "new in this round"
        );
        let taken = depot.take().unwrap();
        depot.put(taken);
        assert_eq!(
            depot.take_unneeded().len(),
            3,
            "one batch was out for a while"
        );
        assert_eq!(depot.take_unneeded().len(), 1);
        assert_eq!(depot.items(), 0);
    }

    #[test]
    fn a_thread_at_the_edge_of_a_half_does_not_touch_the_depot() {
        let mut magazine = Magazine::new(4);
        for item in 0..6 {
            assert_eq!(magazine.push(item, || None), None);
        }
        // Over the edge between the stacks and back, many times.
        for _ in 0..10 {
            let taken = [(); 3].map(|()| magazine.pop().unwrap());
            for item in taken {
                assert_eq!(magazine.push(item, || None), None);
            }
        }
        for item in 6..8 {
            assert_eq!(magazine.push(item, || None), None);
        }
        assert_eq!(magazine.push(8, || None).map(|batch| batch.len()), Some(4));
    }

    #[test]
    fn room_goes_back_from_who_takes_to_who_gives() {
        let (mut gives, mut takes, depot) = (Magazine::new(4), Magazine::new(4), Depot::new(8));
        let mut from_the_heap = 0;
        for round in 0..30 {
            while depot.items() == 0 {
                let full = gives.push(0, || {
                    let room = depot.take_room();
                    from_the_heap += usize::from(room.is_none());
                    room
                });
                full.into_iter().for_each(|batch| depot.put(batch));
            }
            let batch = depot.take().unwrap();
            depot.leave_room(takes.load(batch));
            let taken = std::iter::from_fn(|| takes.pop()).count();
            assert_eq!(taken, 4, "in round {round}");
        }
        // Until who takes has room of its own to spare.
        assert!(from_the_heap <= 4, "{from_the_heap} of 30");
    }

    #[test]
    fn nothing_is_lost_between_a_magazine_and_its_depot() {
        let (mut magazine, depot) = (Magazine::new(4), Depot::new(1));
        for item in 0..30 {
            magazine
                .push(item, || None)
                .into_iter()
                .for_each(|b| depot.put(b));
        }
        assert_eq!(
            depot.items() + magazine.unload().map(|b| b.len()).iter().sum::<usize>(),
            30
        );
        let mut taken = 0;
        while let Some(batch) = depot.take() {
            depot.leave_room(magazine.load(batch));
            taken += std::iter::from_fn(|| magazine.pop()).count();
        }
        assert_eq!((taken, depot.items()), (24, 0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Half-magazine exchange, with a thread that ends in the midst of it.

    use super::*;
    use piton_sync::{UnsafeCell, model, thread};
    use std::sync::Arc;

    /// A block's memory. The model checker panics where two threads' uses of it are not ordered.
    struct Memory(UnsafeCell<u32>);

    type Block = Arc<Memory>;

    fn block() -> Block {
        Arc::new(Memory(UnsafeCell::new(0)))
    }

    fn give(magazine: &mut Magazine<Block>, depot: &Depot<Block>, block: Block) {
        block.0.with_mut(|_| ());
        magazine
            .push(block, || depot.take_room())
            .into_iter()
            .for_each(|b| depot.put(b));
    }

    fn take(magazine: &mut Magazine<Block>, depot: &Depot<Block>) -> Option<Block> {
        let block = magazine.pop().or_else(|| {
            depot.leave_room(magazine.load(depot.take()?));
            magazine.pop()
        });
        block.inspect(|block| block.0.with_mut(|_| ()))
    }

    #[test]
    fn what_one_thread_gives_back_another_takes_and_nothing_is_lost_when_it_ends() {
        model(|| {
            let depot = Arc::new(Depot::new(1));
            let theirs = Arc::clone(&depot);
            let giver = thread::spawn(move || {
                let mut magazine = Magazine::new(1);
                (0..4).for_each(|_| give(&mut magazine, &theirs, block()));
                // The thread ends: what it kept goes where others find it.
                magazine.unload().into_iter().for_each(|b| theirs.put(b));
            });
            let mut magazine = Magazine::new(1);
            let mut taken: Vec<Block> = Vec::new();
            taken.extend(take(&mut magazine, &depot));
            taken.extend(take(&mut magazine, &depot));
            giver.join().unwrap();
            taken.extend(std::iter::from_fn(|| take(&mut magazine, &depot)));
            assert_eq!((taken.len(), depot.items()), (4, 0));
            taken.sort_by_key(Arc::as_ptr);
            taken.dedup_by_key(|block| Arc::as_ptr(block));
            assert_eq!(taken.len(), 4);
        });
    }

    #[test]
    fn what_is_taken_away_to_be_trimmed_is_handed_out_to_nobody() {
        model(|| {
            let depot = Arc::new(Depot::new(1));
            (0..2).for_each(|_| depot.put(vec![block()]));
            let theirs = Arc::clone(&depot);
            let taker = thread::spawn(move || take(&mut Magazine::new(1), &theirs));
            // Trimmed memory goes back to the system, which may write it.
            let trimmed = depot.drain();
            trimmed
                .iter()
                .flatten()
                .for_each(|block| block.0.with_mut(|_| ()));
            let taken = taker.join().unwrap();
            let left = depot.drain();
            let count = trimmed.len() + usize::from(taken.is_some()) + left.len();
            assert_eq!(count, 2);
        });
    }
}
