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
//! blocks comes before its `put`, and `put` before `take`, by the free list's own order. How many items came and went, and
//! `fewest`, are numbers for statistics and for rounds, Relaxed, written beside the list and not under its lock: at rest they are
//! exact. Who puts and who takes write words on different lines, since a line that both wrote would go to and fro between them.

use crate::free_list::FreeList;
use piton_sync::{
    CachePadded,
    atomic::{AtomicUsize, Ordering},
    prefetch_for_write,
};
use std::mem;

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
    /// Room for a stack, of one that was emptied here: a thread that takes and gives back uses its own, which is near.
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
            mem::swap(&mut self.loaded, &mut self.other);
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

    /// Keeps an item. If both stacks were full, one is passed to `exchange`, for an empty one or none.
    pub(crate) fn push(&mut self, item: T, exchange: impl FnOnce(&mut Batch<T>)) {
        if self.loaded.len() >= self.half {
            self.turn(exchange);
        }
        let room = self.half.saturating_sub(self.loaded.len());
        self.loaded.reserve_exact(room);
        self.loaded.push(item);
    }

    /// Keeps a batch that `fetch` puts in place of the emptied stack it is passed, if it says so; how many items that is. Only an
    /// empty magazine asks for one.
    pub(crate) fn load(&mut self, fetch: impl FnOnce(&mut Batch<T>) -> bool) -> usize {
        debug_assert!(self.loaded.is_empty() && self.other.is_empty());
        if self.room.capacity() == 0 {
            mem::swap(&mut self.loaded, &mut self.room);
        }
        if !fetch(&mut self.loaded) {
            return 0;
        }
        self.loaded.shrink_to(self.half);
        self.loaded.len()
    }

    /// Items in it.
    pub(crate) fn len(&self) -> usize {
        self.loaded.len() + self.other.len()
    }

    /// Gives up everything it has, in at most two batches.
    pub(crate) fn unload(&mut self) -> [Batch<T>; 2] {
        [mem::take(&mut self.loaded), mem::take(&mut self.other)]
    }

    /// Makes room in the loaded stack, which is full.
    #[cold]
    fn turn(&mut self, exchange: impl FnOnce(&mut Batch<T>)) {
        mem::swap(&mut self.loaded, &mut self.other);
        if self.loaded.is_empty() {
            return;
        }
        mem::swap(&mut self.loaded, &mut self.room);
        exchange(&mut self.room);
        debug_assert!(self.loaded.is_empty() && self.room.is_empty());
        if self.loaded.capacity() == 0 {
            mem::swap(&mut self.loaded, &mut self.room);
        }
    }
}

/// Asks for all lines of a batch at once: another thread has had them, and item by item each would be waited for.
fn call_here<T>(batch: &[T]) {
    const LINE: usize = 64;
    let items = LINE / size_of::<T>().clamp(1, LINE);
    batch.iter().step_by(items).for_each(prefetch_for_write);
}

/// Where threads leave batches for each other, and emptied ones in return: where one thread takes and another gives back, room
/// would else come from the heap on one side and go there on the other, and they would wait for each other there. Any thread may call anything.
#[derive(Debug)]
pub(crate) struct Depot<T> {
    list: FreeList<T>,
    /// How many items ever came; written by who puts.
    came: CachePadded<AtomicUsize>,
    went: CachePadded<Went>,
}

/// What who takes writes.
#[derive(Debug)]
struct Went {
    /// How many items ever went.
    items: AtomicUsize,
    /// The fewest items there were since a round began.
    fewest: AtomicUsize,
    /// How many had come when somebody last looked: no more than have.
    seen: AtomicUsize,
}

impl Went {
    /// Counts items that go, and whether fewer are left than ever in this round.
    fn count(&self, items: usize, came: &AtomicUsize) {
        let went = self.items.fetch_add(items, Ordering::Relaxed) + items;
        let fewest = self.fewest.load(Ordering::Relaxed);
        let at_least = self.seen.load(Ordering::Relaxed).saturating_sub(went);
        // Mostly nothing is to be learnt from those who put, and their line stays with them.
        if fewest > at_least {
            let came = came.load(Ordering::Relaxed);
            self.seen.store(came, Ordering::Relaxed);
            self.fewest
                .fetch_min(came.saturating_sub(went), Ordering::Relaxed);
        }
    }
}

impl<T> Depot<T> {
    /// An empty depot whose lock-free part holds `batches` batches.
    pub(crate) fn new(batches: usize) -> Self {
        Self {
            list: FreeList::new(batches),
            came: CachePadded::new(AtomicUsize::new(0)),
            went: CachePadded::new(Went {
                items: AtomicUsize::new(0),
                fewest: AtomicUsize::new(0),
                seen: AtomicUsize::new(0),
            }),
        }
    }

    /// Leaves a batch. An empty one is not kept.
    pub(crate) fn put(&self, mut batch: Batch<T>) {
        self.leave(&mut batch);
    }

