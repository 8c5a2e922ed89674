//! A log of a pool's requests, which `piton replay` can play again.
//!
//! # Format
//! Lines of CSV without a header: `a,<id>,<bytes>,<stream>` for an allocation, `u,<id>,<stream>` for a last use on another
//! stream, `f,<id>,<stream>` for the free, on the stream of the allocation. Ids count from 0; streams are numbered
//! in the order in which they first appear, and what was allocated for no lane has a number of its own.
//!
//! # Protocol
//! The lock is around the writer and its books, never around a call of the pool. An allocation is written after the pool has
//! handed it out, a free before the pool takes it back: so a place's free always comes before its next allocation, whichever
//! threads they are on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::{self, Write};

use piton_driver::DevicePtr;
use piton_sync::Mutex;
use piton_timeline::{Frontier, LaneId};

use super::{MemoryPool, pass_on};
use crate::allocation::{Allocation, PoolId};
use crate::error::{AllocError, FreeError};
use crate::request::Request;

/// A pool that writes a trace of allocations and frees, for `piton replay`.
///
/// Writing blocks as the writer does, so give it a [`BufWriter`](io::BufWriter). When writing fails, the log ends
/// there, the pool goes on, and [`Logged::finish`] reports the error.
pub struct Logged<P, W> {
    pool: P,
    log: Mutex<Log<W>>,
}

struct Log<W> {
    writer: W,
    next: u64,
    /// What is in use: its id and the number of its stream.
    live: HashMap<(PoolId, DevicePtr), (u64, usize)>,
    streams: HashMap<Option<LaneId>, usize>,
    error: Option<io::Error>,
}

impl<P: fmt::Debug, W> fmt::Debug for Logged<P, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl<P: MemoryPool, W: Write + Send> Logged<P, W> {
    /// Wraps `pool` and writes its requests to `writer` from now on.
    pub fn new(pool: P, writer: W) -> Self {
        Self {
            pool,
            log: Mutex::new(Log {
                writer,
                next: 0,
                live: HashMap::new(),
                streams: HashMap::new(),
                error: None,
            }),
        }
    }

    /// Ends the log and returns the pool and the writer, flushed.
    ///
    /// # Errors
    /// The first error of the writer. What was written before is a valid trace, except for its last line.
    pub fn finish(self) -> io::Result<(P, W)> {
        let mut log = self.log.into_inner();
        if let Some(error) = log.error {
            return Err(error);
        }
        log.writer.flush()?;
        Ok((self.pool, log.writer))
    }

    /// The pool inside.
    pub fn inner(&self) -> &P {
        &self.pool
    }
}

impl<W: Write> Log<W> {
    fn stream(&mut self, lane: Option<LaneId>) -> usize {
        let next = self.streams.len();
        *self.streams.entry(lane).or_insert(next)
    }

    fn write(&mut self, line: fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = self.writer.write_fmt(line).err();
        }
    }

    fn allocated(&mut self, allocation: &Allocation) {
        let (id, stream) = (self.next, self.stream(allocation.lane()));
        self.next += 1;
        let place = (allocation.pool(), allocation.ptr());
        self.live.insert(place, (id, stream));
        self.write(format_args!("a,{id},{},{stream}\n", allocation.bytes()));
    }

    fn freed(&mut self, allocation: &Allocation, last_uses: &Frontier) {
        let place = (allocation.pool(), allocation.ptr());
        let Entry::Occupied(known) = self.live.entry(place) else {
            // Handed out before there was a log, or by another pool.
            return;
        };
        let (id, stream) = known.remove();
        for point in last_uses.points() {
            let user = self.stream(Some(point.lane));
            if user != stream {
                self.write(format_args!("u,{id},{user}\n"));
            }
        }
        self.write(format_args!("f,{id},{stream}\n"));
    }
}

impl<P: MemoryPool, W: Write + Send> MemoryPool for Logged<P, W> {
    fn allocate(&self, request: Request) -> Result<Allocation, AllocError> {
        let allocation = self.pool.allocate(request)?;
        self.log.lock().allocated(&allocation);
        Ok(allocation)
    }

    fn free(&self, allocation: Allocation, last_uses: Frontier) -> Result<(), FreeError> {
        self.log.lock().freed(&allocation, &last_uses);
        self.pool.free(allocation, last_uses)
    }

    pass_on!();
}
