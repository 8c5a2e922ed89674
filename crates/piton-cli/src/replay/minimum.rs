//! The smallest device on which a trace runs, and what running near it costs.
//!
//! Found by halving, to a page: a device is large enough if every request of the trace is served. The pool's choices
//! depend on the capacity, so in principle a larger device might fail where a smaller one does not; what is found is
//! one whose neighbour, a page smaller, fails.

use serde::Serialize;

use super::player::{PAGE_BYTES, Tally, play_all};
use super::{ReplayError, ReplayOptions};
use crate::trace::{CheckedEvent, TraceError, TraceReader};

/// Devices at which calls are counted, in thousandths of the smallest.
const CURVE: [u64; 4] = [1000, 1010, 1020, 1050];

/// The smallest device. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Minimum {
    /// Its memory.
    pub capacity: u64,
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

/// Looks for it below what the trace held with plenty.
pub(super) fn find(
    reader: TraceReader<'_>,
    options: &ReplayOptions,
    plenty: &Tally,
) -> Result<Minimum, ReplayError> {
    let events: Vec<CheckedEvent> = reader.collect::<Result<_, TraceError>>()?;
    let runs = |pages: u64, stops: bool| {
        let at = ReplayOptions {
            capacity: pages * PAGE_BYTES,
            ..*options
        };
        play_all(&events, &at, stops)
    };
    let mut fails = (plenty.pool.peak_live / PAGE_BYTES).saturating_sub(1);
    let mut serves = plenty.peak_held.div_ceil(PAGE_BYTES).max(fails + 1);
    while runs(serves, true)?.out_of_memory > 0 {
        fails = serves;
        serves += serves / 8 + 1;
    }
    while serves - fails > 1 {
        let middle = fails.midpoint(serves);
        if middle > 0 && runs(middle, true)?.out_of_memory == 0 {
            serves = middle;
        } else {
            fails = middle;
        }
    }
    let mut curve = Vec::with_capacity(CURVE.len());
    for thousandths in CURVE {
        let pages = serves * thousandths / 1000;
        let tally = runs(pages, false)?;
        curve.push(CallsAt {
            capacity: pages * PAGE_BYTES,
            driver_calls: tally.driver_calls,
            modelled_seconds: tally.modelled_seconds,
            pages_moved: tally.pool.stolen / PAGE_BYTES,
            allocations: tally.allocations,
            waits: tally.pool.waits,
            out_of_memory: tally.out_of_memory,
        });
    }
    Ok(Minimum {
        capacity: serves * PAGE_BYTES,
        curve,
    })
}