    /// As [`put`](Self::put), for an emptied batch that somebody left, or none.
    pub(crate) fn leave(&self, batch: &mut Batch<T>) {
        if !batch.is_empty() {
            self.came.fetch_add(batch.len(), Ordering::Relaxed);
            self.list.push(batch);
            call_here(batch.spare_capacity_mut());
        }
    }

    /// Takes a batch of at least one item.
    pub(crate) fn take(&self) -> Option<Batch<T>> {
        let mut batch = Vec::new();
        self.fetch(&mut batch).then_some(batch)
    }

    /// Takes an item, and leaves what came with it.
    pub(crate) fn take_one(&self) -> Option<T> {
        let mut batch = self.take()?;
        let item = batch.pop();
        self.leave(&mut batch);
        item
    }

    /// As [`take`](Self::take), in place of an emptied one, which is left to who puts the next. Whether there was one.
    pub(crate) fn fetch(&self, room: &mut Batch<T>) -> bool {
        if !self.list.pop(room) {
            return false;
        }
        call_here(room);
        self.went.count(room.len(), &self.came);
        true
    }

    /// Takes all that is there.
    pub(crate) fn drain(&self) -> Vec<Batch<T>> {
        let batches = self.list.drain();
        let items = batches.iter().map(Vec::len).sum();
        // Not a need: whoever looks at what there is puts it back.
        self.went.items.fetch_add(items, Ordering::Relaxed);
        batches
    }

    /// Ends a round: takes, in whole batches, at most as many items as there were at every moment of it.
    pub(crate) fn take_unneeded(&self) -> Vec<Batch<T>> {
        let mut unneeded = self.went.fewest.load(Ordering::Relaxed);
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
        self.went.fewest.store(self.items(), Ordering::Relaxed);
        batches
    }

    /// How many items there are; a guess while other threads are at it.
    pub(crate) fn items(&self) -> usize {
        let went = self.went.items.load(Ordering::Relaxed);
        self.came.load(Ordering::Relaxed).saturating_sub(went)
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
    fn the_fewest_there_were_are_known_though_who_takes_seldom_looks() {
        let depot = Depot::new(8);
        (0..6).for_each(|item| depot.put(vec![item; 2]));
        assert_eq!(depot.take_unneeded(), Vec::<Vec<i32>>::new());
        // Twelve, then eight, then sixteen, then four: what came meanwhile was not looked at.
        let take = |batches: usize| (0..batches).for_each(|_| drop(depot.take().unwrap()));
        take(2);
        (0..4).for_each(|item| depot.put(vec![item; 2]));
        take(6);
        (0..3).for_each(|item| depot.put(vec![item; 2]));
        assert_eq!(depot.take_unneeded().len(), 2, "four of ten");
        assert_eq!(depot.items(), 6);
    }

    #[test]
    fn a_thread_at_the_edge_of_a_half_does_not_touch_the_depot() {
        let mut magazine = Magazine::new(4);
        let untouched = |_: &mut Batch<i32>| panic!("it has room");
        (0..6).for_each(|item| magazine.push(item, untouched));
        // Over the edge between the stacks and back, many times.
        for _ in 0..10 {
            let taken = [(); 3].map(|()| magazine.pop().unwrap());
            taken
                .into_iter()
                .for_each(|item| magazine.push(item, untouched));
        }
        (6..8).for_each(|item| magazine.push(item, untouched));
        let mut full = Vec::new();
        magazine.push(8, |batch| full.append(batch));
        assert_eq!((full.len(), magazine.len()), (4, 5));
    }

    #[test]
    fn room_goes_back_from_who_takes_to_who_gives() {
        let (mut gives, mut takes, depot) = (Magazine::new(4), Magazine::new(4), Depot::new(4));
        let mut from_the_heap = 0;
        for round in 0..30 {
            while depot.items() == 0 {
                gives.push(0, |batch| {
                    depot.leave(batch);
                    from_the_heap += usize::from(batch.capacity() == 0);
                });
            }
            assert_eq!(takes.load(|room| depot.fetch(room)), 4, "in round {round}");
            assert_eq!(std::iter::from_fn(|| takes.pop()).count(), 4);
        }
        // Until each slot has some, but for what the one who takes had none of yet, or keeps.
        assert!(from_the_heap <= 4 + 3, "{from_the_heap} of 30");
    }

    #[test]
    fn nothing_is_lost_between_a_magazine_and_its_depot() {
        let (mut magazine, depot) = (Magazine::new(4), Depot::new(1));
        (0..30).for_each(|item| magazine.push(item, |batch| depot.leave(batch)));
        assert_eq!(
            depot.items() + magazine.unload().map(|b| b.len()).iter().sum::<usize>(),
            30
        );
        let mut taken = 0;
        while magazine.load(|room| depot.fetch(room)) > 0 {
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
        magazine.push(block, |batch| depot.leave(batch));
    }

    fn take(magazine: &mut Magazine<Block>, depot: &Depot<Block>) -> Option<Block> {
        let block = magazine.pop().or_else(|| {
            magazine.load(|room| depot.fetch(room));
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
