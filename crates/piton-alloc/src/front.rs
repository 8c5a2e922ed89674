//! Fronts: a cache of freed chunks for each lane, which serves that lane without the pool's lock.
//!
//! # Problem
//! A lock costs more than the search under it, and two threads on two lanes get less done through it than one. But
//! programs ask for the same sizes over and over: a step's activations, a layer's workspaces.
//!
//! # Idea
//! Each lane has a *front*: shelves of chunks that it freed, each shelf for one exact size. The lane's next request
//! of that size takes the youngest. It needs no wait, because the lane's later work runs after the chunk's last use.
//! Nothing is rounded up, split or merged, so a chunk from a front fits exactly. Everything else goes to the index
//! (*the middle*).
//!
//! What fronts hold stays everyone's. A chunk on a shelf is live for the index and free for the program. Before the
//! pool asks its source for anything, waits, or reports, it *closes* the fronts and *recalls* their chunks. So fronts
//! cost no memory, and `held + suspended = live + padding + cached + pending + in transit` counts what is on shelves
//! as cached or pending.
//!
//! # Protocol
//! - A front's shelves, counters and events belong to whoever is inside its [`Gate`]. The lane's threads never wait
//!   there: if somebody is inside, they go to the middle. A recall or a report waits, for a few bounded steps.
//! - Order: `turn`, then gates in the order of their slots, then `books`. Inside a gate `books` may be taken, never a gate
//!   or `turn`, and the source is never called.
//! - *Hints* tell those outside what a shelf has (`stocked`) and which size the lane asked for last (`wanted`). They
//!   are written without ordering and may be late: a wrong hint costs a look, or sends a chunk to the middle. Inside,
//!   sizes are compared again.
//! - A recall increments `closed` before it enters a gate, and `closed` is read inside the gate before a chunk is
//!   shelved. Whoever enters after the recall has left sees it, so a closed front stays empty.
//! - A front serves one lane's slot at a time. An empty one goes to whichever lane frees there next.
//! - The `clock` and the live bytes in [`Pulse`] are written under `books` and read inside gates. The holder of an
//!   allocation sees a clock that is not earlier than the event that handed it out, so the events of a chunk sort in
//!   their order.

mod gate;
mod recall;
mod serve;
mod shelf;

use std::sync::OnceLock;

use piton_driver::DevicePtr;
use piton_suballoc::ExtentId;
use piton_sync::CachePadded;
use piton_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use piton_timeline::LaneId;

use crate::config::Settings;
use crate::region::Region;
use gate::Gate;
use shelf::{DEPTH, Front, Hint, SHELVES, shelf_of};

/// Lane slots with a front of their own at one time; lanes that share one take turns.
const FRONTS: usize = 64;

/// Bytes of the largest chunk that is shelved. Larger ones shelved cost memory: what is placed meanwhile cannot join them.
const MOST_EACH: u64 = 64 << 10;

/// Bytes that fit on one front's shelves.
pub(crate) const MOST_SHELVED: u64 = (SHELVES * DEPTH) as u64 * MOST_EACH;

/// A chunk on a shelf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) id: ExtentId,
    pub(crate) ptr: DevicePtr,
    pub(crate) rounded: u64,
    /// Its last use on the front's lane; 0 if there is none.
    pub(crate) seq: u64,
    pub(crate) region: Region,
}

/// What those in fronts see of the middle.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Number of the middle's next event.
    pub(crate) clock: AtomicU64,
    /// Bytes of allocations in use, chunks on shelves included.
    pub(crate) live: AtomicU64,
}

/// The fronts of a pool.
#[derive(Debug)]
pub(crate) struct Fronts {
    cells: Box<[OnceLock<Box<CachePadded<Cell>>>]>,
    /// How many want them empty.
    closed: CachePadded<AtomicU32>,
    pub(crate) pulse: CachePadded<Pulse>,
    /// Most bytes on one front's shelves; 0 for no fronts.
    most_bytes: u64,
    /// Events that each remembers.
    events: u32,
}

/// One front, and what is seen of it from outside.
#[derive(Debug)]
struct Cell {
    hints: [Hint; SHELVES],
    /// Bytes asked for of all its chunks. Written inside.
    shelved: AtomicU64,
    gate: Gate<Front>,
}

impl Fronts {
    pub(crate) fn new(settings: &Settings) -> Self {
        let most_bytes = settings.front_bytes;
        let count = if most_bytes == 0 { 0 } else { FRONTS };
        Self {
            cells: (0..count).map(|_| OnceLock::new()).collect(),
            closed: CachePadded::new(AtomicU32::new(0)),
            pulse: CachePadded::new(Pulse::default()),
            most_bytes,
            events: settings.events,
        }
    }

    /// The front of a lane, made on first need; `None` if there are none.
    #[inline]
    fn of(&self, lane: LaneId) -> Option<&Cell> {
        let cell = self.cells.get(lane.index as usize % FRONTS)?;
        Some(cell.get_or_init(|| self.make()))
    }

    #[cold]
    fn make(&self) -> Box<CachePadded<Cell>> {
        Box::new(CachePadded::new(Cell {
            hints: std::array::from_fn(|_| Hint::default()),
            shelved: AtomicU64::new(0),
            gate: Gate::new(Front::new(self.events)),
        }))
    }

    /// Bytes asked for of all chunks on shelves, as they were a moment ago.
    #[cold]
    pub(crate) fn shelved(&self) -> u64 {
        let each = self.existing().map(|cell| &cell.shelved);
        each.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    fn existing(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter_map(|cell| Some(&***cell.get()?))
    }

    /// Keeps fronts from shelving anything more until the guard goes. What they have is to be recalled.
    pub(crate) fn close(&self) -> Closed<'_> {
        self.closed.fetch_add(1, Ordering::Relaxed);
        Closed(&self.closed)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) > 0
    }
}

impl Cell {
    /// The hint of the shelf that a size lies on.
    #[inline]
    fn hint(&self, bytes: u64) -> &Hint {
        &self.hints[shelf_of(bytes)]
    }

    #[inline]
    fn note_shelved(&self, front: &Front) {
        self.shelved.store(front.stock.bytes, Ordering::Relaxed);
    }
}

/// While it lives, fronts shelve nothing.
#[derive(Debug)]
pub(crate) struct Closed<'a>(&'a AtomicU32);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
