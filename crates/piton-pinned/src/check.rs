//! Walking everything a pool holds and asserting what must be true of it.

use crate::{
    core::{self, Core},
    magazine::Depot,
    regions::end_of,
    span::Span,
    tickets::Ticket,
};
use piton_suballoc::{Inconsistency, SizeClass};
use thiserror::Error;

/// What the walk found wrong. Sizes are bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PinnedInconsistency {
    /// The parts do not add up to what is held.
    #[error(
        "{held} bytes held, but {live} live + {pending} pending + {cached} cached + {uncut} uncut"
    )]
    Bytes {
        /// Held from the driver.
        held: u64,
        /// In blocks that are out.
        live: u64,
        /// In blocks a device may still be using.
        pending: u64,
        /// In free blocks.
        cached: u64,
        /// Not cut into blocks.
        uncut: u64,
    },
    /// What is cut out of slabs is not what the blocks add up to.
    #[error("{cut} bytes are cut or taken, but blocks have {blocks}")]
    Cut {
        /// By the books.
        cut: u64,
        /// By the blocks.
        blocks: u64,
    },
    /// Two blocks that nobody owns overlap.
    #[error("two free blocks overlap at {address:#x}")]
    Overlap {
        /// Where the later one starts.
        address: u64,
    },
    /// A free block is in the list of another size.
    #[error("a block of {bytes} bytes is in the list for {class}")]
    WrongList {
        /// The block's size.
        bytes: u64,
        /// The list's.
        class: u64,
    },
    /// The books of slabs or of exact regions are wrong.
    #[error("the books of a slab: {0}")]
    Slab(Inconsistency),
}

/// Exact only while no other thread is in a call of the pool.
pub(crate) fn check(core: &Ticket<Core>) -> Result<(), PinnedInconsistency> {
    core::recall(core);
    let mut at_rest = core.walk_depots()?;
    core.pending.for_each(|record| at_rest.push(record.span));
    check_disjoint(&mut at_rest)?;
    core.check_bytes()?;
    core.check_cut()
}

impl Core {
    /// All free blocks of the depots, which are emptied and filled again.
    fn walk_depots(&self) -> Result<Vec<Span>, PinnedInconsistency> {
        let mut all: Vec<Span> = Vec::new();
        for (index, depot) in self.depots.iter().enumerate() {
            let class = SizeClass::from_index(index);
            let batches = Depot::drain(depot);
            all.extend(batches.iter().flatten().map(|record| record.span));
            batches.into_iter().for_each(|batch| depot.put(batch));
            if let Some(wrong) = all.iter().find(|span| span.class > class) {
                return Err(PinnedInconsistency::WrongList {
                    bytes: wrong.bytes,
                    class: class.map_or(0, SizeClass::bytes),
                });
            }
        }
        Ok(all)
    }

    fn check_bytes(&self) -> Result<(), PinnedInconsistency> {
        let stats = self.stats();
        let parts = stats.live_bytes + stats.pending_bytes + stats.cached_bytes + stats.uncut_bytes;
        if parts == stats.held_bytes {
            return Ok(());
        }
        Err(PinnedInconsistency::Bytes {
            held: stats.held_bytes,
            live: stats.live_bytes,
            pending: stats.pending_bytes,
            cached: stats.cached_bytes,
            uncut: stats.uncut_bytes,
        })
    }

    /// The books themselves, and what they say is out against what is out.
    fn check_cut(&self) -> Result<(), PinnedInconsistency> {
        let stats = self.stats();
        let regions = self.regions.lock();
        regions.check().map_err(PinnedInconsistency::Slab)?;
        let usage = regions.usage();
        let cut = usage.cut;
        let blocks = stats.live_bytes + stats.pending_bytes + stats.cached_bytes - usage.idle;
        if cut == blocks {
            Ok(())
        } else {
            Err(PinnedInconsistency::Cut { cut, blocks })
        }
    }
}

fn check_disjoint(spans: &mut [Span]) -> Result<(), PinnedInconsistency> {
    spans.sort_by_key(|span| span.start.addr());
    for pair in spans.windows(2) {
        if let [first, second] = pair
            && end_of(first).is_none_or(|end| end > second.start.addr())
        {
            let address = second.start.addr().get() as u64;
            return Err(PinnedInconsistency::Overlap { address });
        }
    }
    Ok(())
}
