//! Delayed free: blocks that their owner gave up and a device may still be using.
//!
//! # The idea
//! A block waits under *one* timepoint of its frontier at a time. Points are kept in order, lane by lane, so a
//! sweep looks at the first point of each lane: if it is complete, its blocks leave in a batch and the next point
//! is looked at; if it is not, nothing later on that lane is complete either, and the sweep goes on with the next
//! lane. One slow lane costs one look and holds nobody else's blocks back. A block used by several lanes is filed
//! anew under its next point when the first is complete.
//!
//! # Invariants
//! - An item leaves by `take_complete` only when every point it was parked with is complete.
//! - Each item is filed once.
//! - `parked` is the number of filed items; it is written under the lock.
//!
//! Lock order: this lock, then the timeline's. A lane's source of progress is asked under it; that does not block.

use piton_sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use piton_timeline::{Frontier, LaneId, Timeline, Timepoint};
use std::collections::BTreeMap;

/// An item, and the points it waits for besides the one it is filed under.
#[derive(Debug)]
struct Parked<T> {
    item: T,
    rest: Frontier,
}

/// By lane slot, then in the order of the lane's work.
type Files<T> = BTreeMap<Timepoint, Vec<Parked<T>>>;

/// Items that wait for their last uses to be complete.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    files: Mutex<Files<T>>,
    parked: AtomicUsize,
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Self {
        Self {
            files: Mutex::new(BTreeMap::new()),
            parked: AtomicUsize::new(0),
        }
    }

    /// Keeps `item` until `uses` are complete. Hands it back at once if it waits for nothing.
    pub(crate) fn park(&self, item: T, uses: Frontier) -> Option<T> {
        let mut files = self.files.lock();
        let refused = file(&mut files, Parked { item, rest: uses });
        if refused.is_none() {
            self.parked.fetch_add(1, Ordering::Release);
        }
        refused
    }

    /// Takes all items whose uses are complete. Looks at one point a lane, and at those that are complete.
    pub(crate) fn take_complete(&self, timeline: &Timeline) -> Vec<T> {
        let mut taken = Vec::new();
        if self.parked.load(Ordering::Acquire) == 0 {
            return taken;
        }
        let mut files = self.files.lock();
        let mut next = files.first_key_value().map(|(point, _)| *point);
        while let Some(point) = next {
            if timeline.is_complete(point) {
                let batch = files.remove(&point).unwrap_or_default();
                refile(&mut files, batch, timeline, &mut taken);
                next = first_from(&files, point);
            } else {
                next = after_lane(point).and_then(|from| first_from(&files, from));
            }
        }
        self.parked.fetch_sub(taken.len(), Ordering::Release);
        taken
    }

    /// Takes everything, with what each item still waits for.
    pub(crate) fn drain(&self) -> Vec<(T, Frontier)> {
        let mut files = self.files.lock();
        self.parked.store(0, Ordering::Release);
        let filed = std::mem::take(&mut *files).into_iter();
        filed
            .flat_map(|(point, batch)| {
                batch.into_iter().map(move |mut parked| {
                    parked.rest.insert(point);
                    (parked.item, parked.rest)
                })
            })
            .collect()
    }

    /// Looks at every item, under the lock.
    pub(crate) fn for_each(&self, see: impl FnMut(&T)) {
        let files = self.files.lock();
        let items = files.values().flatten().map(|parked| &parked.item);
        items.for_each(see);
    }
}

/// Files an item under the first point it waits for; hands it back if there is none.
fn file<T>(files: &mut Files<T>, mut parked: Parked<T>) -> Option<T> {
    let points = parked.rest.points();
    let Some((&first, others)) = points.split_first() else {
        return Some(parked.item);
    };
    parked.rest = others.iter().copied().collect();
    files.entry(first).or_default().push(parked);
    None
}

/// Items of a point that is complete: those that wait for nothing more are taken, others are filed anew.
fn refile<T>(files: &mut Files<T>, batch: Vec<Parked<T>>, timeline: &Timeline, taken: &mut Vec<T>) {
    for mut parked in batch {
        parked.rest.retain_pending(timeline);
        taken.extend(file(files, parked));
    }
}

fn first_from<T>(files: &Files<T>, from: Timepoint) -> Option<Timepoint> {
    files.range(from..).next().map(|(point, _)| *point)
}

/// Where the points of later lane slots begin. A slot's tenants share one growing sequence of numbers, so what
/// holds for the first point of a slot holds for all of them.
fn after_lane(point: Timepoint) -> Option<Timepoint> {
    let lane = LaneId {
        index: point.lane.index.checked_add(1)?,
        generation: 0,
    };
    Some(Timepoint { lane, seq: 0 })
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
        assert_eq!(pending.take_complete(&timeline), ["quick"]);
        slow.complete(1);
        assert_eq!(pending.take_complete(&timeline), ["slow"]);
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
