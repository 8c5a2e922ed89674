//! Delayed free: blocks that their owner gave up and a device may still be using.
//!
//! # The idea
//! A block waits under *one* timepoint of its frontier at a time. Each lane has a file of those that wait for it, in the
//! order of its work, so a sweep looks at the first of each file: if its point is complete it leaves, and the next is looked at;
//! if not, nothing later on that lane is complete either, and the sweep goes on with the next lane. One slow lane costs
//! one look and holds nobody else's blocks back. A block used by several lanes is filed anew under its next point when
//! the first is complete.
//!
//! Blocks come and go as often as copies do, so files keep their room: once there were as many at a time before, nothing is
//! asked of the heap.
//!
//! # Invariants
//! - An item leaves by `take_complete` only when every point it was parked with is complete.
//! - Each item is filed once. Files are in the order of their lanes' slots, none is empty, and each is in the order of its points.
//! - `parked` is the number of filed items; it is written under the lock.
//!
//! Lock order: this lock, then the timeline's. A lane's source of progress is asked under it; that does not block.

use piton_sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use piton_timeline::{Frontier, Timeline, Timepoint};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Items that are complete; so few ask the heap for nothing.
pub(crate) type Complete<T> = SmallVec<[T; 8]>;

/// An item, the point it is filed under, and those it waits for besides.
#[derive(Debug)]
struct Parked<T> {
    item: T,
    point: Timepoint,
    rest: Frontier,
}

/// What waits for one lane, first come first. A slot's tenants share one growing sequence of numbers, so they share a file.
#[derive(Debug)]
struct File<T> {
    slot: u32,
    items: VecDeque<Parked<T>>,
}

#[derive(Debug)]
struct Files<T> {
    lanes: Vec<File<T>>,
    /// The room of files that came to be empty, for the next.
    room: Vec<VecDeque<Parked<T>>>,
}

/// Items that wait for their last uses to be complete.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    files: Mutex<Files<T>>,
    parked: AtomicUsize,
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Self {
        Self {
            files: Mutex::new(Files {
                lanes: Vec::new(),
                room: Vec::new(),
            }),
            parked: AtomicUsize::new(0),
        }
    }

    /// Keeps `item` until `uses` are complete. Hands it back at once if it waits for nothing.
    pub(crate) fn park(&self, item: T, uses: Frontier) -> Option<T> {
        let mut files = self.files.lock();
        let refused = files.file(item, &uses);
        if refused.is_none() {
            self.parked.fetch_add(1, Ordering::Release);
        }
        refused
    }

    /// Takes all items whose uses are complete. Looks at one point a lane, and at those that are complete.
    pub(crate) fn take_complete(&self, timeline: &Timeline) -> Complete<T> {
        if self.parked.load(Ordering::Acquire) == 0 {
            return Complete::new();
        }
        let taken = self.files.lock().take_complete(timeline);
        self.parked.fetch_sub(taken.len(), Ordering::Release);
        taken
    }

    /// Takes everything, with what each item still waits for.
    pub(crate) fn drain(&self) -> Vec<(T, Frontier)> {
        let mut files = self.files.lock();
        self.parked.store(0, Ordering::Release);
        let lanes = std::mem::take(&mut files.lanes).into_iter();
        let filed = lanes.flat_map(|file| file.items).map(|mut parked| {
            parked.rest.insert(parked.point);
            (parked.item, parked.rest)
        });
        filed.collect()
    }

    /// Looks at every item, under the lock.
    pub(crate) fn for_each(&self, see: impl FnMut(&T)) {
        let files = self.files.lock();
        let items = files.lanes.iter().flat_map(|file| &file.items);
        items.map(|parked| &parked.item).for_each(see);
    }
}

impl<T> Files<T> {
    /// Files an item under the first point it waits for; hands it back if there is none.
    fn file(&mut self, item: T, uses: &Frontier) -> Option<T> {
        let Some((&point, others)) = uses.points().split_first() else {
            return Some(item);
        };
        let rest = others.iter().copied().collect();
        let items = self.of(point.lane.index);
        // Mostly behind all others.
        let place = items.partition_point(|other| other.point <= point);
        items.insert(place, Parked { item, point, rest });
        None
    }

    /// The file of a slot's lanes.
    fn of(&mut self, slot: u32) -> &mut VecDeque<Parked<T>> {
        let place = self.lanes.partition_point(|file| file.slot < slot);
        if self.lanes.get(place).is_none_or(|file| file.slot != slot) {
            let items = self.room.pop().unwrap_or_default();
            self.lanes.insert(place, File { slot, items });
        }
        &mut self.lanes[place].items
    }

