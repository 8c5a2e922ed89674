//! The smallest device on which a trace runs, and what running near it costs.
//!
//! Found by halving, to a page: a device is large enough if every request of the trace is served. The pool's choices
//! depend on the capacity, so a larger device may fail where a smaller one does not, and halving alone can miss the smallest.
//! So the pages around the answer are tried one by one: a smaller device that serves all is the answer in its place, and
//! how many of the larger ones fail is told.

use serde::Serialize;

use super::player::{PAGE_BYTES, Tally, play_all};
use super::{ReplayError, ReplayOptions};
use crate::trace::{CheckedEvent, TraceError, TraceReader};

/// Devices at which calls are counted, in thousandths of the smallest.
const CURVE: [u64; 4] = [1000, 1010, 1020, 1050];

/// Devices on either side of the answer that are tried, each a page larger than the one before.
const AROUND: u64 = 16;
/// Pages of the largest device that can be simulated.
const MOST: u64 = (1 << 40) / PAGE_BYTES;

/// The smallest device. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Minimum {
    /// Its memory.
    pub capacity: u64,
    /// Of the devices up to 16 pages larger, those on which a request is refused all the same.
    pub failing_above: u64,
    /// What the trace costs on it and on some that are a little larger.
    pub curve: Vec<CallsAt>,
}

/// What a trace costs on a device of some size.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CallsAt {
    /// Its memory in bytes.
    pub capacity: u64,
    /// Calls for device memory.
    pub driver_calls: u64,
    /// Seconds that they would take on a real device, by a model.
    pub modelled_seconds: f64,
    /// Pages taken from holes, to be mapped elsewhere or given back.
    pub pages_moved: u64,
    /// Allocations asked for.
    pub allocations: u64,
    /// Allocations handed out with a wait on another stream.
    pub waits: u64,
    /// Allocations refused.
    pub out_of_memory: u64,
}

/// Looks for it below what the trace held with plenty; nothing if no device that can be simulated is large enough.
pub(super) fn find(
    reader: TraceReader<'_>,
    options: &ReplayOptions,
    plenty: &Tally,
) -> Result<Option<Minimum>, ReplayError> {
    let events: Vec<CheckedEvent> = reader.collect::<Result<_, TraceError>>()?;
    let search = Search {
        events: &events,
        options,
    };
    let least = (plenty.pool.peak_live_bytes / PAGE_BYTES).max(1);
    let Some(halved) = search.halve(least, plenty.peak_held.div_ceil(PAGE_BYTES))? else {
        return Ok(None);
    };
    let smallest = search.smallest_below(halved, least)?;
    Ok(Some(Minimum {
        capacity: smallest * PAGE_BYTES,
        failing_above: search.failing_above(smallest)?,
        curve: search.curve(smallest)?,
    }))
}

struct Search<'a> {
    events: &'a [CheckedEvent],
    options: &'a ReplayOptions,
}

impl Search<'_> {
    fn play(&self, pages: u64, stops: bool) -> Result<Tally, ReplayError> {
        let at = ReplayOptions {
            capacity: pages * PAGE_BYTES,
            ..*self.options
        };
        play_all(self.events, &at, stops)
    }

    fn serves(&self, pages: u64) -> Result<bool, ReplayError> {
        Ok(self.play(pages, true)?.out_of_memory == 0)
    }

    /// Some size that serves all while one page less does not, or the least that can.
    fn halve(&self, least: u64, guess: u64) -> Result<Option<u64>, ReplayError> {
        let (mut fails, mut serves) = (least - 1, guess.clamp(least, MOST));
        while !self.serves(serves)? {
            if serves == MOST {
                return Ok(None);
            }
            fails = serves;
            serves = (serves + serves / 8 + 1).min(MOST);
        }
        while serves - fails > 1 {
            let middle = fails.midpoint(serves);
            if self.serves(middle)? {
                serves = middle;
            } else {
                fails = middle;
            }
        }
        Ok(Some(serves))
    }

    /// The smallest size that serves all, where none of [`AROUND`] smaller ones does.
    fn smallest_below(&self, serves: u64, least: u64) -> Result<u64, ReplayError> {
        let (mut smallest, mut tried) = (serves, serves);
        while tried > least && smallest - tried < AROUND {
            tried -= 1;
            if self.serves(tried)? {
                smallest = tried;
            }
        }
        Ok(smallest)
    }

    fn failing_above(&self, smallest: u64) -> Result<u64, ReplayError> {
        let mut failing = 0;
        for pages in smallest + 1..=(smallest + AROUND).min(MOST) {
            failing += u64::from(!self.serves(pages)?);
        }
        Ok(failing)
    }

    fn curve(&self, smallest: u64) -> Result<Vec<CallsAt>, ReplayError> {
        let mut curve = Vec::with_capacity(CURVE.len());
        for thousandths in CURVE {
            let pages = (smallest * thousandths / 1000).min(MOST);
            let tally = self.play(pages, false)?;
            curve.push(CallsAt {
                capacity: pages * PAGE_BYTES,
                driver_calls: tally.driver_calls,
                modelled_seconds: tally.modelled_seconds,
                pages_moved: tally.pool.stolen_bytes / PAGE_BYTES,
                allocations: tally.allocations,
                waits: tally.pool.waits,
                out_of_memory: tally.out_of_memory,
            });
        }
        Ok(curve)
    }
}
