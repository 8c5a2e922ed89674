//! The pool's invariants as code.

use piton_driver::DeviceRange;
use piton_suballoc::Inconsistency as IndexInconsistency;
use thiserror::Error;

use crate::books::Books;
use crate::stats::PoolStats;

/// A broken invariant: a defect of the pool, found by [`DevicePool::check`](crate::DevicePool::check).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// `held = live + padding + cached + pending + in_transit` does not hold.
    #[error("live, padding, cached, pending and in transit do not make what is held: {0:?}")]
    Conservation(Box<PoolStats>),
    /// The Blocks are not the ranges of the index.
    #[error("{blocks} Blocks do not match the {ranges} ranges of the index")]
    Blocks {
        /// Blocks held.
        blocks: u64,
        /// Ranges in the index.
        ranges: u64,
    },
    /// Two Blocks share memory.
    #[error("the Blocks at {} and {} overlap", .0.start, .1.start)]
    Overlap(DeviceRange, DeviceRange),
    /// The number of allocations differs from the live Chunks that are not deferred.
    #[error("{allocations} allocations where {chunks} Chunks are live and {deferred} deferred")]
    Allocations {
        /// Allocations in use.
        allocations: u64,
        /// Live Chunks of the index.
        chunks: u64,
        /// Deferred ones among them.
        deferred: u64,
    },
    /// The index is broken.
    #[error("the index is broken")]
    Index(#[from] IndexInconsistency),
}

impl Books {
    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        self.index.check()?;
        self.check_sums()?;
        self.check_blocks()
    }

    fn check_sums(&self) -> Result<(), Inconsistency> {
        let stats = self.stats();
        let sum = stats.live + stats.padding + stats.cached + stats.pending + stats.in_transit;
        if sum != stats.held || self.index.capacity() + self.in_transit != self.held {
            return Err(Inconsistency::Conservation(Box::new(stats)));
        }
        let chunks = u64::from(self.index.usage().chunks);
        let deferred = self.deferred.iter().len() as u64;
        if stats.allocations + deferred != chunks {
            return Err(Inconsistency::Allocations {
                allocations: stats.allocations,
                chunks,
                deferred,
            });
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), Inconsistency> {
        let ranges: Vec<(u64, u64)> = self
            .index
            .ranges()
            .map(|range| (range.offset, range.bytes))
            .collect();
        let blocks: Vec<(u64, u64)> = self
            .blocks
            .iter()
            .map(|block| (block.offset, block.range.bytes))
            .collect();
        if ranges != blocks {
            return Err(Inconsistency::Blocks {
                blocks: blocks.len() as u64,
                ranges: ranges.len() as u64,
            });
        }
        let mut memory: Vec<DeviceRange> = self.blocks.iter().map(|block| block.range).collect();
        memory.sort_by_key(|range| range.start);
        let overlap = memory.windows(2).find(|pair| pair[0].overlaps(pair[1]));
        overlap.map_or(Ok(()), |pair| Err(Inconsistency::Overlap(pair[0], pair[1])))
    }
}