    fn take_complete(&mut self, timeline: &Timeline) -> Complete<T> {
        let mut taken = Complete::new();
        let mut waiting: SmallVec<[(T, Frontier); 4]> = SmallVec::new();
        self.lanes.retain_mut(|file| {
            while let Some(first) = file.items.front()
                && timeline.is_complete(first.point)
                && let Some(mut parked) = file.items.pop_front()
            {
                parked.rest.retain_pending(timeline);
                if parked.rest.is_empty() {
                    taken.push(parked.item);
                } else {
                    waiting.push((parked.item, parked.rest));
                }
            }
            let is_empty = file.items.is_empty();
            if is_empty {
                self.room.push(std::mem::take(&mut file.items));
            }
            !is_empty
        });
        let filed = waiting.into_iter();
        taken.extend(filed.filter_map(|(item, rest)| self.file(item, &rest)));
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slow_lane_does_not_hold_back_another() {
        let timeline = Timeline::new();
        let slow = timeline.register(None).unwrap();
        let quick = timeline.register(None).unwrap();
        let pending = Pending::new();
        assert_eq!(pending.park("slow", slow.submit(1).into()), None);
        assert_eq!(pending.park("quick", quick.submit(1).into()), None);
        quick.complete(1);
        assert_eq!(pending.take_complete(&timeline)[..], ["quick"]);
        slow.complete(1);
        assert_eq!(pending.take_complete(&timeline)[..], ["slow"]);
    }

    #[test]
    fn an_item_used_by_two_lanes_waits_for_both() {
        let timeline = Timeline::new();
        let lanes = [(); 2].map(|()| timeline.register(None).unwrap());
        for (first, second) in [(0, 1), (1, 0)] {
            let n = lanes[0].now().seq + 1;
            let pending = Pending::new();
            let uses = lanes.iter().map(|lane| lane.submit(n)).collect();
            assert_eq!(pending.park((), uses), None);
            lanes[first].complete(n);
            assert!(pending.take_complete(&timeline).is_empty());
            lanes[second].complete(n);
            assert_eq!(pending.take_complete(&timeline).len(), 1);
        }
    }

    #[test]
    fn what_waits_for_nothing_is_not_kept() {
        assert_eq!(Pending::new().park(7, Frontier::new()), Some(7));
    }

    #[test]
    fn a_drained_item_comes_with_all_its_points() {
        let timeline = Timeline::new();
        let lanes = [(); 3].map(|()| timeline.register(None).unwrap());
        let uses: Frontier = lanes.iter().map(|lane| lane.submit(1)).collect();
        let pending = Pending::new();
        assert_eq!(pending.park((), uses.clone()), None);
        assert_eq!(pending.drain(), [((), uses)]);
        assert!(pending.take_complete(&timeline).is_empty());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Delayed free against reuse: who gets a block may write it, whatever the device did to it before.

    use super::*;
    use piton_sync::{UnsafeCell, model, thread};
    use piton_timeline::Lane;
    use std::sync::Arc;

    /// A block's memory. The model checker panics where two accesses are not ordered.
    struct Memory(UnsafeCell<u32>);

    fn device_writes(memory: &Arc<Memory>, lane: Lane) -> thread::JoinHandle<Lane> {
        let memory = Arc::clone(memory);
        thread::spawn(move || {
            memory.0.with_mut(|_| ());
            lane.complete(1);
            lane
        })
    }

    #[test]
    fn a_block_is_handed_out_after_the_device_is_done_with_it() {
        model(|| {
            let timeline = Timeline::new();
            let lane = timeline.register(None).unwrap();
            let memory = Arc::new(Memory(UnsafeCell::new(0)));
            let pending = Pending::new();
            assert_eq!(pending.park((), lane.submit(1).into()), None);
            let device = device_writes(&memory, lane);
            for () in pending.take_complete(&timeline) {
                memory.0.with_mut(|_| ());
            }
            drop(device.join().unwrap());
        });
    }

    #[test]
    fn a_block_used_by_two_lanes_is_handed_out_once_to_one_of_two_takers() {
        model(|| {
            let timeline = Timeline::new();
            // The block is filed under the lane of the lower slot, which is done; the device is the other.
            let done = timeline.register(None).unwrap();
            let lane = timeline.register(None).unwrap();
            let memory = Arc::new(Memory(UnsafeCell::new(0)));
            let pending = Arc::new(Pending::new());
            let uses = [done.submit(1), lane.submit(1)].into_iter().collect();
            assert_eq!(pending.park((), uses), None);
            done.complete(1);
            let device = device_writes(&memory, lane);
            let taker = {
                let (pending, timeline) = (Arc::clone(&pending), Arc::clone(&timeline));
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let taken = pending.take_complete(&timeline);
                    taken.iter().for_each(|()| memory.0.with_mut(|_| ()));
                    taken.len()
                })
            };
            let mine = pending.take_complete(&timeline);
            mine.iter().for_each(|()| memory.0.with_mut(|_| ()));
            let theirs = taker.join().unwrap();
            drop(device.join().unwrap());
            let left = pending.take_complete(&timeline).len();
            assert_eq!(mine.len() + theirs + left, 1);
        });
    }
}
