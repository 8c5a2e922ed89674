//! The pool's invariants as code.

use piton_driver::{DevicePtr, DeviceRange};
use piton_suballoc::{Extent, ExtentState, Inconsistency as IndexInconsistency};
use thiserror::Error;

use crate::books::Books;
use crate::region;
use crate::stats::PoolStats;

/// A broken invariant: a defect of the pool, found by [`DevicePool::check`](crate::DevicePool::check).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// `held + suspended = live + padding + cached + pending + in_transit` does not hold.
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
    /// The page table does not account for what is held.
    #[error("{mapped} mapped and {spare} spare bytes of pages do not make the {held} held")]
    Pages {
        /// Bytes of mapped pages.
        mapped: u64,
        /// Bytes of pages mapped nowhere.
        spare: u64,
        /// Bytes held.
        held: u64,
    },
    /// Memory without pages, or pages without memory.
    #[error("what is at offset {offset} has pages and should not, or the other way round")]
    Backing {
        /// Where.
        offset: u64,
    },
    /// Live memory misses more or fewer pages than what is claimed and suspended does.
    #[error("live memory misses {missing} bytes of pages where {noted} are counted")]
    Hollow {
        /// Bytes that nothing backs.
        missing: u64,
        /// Bytes of claims and suspended allocations that nothing should back.
        noted: u64,
    },
    /// What lies on a shelf is not a live chunk of the index.
    #[error("the {bytes} bytes at {ptr} lie on a shelf and are no live chunk of the index")]
    Shelved {
        /// Where.
        ptr: DevicePtr,
        /// Bytes asked for when they were in use.
        bytes: u64,
    },
    /// The shelves of a front do not have what it counts.
    #[error("{counted} bytes lie on shelves of a front that has {noted} by its own count")]
    Shelves {
        /// Bytes on the shelves.
        counted: u64,
        /// By the front's own count.
        noted: u64,
    },
    /// Looking for an address would not find what is allocated there, or find what is not.
    #[error("{listed} allocations are to be found by address where there are {allocations}")]
    Directory {
        /// Allocations that look-ups find, shelved chunks among them.
        listed: u64,
        /// Those that there are.
        allocations: u64,
    },
    /// The index is broken.
    #[error("the index is broken")]
    Index(#[from] IndexInconsistency),
}

impl Books {
    pub(crate) fn check(&self) -> Result<(), Inconsistency> {
        self.index.check()?;
        self.check_sums()?;
        self.check_blocks()?;
        self.check_directory()?;
        self.check_pages()
    }

    fn check_sums(&self) -> Result<(), Inconsistency> {
        let stats = self.stats();
        let sum = stats.live_bytes
            + stats.padding_bytes
            + stats.cached_bytes
            + stats.pending_bytes
            + stats.in_transit_bytes;
        let hollow = self.claims.hollow + self.suspended.live + self.suspended.hollow;
        let backed = self.index.capacity() - self.unbacked() - hollow;
        if sum != stats.held_bytes + stats.suspended_bytes || backed + self.outside != self.held {
            return Err(Inconsistency::Conservation(Box::new(stats)));
        }
        let chunks = u64::from(self.index.usage().chunks);
        let deferred = self.deferred.iter().len() as u64;
        let claimed = self.claims.chunks + self.suspended.fillings;
        if stats.allocations + deferred + claimed != chunks {
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

    /// What can be found by address is what is allocated, and begins where it does.
    fn check_directory(&self) -> Result<(), Inconsistency> {
        let is_listed = |extent: &Extent| {
            matches!(extent.state, ExtentState::Live { .. })
                && self.directory.lists(extent.id, extent.offset)
        };
        let listed = self.index.extents().filter(is_listed).count() as u64;
        let is_right = listed == self.allocations && self.directory.listed() == listed;
        if is_right || !self.directory.is_kept() {
            return Ok(());
        }
        Err(Inconsistency::Directory {
            listed,
            allocations: self.allocations,
        })
    }

    /// Pages are where memory is and nowhere else, as the table counts them.
    fn check_pages(&self) -> Result<(), Inconsistency> {
        let (by_page, by_mapping) = self.pages.counted();
        let is_virtual = self.pages.page_bytes() > 0;
        let mapped = by_page * self.pages.page_bytes();
        let spare = self.pages.spare_pages() * self.pages.page_bytes();
        let differs = by_page != by_mapping || mapped + self.outside != self.held;
        // A handle between two calls is outside and not spare.
        if is_virtual && (differs || spare > self.outside) {
            return Err(Inconsistency::Pages {
                mapped,
                spare,
                held: self.held,
            });
        }
        let backed = |extent: &Extent| self.pages.stretches(extent.offset, extent.bytes);
        let is_wrong = |extent: &Extent| match extent.state {
            ExtentState::Free { domain, .. } => {
                let wanted = !region::is_unbacked(domain);
                backed(extent)
                    .iter()
                    .any(|(.., is_backed)| *is_backed != wanted)
            }
            // Together they miss what is counted, below.
            ExtentState::Live { .. } => false,
        };
        let wrong = self
            .index
            .extents()
            .find(|extent| is_virtual && is_wrong(extent));
        if let Some(extent) = wrong {
            return Err(Inconsistency::Backing {
                offset: extent.offset,
            });
        }
        let live = self
            .index
            .extents()
            .filter(|extent| matches!(extent.state, ExtentState::Live { .. }));
        let missing: u64 = live
            .map(|extent| self.hollow_in(extent.offset, extent.bytes))
            .sum();
        let noted = self.claims.hollow + self.suspended.live + self.suspended.hollow;
        if is_virtual && missing != noted {
            return Err(Inconsistency::Hollow { missing, noted });
        }
        Ok(())
    }
}
